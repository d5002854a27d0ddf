/* Decides when the daemon moves to its caller's processor, and moves it. */
#include "api/cpu_affinity.h"

#include <limits.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

bool affinity_is_due(struct cpu_affinity *affinity, bool is_together, uint64_t now_ms) {
    if (now_ms < affinity->not_before_ms) return false;
    if (affinity->needed == 0) affinity->needed = AFFINITY_APART_LEAST;
    affinity->apart = is_together ? 0 : affinity->apart + 1;
    affinity->together += is_together && affinity->together < AFFINITY_WORTH_IT;
    if (affinity->apart < affinity->needed) return false;
    bool was_worth_it = affinity->together == AFFINITY_WORTH_IT;
    unsigned more = affinity->needed * 2 < AFFINITY_APART_MOST ? affinity->needed * 2 : AFFINITY_APART_MOST;
    affinity_forget(affinity);
    affinity->needed = was_worth_it ? AFFINITY_APART_LEAST : more;
    return true;
}

void affinity_moved(struct cpu_affinity *affinity, uint64_t begun_ms, uint64_t took_us) {
    if (took_us >= AFFINITY_SLOW_US) affinity->not_before_ms = begun_ms + took_us / 1000 + AFFINITY_PAUSE_MS;
}

void affinity_forget(struct cpu_affinity *affinity) {
    *affinity = (struct cpu_affinity){.not_before_ms = affinity->not_before_ms};
}

unsigned affinity_own(void) {
    int processor = sched_getcpu();
    return processor < 0 ? UINT_MAX : (unsigned)processor;
}

/* A thread that may run on all processors may also run on those that are added later. */
static bool is_every_processor(const cpu_set_t *allowed) {
    return CPU_COUNT(allowed) >= sysconf(_SC_NPROCESSORS_ONLN);
}

/* A thread that may run on one processor only is moved there at once. */
static void move(unsigned processor) {
    cpu_set_t allowed, one;
    if (processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) < 0) return;
    if (!CPU_ISSET(processor, &allowed)) return;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (is_every_processor(&allowed)) memset(&allowed, 0xff, sizeof allowed);
    if (sched_setaffinity(0, sizeof one, &one) < 0 || sched_setaffinity(0, sizeof allowed, &allowed) == 0) return;
    /* Some of the processors have been removed meanwhile. */
    memset(&allowed, 0xff, sizeof allowed);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

uint64_t affinity_move_us(unsigned processor) {
    uint64_t begun_us = clock_monotonic_us();
    move(processor);
    return clock_monotonic_us() - begun_us;
}
