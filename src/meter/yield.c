/* Decides which sandboxes yield the CPU: those at full load, if others are active. Without active ones none yields,
   because the kernel treats a CPU that runs only yielding tasks as idle and moves other work of the host there. */
#include "meter/meter.h"

enum { NS_PER_MS = 1000000 };

/* On a full machine a sandbox may want more than it gets. The others use less than FLAT_OUT of a core each, or they
   would yield too. So a fair share is less than that, and no sandbox gets less than half of it for longer than one
   sample. */
static bool is_starved(const struct meter_work *work, uint64_t percent) {
    return work->is_machine_full && percent < METER_FLAT_OUT_PERCENT / 2;
}

static bool is_long(uint64_t ns) {
    return ns >= (uint64_t)METER_CALM_MS * NS_PER_MS;
}

void meter_pace(struct meter_pace *pace, const struct meter_work *work) {
    uint64_t percent = work->span_ns ? work->cpu_ns * 100 / work->span_ns : 0;
    bool is_flat_out = percent >= METER_FLAT_OUT_PERCENT;
    bool stirs = work->cpu_ns * 1000 > work->span_ns * METER_STIR_PER_MILLE;
    pace->calm_ns = is_flat_out ? 0 : pace->calm_ns + work->span_ns;
    if (is_flat_out)
        pace->is_flat_out = true;
    else if (is_starved(work, percent) || is_long(pace->calm_ns))
        pace->is_flat_out = false;
    if (pace->is_flat_out || !work->is_brief) pace->stirs = stirs && !pace->is_flat_out ? pace->stirs + 1 : 0;
}

bool meter_is_company(const struct meter_pace *pace) {
    return pace->stirs >= METER_STIRS;
}

void meter_company(struct meter_company *company, uint64_t span_ns, bool is_any) {
    company->alone_ns = is_any ? 0 : company->alone_ns + span_ns;
    company->is_there = is_any || (company->is_there && !is_long(company->alone_ns));
}
