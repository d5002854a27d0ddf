/* launcher_push: the engine pushes to the launcher what a running node is to be held to, until the launcher has
   acknowledged it. Each subject is pushed a few times a second at most, and backs off after failures. The subjects are
   independent: a failure of one does not delay another. */
#ifndef CORE_NETWORK_LAUNCHER_PUSH_H
#define CORE_NETWORK_LAUNCHER_PUSH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/alarms.h"

struct engine;
struct sandbox;

enum push {
    PUSH_LIMITS, /* those in force now */
    PUSH_NAMES,  /* what the names that its profile lists stand for now */
    PUSH_COUNT,
};

enum { PUSH_EVERY_MS = 100, PUSH_AGAIN_MAX_MS = 10000 };

struct push_schedule {
    struct push_state {
        bool is_due, is_sent; /* sent: and not answered yet */
        unsigned failures;    /* in a row */
        uint64_t next_ms;     /* not before */
    } subjects[PUSH_COUNT];
};

/* What one sandbox's network needs of the daemon. */
struct network_state {
    struct push_schedule pushes;
    uint64_t names_due_ms; /* until when its start waits for what names stand for; 0: it does not wait */
    struct alarms alarms;  /* of refused connections */
};

struct push_timer {
    uv_timer_t timer;
    uint64_t due_ms; /* when it goes off */
};

/* ---- push_schedule.c: pure ---- */

void push_schedule_want(struct push_schedule *pushes, enum push what);
/* Whether it is to be sent now; if so it counts as sent from then on. */
bool push_schedule_begin(struct push_schedule *pushes, enum push what, uint64_t now_ms);
void push_schedule_answered(struct push_schedule *pushes, enum push what, bool failed, uint64_t now_ms);
void push_schedule_put_off(struct push_schedule *pushes, enum push what,
                           uint64_t now_ms); /* as if it had just been pushed */
bool push_schedule_is_due(const struct push_schedule *pushes);
uint64_t
push_schedule_next_ms(const struct push_schedule *pushes); /* when to begin again; UINT64_MAX: there is no need */

/* ---- launcher_push.c ---- */

int launcher_push_open(struct engine *engine);
void launcher_push_stop(struct engine *engine); /* as metering_stop */
void launcher_push(struct sandbox *sandbox, enum push what);
void launcher_push_forget(struct sandbox *sandbox); /* its node is gone */

#endif
