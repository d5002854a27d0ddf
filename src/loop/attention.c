/* How long the loop really listened. A turn counts for as long as the loop meant to wait, and a little more for what it
   did then: the rest of a longer turn is the daemon's own lateness, whatever caused it. */
#include "loop/loop.h"

enum { WORK_NS = 100 * 1000 * 1000 };

void attention_begin(struct attention *attention, uint64_t now_ns) {
    *attention = (struct attention){.polled_at_ns = now_ns};
}

static uint64_t attended_ns(const struct attention *attention, uint64_t now_ns) {
    uint64_t passed_ns = now_ns > attention->polled_at_ns ? now_ns - attention->polled_at_ns : 0;
    uint64_t most_ns = WORK_NS + (attention->wait_max_ns > 0 ? (uint64_t)attention->wait_max_ns : 0);
    return passed_ns < most_ns ? passed_ns : most_ns;
}

void attention_poll(struct attention *attention, uint64_t now_ns, int wait_max_ms) {
    attention->total_ns += attended_ns(attention, now_ns);
    attention->polled_at_ns = now_ns;
    attention->wait_max_ns = (int64_t)wait_max_ms * 1000000;
}

uint64_t attention_ms(const struct attention *attention, uint64_t now_ns) {
    return (attention->total_ns + attended_ns(attention, now_ns)) / 1000000;
}
