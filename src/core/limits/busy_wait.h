/* How long a node that is asked again and again stays awake after an answer, and what that makes of its CPU time: what
   it was told to do must not count against it. */
#ifndef CORE_LIMITS_BUSY_WAIT_H
#define CORE_LIMITS_BUSY_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LINGER_US = 150,
    LINGERING_LOOKS = 32,        /* at one that seems busy, before it is looked at without */
    LINGERING_MOST_PERCENT = 50, /* of a core: who works as much by itself needs nothing to stay awake for */
};

/* All zeros to begin with. */
struct lingering {
    uint64_t begun_ns;   /* 0: it sleeps, or has been asked again */
    uint64_t total_ns;   /* at most: whoever shares its processor may have kept it from that */
    uint64_t seen_ns;    /* of that, by the last look */
    unsigned busy_looks; /* since it was looked at without lingering */
    bool is_held_up;     /* until a look at it without says that it is calm */
};

void lingering_begin(struct lingering *lingering, uint64_t now_ns); /* it has answered */
void lingering_end(struct lingering *lingering, uint64_t now_ns);   /* it is asked again */

/* For each look at what it used: one that lingers may hide work of its own behind that, so whoever seems busy is looked
   at without lingering now and then, and does none while that is its own work. */
void lingering_judge(struct lingering *lingering, uint64_t span_ns, uint64_t cpu_ns);

/* What of its CPU time, since lingering->total_ns was *counted_ns, was its own; that is counted then. */
uint64_t lingering_own_ns(const struct lingering *lingering, uint64_t cpu_ns, uint64_t *counted_ns);

#endif
