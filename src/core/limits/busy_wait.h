/* busy_wait: how long a node that is asked again and again busy-waits after an answer, and how much of its CPU time
   that was. The daemon asks for the busy-wait, so its CPU time must not count against the node. */
#ifndef CORE_LIMITS_BUSY_WAIT_H
#define CORE_LIMITS_BUSY_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BUSY_WAIT_US = 150,
    BUSY_WAIT_LOOKS = 32,        /* at one that seems busy, before it is looked at without busy-waiting */
    BUSY_WAIT_MOST_PERCENT = 50, /* of a core: a node that works as much by itself needs no busy-wait */
};

/* All zeros to begin with. */
struct busy_wait {
    uint64_t begun_ns;   /* 0: it sleeps, or has been asked again */
    uint64_t total_ns;   /* at most: another process may have had the processor instead */
    uint64_t seen_ns;    /* of that, by the last look */
    unsigned busy_looks; /* since it was looked at without busy-waiting */
    bool is_held_up;     /* until a look at it without says that it is calm */
};

void busy_wait_begin(struct busy_wait *busy_wait, uint64_t now_ns); /* it has answered */
void busy_wait_end(struct busy_wait *busy_wait, uint64_t now_ns);   /* it is asked again */

/* For each look at what it used: a busy-wait may hide the node's own work. So a node that seems busy is looked at
   without busy-waiting now and then, and does not busy-wait while that look shows work of its own. */
void busy_wait_judge(struct busy_wait *busy_wait, uint64_t span_ns, uint64_t cpu_ns);

/* What of its CPU time, since busy_wait->total_ns was *counted_ns, was its own; that is counted then. */
uint64_t busy_wait_own_ns(const struct busy_wait *busy_wait, uint64_t cpu_ns, uint64_t *counted_ns);

#endif
