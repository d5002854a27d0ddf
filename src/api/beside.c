#include "api/beside.h"

#include <limits.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

bool beside_is_due(struct beside *beside, bool is_together, uint64_t now_ms) {
    if (now_ms < beside->not_before_ms) return false;
    if (beside->needed == 0) beside->needed = BESIDE_APART_LEAST;
    beside->apart = is_together ? 0 : beside->apart + 1;
    beside->together += is_together && beside->together < BESIDE_WORTH_IT;
    if (beside->apart < beside->needed) return false;
    bool was_worth_it = beside->together == BESIDE_WORTH_IT;
    unsigned more = beside->needed * 2 < BESIDE_APART_MOST ? beside->needed * 2 : BESIDE_APART_MOST;
    beside_forget(beside);
    beside->needed = was_worth_it ? BESIDE_APART_LEAST : more;
    return true;
}

void beside_moved(struct beside *beside, uint64_t begun_ms, uint64_t took_us) {
    if (took_us >= BESIDE_SLOW_US) beside->not_before_ms = begun_ms + took_us / 1000 + BESIDE_PAUSE_MS;
}

void beside_forget(struct beside *beside) {
    *beside = (struct beside){.not_before_ms = beside->not_before_ms};
}

unsigned beside_own(void) {
    int processor = sched_getcpu();
    return processor < 0 ? UINT_MAX : (unsigned)processor;
}

/* Who may run on all processors may do so on those that are added later. */
static bool is_every_processor(const cpu_set_t *allowed) {
    return CPU_COUNT(allowed) >= sysconf(_SC_NPROCESSORS_ONLN);
}

/* Being allowed nowhere else moves it there at once. */
static void move(unsigned processor) {
    cpu_set_t allowed, one;
    if (processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) < 0) return;
    if (!CPU_ISSET(processor, &allowed)) return;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (is_every_processor(&allowed)) memset(&allowed, 0xff, sizeof allowed);
    if (sched_setaffinity(0, sizeof one, &one) < 0 || sched_setaffinity(0, sizeof allowed, &allowed) == 0) return;
    /* Some of them have gone meanwhile. */
    memset(&allowed, 0xff, sizeof allowed);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

uint64_t beside_move_us(unsigned processor) {
    uint64_t begun_us = clock_monotonic_us();
    move(processor);
    return clock_monotonic_us() - begun_us;
}
