/* Who works flat out lets the others go first. */
#include "meter/meter.h"

enum { NS_PER_MS = 1000000 };

/* On a full machine it may want more than it gets. The others use less than a core's FLAT_OUT each, or they would yield
   too: so a fair share is less than that, and half of it is what nobody falls below for longer than a look. */
static bool is_starved(const struct meter_work *work, uint64_t percent) {
    return work->is_machine_full && percent < METER_FLAT_OUT_PERCENT / 2;
}

bool meter_yields(struct meter_yield *yield, const struct meter_work *work) {
    uint64_t percent = work->span_ns ? work->cpu_ns * 100 / work->span_ns : 0;
    yield->calm_ns = percent >= METER_FLAT_OUT_PERCENT ? 0 : yield->calm_ns + work->span_ns;
    if (percent >= METER_FLAT_OUT_PERCENT)
        yield->yields = true;
    else if (is_starved(work, percent) || yield->calm_ns >= (uint64_t)METER_CALM_MS * NS_PER_MS)
        yield->yields = false;
    return yield->yields;
}
