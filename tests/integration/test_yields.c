/* Tests that a node which works flat out yields to others. It runs with no other test beside it: a node that does not
   get the processor can't work flat out. When what else the machine does keeps it from that, it is skipped. */
#include "base/clock.h"
#include "meter/meter.h"
#include "processes.h"
#include "support.h"

static int open_world(void **state) {
    *state = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

static bool has_begun_to_yield(void *world) {
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "burner");
    bool yields = json_is_true(json_object_get(stats, "yields"));
    json_decref(stats);
    return yields;
}

/* That the burner's VM has used since it started. */
static uint64_t used_ms(struct world *world) {
    char path[64];
    unsigned long user, system;
    json_t *info = world_info(world, "burner");
    snprintf(path, sizeof path, "/proc/%d/stat", (int)json_integer_value(json_object_get(info, "os_pid")));
    json_decref(info);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    fclose(file);
    return (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void await_yielding(struct world *world) {
    uint64_t before_ms = used_ms(world), from_ms = clock_monotonic_ms();
    if (wait_until(has_begun_to_yield, world, WORLD_DEADLINE_MS)) return;
    uint64_t percent = (used_ms(world) - before_ms) * 100 / (clock_monotonic_ms() - from_ms);
    print_message("the burner got %d %% of a processor\n", (int)percent);
    assert_true(percent < METER_FLAT_OUT_PERCENT);
    skip();
}

/* To one that works a little. New limits end it for a moment. */
static void who_works_flat_out_yields_to_others(void **state) {
    struct world *world = *state;
    for (size_t i = 0; i < 2; i++)
        world_do(world, "create", "{s:s, s:s}", "id", i ? "other" : "burner", "source", EXAMPLES "/counter_erl");
    free(world_eval_text(world, "burner", NULL, "spawn(fun Burn() -> Burn() end)"));
    free(world_eval_text(world, "other", NULL,
                         "spawn(fun Work() -> [ok || _ <- lists:seq(1, 300)], receive after 5 -> Work() end end)"));
    await_yielding(world);
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "burner", "set", "memory", "120M");
    await_yielding(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_works_flat_out_yields_to_others)};
    return cmocka_run_group_tests(tests, open_world, close_world);
}
