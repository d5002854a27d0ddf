#include "core/telling.h"

static uint64_t pause_ms(unsigned failures) {
    uint64_t pause = TELL_EVERY_MS;
    for (; failures > 0 && pause < TELL_AGAIN_MAX_MS; failures--) pause *= 2;
    return pause < TELL_AGAIN_MAX_MS ? pause : TELL_AGAIN_MAX_MS;
}

unsigned telling_begin(struct telling *telling, uint64_t now_ms) {
    if (telling->sent || now_ms < telling->next_ms) return 0;
    telling->sent = telling->due;
    telling->due = 0;
    telling->has_failed = false;
    return telling->sent;
}

void telling_answered(struct telling *telling, enum tell what, bool failed, uint64_t now_ms) {
    telling->sent &= ~(unsigned)what;
    if (failed) telling->due |= (unsigned)what;
    telling->has_failed |= failed;
    if (telling->sent) return;
    telling->failures = telling->has_failed ? telling->failures + 1 : 0;
    telling->next_ms = now_ms + pause_ms(telling->failures);
}

uint64_t telling_next_ms(const struct telling *telling) {
    return telling->due && !telling->sent ? telling->next_ms : UINT64_MAX;
}
