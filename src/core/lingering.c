#include "core/lingering.h"

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

uint64_t lingering_own_ns(const struct lingering *lingering, uint64_t cpu_ns, uint64_t *counted_ns) {
    uint64_t lingered_ns = lingering->total_ns - *counted_ns;
    *counted_ns = lingering->total_ns;
    return cpu_ns - smaller(cpu_ns, lingered_ns);
}
