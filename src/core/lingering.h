/* How long a node that is asked again and again stays awake after an answer, and what that makes of its CPU time: what
   it was told to do must not count against it. */
#ifndef CORE_LINGERING_H
#define CORE_LINGERING_H

#include <stdint.h>

enum { LINGER_US = 150 };

/* All zeros to begin with. */
struct lingering {
    uint64_t begun_ns; /* 0: it sleeps, or has been asked again */
    uint64_t total_ns; /* at most: whoever shares its processor may have kept it from that */
};

void lingering_begin(struct lingering *lingering, uint64_t now_ns); /* it has answered */
void lingering_end(struct lingering *lingering, uint64_t now_ns);   /* it is asked again */

/* What of its CPU time, since lingering->total_ns was *counted_ns, was its own; that is counted then. */
uint64_t lingering_own_ns(const struct lingering *lingering, uint64_t cpu_ns, uint64_t *counted_ns);

#endif
