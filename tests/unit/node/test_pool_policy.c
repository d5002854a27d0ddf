/* How many nodes wait, of which kinds and for how long: plain values and a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "node/pool.h"

enum { MINUTE_MS = 60000, NOW_MS = 60 * MINUTE_MS };

static const struct pool_means plenty = {
    .nodes_max = 8, .memory_total_bytes = 16ULL << 30, .memory_available_bytes = 12ULL << 30};

struct table {
    struct shelf shelves[3];
    struct pool_node nodes[8];
    struct pool_view view;
};

static struct table table_of(size_t shelf_count, const struct pool_means *means) {
    struct table table = {.view = {.shelf_count = shelf_count, .means = *means}};
    for (size_t i = 0; i < ARRAY_SIZE(table.shelves); i++) table.shelves[i].profile = *jail_profile_find("medium");
    return table;
}

static void add_node(struct table *table, size_t shelf, uint64_t born_ms, bool is_ready) {
    table->nodes[table->view.node_count++] =
        (struct pool_node){.shelf = shelf, .born_ms = born_ms, .is_ready = is_ready};
}

static struct pool_step decide(struct table *table, uint64_t now_ms) {
    table->view.shelves = table->shelves;
    table->view.nodes = table->nodes;
    return pool_decide(&table->view, now_ms);
}

static void takes(struct table *table, size_t shelf, unsigned count, uint64_t now_ms) {
    for (unsigned i = 0; i < count; i++) demand_note(&table->shelves[shelf].demand, now_ms);
}

static void demand_fades(void **state) {
    (void)state;
    struct demand demand = {0};
    assert_true(demand_now(&demand, NOW_MS) == 0);
    for (int i = 0; i < 4; i++) demand_note(&demand, NOW_MS);
    assert_true(demand_now(&demand, NOW_MS) == 4);
    assert_true(demand_now(&demand, NOW_MS - 1) == 4); /* a clock that went back makes nothing of it */
    assert_true(demand_now(&demand, NOW_MS + MINUTE_MS) == 2);
    assert_true(demand_now(&demand, NOW_MS + MINUTE_MS / 2) == 3);
    assert_true(demand_now(&demand, NOW_MS + 5 * MINUTE_MS) == 0);
    assert_true(demand_now(&demand, UINT64_MAX) == 0);
    demand_note(&demand, NOW_MS + MINUTE_MS);
    assert_true(demand_now(&demand, NOW_MS + MINUTE_MS) == 3);
}

static void a_standing_shelf_has_one_without_demand(void **state) {
    (void)state;
    struct table table = table_of(2, &plenty);
    table.shelves[1].is_standing = true;
    struct pool_step step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_BOOT);
    assert_int_equal(step.index, 1);
    add_node(&table, 1, NOW_MS, true);
    step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_WAIT);
    assert_int_equal(step.wait_ms, POOL_LOOK_EVERY_MS);
}

static void as_many_wait_as_were_taken_of_late(void **state) {
    (void)state;
    struct table table = table_of(1, &plenty);
    takes(&table, 0, 3, NOW_MS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(decide(&table, NOW_MS).act, POOL_BOOT);
        add_node(&table, 0, NOW_MS + (uint64_t)i, true);
    }
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
    struct pool_step step = decide(&table, NOW_MS + 2 * MINUTE_MS); /* 0.75: one is enough */
    assert_int_equal(step.act, POOL_END);
    assert_int_equal(step.index, 0); /* the oldest */
    assert_non_null(step.why);
}

static void one_boots_at_a_time(void **state) {
    (void)state;
    struct table table = table_of(1, &plenty);
    takes(&table, 0, 3, NOW_MS);
    add_node(&table, 0, NOW_MS, false);
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
    table.nodes[0].is_ready = true;
    assert_int_equal(decide(&table, NOW_MS).act, POOL_BOOT);
    table.nodes[0].is_ending = true; /* what ends makes work too */
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
}

static void nothing_boots_while_others_start(void **state) {
    (void)state;
    struct table table = table_of(1, &plenty);
    struct pause *pause = &table.view.pause;
    takes(&table, 0, 1, NOW_MS);
    pause_note(pause, NOW_MS);
    struct pool_step step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_WAIT);
    assert_int_equal(step.wait_ms, POOL_SETTLE_MS);
    assert_int_equal(decide(&table, NOW_MS + POOL_SETTLE_MS).act, POOL_BOOT);
    /* Further creates put it off, but not for ever. */
    for (uint64_t at_ms = 0; at_ms < POOL_PATIENCE_MS; at_ms += 10) pause_note(pause, NOW_MS + at_ms);
    assert_int_equal(pause->until_ms, NOW_MS + POOL_PATIENCE_MS);
    pause_note(pause, NOW_MS + 10 * POOL_PATIENCE_MS);
    assert_int_equal(pause->until_ms, NOW_MS + 10 * POOL_PATIENCE_MS + POOL_SETTLE_MS);
}

static void nothing_boots_until_a_slow_one_has_started(void **state) {
    (void)state;
    struct pause pause = {0};
    pause_note(&pause, NOW_MS);
    for (uint64_t at_ms = POOL_SETTLE_MS; at_ms < POOL_START_PATIENCE_MS; at_ms += POOL_SETTLE_MS) {
        assert_int_equal(pause.until_ms, NOW_MS + at_ms);
        pause_go_on(&pause, NOW_MS + at_ms);
    }
    pause_note(&pause, NOW_MS + POOL_START_PATIENCE_MS - 10); /* it has, and is used */
    assert_int_equal(pause.until_ms, NOW_MS + POOL_START_PATIENCE_MS);
    pause_go_on(&pause, NOW_MS + POOL_START_PATIENCE_MS); /* it takes too long */
    assert_int_equal(pause.until_ms, NOW_MS + POOL_START_PATIENCE_MS);
}

static void memory_bounds_them(void **state) {
    (void)state;
    struct pool_means means = {.nodes_max = 100, .memory_total_bytes = 8ULL << 30};
    means.memory_available_bytes = (1ULL << 30) + 20ULL * POOL_NODE_BYTES;
    assert_int_equal(pool_room(&means, 0), 10);
    means.memory_available_bytes -= 10ULL * POOL_NODE_BYTES; /* which they use now themselves */
    assert_int_equal(pool_room(&means, 10), 10);
    means.memory_available_bytes = 1ULL << 29;
    assert_int_equal(pool_room(&means, 0), 0);
    assert_int_equal(pool_room(&(struct pool_means){.nodes_max = 7}, 3), 7); /* the means are unknown */
    assert_int_equal(pool_room(&(struct pool_means){.nodes_max = 100000}, 0), POOL_NODES_MAX);
    assert_int_equal(pool_room(&(struct pool_means){0}, 0), 0);
}

static void pressure_drains_them(void **state) {
    (void)state;
    struct pool_means tight = plenty;
    tight.memory_available_bytes = tight.memory_total_bytes / 10;
    struct table table = table_of(1, &tight);
    table.shelves[0].is_standing = true;
    add_node(&table, 0, NOW_MS, false);
    add_node(&table, 0, NOW_MS, true);
    for (int i = 0; i < 2; i++) {
        struct pool_step step = decide(&table, NOW_MS);
        assert_int_equal(step.act, POOL_END);
        table.nodes[step.index].is_ending = true;
    }
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
}

/* Each kind has one before any has two; what is left goes to the shelf that lacks most. */
static void shelves_share_the_room(void **state) {
    (void)state;
    struct pool_means means = plenty;
    size_t wanted[SHELVES_MAX];
    means.nodes_max = 4;
    struct table table = table_of(3, &means);
    table.shelves[2].is_standing = true;
    takes(&table, 0, 6, NOW_MS);
    takes(&table, 1, 1, NOW_MS);
    table.view.shelves = table.shelves;
    pool_share(&table.view, NOW_MS, wanted);
    assert_int_equal(wanted[0], 2);
    assert_int_equal(wanted[1], 1);
    assert_int_equal(wanted[2], 1);
    assert_int_equal(wanted[3], 0);
}

static void the_old_are_replaced_one_by_one(void **state) {
    (void)state;
    struct table table = table_of(1, &plenty);
    takes(&table, 0, 2, NOW_MS);
    add_node(&table, 0, NOW_MS - POOL_AGE_MAX_MS, true);
    add_node(&table, 0, NOW_MS - POOL_AGE_MAX_MS - 1, true);
    struct pool_step step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_END);
    assert_int_equal(step.index, 1);
    table.nodes[1].is_ending = true;
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
    table.nodes[1] = (struct pool_node){.born_ms = NOW_MS}; /* the next one boots */
    assert_int_equal(decide(&table, NOW_MS).act, POOL_WAIT);
    table.nodes[1].is_ready = true;
    step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_END);
    assert_int_equal(step.index, 0);
}

static void failures_are_waited_out(void **state) {
    (void)state;
    struct table table = table_of(2, &plenty);
    table.shelves[0].is_standing = table.shelves[1].is_standing = true;
    shelf_failed(&table.shelves[0], NOW_MS);
    assert_int_equal(table.shelves[0].retry_at_ms, NOW_MS + POOL_BACKOFF_MIN_MS);
    assert_int_equal(decide(&table, NOW_MS).index, 1); /* the others go on */
    add_node(&table, 1, NOW_MS, true);
    struct pool_step step = decide(&table, NOW_MS);
    assert_int_equal(step.act, POOL_WAIT);
    assert_int_equal(step.wait_ms, POOL_BACKOFF_MIN_MS);
    assert_int_equal(decide(&table, NOW_MS + POOL_BACKOFF_MIN_MS).act, POOL_BOOT);
    shelf_failed(&table.shelves[0], NOW_MS);
    assert_int_equal(table.shelves[0].retry_at_ms, NOW_MS + 2 * POOL_BACKOFF_MIN_MS);
    for (int i = 0; i < 100; i++) shelf_failed(&table.shelves[0], NOW_MS);
    assert_int_equal(table.shelves[0].retry_at_ms, NOW_MS + POOL_BACKOFF_MAX_MS);
}

static void only_what_boots_alike_fits(void **state) {
    (void)state;
    struct jail_profile one = *jail_profile_find("medium"), other = one;
    other.limits.memory_bytes *= 2;
    assert_true(profiles_boot_alike(&one, &other));
    other.limits.processes = 100000; /* a table that can't grow */
    assert_false(profiles_boot_alike(&one, &other));
    other = one;
    other.limits.descriptors *= 2; /* nor can its descriptors */
    assert_false(profiles_boot_alike(&one, &other));
    assert_false(profiles_boot_alike(&other, &one));
    other = one;
    other.limits.file_size_bytes = 1 << 30;
    assert_false(profiles_boot_alike(&one, &other));
    other = one;
    other.native_code = true;
    assert_false(profiles_boot_alike(&one, &other));
    assert_false(profiles_boot_alike(&one, jail_profile_find("high")));
}

static const struct toolchain shared;

/* Users share the pool: what one brings along takes little of it. */
static void a_users_own_has_few_shelves_and_nodes(void **state) {
    (void)state;
    static const struct toolchain own = {.is_own = true, .owner = 1000}, others = {.is_own = true, .owner = 1001};
    struct table table = table_of(3, &plenty);
    table.view.shelves = table.shelves;
    table.view.nodes = table.nodes;
    for (size_t i = 1; i < 3; i++) {
        assert_false(pool_user_has_all_shelves(&table.view, &own));
        table.shelves[i].is_own = true;
        table.shelves[i].owner = 1000;
    }
    assert_true(pool_user_has_all_shelves(&table.view, &own));
    assert_false(pool_user_has_all_shelves(&table.view, &others));
    assert_false(pool_user_has_all_shelves(&table.view, &shared));
    takes(&table, 0, 3, NOW_MS);
    takes(&table, 1, 9, NOW_MS);
    size_t wanted[SHELVES_MAX];
    pool_share(&table.view, NOW_MS, wanted);
    assert_int_equal(wanted[0], 3);
    assert_int_equal(wanted[1], POOL_OWN_NODES);
    assert_int_equal(pool_spare_shelf(&table.view, &own, NOW_MS), 2); /* its own, however little the others want */
    add_node(&table, 1, NOW_MS, true);
    add_node(&table, 2, NOW_MS, true);
    assert_int_equal(pool_spare_shelf(&table.view, &own, NOW_MS), SHELVES_MAX);
    assert_int_equal(pool_spare_shelf(&table.view, &others, NOW_MS), 0);
}

static void a_shelf_that_nobody_needs_gives_way(void **state) {
    (void)state;
    struct table table = table_of(3, &plenty);
    table.shelves[0].is_standing = true;
    takes(&table, 1, 2, NOW_MS);
    takes(&table, 2, 1, NOW_MS);
    table.view.shelves = table.shelves;
    table.view.nodes = table.nodes;
    assert_int_equal(pool_spare_shelf(&table.view, &shared, NOW_MS), 2);
    add_node(&table, 2, NOW_MS, true);
    assert_int_equal(pool_spare_shelf(&table.view, &shared, NOW_MS), 1);
    add_node(&table, 1, NOW_MS, true);
    assert_int_equal(pool_spare_shelf(&table.view, &shared, NOW_MS), SHELVES_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demand_fades),
        cmocka_unit_test(a_standing_shelf_has_one_without_demand),
        cmocka_unit_test(as_many_wait_as_were_taken_of_late),
        cmocka_unit_test(one_boots_at_a_time),
        cmocka_unit_test(nothing_boots_while_others_start),
        cmocka_unit_test(nothing_boots_until_a_slow_one_has_started),
        cmocka_unit_test(memory_bounds_them),
        cmocka_unit_test(pressure_drains_them),
        cmocka_unit_test(shelves_share_the_room),
        cmocka_unit_test(the_old_are_replaced_one_by_one),
        cmocka_unit_test(failures_are_waited_out),
        cmocka_unit_test(only_what_boots_alike_fits),
        cmocka_unit_test(a_users_own_has_few_shelves_and_nodes),
        cmocka_unit_test(a_shelf_that_nobody_needs_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
