/* Tests feeds: bounded histories with readers that follow, cancel, are slow, or may not see everything. */
#include "core/sandbox/sandbox.h"
#include "core/stage.h"

#include <time.h>

#include "slowness.h"

enum { CAPACITY = 4 };

/* A reader whose items and end go into the story; it may leave at an item. */
struct reader {
    struct request request;
    struct stage *stage;
    char name;
    int64_t leaves_at; /* the seq of the item at which it cancels */
    int room;          /* for so many items; negative: for all */
    size_t items;      /* that it got */
    int64_t adds_at;   /* the seq of the item at which it adds more records than the feed keeps */
    struct feed *feed; /* to it */
    bool answered;
};

static void on_item(struct request *request, json_t *item) {
    struct reader *reader = request->transport;
    int64_t seq = json_integer_value(json_object_get(item, "seq"));
    json_t *skipped = json_object_get(item, "skipped");
    assert_true(skipped || json_is_string(json_object_get(item, "time")));
    if (skipped)
        buf_printf(&reader->stage->story, "%c+%lld ", reader->name, (long long)json_integer_value(skipped));
    else
        buf_printf(&reader->stage->story, "%c%lld ", reader->name, (long long)seq);
    json_decref(item);
    if (reader->room > 0) reader->room--;
    for (int i = 0; seq > 0 && seq == reader->adds_at && i <= CAPACITY; i++)
        feed_add(reader->feed, json_pack("{s:s}", "sandbox_id", "a"));
    if (seq > 0 && seq == reader->leaves_at && request->cancel) request->cancel(request);
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct reader *reader = request->transport;
    assert_false(reader->answered);
    assert_null(request->cancel);
    reader->answered = true;
    buf_printf(&reader->stage->story, "%c:%s ", reader->name, error ? error_kind(error->code)->slug : "done");
    json_decref(result);
}

static struct reader reader_of(struct stage *stage, char name) {
    return (struct reader){.stage = stage, .name = name, .room = -1, .request = {.item = on_item, .done = on_done}};
}

static bool has_room(struct request *request) {
    const struct reader *reader = request->transport;
    return reader->room != 0;
}

/* One that takes `room` items, and more when it says so. */
static struct reader slow_reader_of(struct stage *stage, char name, int room) {
    struct reader reader = reader_of(stage, name);
    reader.room = room;
    reader.request.has_room = has_room;
    return reader;
}

static void take_more(struct reader *reader, int room) {
    reader->room = room;
    if (reader->request.more) reader->request.more(&reader->request);
    uv_run(&reader->stage->loop, UV_RUN_DEFAULT);
}

static void stream(struct reader *reader, struct feed *feed, struct feed_filter filter, bool follow) {
    reader->request.transport = reader;
    feed_stream(&reader->stage->engine, feed, &reader->request, &filter, follow);
}

static void add(struct feed *feed, const char *id) {
    feed_add(feed, json_pack("{s:s?}", "sandbox_id", id));
}

static void run(struct stage *stage) {
    uv_run(&stage->loop, UV_RUN_DEFAULT);
}

static const struct feed_filter all = {.tail = SIZE_MAX};

static void test_the_newest_are_kept(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    assert_non_null(feed);
    for (int i = 0; i < CAPACITY + 2; i++) add(feed, NULL);
    struct reader reader = reader_of(stage, 'a');
    stream(&reader, feed, all, false);
    stage_expect(stage, ""); /* nothing ever comes from inside */
    run(stage);
    stage_expect(stage, "a3 a4 a5 a6 a:done ");
    feed_release(feed);
}

static void test_text_is_bounded_in_bytes(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 10);
    static const char *const texts[] = {"1234", "5678", "90", "a", "longer than all of it"};
    static const char *const stories[] = {"a1 a:done ", "a1 a2 a:done ", "a1 a2 a3 a:done ", "a2 a3 a4 a:done ",
                                          "a5 a:done "};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        feed_add(feed, json_pack("{s:s}", "text", texts[i]));
        struct reader reader = reader_of(stage, 'a');
        stream(&reader, feed, all, false);
        run(stage);
        stage_expect(stage, stories[i]);
    }
    feed_release(feed);
}

static void test_tail_and_since(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    for (int i = 0; i < CAPACITY + 1; i++) add(feed, i % 2 ? "x" : "y");
    static const struct {
        struct feed_filter filter;
        const char *story;
    } cases[] = {
        {{.tail = 2}, "a4 a5 a:done "},
        {{.tail = 0}, "a:done "},
        {{.tail = 100}, "a2 a3 a4 a5 a:done "},
        {{.tail = SIZE_MAX, .since = 4}, "a5 a:done "},
        {{.tail = SIZE_MAX, .since = 99}, "a:done "},
        {{.tail = SIZE_MAX, .sandbox_id = "x"}, "a2 a4 a:done "},
        {{.tail = 1, .sandbox_id = "x"}, "a4 a:done "},
        {{.tail = SIZE_MAX, .sandbox_id = "z"}, "a:done "},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct reader reader = reader_of(stage, 'a');
        stream(&reader, feed, cases[i].filter, false);
        run(stage);
        stage_expect(stage, cases[i].story);
    }
    feed_release(feed);
}

static void test_followers_get_what_comes_and_an_answer_at_the_end(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    add(feed, "x");
    char id[8] = "x";
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    stream(&a, feed, all, true);
    stream(&b, feed, (struct feed_filter){.tail = SIZE_MAX, .sandbox_id = id}, true);
    strcpy(id, "gone"); /* the filter keeps its own */
    add(feed, "y");
    add(feed, "x");
    run(stage);
    stage_expect(stage, "a1 a2 a3 b1 b3 ");
    add(feed, "x");
    feed_end(feed); /* what came before is read first */
    run(stage);
    stage_expect(stage, "a4 b4 a:done b:done ");
    feed_release(feed);
}

static void test_one_who_cancels_is_answered_and_gets_no_more(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    stream(&a, feed, all, true);
    stream(&b, feed, all, true);
    a.request.cancel(&a.request);
    add(feed, NULL);
    run(stage);
    stage_expect(stage, "a:done b1 ");
    b.request.cancel(&b.request);
    run(stage);
    stage_expect(stage, "b:done ");
    feed_release(feed);
}

/* A transport cuts a slow reader off from inside the item that was too much. */
static void test_one_who_cancels_inside_an_item(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b'), c = reader_of(stage, 'c');
    a.leaves_at = b.leaves_at = 1;
    stream(&a, feed, all, true);
    stream(&b, feed, all, true);
    stream(&c, feed, all, true);
    add(feed, NULL);
    add(feed, NULL);
    run(stage);
    stage_expect(stage, "a1 b1 c1 c2 a:done b:done ");
    feed_end(feed);
    run(stage);
    stage_expect(stage, "c:done ");
    feed_release(feed);
}

static void test_followers_are_bounded(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader *readers = calloc(SUBSCRIBERS_MAX + 1, sizeof *readers);
    for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
        readers[i] = reader_of(stage, 'a');
        stream(&readers[i], feed, all, true);
    }
    struct reader *late = &readers[SUBSCRIBERS_MAX];
    *late = reader_of(stage, 'z');
    stream(late, feed, all, true);
    run(stage);
    stage_expect(stage, "z:limit_reached ");
    feed_end(feed);
    run(stage);
    free(readers);
    feed_release(feed);
}

static void test_nobody_follows_an_engine_that_closes(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    add(feed, NULL);
    stage->engine.closing.is_begun = true;
    struct reader a = reader_of(stage, 'a');
    stream(&a, feed, all, true);
    run(stage);
    stage_expect(stage, "a1 a:done ");
    feed_release(feed);
}

static bool is_admin(void *data, const struct caller *caller, const json_t *record) {
    (void)record;
    return data && caller->role == ROLE_ADMIN;
}

static void test_who_may_see(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), v = reader_of(stage, 'v');
    a.request.caller.role = ROLE_ADMIN;
    v.request.caller.role = ROLE_VIEWER;
    struct feed_filter filter = {.tail = SIZE_MAX, .may_see = is_admin, .data = stage};
    add(feed, NULL);
    stream(&a, feed, filter, true);
    stream(&v, feed, filter, true);
    add(feed, NULL);
    feed_end(feed);
    run(stage);
    stage_expect(stage, "a1 a2 a:done v:done ");
    feed_release(feed);
}

static void test_restored_records_keep_their_numbers(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    json_t *record = json_pack("{s:i, s:s}", "seq", 41, "time", "then");
    feed_restore(feed, record);
    json_decref(record);
    add(feed, NULL);
    struct reader a = reader_of(stage, 'a');
    stream(&a, feed, all, false);
    run(stage);
    stage_expect(stage, "a41 a42 a:done ");
    feed_release(feed);
}

/* ---- readers that take their time ---- */

static void test_a_slow_reader_gets_all_that_is_kept(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    for (int i = 0; i < CAPACITY; i++) add(feed, NULL);
    struct reader a = slow_reader_of(stage, 'a', 1);
    stream(&a, feed, all, false);
    run(stage);
    stage_expect(stage, "a1 ");
    take_more(&a, 2);
    stage_expect(stage, "a2 a3 ");
    take_more(&a, 2);
    stage_expect(stage, "a4 a:done ");
    feed_release(feed);
}

static void test_a_reader_that_records_pass_by_is_told_and_gets_the_newest(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    add(feed, NULL);
    struct reader a = slow_reader_of(stage, 'a', 1), b = slow_reader_of(stage, 'b', 1);
    stream(&a, feed, all, true);
    stream(&b, feed, all, false);
    for (int i = 0; i < 2 * CAPACITY; i++) add(feed, NULL);
    run(stage);
    stage_expect(stage, "a+5 b+1 b:done "); /* b asked for one record, which is gone */
    take_more(&a, -1);
    stage_expect(stage, "a6 a7 a8 a9 ");
    feed_end(feed);
    run(stage);
    stage_expect(stage, "a:done ");
    feed_release(feed);
}

static void test_a_tail_is_found_without_a_long_turn(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(4096, 0);
    for (int i = 0; i < 4096; i++) add(feed, i % 1000 == 0 ? "x" : "y");
    struct reader a = slow_reader_of(stage, 'a', 1);
    stream(&a, feed, (struct feed_filter){.tail = 3, .sandbox_id = "x"}, false);
    run(stage);
    stage_expect(stage, "a2001 ");
    take_more(&a, -1);
    stage_expect(stage, "a3001 a4001 a:done ");
    feed_release(feed);
}

/* The sandbox is gone, and its log with it; its readers have the rest of it first. */
static void test_a_feed_outlives_its_owner_for_its_readers(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = slow_reader_of(stage, 'a', 1), b = slow_reader_of(stage, 'b', 1);
    stream(&a, feed, all, true);
    stream(&b, feed, all, true);
    add(feed, NULL);
    add(feed, NULL);
    run(stage);
    stage_expect(stage, "a1 b1 ");
    feed_end(feed);
    feed_release(feed);
    b.request.cancel(&b.request);
    take_more(&a, 1);
    stage_expect(stage, "a2 b:done a:done ");
}

static void test_readers_that_do_not_read_end_with_the_service(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = slow_reader_of(stage, 'a', 0), b = reader_of(stage, 'b');
    stream(&a, feed, all, true);
    stream(&b, feed, all, true);
    add(feed, NULL);
    run(stage);
    add(feed, NULL);
    stage->engine.closing.is_begun = true;
    feed_end(feed);
    feed_pump_quiesce(&stage->engine);
    run(stage);
    stage_expect(stage, "b1 a:shutting_down b2 b:done ");
    feed_release(feed);
}

static void count_item(struct request *request, json_t *item) {
    struct reader *reader = request->transport;
    reader->items++;
    json_decref(item);
}

/* However many read how much, a turn gives away a bounded number of records, and none of the readers waits for all of
   another's. */
static void test_a_turn_is_bounded(void **state) {
    enum { READERS = 64, RECORDS = 4096, TURN_RECORDS_MAX = 4096, SLICE_RECORDS_MAX = 512 };
    struct stage *stage = *state;
    struct feed *feed = feed_new(RECORDS, 0);
    for (int i = 0; i < RECORDS; i++) add(feed, NULL);
    struct reader *readers = calloc(READERS, sizeof *readers);
    for (int i = 0; i < READERS; i++) {
        readers[i] = reader_of(stage, 'a');
        readers[i].request.item = count_item;
        stream(&readers[i], feed, all, false);
    }
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    size_t sent = 0;
    for (int i = 0; i < READERS; i++) {
        assert_in_range(readers[i].items, 0, SLICE_RECORDS_MAX);
        sent += readers[i].items;
    }
    assert_in_range(sent, 1, TURN_RECORDS_MAX);
    run(stage);
    for (int i = 0; i < READERS; i++) assert_int_equal(readers[i].items, RECORDS);
    buf_clear(&stage->story);
    free(readers);
    feed_release(feed);
}

/* ---- printed records ---- */

static const void *printed_at;

static void on_text(struct request *request, uint64_t seq, const char *text, size_t size) {
    struct reader *reader = request->transport;
    json_t *record = json_loadb(text, size, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(record, "seq")), seq);
    json_decref(record);
    if (reader->name == 'a') printed_at = text;
    buf_printf(&reader->stage->story, "%c%llu%s ", reader->name, (unsigned long long)seq,
               text == printed_at ? "=" : "");
}

static void test_all_who_follow_get_the_same_bytes(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    a.request.item_text = b.request.item_text = on_text;
    stream(&a, feed, all, true);
    stream(&b, feed, all, true);
    add(feed, NULL);
    run(stage);
    add(feed, NULL);
    feed_end(feed);
    run(stage);
    stage_expect(stage, "a1= b1= a2= b2= a:done b:done ");
    feed_release(feed);
}

static uint64_t own_cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void on_long_text(struct request *request, uint64_t seq, const char *text, size_t size) {
    struct reader *reader = request->transport;
    (void)seq, (void)text;
    assert_true(size > 6 * (64 << 10));
    reader->items++;
}

/* Each is an escape of six bytes. One record may be as long as a node's text, and is printed in one turn. */
static void test_control_characters_are_printed_fast(void **state) {
    enum { SIZE = 64 << 10, RECORDS = 4 * CAPACITY, EACH_MAX_US = 2500 };
    static char text[SIZE];
    struct stage *stage = *state;
    struct feed *feed = feed_new(RECORDS, 0);
    struct reader a = reader_of(stage, 'a');
    memset(text, 1, sizeof text);
    for (int i = 0; i < RECORDS; i++) feed_add(feed, json_pack("{s:s%}", "text", text, sizeof text));
    a.request.item_text = on_long_text;
    uint64_t begun_us = own_cpu_us();
    stream(&a, feed, all, false);
    run(stage);
    uint64_t took_us = own_cpu_us() - begun_us;
    assert_int_equal(a.items, RECORDS);
    assert_in_range(took_us, 0, RECORDS * EACH_MAX_US * TEST_SLOWNESS);
    stage_expect(stage, "a:done ");
    feed_release(feed);
}

/* ---- the engine's own requests ---- */

static void test_a_prompt_reader_hears_at_once(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    a.request.is_prompt = b.request.is_prompt = true;
    a.leaves_at = 3;
    add(feed, "x");
    stream(&a, feed, all, true);
    stream(&b, feed, (struct feed_filter){.tail = SIZE_MAX, .sandbox_id = "x", .since = 1}, true);
    add(feed, "y");
    add(feed, "x");
    add(feed, "x");
    stage_expect(stage, "a1 a2 a3 b3 b4 ");
    feed_end(feed);
    run(stage);
    stage_expect(stage, "a:done b:done ");
    feed_release(feed);
}

/* What an item causes comes after it, and once; what was dropped for it meanwhile does not come. */
static void test_a_prompt_reader_may_cause_more(void **state) {
    struct stage *stage = *state;
    struct feed *feed = feed_new(CAPACITY, 0);
    struct reader a = reader_of(stage, 'a');
    a.request.is_prompt = true;
    a.feed = feed;
    a.adds_at = 2;
    for (int i = 0; i < CAPACITY; i++) add(feed, "x");
    stream(&a, feed, all, true);
    add(feed, "x");
    stage_expect(stage, "a1 a2 a6 a7 a8 a9 a10 ");
    feed_end(feed);
    run(stage);
    stage_expect(stage, "a:done ");
    feed_release(feed);
}

/* ---- whose events they are ---- */

static void test_events_are_their_owners(void **state) {
    (void)state;
    static const struct {
        struct caller caller;
        const char *event;
        bool is_visible;
    } cases[] = {
        {{.uid = 1000, .role = ROLE_OPERATOR}, "{\"owner\":\"uid:1000\"}", true},
        {{.uid = 1000, .role = ROLE_OPERATOR}, "{\"owner\":\"uid:100\"}", false},
        {{.uid = 100, .role = ROLE_OPERATOR}, "{\"owner\":\"uid:1000\"}", false},
        {{.uid = 1000, .role = ROLE_OPERATOR}, "{\"owner\":null}", false},
        {{.uid = 1000, .role = ROLE_OPERATOR}, "{\"sandbox_id\":\"from before\"}", false},
        {{.uid = 0, .role = ROLE_OPERATOR}, "{\"owner\":\"uid:\"}", false},
        {{.uid = 1000, .role = ROLE_ADMIN}, "{\"owner\":\"uid:100\"}", true},
        {{.uid = 1000, .role = ROLE_ADMIN}, "{}", true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *event = json_loads(cases[i].event, 0, NULL);
        assert_int_equal(event_visible(&cases[i].caller, event), cases[i].is_visible);
        json_decref(event);
    }
}

static void test_a_number_tells_sandboxes_of_one_id_apart(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct sandbox *first = sandbox_new(&stage->engine, "x", &error);
    struct sandbox_ref ref = sandbox_ref(first);
    assert_ptr_equal(sandbox_deref(&ref), first);
    sandbox_remove(first);
    assert_null(sandbox_deref(&ref));
    struct sandbox *second = sandbox_new(&stage->engine, "x", &error);
    assert_null(sandbox_deref(&ref));
    sandbox_remove(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_the_newest_are_kept),
        ON_STAGE(test_text_is_bounded_in_bytes),
        ON_STAGE(test_tail_and_since),
        ON_STAGE(test_followers_get_what_comes_and_an_answer_at_the_end),
        ON_STAGE(test_one_who_cancels_is_answered_and_gets_no_more),
        ON_STAGE(test_one_who_cancels_inside_an_item),
        ON_STAGE(test_followers_are_bounded),
        ON_STAGE(test_nobody_follows_an_engine_that_closes),
        ON_STAGE(test_who_may_see),
        ON_STAGE(test_restored_records_keep_their_numbers),
        ON_STAGE(test_a_slow_reader_gets_all_that_is_kept),
        ON_STAGE(test_a_reader_that_records_pass_by_is_told_and_gets_the_newest),
        ON_STAGE(test_a_tail_is_found_without_a_long_turn),
        ON_STAGE(test_a_feed_outlives_its_owner_for_its_readers),
        ON_STAGE(test_readers_that_do_not_read_end_with_the_service),
        ON_STAGE(test_a_turn_is_bounded),
        ON_STAGE(test_all_who_follow_get_the_same_bytes),
        ON_STAGE(test_a_prompt_reader_hears_at_once),
        ON_STAGE(test_a_prompt_reader_may_cause_more),
        ON_STAGE(test_control_characters_are_printed_fast),
        ON_STAGE(test_events_are_their_owners),
        ON_STAGE(test_a_number_tells_sandboxes_of_one_id_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
