/* telling: what the launcher is to hold a running node to. It is told until it has heard, each subject a few times a
   second at most, and after a failure later each time: what it refuses of one is no reason to be late with another. */
#ifndef CORE_NETWORK_LAUNCHER_PUSH_H
#define CORE_NETWORK_LAUNCHER_PUSH_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct sandbox;

enum tell {
    TELL_LIMITS, /* those in force now */
    TELL_NAMES,  /* what the names that its profile lists stand for now */
    TELL_COUNT,
};

enum { TELL_EVERY_MS = 100, TELL_AGAIN_MAX_MS = 10000 };

struct telling {
    struct tell_state {
        bool is_due, is_sent; /* sent: and not answered yet */
        unsigned failures;    /* in a row */
        uint64_t next_ms;     /* not before */
    } subjects[TELL_COUNT];
};

/* ---- push_schedule.c: pure ---- */

void telling_want(struct telling *telling, enum tell what);
/* Whether it is to be sent now; if so it counts as sent from then on. */
bool telling_begin(struct telling *telling, enum tell what, uint64_t now_ms);
void telling_answered(struct telling *telling, enum tell what, bool failed, uint64_t now_ms);
void telling_put_off(struct telling *telling, enum tell what, uint64_t now_ms); /* as if it had just been told */
bool telling_is_due(const struct telling *telling);
uint64_t telling_next_ms(const struct telling *telling); /* when to begin again; UINT64_MAX: there is no need */

/* ---- launcher_push.c ---- */

int tell_open(struct engine *engine);
void tell_stop(struct engine *engine); /* as metering_stop */
void tell_launcher(struct sandbox *sandbox, enum tell what);
void tell_forget(struct sandbox *sandbox); /* its node is gone */

#endif
