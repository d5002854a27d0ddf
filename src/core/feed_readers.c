/* Reading feeds: a reader's place goes forward in turns of the loop, as far as its transport has room. */
#include <string.h>

#include "core/core_internal.h"
#include "term/term.h"

/* A turn costs about a millisecond at the most. Costs are bytes that are searched or printed; looking at a record
   costs something even if it has no text. */
enum {
    TURN_COST = 48 << 10,     /* of all readers together */
    FULL_TURN_COST = 8 << 10, /* where others have filled the turn already */
    SLICE_COST = 32 << 10,    /* of one reader, before the next one has its turn */
    LOOK_COST = 64,
    SERVE_COST = 1024, /* of waking a reader's connection */
};

struct feed_reader {
    TAILQ_ENTRY(feed_reader) link;
    struct feed_readers *list; /* that it is in; NULL: it is being served, or over */
    struct engine *engine;
    struct feed *feed;
    struct request *request;
    struct feed_filter filter;
    char sandbox_id[SANDBOX_ID_BYTES];
    uint64_t first;  /* the place that it does not go back behind */
    uint64_t next;   /* the place of the record that it looks at next */
    uint64_t until;  /* where it ends; UINT64_MAX: it follows */
    bool is_seeking; /* it goes back from `next` for its tail, of which it has found so many */
    size_t tail_found;
    bool is_serving; /* it is freed afterwards if it is over by then */
    bool is_over;
};

/* ---- lists ---- */

static void move_to(struct feed_reader *reader, struct feed_readers *list) {
    if (reader->list) TAILQ_REMOVE(reader->list, reader, link);
    reader->list = list;
    if (list) TAILQ_INSERT_TAIL(list, reader, link);
}

static void on_idle(uv_idle_t *idle);

static void make_due(struct feed_reader *reader) {
    struct feed_pump *pump = &reader->engine->pump;
    move_to(reader, &pump->due);
    uv_idle_start(&pump->idle, on_idle);
}

static void free_reader(struct feed_reader *reader) {
    if (reader->filter.release) reader->filter.release(reader->filter.data);
    feed_release(reader->feed);
    free(reader);
}

/* The caller has answered the request, or does so next. */
static void leave(struct feed_reader *reader) {
    reader->is_over = true;
    reader->request->more = NULL;
    if (reader->until == UINT64_MAX && !reader->request->is_prompt) reader->feed->followers--;
    bool is_walked = reader->list == &reader->feed->prompt && reader->feed->walkers > 0;
    if (reader->is_serving || is_walked) return;
    move_to(reader, NULL);
    free_reader(reader);
}

static void finish(struct feed_reader *reader) {
    answer_ok(reader->engine, reader->request, json_object());
    leave(reader);
}

static void on_cancel(struct request *request) {
    finish(request->state);
}

/* The transport's word that there is room again. It may come from inside anything of the transport's: work waits for
   the next turn. */
static void on_more(struct request *request) {
    struct feed_reader *reader = request->state;
    if (reader->list == &reader->engine->pump.blocked) make_due(reader);
}

/* ---- sending ---- */

static bool matches(const struct feed_reader *reader, const json_t *record) {
    const struct feed_filter *filter = &reader->filter;
    if (filter->sandbox_id &&
        !string_equal(filter->sandbox_id, json_string_value(json_object_get(record, "sandbox_id"))))
        return false;
    return !filter->may_see || filter->may_see(filter->data, &reader->request->caller, record);
}

static void spend(size_t *left, size_t cost) {
    *left = *left > cost ? *left - cost : 0;
}

static bool print(struct feed_pump *pump, json_t *record) {
    if (pump->printed == record) return true;
    json_decref(pump->printed);
    pump->printed = NULL;
    buf_clear(&pump->text);
    term_json_write(record, &pump->text);
    if (pump->text.failed) {
        buf_free(&pump->text);
        return false;
    }
    pump->printed = json_incref(record);
    return true;
}

static void give(struct feed_reader *reader, json_t *record, size_t *left) {
    struct feed_pump *pump = &reader->engine->pump;
    struct request *request = reader->request;
    if (!request->item_text || !print(pump, record)) {
        request->item(request, json_incref(record));
        return;
    }
    spend(left, pump->text.size);
    request->item_text(request, feed_record_seq(record), (const char *)pump->text.data, pump->text.size);
}

static bool has_room(const struct feed_reader *reader) {
    return !reader->request->has_room || reader->request->has_room(reader->request);
}

static bool has_more(const struct feed_reader *reader) {
    return reader->next < reader->until && reader->next < feed_end_place(reader->feed);
}

static void step(struct feed_reader *reader, size_t *left) {
    struct feed *feed = reader->feed;
    struct request *request = reader->request;
    if (reader->next < feed->gone) {
        uint64_t to = feed->gone < reader->until ? feed->gone : reader->until;
        json_t *skipped = json_pack("{s:I}", "skipped", (json_int_t)(to - reader->next));
        reader->next = to;
        request->item(request, skipped);
        return;
    }
    json_t *record = json_incref(feed_record_at(feed, reader->next++));
    spend(left, LOOK_COST + feed_record_text_bytes(record));
    if (matches(reader, record)) give(reader, record, left);
    json_decref(record);
}

/* One record further back; where the last `tail` matching ones begin, reading does. */
static void step_back(struct feed_reader *reader, size_t *left) {
    struct feed *feed = reader->feed;
    uint64_t oldest = reader->first > feed->gone ? reader->first : feed->gone;
    if (reader->next <= oldest || reader->tail_found == reader->filter.tail) {
        if (reader->next < oldest) reader->next = oldest;
        reader->is_seeking = false;
        return;
    }
    const json_t *record = feed_record_at(feed, reader->next - 1);
    spend(left, LOOK_COST + feed_record_text_bytes(record));
    reader->tail_found += matches(reader, record);
    reader->next--;
}

/* ---- turns ---- */

/* Where a reader goes that has had its slice. */
static void settle(struct feed_reader *reader) {
    struct engine *engine = reader->engine;
    if (reader->is_over) {
        free_reader(reader);
    } else if (reader->is_seeking || (has_more(reader) && has_room(reader))) {
        make_due(reader);
    } else if (has_more(reader) && engine->closing.is_begun) {
        answer_fail(engine, reader->request, E_SHUTDOWN, "the service is shutting down");
        leave(reader);
    } else if (has_more(reader)) {
        move_to(reader, &engine->pump.blocked);
    } else if (reader->until == UINT64_MAX && !reader->feed->has_ended) {
        move_to(reader, &reader->feed->waiting);
    } else {
        finish(reader);
    }
}

static void serve(struct feed_reader *reader, size_t *turn_left) {
    size_t slice = *turn_left < SLICE_COST ? *turn_left : SLICE_COST, left = slice;
    move_to(reader, NULL);
    reader->is_serving = true;
    while (left > 0 && reader->is_seeking) step_back(reader, &left);
    while (left > 0 && !reader->is_over && has_more(reader) && has_room(reader)) step(reader, &left);
    reader->is_serving = false;
    spend(turn_left, slice - left + SERVE_COST);
    settle(reader);
}

static void on_idle(uv_idle_t *idle) {
    struct engine *engine = idle->data;
    struct feed_pump *pump = &engine->pump;
    size_t left = loop_turn_is_full(engine->loop) ? FULL_TURN_COST : TURN_COST;
    loop_note(engine->loop, "readers", NULL);
    while (left > 0 && !TAILQ_EMPTY(&pump->due)) serve(TAILQ_FIRST(&pump->due), &left);
    if (TAILQ_EMPTY(&pump->due)) uv_idle_stop(idle);
}

/* ---- requests of the engine itself ---- */

static void free_over(struct feed *feed) {
    struct feed_reader *reader = TAILQ_FIRST(&feed->prompt);
    while (reader) {
        struct feed_reader *next = TAILQ_NEXT(reader, link);
        if (reader->is_over) {
            move_to(reader, NULL);
            free_reader(reader);
        }
        reader = next;
    }
}

/* A reader may leave, or another come, while one of them is told. */
static void tell_prompt(struct feed *feed, json_t *record) {
    struct feed_reader *reader;
    feed->users++;
    feed->walkers++;
    TAILQ_FOREACH(reader, &feed->prompt, link) {
        if (!reader->is_over && matches(reader, record)) reader->request->item(reader->request, json_incref(record));
    }
    if (--feed->walkers == 0) free_over(feed);
    feed_release(feed);
}

/* An item may cause more records, which come after those that were there, and for which the oldest go. */
static void begin_prompt(struct feed_reader *reader) {
    struct feed *feed = reader->feed;
    reader->is_serving = true;
    while (!reader->is_over && has_more(reader)) {
        if (reader->next < feed->gone) reader->next = feed->gone;
        json_t *record = feed_record_at(feed, reader->next++);
        if (matches(reader, record)) reader->request->item(reader->request, json_incref(record));
    }
    reader->is_serving = false;
    if (reader->is_over)
        free_reader(reader);
    else if (feed->has_ended)
        finish(reader);
    else
        move_to(reader, &feed->prompt);
}

void feed_wake_readers(struct feed *feed, json_t *record) {
    struct feed_reader *reader = TAILQ_FIRST(&feed->waiting);
    struct engine *engine = reader ? reader->engine : NULL;
    for (; reader; reader = TAILQ_NEXT(reader, link)) reader->list = &engine->pump.due;
    if (engine) {
        TAILQ_CONCAT(&engine->pump.due, &feed->waiting, link);
        uv_idle_start(&engine->pump.idle, on_idle);
    }
    if (!TAILQ_EMPTY(&feed->prompt)) tell_prompt(feed, record);
}

/* ---- beginning and ending ---- */

static struct feed_reader *new_reader(struct engine *engine, struct feed *feed, struct request *request,
                                      const struct feed_filter *filter, bool follow) {
    struct feed_reader *reader = new_or_abort(struct feed_reader);
    *reader = (struct feed_reader){
        .engine = engine, .feed = feed, .request = request, .filter = *filter, .until = UINT64_MAX};
    if (!follow) reader->until = feed_end_place(feed);
    reader->is_seeking = filter->tail != SIZE_MAX;
    reader->first = feed_place_after(feed, filter->since);
    reader->next = reader->is_seeking ? feed_end_place(feed) : reader->first;
    if (filter->sandbox_id) {
        strncpy(reader->sandbox_id, filter->sandbox_id, sizeof reader->sandbox_id - 1);
        reader->filter.sandbox_id = reader->sandbox_id;
    }
    feed->users++;
    if (follow && !request->is_prompt) feed->followers++;
    return reader;
}

void feed_stream(struct engine *engine, struct feed *feed, struct request *request, const struct feed_filter *filter,
                 bool follow) {
    bool stays = follow && !engine->closing.is_begun && !feed->has_ended; /* else no more will come */
    if (stays && !request->is_prompt && feed->followers >= SUBSCRIBERS_MAX) {
        if (filter->release) filter->release(filter->data);
        answer_fail(engine, request, E_LIMIT, "%d readers follow already", SUBSCRIBERS_MAX);
        return;
    }
    struct feed_reader *reader = new_reader(engine, feed, request, filter, stays);
    request->state = reader;
    request->cancel = on_cancel;
    request->more = on_more;
    if (request->is_prompt && stays)
        begin_prompt(reader);
    else
        make_due(reader);
}

void feed_end(struct feed *feed) {
    struct feed_reader *reader;
    feed->has_ended = true;
    feed->users++;
    while ((reader = TAILQ_FIRST(&feed->waiting))) make_due(reader);
    feed->walkers++;
    TAILQ_FOREACH(reader, &feed->prompt, link) {
        if (!reader->is_over) finish(reader);
    }
    if (--feed->walkers == 0) free_over(feed);
    feed_release(feed);
}

void feed_pump_open(struct engine *engine) {
    struct feed_pump *pump = &engine->pump;
    TAILQ_INIT(&pump->due);
    TAILQ_INIT(&pump->blocked);
    uv_idle_init(engine->loop, &pump->idle);
    pump->idle.data = engine;
}

/* Those that have room are answered when they have read the rest. */
void feed_pump_quiesce(struct engine *engine) {
    struct feed_reader *reader;
    while ((reader = TAILQ_FIRST(&engine->pump.blocked))) {
        move_to(reader, NULL);
        settle(reader);
    }
}

void feed_pump_close(struct engine *engine, uv_close_cb closed) {
    json_decref(take_ptr(engine->pump.printed));
    buf_free(&engine->pump.text);
    uv_close((uv_handle_t *)&engine->pump.idle, closed);
}
