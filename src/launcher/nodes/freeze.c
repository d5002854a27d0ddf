/* Nodes are frozen and thawed: by the kernel's freezer, else by signals (stop.c). Either takes a turn of each thread,
   and a hostile node or a busy host can draw that out. So the launcher asks for it, checks a little at a time, and
   answers from the loop. */
#include <stdlib.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/server.h"

enum {
    PATIENCE_MS = 1000, /* a second is a host's that is very busy */
    FIRST_WAIT_MS = 1,  /* an idle node is frozen by then */
    CHECK_AGAIN_MS = 1,
    SLICE_US = 2000,  /* of all checks in one turn of the loop */
    CLEAN_CHECKS = 2, /* a check may miss a process that gets another parent meanwhile, but not twice */
    WAITERS_MAX = 8,
};

struct freezing {
    bool frozen; /* what is wanted */
    uint64_t deadline_ms;
    struct request waiters[WAITERS_MAX];
    size_t waiter_count;
    struct jailed_stop_check *check; /* NULL: the freezer tells */
    unsigned clean_checks;
};

static void freezing_free(struct freezing *freezing) {
    jailed_stop_check_free(freezing->check);
    free(freezing);
}

bool jailed_is_frozen(const struct launcher *launcher, const struct jailed_node *node) {
    if (launcher->cgroups.has_freezer) return cgroup_is_frozen(&launcher->cgroups, node->name);
    pid_t program = jailed_program(node);
    return program > 0 && process_is_stopped(program);
}

void freezing_hold_up_yielding(const struct launcher *launcher, const struct jailed_node *node, bool held_up) {
    if (node->yields) cgroup_set_yielding(&launcher->cgroups, node->name, !held_up, NULL);
}

/* Undo a partial freeze. */
static void go_back(const struct launcher *launcher, const struct jailed_node *node) {
    if (launcher->cgroups.has_freezer)
        cgroup_freeze(&launcher->cgroups, node->name, false, 0, NULL);
    else
        jailed_signal(node, false);
}

static void finish(struct launcher *launcher, struct jailed_node *node, const struct error *error) {
    struct freezing *freezing = node->freezing;
    node->freezing = NULL; /* an answer that can't be sent ends the link, which would come back here */
    if (error && freezing->frozen) go_back(launcher, node);
    node->frozen = error ? !freezing->frozen && jailed_is_frozen(launcher, node) : freezing->frozen;
    if (freezing->frozen) freezing_hold_up_yielding(launcher, node, false);
    for (size_t i = 0; i < freezing->waiter_count; i++) {
        if (error)
            server_fail(launcher, freezing->waiters[i], error);
        else
            server_ok(launcher, freezing->waiters[i], "", NULL, 0);
    }
    freezing_free(freezing);
}

void freezing_call_off(struct launcher *launcher, struct jailed_node *node) {
    struct error error;
    if (!node->freezing) return;
    error_set(&error, E_CONFLICT, "node %s is not to %s any more", node->name,
              node->freezing->frozen ? "freeze" : "thaw");
    finish(launcher, node, &error);
}

/* Every process is stopped before each check: a process that another has continued stops again. */
static void check(struct freezing *freezing, const struct jailed_node *node, uint64_t until_us, bool *ret_is_done) {
    bool all_stopped;
    if (!jailed_stop_check_on(freezing->check, node, until_us, &all_stopped)) return;
    freezing->clean_checks = all_stopped ? freezing->clean_checks + 1 : 0;
    *ret_is_done = freezing->clean_checks == CLEAN_CHECKS;
    if (!*ret_is_done) jailed_signal(node, true);
}

/* Whether it is frozen, or thawed, by now; until then it may be waited for. */
static int check_again(const struct launcher *launcher, const struct jailed_node *node, uint32_t wait_ms,
                       uint64_t until_us, bool *ret_is_done, struct error *reterr) {
    struct freezing *freezing = node->freezing;
    if (freezing->check) {
        check(freezing, node, until_us, ret_is_done);
        return 0;
    }
    int failed = cgroup_freeze(&launcher->cgroups, node->name, freezing->frozen, wait_ms, reterr);
    *ret_is_done = failed == 0;
    return failed == -E_TIMEOUT ? 0 : failed;
}

static void advance(struct launcher *launcher, struct jailed_node *node, uint32_t wait_ms, uint64_t until_us) {
    const struct freezing *freezing = node->freezing;
    struct error error;
    bool is_done = false;
    int failed = check_again(launcher, node, wait_ms, until_us, &is_done, &error);
    if (!failed && !is_done && clock_monotonic_ms() >= freezing->deadline_ms)
        failed = error_set(&error, E_TIMEOUT, "node %s did not %s within %d ms", node->name,
                           freezing->frozen ? "freeze" : "thaw", PATIENCE_MS);
    if (failed || is_done) finish(launcher, node, failed ? &error : NULL);
}

static int start(struct launcher *launcher, struct jailed_node *node, bool frozen, struct error *reterr) {
    bool checks = !launcher->cgroups.has_freezer;
    struct freezing *freezing = calloc(1, sizeof *freezing);
    if (freezing && checks) freezing->check = jailed_stop_check_new();
    if (!freezing || (checks && !freezing->check)) {
        free(freezing);
        return error_set(reterr, E_NO_MEMORY, "no memory to freeze node %s", node->name);
    }
    freezing->frozen = frozen;
    freezing->deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
    node->freezing = freezing;
    if (frozen) freezing_hold_up_yielding(launcher, node, true);
    if (checks) jailed_signal(node, true);
    return 0;
}

static int join(struct freezing *freezing, struct request request, struct error *reterr) {
    if (freezing->waiter_count == WAITERS_MAX)
        return error_set(reterr, E_CONFLICT, "%d requests wait for that already", WAITERS_MAX);
    freezing->waiters[freezing->waiter_count++] = request;
    return 0;
}

/* Signals continue all processes at once: there is nothing to check. */
static void let_go_on(struct launcher *launcher, struct jailed_node *node, struct request request) {
    jailed_signal(node, false);
    node->frozen = false;
    server_ok(launcher, request, "", NULL, 0);
}

void freezing_begin(struct launcher *launcher, struct jailed_node *node, bool frozen, struct request request) {
    struct error error;
    int failed = 0;
    if (node->freezing && node->freezing->frozen != frozen) freezing_call_off(launcher, node);
    if (!frozen && !launcher->cgroups.has_freezer) {
        let_go_on(launcher, node, request);
        return;
    }
    bool is_first = !node->freezing;
    if (node->burial.under_way)
        failed = error_set(&error, E_CONFLICT, "node %s is being buried", node->name);
    else if (is_first)
        failed = start(launcher, node, frozen, &error);
    if (!failed) failed = join(node->freezing, request, &error);
    if (failed) {
        server_fail(launcher, request, &error);
        return;
    }
    if (is_first) advance(launcher, node, FIRST_WAIT_MS, clock_monotonic_us() + SLICE_US);
    launcher_due_at(launcher, clock_monotonic_ms() + CHECK_AGAIN_MS);
}

uint64_t freezing_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t until_us = clock_monotonic_us() + SLICE_US;
    bool some_left = false;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        if (node->used && node->freezing) advance(launcher, node, 0, until_us);
        some_left |= node->used && node->freezing;
    }
    return some_left ? now_ms + CHECK_AGAIN_MS : UINT64_MAX;
}
