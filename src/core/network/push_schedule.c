/* When to push a subject to the launcher: rate limit and back-off, one state for each subject. Pure. */
#include "core/network/launcher_push.h"

#include "base/base.h"

void push_schedule_want(struct push_schedule *pushes, enum push what) {
    pushes->subjects[what].is_due = true;
}

bool push_schedule_begin(struct push_schedule *pushes, enum push what, uint64_t now_ms) {
    struct push_state *state = &pushes->subjects[what];
    if (!state->is_due || state->is_sent || now_ms < state->next_ms) return false;
    state->is_due = false;
    state->is_sent = true;
    return true;
}

void push_schedule_answered(struct push_schedule *pushes, enum push what, bool failed, uint64_t now_ms) {
    struct push_state *state = &pushes->subjects[what];
    state->is_sent = false;
    state->is_due |= failed;
    state->failures = failed ? state->failures + 1 : 0;
    state->next_ms = now_ms + backoff_ms(PUSH_EVERY_MS, PUSH_AGAIN_MAX_MS, state->failures);
}

void push_schedule_put_off(struct push_schedule *pushes, enum push what, uint64_t now_ms) {
    struct push_state *state = &pushes->subjects[what];
    if (state->next_ms <= now_ms) state->next_ms = now_ms + PUSH_EVERY_MS;
}

bool push_schedule_is_due(const struct push_schedule *pushes) {
    for (size_t i = 0; i < PUSH_COUNT; i++)
        if (pushes->subjects[i].is_due) return true;
    return false;
}

uint64_t push_schedule_next_ms(const struct push_schedule *pushes) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < PUSH_COUNT; i++) {
        const struct push_state *state = &pushes->subjects[i];
        if (state->is_due && !state->is_sent && state->next_ms < next_ms) next_ms = state->next_ms;
    }
    return next_ms;
}
