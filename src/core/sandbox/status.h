/* status: the states of a sandbox, and the decision to start one again. Pure. */
#ifndef CORE_SANDBOX_STATUS_H
#define CORE_SANDBOX_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#define SANDBOX_STATUS_LIST(X)                                                                                         \
    X(INITIALIZING, "initializing")                                                                                    \
    X(COMPILING, "compiling")                                                                                          \
    X(STARTING, "starting")                                                                                            \
    X(RUNNING, "running")                                                                                              \
    X(RELOADING, "reloading")                                                                                          \
    X(STOPPING, "stopping")                                                                                            \
    X(STOPPED, "stopped")                                                                                              \
    X(ERROR, "error")

enum sandbox_status {
#define X(name, text) STATUS_##name,
    SANDBOX_STATUS_LIST(X)
#undef X
        STATUS_COUNT
};

const char *status_name(enum sandbox_status status);
bool status_find(const char *name, enum sandbox_status *ret);
bool status_may_follow(enum sandbox_status from, enum sandbox_status to); /* the table of transitions */

enum restart_kind { RESTART_NEVER, RESTART_ON_FAILURE, RESTART_ALWAYS };

struct restart_policy {
    enum restart_kind kind;
    uint32_t max; /* restarts in a row; 0: no bound */
};

bool restart_policy_parse(const char *text, struct restart_policy *ret);
/* Whether to start again after an end, and after how long: 0.1 s doubling to 30 s. Pure. */
bool restart_policy_decide(const struct restart_policy *policy, bool crashed, uint32_t restarts_in_a_row,
                           uint64_t *ret_delay_ms);

#endif
