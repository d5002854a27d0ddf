/* Bounded histories of records: the events of the service, the log of a sandbox. How they are read is in
   feed_readers.c. */
#include <string.h>

#include "core/feed.h"

struct feed *feed_new(size_t capacity, size_t text_bytes_max) {
    struct feed *feed = calloc(1, sizeof *feed);
    json_t **records = calloc(capacity, sizeof *records);
    if (!feed || !records) {
        free(feed);
        free(records);
        return NULL;
    }
    *feed = (struct feed){
        .records = records, .capacity = capacity, .text_bytes_max = text_bytes_max, .next_seq = 1, .users = 1};
    TAILQ_INIT(&feed->waiting);
    TAILQ_INIT(&feed->prompt);
    return feed;
}

void feed_release(struct feed *feed) {
    if (!feed || --feed->users > 0) return;
    for (size_t i = 0; i < feed->count; i++) json_decref(feed->records[(feed->first + i) % feed->capacity]);
    free(feed->records);
    free(feed);
}

uint64_t feed_record_seq(const json_t *record) {
    return (uint64_t)json_integer_value(json_object_get(record, "seq"));
}

size_t feed_record_text_bytes(const json_t *record) {
    return json_string_length(json_object_get(record, "text"));
}

json_t *feed_record_at(const struct feed *feed, uint64_t place) {
    return feed->records[(feed->first + (size_t)(place - feed->gone)) % feed->capacity];
}

uint64_t feed_end_place(const struct feed *feed) {
    return feed->gone + feed->count;
}

uint64_t feed_place_after(const struct feed *feed, uint64_t seq) {
    uint64_t low = feed->gone, high = feed_end_place(feed);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (feed_record_seq(feed_record_at(feed, middle)) <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- adding ---- */

static void drop_oldest(struct feed *feed) {
    json_t *oldest = feed->records[feed->first];
    feed->text_bytes -= feed_record_text_bytes(oldest);
    json_decref(oldest);
    feed->first = (feed->first + 1) % feed->capacity;
    feed->count--;
    feed->gone++;
}

static void keep(struct feed *feed, json_t *record) {
    size_t bytes = feed_record_text_bytes(record);
    while (feed->count == feed->capacity ||
           (feed->count > 0 && feed->text_bytes_max && feed->text_bytes + bytes > feed->text_bytes_max))
        drop_oldest(feed);
    feed->records[(feed->first + feed->count++) % feed->capacity] = record;
    feed->text_bytes += bytes;
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
    feed_wake_readers(feed, record);
}

void feed_restore(struct feed *feed, json_t *record) {
    if (feed_record_seq(record) >= feed->next_seq) feed->next_seq = feed_record_seq(record) + 1;
    keep(feed, json_incref(record));
}

void feed_skip(struct feed *feed, uint64_t count) {
    feed->next_seq += count;
}
