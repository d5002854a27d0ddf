/* A circuit breaker: failures of one kind within a time open it, and it rests for a while. Pure. */
#include "base/schedule/breaker.h"

static void open_it(struct breaker *breaker, uint64_t now_ms) {
    breaker->is_open = true;
    breaker->opened_ms = now_ms;
}

static bool failed_while_open(struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms) {
    breaker->count++;
    if (breaker_rest_ms(breaker, policy, now_ms) > 0) return false;
    open_it(breaker, now_ms);
    return true;
}

bool breaker_failed(struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms) {
    if (policy->trips == 0) return false;
    if (breaker->is_open && !breaker_is_open(breaker, policy, now_ms)) *breaker = (struct breaker){0};
    breaker->last_ms = now_ms;
    if (breaker->is_open) return failed_while_open(breaker, policy, now_ms);
    if (breaker->count == 0 || now_ms - breaker->began_ms >= policy->within_ms) {
        breaker->began_ms = now_ms;
        breaker->count = 0;
    }
    if (++breaker->count < policy->trips) return false;
    open_it(breaker, now_ms);
    return true;
}

bool breaker_worked(struct breaker *breaker) {
    bool was_open = breaker->is_open;
    *breaker = (struct breaker){0};
    return was_open;
}

bool breaker_is_open(const struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms) {
    return breaker->is_open && now_ms - breaker->last_ms < policy->rest_ms + policy->within_ms;
}

uint64_t breaker_rest_ms(const struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms) {
    uint64_t rested_ms = now_ms - breaker->opened_ms;
    return breaker->is_open && rested_ms < policy->rest_ms ? policy->rest_ms - rested_ms : 0;
}
