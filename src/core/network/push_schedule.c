#include "core/network/launcher_push.h"

#include "base/base.h"

void telling_want(struct telling *telling, enum tell what) {
    telling->subjects[what].is_due = true;
}

bool telling_begin(struct telling *telling, enum tell what, uint64_t now_ms) {
    struct tell_state *told = &telling->subjects[what];
    if (!told->is_due || told->is_sent || now_ms < told->next_ms) return false;
    told->is_due = false;
    told->is_sent = true;
    return true;
}

void telling_answered(struct telling *telling, enum tell what, bool failed, uint64_t now_ms) {
    struct tell_state *told = &telling->subjects[what];
    told->is_sent = false;
    told->is_due |= failed;
    told->failures = failed ? told->failures + 1 : 0;
    told->next_ms = now_ms + backoff_ms(TELL_EVERY_MS, TELL_AGAIN_MAX_MS, told->failures);
}

void telling_put_off(struct telling *telling, enum tell what, uint64_t now_ms) {
    struct tell_state *told = &telling->subjects[what];
    if (told->next_ms <= now_ms) told->next_ms = now_ms + TELL_EVERY_MS;
}

bool telling_is_due(const struct telling *telling) {
    for (size_t i = 0; i < TELL_COUNT; i++)
        if (telling->subjects[i].is_due) return true;
    return false;
}

uint64_t telling_next_ms(const struct telling *telling) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < TELL_COUNT; i++) {
        const struct tell_state *told = &telling->subjects[i];
        if (told->is_due && !told->is_sent && told->next_ms < next_ms) next_ms = told->next_ms;
    }
    return next_ms;
}
