/* Bounded histories of records: the events of the service, the log of a sandbox. */
#include <string.h>

#include "core/core_internal.h"

struct follower {
    struct follower *next;
    struct engine *engine;
    struct feed *feed;
    struct request *request;
    struct feed_filter filter;
    char sandbox_id[SANDBOX_ID_BYTES];
    bool gone; /* answered, and freed once nobody walks the list */
};

bool feed_init(struct feed *feed, size_t capacity, size_t text_bytes_max) {
    *feed = (struct feed){.records = calloc(capacity, sizeof *feed->records),
                          .capacity = capacity,
                          .text_bytes_max = text_bytes_max,
                          .next_seq = 1};
    return feed->records != NULL;
}

void feed_free(struct feed *feed) {
    for (size_t i = 0; i < feed->count; i++) json_decref(feed->records[(feed->first + i) % feed->capacity]);
    free(feed->records);
    *feed = (struct feed){0};
}

static uint64_t record_seq(const json_t *record) {
    return (uint64_t)json_integer_value(json_object_get(record, "seq"));
}

static size_t record_text_bytes(const json_t *record) {
    return json_string_length(json_object_get(record, "text"));
}

static void drop_oldest(struct feed *feed) {
    json_t *oldest = feed->records[feed->first];
    feed->text_bytes -= record_text_bytes(oldest);
    json_decref(oldest);
    feed->first = (feed->first + 1) % feed->capacity;
    feed->count--;
}

static void keep(struct feed *feed, json_t *record) {
    size_t bytes = record_text_bytes(record);
    while (feed->count == feed->capacity ||
           (feed->count > 0 && feed->text_bytes_max && feed->text_bytes + bytes > feed->text_bytes_max))
        drop_oldest(feed);
    feed->records[(feed->first + feed->count++) % feed->capacity] = record;
    feed->text_bytes += bytes;
}

static bool matches(const struct feed_filter *filter, const struct caller *caller, const json_t *record) {
    const char *id = json_string_value(json_object_get(record, "sandbox_id"));
    if (record_seq(record) <= filter->since) return false;
    if (filter->sandbox_id && !string_equal(filter->sandbox_id, id)) return false;
    return !filter->may_see || filter->may_see(filter->data, caller, record);
}

static void free_gone(struct feed *feed) {
    for (struct follower **at = &feed->followers; *at;) {
        struct follower *follower = *at;
        if (!follower->gone) {
            at = &follower->next;
            continue;
        }
        *at = follower->next;
        free(follower);
    }
}

json_t *feed_add(struct feed *feed, json_t *record) {
    char now[RFC3339_BYTES];
    clock_rfc3339(clock_wall_ms(), now);
    json_object_set_new(record, "seq", json_integer((json_int_t)feed->next_seq++));
    json_object_set_new(record, "time", json_string(now));
    feed_put(feed, record);
    return record;
}

void feed_put(struct feed *feed, json_t *record) {
    keep(feed, record);
    /* Whoever gets the record may stop following, or make another. */
    feed->walkers++;
    for (struct follower *follower = feed->followers; follower; follower = follower->next)
        if (!follower->gone && matches(&follower->filter, &follower->request->caller, record))
            follower->request->item(follower->request, json_incref(record));
    if (--feed->walkers == 0) free_gone(feed);
}

void feed_restore(struct feed *feed, json_t *record) {
    if (record_seq(record) >= feed->next_seq) feed->next_seq = record_seq(record) + 1;
    keep(feed, json_incref(record));
}

void feed_skip(struct feed *feed, uint64_t count) {
    feed->next_seq += count;
}

/* Where the last `tail` matching records begin. */
static size_t tail_start(const struct feed *feed, const struct feed_filter *filter, const struct caller *caller) {
    size_t found = 0;
    for (size_t i = feed->count; i > 0; i--)
        if (matches(filter, caller, feed->records[(feed->first + i - 1) % feed->capacity]) && ++found > filter->tail)
            return i;
    return 0;
}

static void send_past(struct feed *feed, struct request *request, const struct feed_filter *filter) {
    for (size_t i = tail_start(feed, filter, &request->caller); i < feed->count; i++) {
        json_t *record = feed->records[(feed->first + i) % feed->capacity];
        if (matches(filter, &request->caller, record)) request->item(request, json_incref(record));
    }
}

static void unfollow(struct follower *follower) {
    struct feed *feed = follower->feed;
    follower->gone = true;
    answer_ok(follower->engine, follower->request, json_object());
    if (feed->walkers == 0) free_gone(feed);
}

static void on_cancel(struct request *request) {
    unfollow(request->state);
}

static size_t follower_count(const struct feed *feed) {
    size_t count = 0;
    for (const struct follower *at = feed->followers; at; at = at->next) count += !at->gone;
    return count;
}

void feed_stream(struct engine *engine, struct feed *feed, struct request *request, const struct feed_filter *filter,
                 bool follow) {
    if (!follow || engine->closing) { /* no more will come */
        send_past(feed, request, filter);
        answer_ok(engine, request, json_object());
        return;
    }
    struct follower *follower = follower_count(feed) < SUBSCRIBERS_MAX ? calloc(1, sizeof *follower) : NULL;
    if (!follower) {
        answer_fail(engine, request, E_LIMIT, "%d readers follow already", SUBSCRIBERS_MAX);
        return;
    }
    send_past(feed, request, filter);
    *follower = (struct follower){
        .next = feed->followers, .engine = engine, .feed = feed, .request = request, .filter = *filter};
    if (filter->sandbox_id) {
        strncpy(follower->sandbox_id, filter->sandbox_id, sizeof follower->sandbox_id - 1);
        follower->filter.sandbox_id = follower->sandbox_id;
    }
    feed->followers = follower;
    request->state = follower;
    request->cancel = on_cancel;
}

void feed_end(struct engine *engine, struct feed *feed) {
    (void)engine;
    struct follower *next;
    feed->walkers++;
    for (struct follower *follower = feed->followers; follower; follower = next) {
        next = follower->next;
        if (!follower->gone) unfollow(follower);
    }
    if (--feed->walkers == 0) free_gone(feed);
}
