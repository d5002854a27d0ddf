/* The state machine of a sandbox, and when to start one again: tables and pure decisions. */
#include <string.h>

#include "core/core_internal.h"

enum {
    RESTART_FIRST_MS = 100, /* then twice as long each time */
    RESTART_MOST_MS = 30000,
};

#define BIT(name) (1u << STATUS_##name)

static const char *const names[STATUS_COUNT] = {
#define X(name, text) [STATUS_##name] = text,
    SANDBOX_STATUS_LIST(X)
#undef X
};

static const unsigned followers[STATUS_COUNT] = {
    [STATUS_INITIALIZING] = BIT(COMPILING) | BIT(STARTING) | BIT(STOPPING) | BIT(ERROR),
    [STATUS_COMPILING] = BIT(STARTING) | BIT(STOPPING) | BIT(ERROR),
    [STATUS_STARTING] = BIT(RUNNING) | BIT(STOPPING) | BIT(ERROR),
    [STATUS_RUNNING] = BIT(RELOADING) | BIT(STOPPING) | BIT(STOPPED) | BIT(ERROR),
    [STATUS_RELOADING] = BIT(RUNNING) | BIT(STOPPING) | BIT(ERROR),
    [STATUS_STOPPING] = BIT(STOPPED) | BIT(STARTING) | BIT(ERROR),
    [STATUS_STOPPED] = BIT(STARTING) | BIT(STOPPING) | BIT(ERROR),
    [STATUS_ERROR] = BIT(STARTING) | BIT(STOPPING),
};

const char *status_name(enum sandbox_status status) {
    return names[status];
}

bool status_find(const char *name, enum sandbox_status *ret) {
    for (int i = 0; i < STATUS_COUNT; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *ret = (enum sandbox_status)i;
        return true;
    }
    return false;
}

bool status_may_follow(enum sandbox_status from, enum sandbox_status to) {
    return from == to || (followers[from] & 1u << to);
}

bool restart_policy_parse(const char *text, struct restart_policy *ret) {
    uint64_t max;
    if (strcmp(text, "never") == 0)
        *ret = (struct restart_policy){RESTART_NEVER, 0};
    else if (strcmp(text, "always") == 0)
        *ret = (struct restart_policy){RESTART_ALWAYS, 0};
    else if (strcmp(text, "on-failure") == 0)
        *ret = (struct restart_policy){RESTART_ON_FAILURE, 0};
    else if (string_starts(text, "on-failure:") && parse_u64(text + 11, &max) && max > 0 && max <= UINT32_MAX)
        *ret = (struct restart_policy){RESTART_ON_FAILURE, (uint32_t)max};
    else
        return false;
    return true;
}

bool restart_policy_decide(const struct restart_policy *policy, bool crashed, uint32_t restarts_in_a_row,
                           uint64_t *ret_delay_ms) {
    bool wanted = policy->kind == RESTART_ALWAYS || (policy->kind == RESTART_ON_FAILURE && crashed);
    if (!wanted || (policy->max && restarts_in_a_row >= policy->max)) return false;
    *ret_delay_ms = backoff_ms(RESTART_FIRST_MS, RESTART_MOST_MS, restarts_in_a_row);
    return true;
}
