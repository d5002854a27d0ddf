/* A running sandbox's code changed: states kept, bad code taken back, versions known to the next daemon. */
#include "reload_cases.h"

/* ---- the cases' beginning ---- */

static int open_world(void **state) {
    struct reload_case *test = calloc(1, sizeof *test);
    test->world = world_open(NULL);
    json_decref(world_create(test->world, "a", tally_write_version(test->world, "base", NULL), "medium"));
    *state = test;
    return 0;
}

static int close_world(void **state) {
    struct reload_case *test = *state;
    world_destroy(test->world, "a");
    world_close(test->world);
    free(test);
    return 0;
}

/* Whatever the case before has left. */
static int begin_case(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    tally_write_version(world, "base", NULL);
    world_do(world, "reload", "{s:s, s:s, s:i}", "id", "a", "on_busy", "kill", "probation_ms", 1);
    tally_assert_eval(world, "[sys:replace_state(P, fun(_) -> 0 end) || P <- [tally, spare, third]].", "[0,0,0]");
    test->base = tally_current(world);
    return 0;
}

static void expect_unchanged(struct reload_case *test) {
    tally_assert_answers(test->world, "{base,1}");
    tally_assert_current(test->world, test->base);
}

/* ---- changes ---- */

static void states_are_kept(void **state) {
    struct reload_case *test = *state;
    const char *module;
    int from, to;
    tally_assert_answers(test->world, "{base,1}");
    tally_write_version(test->world, "two", NULL);
    json_t *result = world_op(test->world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    assert_int_equal(json_unpack(result, "{s:[{s:s, s:i, s:i}]}", "modules", "module", &module, "from_version", &from,
                                 "to_version", &to),
                     0);
    assert_string_equal(module, "tally");
    assert_int_equal(from, test->base);
    assert_int_equal(json_array_size(json_object_get(result, "processes")), 3);
    json_decref(result);
    tally_assert_answers(test->world, "{two,2}");
    tally_assert_current(test->world, to);
}

static void the_same_code_is_no_change(void **state) {
    struct reload_case *test = *state;
    json_t *result = world_op(test->world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), "no_change");
    json_decref(result);
    expect_unchanged(test);
}

static void code_that_does_not_compile(void **state) {
    struct reload_case *test = *state;
    tally_write_version(test->world, "two", "code_change(_, State, _) -> {ok, State");
    json_t *problem = world_fails(test->world, "reload", "compile_failed", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(problem, "result"), "status"), "error");
    json_decref(problem);
    expect_unchanged(test);
}

/* A dry run tells which number the new version will have. */
static int next_version(struct world *world) {
    int to;
    json_t *result = world_op(world, "reload", "{s:s, s:b}", "id", "a", "dry_run", 1);
    assert_int_equal(json_unpack(result, "{s:[{s:i}]}", "modules", "to_version", &to), 0);
    json_decref(result);
    return to;
}

/* By an expression of the caller's, for just these two versions. */
static void a_migration_is_the_callers(void **state) {
    struct reload_case *test = *state;
    char migration[64];
    tally_write_version(test->world, "N", NULL);
    int to = next_version(test->world);
    snprintf(migration, sizeof migration, "fun(N, %d, %d) -> N + 100 end", test->base, to);
    json_t *result = world_op(test->world, "reload", "{s:s, s:[s]}", "id", "a", "migrate", migration);
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    json_decref(result);
    tally_assert_answers(test->world, "{100,101}");
    tally_assert_current(test->world, to);
}

/* ---- back ---- */

static void rolled_back_by_hand(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    tally_write_version(world, "two", NULL);
    int last = tally_reload(world);
    world_do(world, "rollback", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", test->base);
    expect_unchanged(test);
    json_decref(
        world_fails(world, "rollback", "not_found", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", last + 100));
    json_decref(world_fails(world, "rollback", "not_found", "{s:s, s:s}", "id", "a", "module", "tally_sup"));
}

/* It loads, and then its first call kills it. */
static void bad_code_is_taken_back(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    uint64_t before = world_now(world);
    tally_write_version(world, "error(bad)", NULL);
    tally_reload(world);
    free(world_try_eval(world, "a", NULL, "gen_server:call(tally, add)", WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    json_t *info = world_info(world, "a");
    assert_string_equal(text_of(json_object_get(info, "last_error"), "code"), "reload_failed");
    json_decref(info);
    expect_unchanged(test);
}

/* ---- from C ---- */

static void the_library_has_it(void **state) {
    struct reload_case *test = *state;
    struct sbx_error error;
    char *json = NULL, options[32];
    struct sbx *client = world_client(test->world);
    tally_write_version(test->world, "two", NULL);
    assert_int_equal(sbx_hot_reload(client, "a", NULL, "{\"wait\": true, \"probation_ms\": 1}", NULL, &error), 0);
    assert_int_not_equal(tally_current(test->world), test->base);
    snprintf(options, sizeof options, "{\"to\": %d}", test->base);
    assert_int_equal(sbx_rollback(client, "a", "tally", options, NULL, &error), 0);
    expect_unchanged(test);
    assert_int_equal(sbx_versions(client, "a", "tally", &json, &error), 0);
    assert_non_null(strstr(json, "\"current\""));
    free(json);
    assert_int_equal(sbx_hot_reload(client, "none", NULL, NULL, NULL, &error), -1);
    assert_string_equal(error.code, "not_found");
    sbx_error_clear(&error);
}

/* ---- the next daemon ---- */

/* Killed, the daemon loses nothing that it said; and the history goes on where it was. */
static void the_next_daemon_knows(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    tally_write_version(world, "later", NULL);
    int later = tally_reload(world);
    tally_kill_daemon(world);
    tally_assert_answers(world, "{later,1}");
    tally_assert_current(world, later);
    tally_write_version(world, "base", NULL); /* code that ran before has its number again */
    assert_int_equal(tally_reload(world), test->base);
    tally_assert_answers(world, "{base,2}");
}

/* Those that kill the daemon come last: its compiler goes with it. */
int main(void) {
#define CASE(test) cmocka_unit_test_setup(test, begin_case)
    const struct CMUnitTest tests[] = {
        CASE(states_are_kept),
        CASE(the_same_code_is_no_change),
        CASE(code_that_does_not_compile),
        CASE(a_migration_is_the_callers),
        CASE(rolled_back_by_hand),
        CASE(bad_code_is_taken_back),
        CASE(the_library_has_it),
        CASE(a_process_that_is_busy),
        CASE(an_on_load_function_that_fails),
        CASE(a_migration_that_crashes),
        CASE(a_migration_with_another_result),
        CASE(a_migration_that_does_not_end),
        CASE(a_torn_beam_file),
        CASE(old_code_that_is_in_use),
        CASE(a_closure_of_old_code),
        CASE(a_dry_run_settles_nothing),
        CASE(a_crash_on_probation),
        CASE(some_states_are_kept),
        CASE(a_tree_that_does_not_start_starts_fresh),
        CASE(the_next_daemon_knows),
        CASE(the_daemon_dies_while_processes_are_suspended),
        CASE(the_daemon_dies_while_states_are_migrated),
        CASE(the_daemon_dies_when_it_has_told),
        CASE(the_vm_dies_while_states_are_migrated),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
