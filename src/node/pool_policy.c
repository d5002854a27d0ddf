/* How many nodes wait in the pool, of which kinds, and for how long. */
#include <string.h>

#include "node/pool.h"

/* What the rest of the machine is left: an eighth of it, and half of what is free beyond that. */
enum { RESERVE_PART = 8, FREE_PART = 2 };

static const double demand_least = 0.5; /* below it nothing is wanted any more */

/* Between two half-lives it falls in a straight line. */
double demand_now(const struct demand *demand, uint64_t now_ms) {
    double weight = demand->weight;
    uint64_t passed_ms = now_ms > demand->at_ms ? now_ms - demand->at_ms : 0;
    for (; passed_ms >= POOL_DEMAND_HALF_LIFE_MS && weight >= demand_least; passed_ms -= POOL_DEMAND_HALF_LIFE_MS)
        weight /= 2;
    return weight < demand_least ? 0 : weight * (1 - (double)passed_ms / (2 * POOL_DEMAND_HALF_LIFE_MS));
}

void demand_note(struct demand *demand, uint64_t now_ms) {
    demand->weight = demand_now(demand, now_ms) + 1;
    demand->at_ms = now_ms;
}

static void put_off(struct pause *pause, uint64_t patience_ms, uint64_t now_ms) {
    uint64_t settled_ms = now_ms + POOL_SETTLE_MS, latest_ms = pause->began_ms + patience_ms;
    uint64_t until_ms = settled_ms < latest_ms ? settled_ms : latest_ms;
    if (until_ms > pause->until_ms) pause->until_ms = until_ms;
}

void pause_note(struct pause *pause, uint64_t now_ms) {
    if (now_ms >= pause->until_ms) pause->began_ms = now_ms;
    put_off(pause, POOL_PATIENCE_MS, now_ms);
}

void pause_go_on(struct pause *pause, uint64_t now_ms) {
    put_off(pause, POOL_START_PATIENCE_MS, now_ms);
}

void shelf_failed(struct shelf *shelf, uint64_t now_ms) {
    shelf->retry_at_ms = now_ms + backoff_ms(POOL_BACKOFF_MIN_MS, POOL_BACKOFF_MAX_MS, shelf->failures++);
}

bool profiles_boot_alike(const struct jail_profile *one, const struct jail_profile *other) {
    return strcmp(one->name, other->name) == 0 && one->network == other->network && one->may_exec == other->may_exec &&
           one->native_code == other->native_code && node_limits_fit(&one->limits, &other->limits) &&
           node_limits_fit(&other->limits, &one->limits);
}

size_t pool_room(const struct pool_means *means, size_t kept) {
    size_t room = means->nodes_max < POOL_NODES_MAX ? means->nodes_max : POOL_NODES_MAX;
    if (means->memory_total_bytes == 0) return room;
    uint64_t free_bytes = means->memory_available_bytes + (uint64_t)kept * POOL_NODE_BYTES;
    uint64_t reserve_bytes = means->memory_total_bytes / RESERVE_PART;
    uint64_t affordable = free_bytes > reserve_bytes ? (free_bytes - reserve_bytes) / FREE_PART / POOL_NODE_BYTES : 0;
    return affordable < room ? (size_t)affordable : room;
}

static size_t wanted_alone(const struct shelf *shelf, uint64_t now_ms) {
    double demand = demand_now(&shelf->demand, now_ms);
    size_t wanted = demand < demand_least     ? 0
                    : demand < POOL_NODES_MAX ? (size_t)(demand + 1 - demand_least)
                                              : POOL_NODES_MAX;
    if (shelf->is_own && wanted > POOL_OWN_NODES) return POOL_OWN_NODES;
    return wanted == 0 && shelf->is_standing ? 1 : wanted;
}

/* The shelf that is furthest from what it would have alone; an empty one before all others. */
static size_t neediest(const struct pool_view *view, const size_t *alone, const size_t *given) {
    size_t chosen = SHELVES_MAX, greatest = 0;
    for (size_t i = 0; i < view->shelf_count; i++) {
        size_t lacking = alone[i] > given[i] ? alone[i] - given[i] : 0;
        if (lacking > 0 && given[i] == 0) lacking += POOL_NODES_MAX;
        if (lacking <= greatest) continue;
        chosen = i;
        greatest = lacking;
    }
    return chosen;
}

void pool_share(const struct pool_view *view, uint64_t now_ms, size_t ret_wanted[SHELVES_MAX]) {
    size_t alone[SHELVES_MAX] = {0}, given[SHELVES_MAX] = {0}, index;
    size_t room = pool_room(&view->means, view->node_count);
    for (size_t i = 0; i < view->shelf_count; i++) alone[i] = wanted_alone(&view->shelves[i], now_ms);
    while (room > 0 && (index = neediest(view, alone, given)) < SHELVES_MAX) {
        given[index]++;
        room--;
    }
    memcpy(ret_wanted, given, sizeof given);
}

static bool is_of(const struct shelf *shelf, const struct toolchain *own) {
    return shelf->is_own && shelf->owner == own->owner;
}

bool pool_user_has_all_shelves(const struct pool_view *view, const struct toolchain *toolchain) {
    size_t count = 0;
    for (size_t i = 0; toolchain->is_own && i < view->shelf_count; i++) count += is_of(&view->shelves[i], toolchain);
    return count >= POOL_OWN_SHELVES;
}

size_t pool_spare_shelf(const struct pool_view *view, const struct toolchain *toolchain, uint64_t now_ms) {
    size_t chosen = SHELVES_MAX;
    bool only_own = pool_user_has_all_shelves(view, toolchain);
    for (size_t i = 0; i < view->shelf_count; i++) {
        bool has_nodes = false;
        if (only_own && !is_of(&view->shelves[i], toolchain)) continue;
        for (size_t n = 0; n < view->node_count; n++) has_nodes |= view->nodes[n].shelf == i;
        if (has_nodes || view->shelves[i].is_standing) continue;
        if (chosen == SHELVES_MAX ||
            demand_now(&view->shelves[i].demand, now_ms) < demand_now(&view->shelves[chosen].demand, now_ms))
            chosen = i;
    }
    return chosen;
}

/* ---- deciding ---- */

static bool is_any(const struct pool_view *view, bool (*is)(const struct pool_node *node)) {
    for (size_t i = 0; i < view->node_count; i++)
        if (is(&view->nodes[i])) return true;
    return false;
}

static bool is_under_way(const struct pool_node *node) {
    return node->is_ending || !node->is_ready;
}

/* The oldest that lives on one shelf, or on any (SHELVES_MAX); node_count when there is none. */
static size_t oldest_on(const struct pool_view *view, size_t shelf) {
    size_t chosen = view->node_count;
    for (size_t i = 0; i < view->node_count; i++) {
        const struct pool_node *node = &view->nodes[i];
        if (node->is_ending || (shelf != SHELVES_MAX && node->shelf != shelf)) continue;
        if (chosen == view->node_count || node->born_ms < view->nodes[chosen].born_ms) chosen = i;
    }
    return chosen;
}

static void count_living(const struct pool_view *view, size_t ret_counts[SHELVES_MAX]) {
    memset(ret_counts, 0, SHELVES_MAX * sizeof *ret_counts);
    for (size_t i = 0; i < view->node_count; i++)
        if (!view->nodes[i].is_ending) ret_counts[view->nodes[i].shelf]++;
}

static bool find_end(const struct pool_view *view, const size_t *wanted, const size_t *counts, uint64_t now_ms,
                     struct pool_step *ret) {
    for (size_t i = 0; i < view->shelf_count; i++) {
        if (counts[i] <= wanted[i]) continue;
        *ret = (struct pool_step){.act = POOL_END, .index = oldest_on(view, i), .why = "fewer are wanted now"};
        return true;
    }
    size_t oldest = oldest_on(view, SHELVES_MAX);
    /* One at a time, so that those of one age don't leave all at once. */
    if (oldest == view->node_count || now_ms - view->nodes[oldest].born_ms < POOL_AGE_MAX_MS ||
        is_any(view, is_under_way))
        return false;
    *ret = (struct pool_step){.act = POOL_END, .index = oldest, .why = "it waited for so long"};
    return true;
}

static bool find_boot(const struct pool_view *view, const size_t *wanted, const size_t *counts, uint64_t now_ms,
                      struct pool_step *ret) {
    size_t possible[SHELVES_MAX] = {0};
    if (now_ms < view->pause.until_ms || is_any(view, is_under_way)) return false;
    for (size_t i = 0; i < view->shelf_count; i++)
        if (view->shelves[i].retry_at_ms <= now_ms) possible[i] = wanted[i];
    size_t shelf = neediest(view, possible, counts);
    if (shelf == SHELVES_MAX) return false;
    *ret = (struct pool_step){.act = POOL_BOOT, .index = shelf};
    return true;
}

static void come_sooner(uint64_t *wait_ms, uint64_t at_ms, uint64_t now_ms) {
    if (at_ms > now_ms && at_ms - now_ms < *wait_ms) *wait_ms = at_ms - now_ms;
}

struct pool_step pool_decide(const struct pool_view *view, uint64_t now_ms) {
    size_t wanted[SHELVES_MAX], counts[SHELVES_MAX];
    struct pool_step step = {.act = POOL_WAIT, .wait_ms = POOL_LOOK_EVERY_MS};
    pool_share(view, now_ms, wanted);
    count_living(view, counts);
    if (find_end(view, wanted, counts, now_ms, &step) || find_boot(view, wanted, counts, now_ms, &step)) return step;
    come_sooner(&step.wait_ms, view->pause.until_ms, now_ms);
    for (size_t i = 0; i < view->shelf_count; i++) come_sooner(&step.wait_ms, view->shelves[i].retry_at_ms, now_ms);
    return step;
}
