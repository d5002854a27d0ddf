#include "core/limits/busy_wait.h"

static uint64_t smaller(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

void lingering_begin(struct lingering *lingering, uint64_t now_ns) {
    lingering->begun_ns = now_ns;
}

void lingering_end(struct lingering *lingering, uint64_t now_ns) {
    if (lingering->begun_ns) lingering->total_ns += smaller(now_ns - lingering->begun_ns, LINGER_US * UINT64_C(1000));
    lingering->begun_ns = 0;
}

void lingering_judge(struct lingering *lingering, uint64_t span_ns, uint64_t cpu_ns) {
    bool has_lingered = (lingering->total_ns - lingering->seen_ns) * 100 > span_ns; /* not just to the end of a call */
    bool is_busy = cpu_ns * 100 >= span_ns * LINGERING_MOST_PERCENT;
    lingering->seen_ns = lingering->total_ns;
    lingering->busy_looks = has_lingered ? lingering->busy_looks + is_busy : 0;
    lingering->is_held_up = has_lingered ? lingering->busy_looks >= LINGERING_LOOKS : is_busy;
}

uint64_t lingering_own_ns(const struct lingering *lingering, uint64_t cpu_ns, uint64_t *counted_ns) {
    uint64_t lingered_ns = lingering->total_ns - *counted_ns;
    *counted_ns = lingering->total_ns;
    return cpu_ns - smaller(cpu_ns, lingered_ns);
}
