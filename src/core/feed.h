/* feed: bounded histories that can be read and followed. A reader gets records only as fast as it takes them: it has a
   place in the ring, and turns of the loop bring it forward while its transport has room. So a slow reader costs no
   memory, and a turn does a bounded amount of work whatever is read and by how many. */
#ifndef CORE_FEED_H
#define CORE_FEED_H

#include <sys/queue.h>

#include "core/core.h"

enum {
    SUBSCRIBERS_MAX = 1024,
};

struct feed_reader;
TAILQ_HEAD(feed_readers, feed_reader);

/* A ring of JSON records, each with a "seq" member that grows. A record's place is how many came before it. */
struct feed {
    json_t **records;
    size_t capacity, first, count;
    uint64_t gone;                     /* records that have left the ring, which is the place of the oldest */
    size_t text_bytes, text_bytes_max; /* of the records' "text" members; no bound: 0 */
    uint64_t next_seq;
    bool has_ended;
    unsigned users;              /* its owner and its readers: the last one frees it */
    unsigned followers;          /* readers that stay when they have read all */
    struct feed_readers waiting; /* for a record to come */
    struct feed_readers prompt;  /* requests of the engine itself, which get a record from inside feed_put */
    unsigned walkers;            /* over `prompt`: while there are any, none of it is freed */
};

/* NULL: no memory. */
struct feed *feed_new(size_t capacity, size_t text_bytes_max);
void feed_release(struct feed *feed);
/* Sets "seq" and "time", keeps the record (reference taken over) and lets the readers have it. */
json_t *feed_add(struct feed *feed, json_t *record);
/* The same for a record that has both already. */
void feed_put(struct feed *feed, json_t *record);
void feed_restore(struct feed *feed, json_t *record); /* one from the store, with its seq; borrowed */
void feed_skip(struct feed *feed, uint64_t count);    /* leave numbers out: those of records that the store missed */

uint64_t feed_record_seq(const json_t *record);
size_t feed_record_text_bytes(const json_t *record);
json_t *feed_record_at(const struct feed *feed, uint64_t place);  /* borrowed; the place is in the ring */
uint64_t feed_end_place(const struct feed *feed);                 /* where the next record will be */
uint64_t feed_place_after(const struct feed *feed, uint64_t seq); /* the place of the first record after that number */

/* ---- feed_readers.c ---- */

struct feed_filter {
    uint64_t since;         /* records after this seq */
    size_t tail;            /* at most so many of the past; SIZE_MAX: all */
    const char *sandbox_id; /* NULL: any */
    bool (*may_see)(void *data, const struct caller *caller, const json_t *record); /* NULL: all */
    void *data;
    void (*release)(void *data); /* of data, when the reader is gone; NULL: it is not the reader's */
};

/* Send the past, then go on with what comes if follow; otherwise answer. All of it happens in later turns. The filter
   is copied, its data taken over. A reader that records have passed by gets the item {"skipped": how many}. */
void feed_stream(struct engine *engine, struct feed *feed, struct request *request, const struct feed_filter *filter,
                 bool follow);
void feed_end(struct feed *feed); /* no more will come: readers are answered once they have read the rest */
void feed_wake_readers(struct feed *feed, json_t *record); /* of feed_put */

/* What brings readers forward, one for all feeds of an engine. */
struct feed_pump {
    struct feed_readers due;     /* a record, and there is room for it */
    struct feed_readers blocked; /* until their transports have room */
    uv_idle_t idle;              /* runs while any are due */
    json_t *printed;             /* the record that was printed last: all followers get the same one */
    struct buf text;             /* it */
};

void feed_pump_open(struct engine *engine);
void feed_pump_quiesce(struct engine *engine);                   /* answer readers that do not read */
void feed_pump_close(struct engine *engine, uv_close_cb closed); /* with the engine as the handle's data */

#endif
