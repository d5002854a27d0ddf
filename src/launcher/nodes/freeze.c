/* Nodes that are to stand still, or to go on: by the kernel's freezer, else by signals (node_stop.c). Either takes a
   turn of each thread, and so as long as a node that is hostile or a host that is busy lets it: it is asked for,
   looked at a little at a time, and answered from the loop. */
#include <stdlib.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/server.h"

enum {
    PATIENCE_MS = 1000, /* a second is a host's that is very busy */
    FIRST_WAIT_MS = 1,  /* who idles stands still by then */
    LOOK_AGAIN_MS = 1,
    SLICE_US = 2000, /* of all looks in one turn of the loop */
    CLEAN_LOOKS = 2, /* who gets another parent during a look may be missed by it, but not again after another stop */
    WAITERS_MAX = 8,
};

struct standstill {
    bool frozen; /* what is wanted */
    uint64_t deadline_ms;
    struct request waiters[WAITERS_MAX];
    size_t waiter_count;
    struct node_look *look; /* NULL: the freezer tells */
    unsigned clean_looks;
};

static void standstill_free(struct standstill *standstill) {
    node_look_free(standstill->look);
    free(standstill);
}

bool node_stands_still(const struct launcher *launcher, const struct launcher_node *node) {
    if (launcher->cgroups.has_freezer) return cgroup_is_frozen(&launcher->cgroups, node->name);
    pid_t program = node_program(node);
    return program > 0 && process_is_stopped(program);
}

void standstill_hold_up_yielding(const struct launcher *launcher, const struct launcher_node *node, bool held_up) {
    if (node->yields) cgroup_set_yielding(&launcher->cgroups, node->name, !held_up, NULL);
}

/* Nobody has asked for half of it. */
static void go_back(const struct launcher *launcher, const struct launcher_node *node) {
    if (launcher->cgroups.has_freezer)
        cgroup_freeze(&launcher->cgroups, node->name, false, 0, NULL);
    else
        node_signal(node, false);
}

static void finish(struct launcher *launcher, struct launcher_node *node, const struct error *error) {
    struct standstill *standstill = node->standstill;
    node->standstill = NULL; /* an answer that can't be sent ends the link, which would come back here */
    if (error && standstill->frozen) go_back(launcher, node);
    node->frozen = error ? !standstill->frozen && node_stands_still(launcher, node) : standstill->frozen;
    if (standstill->frozen) standstill_hold_up_yielding(launcher, node, false);
    for (size_t i = 0; i < standstill->waiter_count; i++) {
        if (error)
            server_fail(launcher, standstill->waiters[i], error);
        else
            server_ok(launcher, standstill->waiters[i], "", NULL, 0);
    }
    standstill_free(standstill);
}

void standstill_call_off(struct launcher *launcher, struct launcher_node *node) {
    struct error error;
    if (!node->standstill) return;
    error_set(&error, E_CONFLICT, "node %s is not to %s any more", node->name,
              node->standstill->frozen ? "stand still" : "go on");
    finish(launcher, node, &error);
}

/* Everybody is told to stop before each look: what another let go on meanwhile stops again. */
static void look(struct standstill *standstill, const struct launcher_node *node, uint64_t until_us,
                 bool *ret_is_done) {
    bool all_stopped;
    if (!node_look_on(standstill->look, node, until_us, &all_stopped)) return;
    standstill->clean_looks = all_stopped ? standstill->clean_looks + 1 : 0;
    *ret_is_done = standstill->clean_looks == CLEAN_LOOKS;
    if (!*ret_is_done) node_signal(node, true);
}

/* Whether it stands still, or goes on, by now; until then it may be waited for. */
static int look_again(const struct launcher *launcher, const struct launcher_node *node, uint32_t wait_ms,
                      uint64_t until_us, bool *ret_is_done, struct error *reterr) {
    struct standstill *standstill = node->standstill;
    if (standstill->look) {
        look(standstill, node, until_us, ret_is_done);
        return 0;
    }
    int failed = cgroup_freeze(&launcher->cgroups, node->name, standstill->frozen, wait_ms, reterr);
    *ret_is_done = failed == 0;
    return failed == -E_TIMEOUT ? 0 : failed;
}

static void advance(struct launcher *launcher, struct launcher_node *node, uint32_t wait_ms, uint64_t until_us) {
    const struct standstill *standstill = node->standstill;
    struct error error;
    bool is_done = false;
    int failed = look_again(launcher, node, wait_ms, until_us, &is_done, &error);
    if (!failed && !is_done && clock_monotonic_ms() >= standstill->deadline_ms)
        failed = error_set(&error, E_TIMEOUT, "node %s did not %s within %d ms", node->name,
                           standstill->frozen ? "stand still" : "go on", PATIENCE_MS);
    if (failed || is_done) finish(launcher, node, failed ? &error : NULL);
}

static int start(struct launcher *launcher, struct launcher_node *node, bool frozen, struct error *reterr) {
    bool looks = !launcher->cgroups.has_freezer;
    struct standstill *standstill = calloc(1, sizeof *standstill);
    if (standstill && looks) standstill->look = node_look_new();
    if (!standstill || (looks && !standstill->look)) {
        free(standstill);
        return error_set(reterr, E_NO_MEMORY, "no memory to have node %s stand still", node->name);
    }
    standstill->frozen = frozen;
    standstill->deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
    node->standstill = standstill;
    if (frozen) standstill_hold_up_yielding(launcher, node, true);
    if (looks) node_signal(node, true);
    return 0;
}

static int join(struct standstill *standstill, struct request request, struct error *reterr) {
    if (standstill->waiter_count == WAITERS_MAX)
        return error_set(reterr, E_CONFLICT, "%d requests wait for that already", WAITERS_MAX);
    standstill->waiters[standstill->waiter_count++] = request;
    return 0;
}

/* Signals let everybody go on at once, and there is nothing to look at. */
static void let_go_on(struct launcher *launcher, struct launcher_node *node, struct request request) {
    node_signal(node, false);
    node->frozen = false;
    server_ok(launcher, request, "", NULL, 0);
}

void standstill_begin(struct launcher *launcher, struct launcher_node *node, bool frozen, struct request request) {
    struct error error;
    int failed = 0;
    if (node->standstill && node->standstill->frozen != frozen) standstill_call_off(launcher, node);
    if (!frozen && !launcher->cgroups.has_freezer) {
        let_go_on(launcher, node, request);
        return;
    }
    bool is_first = !node->standstill;
    if (node->burial.under_way)
        failed = error_set(&error, E_CONFLICT, "node %s is being buried", node->name);
    else if (is_first)
        failed = start(launcher, node, frozen, &error);
    if (!failed) failed = join(node->standstill, request, &error);
    if (failed) {
        server_fail(launcher, request, &error);
        return;
    }
    if (is_first) advance(launcher, node, FIRST_WAIT_MS, clock_monotonic_us() + SLICE_US);
    launcher_due_at(launcher, clock_monotonic_ms() + LOOK_AGAIN_MS);
}

uint64_t standstill_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t until_us = clock_monotonic_us() + SLICE_US;
    bool some_left = false;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct launcher_node *node = &launcher->nodes.items[i];
        if (node->used && node->standstill) advance(launcher, node, 0, until_us);
        some_left |= node->used && node->standstill;
    }
    return some_left ? now_ms + LOOK_AGAIN_MS : UINT64_MAX;
}
