/* When a delivery is tried again, and after which pause. Pure functions. */
#include "webhook/webhook_internal.h"

const struct webhook_settings webhook_defaults = {
    .queue_max = 1024,
    .timeout_ms = 10000,
    .retry = {.tries_max = 8, .first_ms = 1000, .max_ms = 60000},
};

static const char *const state_names[] = {
#define X(name, text) [WEBHOOK_##name] = text,
    WEBHOOK_STATE_LIST(X)
#undef X
};

const char *webhook_state_name(enum webhook_state state) {
    return state_names[state];
}

/* With any other status the receiver has refused the delivery, and another try would not change that. */
enum webhook_verdict webhook_judge(long status) {
    if (status >= 200 && status < 300) return WEBHOOK_ARRIVED;
    bool may_pass = status == 0 || status == 408 || status == 425 || status == 429 || status >= 500;
    return may_pass ? WEBHOOK_TRY_AGAIN : WEBHOOK_UNWANTED;
}

uint64_t webhook_pause_ms(const struct webhook_retry *retry, uint32_t failures, uint64_t asked_ms) {
    uint64_t pause_ms = backoff_ms(retry->first_ms, retry->max_ms, failures > 0 ? failures - 1 : 0);
    if (asked_ms > pause_ms) pause_ms = asked_ms;
    return pause_ms < retry->max_ms ? pause_ms : retry->max_ms;
}
