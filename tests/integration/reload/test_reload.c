/* A running sandbox's code changed: states kept, bad code taken back, versions known to the next daemon. */
#include "tally.h"

static json_t *reload(struct world *world, const char *status) {
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), status);
    return result;
}

static void states_are_kept(struct world *world) {
    tally_write_version(world, "two", NULL);
    json_t *result = reload(world, "hot_reloaded");
    const char *module;
    int from, to;
    assert_int_equal(json_unpack(result, "{s:[{s:s, s:i, s:i}]}", "modules", "module", &module, "from_version", &from,
                                 "to_version", &to),
                     0);
    assert_string_equal(module, "tally");
    assert_int_equal(from * 10 + to, 12);
    assert_int_equal(json_array_size(json_object_get(result, "processes")), 3);
    json_decref(result);
    tally_assert_answers(world, "{two,2}");
    tally_assert_current(world, 2);
    json_decref(reload(world, "no_change"));
}

static void errors_change_nothing(struct world *world) {
    tally_write_version(world, "two", "code_change(_, State, _) -> {ok, State");
    json_t *problem = world_fails(world, "reload", "compile_failed", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(problem, "result"), "status"), "error");
    json_decref(problem);
    tally_write_version(world, "three", "code_change(_, _, _) -> error(no_way).");
    problem = world_fails(world, "reload", "reload_failed", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(problem, "result"), "step"), "migrate");
    json_decref(problem);
    tally_assert_answers(world, "{two,3}");
    tally_assert_current(world, 2);
}

/* A number becomes a map, by an expression of the caller's. */
static void a_migration_is_the_callers(struct world *world) {
    tally_write_version(world, "N", "code_change(_, State, _) -> {ok, State}.");
    json_t *result = world_op(world, "reload", "{s:s, s:[s]}", "id", "a", "migrate", "fun(N, 2, 3) -> N + 100 end");
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    json_decref(result);
    tally_assert_answers(world, "{103,104}");
    tally_assert_current(world, 3);
}

static void rolled_back_by_hand(struct world *world) {
    json_decref(world_op(world, "rollback", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", 2));
    tally_assert_answers(world, "{two,105}");
    tally_assert_current(world, 2);
    json_decref(world_fails(world, "rollback", "not_found", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", 9));
    json_decref(world_fails(world, "rollback", "not_found", "{s:s, s:s}", "id", "a", "module", "tally_sup"));
}

/* It loads, and then its first call kills it. */
static void bad_code_is_taken_back(struct world *world) {
    uint64_t before = world_now(world);
    tally_write_version(world, "error(bad)", NULL);
    json_decref(reload(world, "hot_reloaded"));
    free(world_try_eval(world, "a", NULL, "gen_server:call(tally, add)", WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    tally_assert_current(world, 2);
    json_t *info = world_info(world, "a");
    assert_string_equal(text_of(json_object_get(info, "last_error"), "code"), "reload_failed");
    json_decref(info);
    tally_assert_answers(world, "{two,106}");
}

/* Versions as they are counted by then: the last that failures_change_nothing leaves, and the one after all of its. */
enum { LINGERING = 8, LATER = 11 };

/* Killed, the daemon loses nothing that it said; and the history goes on where it was. */
static void the_next_daemon_knows(struct world *world) {
    tally_write_version(world, "later", NULL);
    json_decref(reload(world, "hot_reloaded"));
    tally_kill_daemon(world);
    tally_assert_answers(world, "{later,114}");
    tally_assert_current(world, LATER);
    tally_write_version(world, "two", NULL); /* code that ran before has its number again */
    json_decref(reload(world, "hot_reloaded"));
    tally_assert_answers(world, "{two,115}");
    tally_assert_current(world, 2);
}

/* The same from C. */
static void the_library_has_it(struct world *world) {
    struct sbx_error error;
    char *json = NULL;
    struct sbx *client = world_client(world);
    assert_int_equal(sbx_rollback(client, "a", "tally", "{\"to\": 11}", NULL, &error), 0);
    tally_assert_current(world, LATER);
    assert_int_equal(sbx_versions(client, "a", "tally", &json, &error), 0);
    assert_non_null(strstr(json, "\"current\""));
    free(json);
    assert_int_equal(sbx_hot_reload(client, "a", NULL, "{\"wait\": true, \"probation_ms\": 1}", NULL, &error), 0);
    tally_assert_current(world, 2);
    assert_int_equal(sbx_hot_reload(client, "none", NULL, NULL, NULL, &error), -1);
    assert_string_equal(error.code, "not_found");
    sbx_error_clear(&error);
}

static void code_changes_while_it_runs(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    json_decref(world_create(world, "a", tally_write_version(world, "one", NULL), "medium"));
    tally_assert_answers(world, "{one,1}");
    states_are_kept(world);
    errors_change_nothing(world);
    a_migration_is_the_callers(world);
    rolled_back_by_hand(world);
    bad_code_is_taken_back(world);
    failures_change_nothing(world, 2, 106);
    restarts_compile(world);
    the_next_daemon_knows(world);
    the_library_has_it(world);
    world_do(world, "rollback", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", LINGERING);
    deaths_leave_one_version(world, LINGERING);
    restarts_keep_states(world);
    world_destroy(world, "a");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(code_changes_while_it_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
