/* loop: the daemon's one loop thread watches itself. How long its turns take and which work made them long, how much
   time it really attended to its sockets, and whose turn it is when several callers want it at once. */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/base.h"

/* ---- attention.c: the time in which the loop could have read what others sent (pure) ---- */

/* A loop that was stopped, starved or busy did not listen: that time is no peer's silence. */
struct attention {
    uint64_t total_ns;
    uint64_t polled_at_ns; /* when the loop last went to wait */
    int64_t wait_max_ns;   /* how long it meant to wait then; below zero: for as long as nothing happens */
};

void attention_begin(struct attention *attention, uint64_t now_ns);
/* The loop waits again, for so long at most. */
void attention_poll(struct attention *attention, uint64_t now_ns, int wait_max_ms);
uint64_t attention_ms(const struct attention *attention, uint64_t now_ns);

/* ---- report.c: the longest of many turns (pure) ---- */

enum { LOOP_WORST = 8, LOOP_DETAIL_BYTES = 64, LOOP_TURN_LONG_US = 5000, LOOP_TURN_FULL_US = 1000 };

struct loop_turn {
    uint64_t cpu_us;
    int64_t at_ms;                  /* wall time */
    const char *work;               /* what took most of it: a constant of the code that noted it */
    char detail[LOOP_DETAIL_BYTES]; /* which one: an operation, a node; "" for none */
};

struct loop_report {
    uint64_t turns, long_turns;         /* long: over LOOP_TURN_LONG_US of the thread's own CPU time */
    struct loop_turn worst[LOOP_WORST]; /* longest first */
    size_t worst_count;
};

void loop_report_add(struct loop_report *report, const struct loop_turn *turn);

/* ---- watch.c ---- */

struct loop_watch;

/* Watches the loop until it is closed, which is before the loop itself. The loop's data is the watch's meanwhile. */
int loop_watch_open(uv_loop_t *loop, struct loop_watch **ret, struct error *reterr);
void loop_watch_close(struct loop_watch *watch); /* accepts NULL */

/* All of these work on any loop; on one that is not watched they tell its own time, and note nothing. */

/* Grows with time, but not while the loop was stopped or busy. Deadlines for peers are measured by it. */
uint64_t loop_attended_ms(const uv_loop_t *loop);
/* For the callback of a deadline that a peer was given: whether it is early by that clock, and goes off again. */
bool loop_deadline_is_early(uv_timer_t *timer, uint64_t due_ms, uv_timer_cb callback);
/* What follows, until the next note or the turn's end, is this work. Detail may be NULL, and is copied. */
void loop_note(uv_loop_t *loop, const char *work, const char *detail);
/* Whether this turn has worked for so long that the rest should wait for the next one. */
bool loop_turn_is_full(const uv_loop_t *loop);
bool loop_turn_is_longer(const uv_loop_t *loop, uint32_t us); /* than so much */
/* The same for work that waited for this turn and began at that time (uv_hrtime): it has a small part of every turn. */
bool loop_slice_is_over(const uv_loop_t *loop, uint32_t full_us, uint64_t begun_ns);
uint64_t loop_cpu_ns(void);                                   /* the CPU time of this thread; a system call */
const struct loop_report *loop_report(const uv_loop_t *loop); /* NULL: it is not watched */

struct loop_pool;
struct loop_pool *loop_pool_of(const uv_loop_t *loop); /* NULL: it is not watched */

/* ---- fair.c: first come, first served for each key; the keys by turns (pure) ---- */

struct fair_item {
    STAILQ_ENTRY(fair_item) link;
    struct fair_line *line; /* NULL: it is in no queue */
};

struct fair_line;

struct fair {
    TAILQ_HEAD(, fair_line) lines; /* those with items, the next one's first */
    size_t count;
};

void fair_init(struct fair *fair);
/* False without memory. An item is in one queue at a time, and its owner's. */
bool fair_put(struct fair *fair, uint64_t key, struct fair_item *item);
/* The next one of a key that may; may is NULL where all do. NULL: there is none. */
struct fair_item *fair_take(struct fair *fair, bool (*may)(const void *data, uint64_t key), const void *data);
void fair_remove(struct fair *fair, struct fair_item *item);
size_t fair_count(const struct fair *fair, uint64_t key); /* how many of this key wait */

/* ---- turns.c: work that waits for a later turn of the loop ---- */

struct loop_waiter {
    struct fair_item item;
    void (*go)(struct loop_waiter *waiter);
};

struct loop_turns {
    uv_loop_t *loop;
    const char *work; /* what it is, for loop_note */
    uint32_t full_us; /* how long a turn may be before this work waits for the next */
    struct fair waiting;
    uv_idle_t idle;
};

void loop_turns_open(struct loop_turns *turns, uv_loop_t *loop, const char *work, uint32_t full_us);
/* Nothing may wait any more. */
void loop_turns_close(struct loop_turns *turns, uv_close_cb closed);
/* Whether this turn is full, or others wait already. Then go is called in a later turn, and the keys take turns. */
bool loop_turns_wait(struct loop_turns *turns, uint64_t key, struct loop_waiter *waiter);
void loop_turns_remove(struct loop_turns *turns, struct loop_waiter *waiter); /* if it waits */

/* ---- discard.c ---- */

/* Have the pool release a value that strangers may have made large. Nothing else may refer to it any more. */
void loop_discard(uv_loop_t *loop, void (*release)(void *value), void *value);

/* ---- pool.c: threads of a low priority that compile, hash, copy and free for callers ---- */

/* As uv_queue_work, which it is on a loop that is not watched. The loop runs for as long as anything is under way. */
int loop_queue_work(uv_loop_t *loop, uv_work_t *request, uv_work_cb run, uv_after_work_cb after);
/* For the loop's watch: opened and closed with it. What was queued is done first. */
int loop_pool_open(uv_loop_t *loop, struct loop_pool **ret, struct error *reterr);
void loop_pool_close(struct loop_pool *pool); /* accepts NULL */

/* ---- work.c: threads for work whose size strangers choose ---- */

enum { LOOP_WORKERS = 2 };

struct loop_work {
    struct fair_item item; /* while it waits */
    uint64_t key;
    void (*run)(struct loop_work *work);  /* on a thread */
    void (*done)(struct loop_work *work); /* on the loop; the work is its owner's again */
};

struct loop_worker {
    struct loop_workers *workers;
    struct loop_work *work; /* the loop's word: it runs, or has run and is not done yet */
    _Atomic(struct loop_work *) given, finished;
    int wake_fd; /* -1: it is not started */
    uv_thread_t thread;
};

/* Threads of a low priority, apart from those of uv_queue_work: what one caller sends must not keep others' builds
   waiting. A key has one of them at a time. They share no lock with the loop: it would wait for a thread that waits for
   its turn on the processor. */
struct loop_workers {
    uv_loop_t *loop;
    struct fair waiting;
    struct loop_worker each[LOOP_WORKERS]; /* they are started when they are first needed */
    int done_fd;
    uv_poll_t done;
    bool is_ending;
    void (*closed)(void *data);
    void *closed_data;
};

int loop_workers_open(struct loop_workers *workers, uv_loop_t *loop, struct error *reterr);
/* Whatever runs or waits is done first. */
void loop_workers_close(struct loop_workers *workers, void (*closed)(void *data), void *data);
void loop_work_submit(struct loop_workers *workers, uint64_t key, struct loop_work *work);

#endif
