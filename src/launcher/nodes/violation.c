/* A node that tries forbidden calls in a loop must not fill the log, nor drown another's report. */
#include <stdio.h>
#include <string.h>

#include "jail/seccomp.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/server.h"

enum { WINDOW_MS = 1000, TOLD_PER_WINDOW = 10, DETAILED_PER_WINDOW = 4 };

static bool send_violation(struct launcher *launcher, const struct jailed_node *node, int syscall_number,
                           uint64_t count, const char *detail) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char name[SECCOMP_NAME_BYTES] = "several";
    if (syscall_number == VIOLATION_NETWORK) snprintf(name, sizeof name, "network");
    if (syscall_number == VIOLATION_BOUND) snprintf(name, sizeof name, "limit");
    if (syscall_number >= 0) seccomp_syscall_name(syscall_number, name);
    buf_append_string(&text, "violation ");
    wire_put_word(&text, node->name);
    wire_put_pair(&text, "syscall", name);
    wire_put_number(&text, "count", count);
    wire_put_pair(&text, "detail", detail);
    return server_send(launcher, &text, NULL, 0);
}

static void hold_back(struct launcher *launcher, struct violation_budget *budget, int syscall_number) {
    bool is_first = budget->held_back++ == 0;
    if (is_first)
        budget->held_back_syscall = syscall_number;
    else if (budget->held_back_syscall != syscall_number)
        budget->held_back_syscall = VIOLATION_SEVERAL;
    launcher_due_at(launcher, budget->window_start_ms + WINDOW_MS);
}

void violation_tell(struct launcher *launcher, struct jailed_node *node, int syscall_number, const char *detail) {
    struct violation_budget *budget = syscall_number == VIOLATION_NETWORK ? &node->refusals : &node->violations;
    uint64_t now_ms = clock_monotonic_ms();
    if (budget->held_back == 0 && now_ms - budget->window_start_ms >= WINDOW_MS) {
        budget->window_start_ms = now_ms;
        budget->told = 0;
    }
    if (budget->told < TOLD_PER_WINDOW && send_violation(launcher, node, syscall_number, 1, detail))
        budget->told++;
    else
        hold_back(launcher, budget, syscall_number);
}

bool violation_is_detailed(const struct jailed_node *node) {
    const struct violation_budget *budget = &node->violations;
    bool is_over = budget->held_back == 0 && clock_monotonic_ms() - budget->window_start_ms >= WINDOW_MS;
    return is_over || budget->told < DETAILED_PER_WINDOW;
}

/* The kernel tells once a second at most. One that no daemon receives is reported again, if it goes on. */
void violation_tell_bound(struct launcher *launcher, const struct jailed_node *node, const char *limit) {
    send_violation(launcher, node, VIOLATION_BOUND, 1, limit);
}

static uint64_t flush(struct launcher *launcher, const struct jailed_node *node, struct violation_budget *budget,
                      uint64_t now_ms) {
    if (budget->held_back == 0) return UINT64_MAX;
    uint64_t due_ms = budget->window_start_ms + WINDOW_MS;
    if (now_ms < due_ms) return due_ms;
    budget->window_start_ms = now_ms;
    budget->told = 1;
    if (!send_violation(launcher, node, budget->held_back_syscall, budget->held_back, "")) return now_ms + WINDOW_MS;
    budget->held_back = 0;
    return UINT64_MAX;
}

uint64_t violation_flush(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        if (!launcher->nodes.items[i].used) continue;
        struct jailed_node *node = &launcher->nodes.items[i];
        uint64_t violations_ms = flush(launcher, node, &node->violations, now_ms);
        uint64_t refusals_ms = flush(launcher, node, &node->refusals, now_ms);
        if (violations_ms < next_ms) next_ms = violations_ms;
        if (refusals_ms < next_ms) next_ms = refusals_ms;
    }
    return next_ms;
}
