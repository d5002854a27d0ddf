/* The CPU time that nodes spend in busy-waits after answers, apart from their own work. Pure. */
#include "core/limits/busy_wait.h"

static uint64_t smaller(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

void busy_wait_begin(struct busy_wait *busy_wait, uint64_t now_ns) {
    busy_wait->begun_ns = now_ns;
}

void busy_wait_end(struct busy_wait *busy_wait, uint64_t now_ns) {
    if (busy_wait->begun_ns)
        busy_wait->total_ns += smaller(now_ns - busy_wait->begun_ns, BUSY_WAIT_US * UINT64_C(1000));
    busy_wait->begun_ns = 0;
}

void busy_wait_judge(struct busy_wait *busy_wait, uint64_t span_ns, uint64_t cpu_ns) {
    bool has_waited = (busy_wait->total_ns - busy_wait->seen_ns) * 100 > span_ns; /* not just to the end of a call */
    bool is_busy = cpu_ns * 100 >= span_ns * BUSY_WAIT_MOST_PERCENT;
    busy_wait->seen_ns = busy_wait->total_ns;
    busy_wait->busy_looks = has_waited ? busy_wait->busy_looks + is_busy : 0;
    busy_wait->is_held_up = has_waited ? busy_wait->busy_looks >= BUSY_WAIT_LOOKS : is_busy;
}

uint64_t busy_wait_own_ns(const struct busy_wait *busy_wait, uint64_t cpu_ns, uint64_t *counted_ns) {
    uint64_t waited_ns = busy_wait->total_ns - *counted_ns;
    *counted_ns = busy_wait->total_ns;
    return cpu_ns - smaller(cpu_ns, waited_ns);
}
