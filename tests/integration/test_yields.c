/* Tests that a node which works flat out yields to others. It runs with no other test beside it: a node that does not
   get the processor can't work flat out. */
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

static void await_yielding(struct world *world) {
    assert_true(wait_until(has_begun_to_yield, world, WORLD_DEADLINE_MS));
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
