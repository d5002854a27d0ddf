/* telling: what the launcher is to hold a running node to. It is told until it has heard, all of it together, a few
   times a second at most, and after a failure later each time. */
#ifndef CORE_TELLING_H
#define CORE_TELLING_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct sandbox;

enum tell {
    TELL_LIMITS = 1, /* those in force now */
    TELL_NAMES = 2,  /* what the names that its profile lists stand for now */
};

enum { TELL_EVERY_MS = 100, TELL_AGAIN_MAX_MS = 10000 };

struct telling {
    unsigned due;      /* enum tell */
    unsigned sent;     /* and not answered yet */
    bool has_failed;   /* some of what was sent */
    unsigned failures; /* in a row */
    uint64_t next_ms;  /* not before */
};

/* ---- telling.c: pure ---- */

/* What is to be sent now, which counts as sent from then on; 0: nothing, or not yet. */
unsigned telling_begin(struct telling *telling, uint64_t now_ms);
void telling_answered(struct telling *telling, enum tell what, bool failed, uint64_t now_ms);
uint64_t telling_next_ms(const struct telling *telling); /* when to begin again; UINT64_MAX: there is no need */

/* ---- tell_launcher.c ---- */

int tell_open(struct engine *engine);
void tell_stop(struct engine *engine); /* as metering_stop */
void tell_launcher(struct sandbox *sandbox, enum tell what);
void tell_forget(struct sandbox *sandbox); /* its node is gone */

#endif
