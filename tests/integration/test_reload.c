/* A running sandbox's code changed: states kept, bad code taken back, versions known to the next daemon. */
#include <signal.h>

#include "processes.h"
#include "support.h"

/* A counter whose answers say which version gave them. */
static const char *write_counter(struct world *world, const char *version, const char *more) {
    char text[2048];
    snprintf(text, sizeof text,
             "-module(tally).\n"
             "-behaviour(gen_server).\n"
             "-export([start_link/0, init/1, handle_call/3, handle_cast/2, code_change/3]).\n"
             "start_link() -> gen_server:start_link({local, tally}, ?MODULE, [], []).\n"
             "init([]) -> {ok, 0}.\n"
             "handle_call(add, _From, N) -> {reply, {%s, N + 1}, N + 1};\n"
             "handle_call(pid, _From, N) -> {reply, self(), N}.\n"
             "handle_cast(_, N) -> {noreply, N}.\n"
             "%s\n",
             version, more ? more : "code_change(_Old, State, _Extra) -> {ok, State}.");
    world_file(world, "app/src/tally_sup.erl",
               "-module(tally_sup).\n"
               "-behaviour(supervisor).\n"
               "-export([start_link/0, init/1]).\n"
               "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
               "init([]) -> {ok, {#{}, [#{id => tally, start => {tally, start_link, []}}]}}.\n");
    world_file(world, "app/src/tally.erl", text);
    return world_path(world, "app");
}

static void assert_answers(struct world *world, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, "gen_server:call(tally, add)");
    assert_string_equal(text, expected);
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

struct expectation {
    struct world *world;
    int version, found;
};

static bool is_current(void *data) {
    struct expectation *expected = data;
    json_t *list = world_op(expected->world, "versions", "{s:s, s:s}", "id", "a", "module", "tally"), *item;
    size_t i;
    expected->found = 0;
    json_array_foreach(list, i, item) {
        if (json_is_true(json_object_get(item, "current")))
            expected->found = (int)json_integer_value(json_object_get(item, "version"));
    }
    json_decref(list);
    return expected->found == expected->version;
}

/* A daemon that just started may still be asking. */
static void assert_current(struct world *world, int version) {
    struct expectation expected = {world, version, 0};
    if (!wait_until(is_current, &expected, WORLD_DEADLINE_MS))
        fail_msg("version %d is current, not %d", expected.found, version);
}

static json_t *reload(struct world *world, const char *status) {
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), status);
    return result;
}

static void states_are_kept(struct world *world) {
    write_counter(world, "two", NULL);
    json_t *result = reload(world, "hot_reloaded");
    const char *module;
    int from, to;
    assert_int_equal(json_unpack(result, "{s:[{s:s, s:i, s:i}]}", "modules", "module", &module, "from_version", &from,
                                 "to_version", &to),
                     0);
    assert_string_equal(module, "tally");
    assert_int_equal(from * 10 + to, 12);
    assert_int_equal(json_array_size(json_object_get(result, "processes")), 1);
    json_decref(result);
    assert_answers(world, "{two,2}");
    assert_current(world, 2);
    json_decref(reload(world, "no_change"));
}

static void errors_change_nothing(struct world *world) {
    write_counter(world, "two", "code_change(_, State, _) -> {ok, State");
    json_t *problem = world_fails(world, "reload", "compile_failed", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(problem, "result"), "status"), "error");
    json_decref(problem);
    write_counter(world, "three", "code_change(_, _, _) -> error(no_way).");
    problem = world_fails(world, "reload", "reload_failed", "{s:s}", "id", "a");
    assert_string_equal(text_of(json_object_get(problem, "result"), "step"), "migrate");
    json_decref(problem);
    assert_answers(world, "{two,3}");
    assert_current(world, 2);
}

/* A number becomes a map, by an expression of the caller's. */
static void a_migration_is_the_callers(struct world *world) {
    write_counter(world, "N", "code_change(_, State, _) -> {ok, State}.");
    json_t *result = world_op(world, "reload", "{s:s, s:[s]}", "id", "a", "migrate", "fun(N, 2, 3) -> N + 100 end");
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    json_decref(result);
    assert_answers(world, "{103,104}");
    assert_current(world, 3);
}

static void rolled_back_by_hand(struct world *world) {
    json_decref(world_op(world, "rollback", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", 2));
    assert_answers(world, "{two,105}");
    assert_current(world, 2);
    json_decref(world_fails(world, "rollback", "not_found", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "to", 9));
    json_decref(world_fails(world, "rollback", "not_found", "{s:s, s:s}", "id", "a", "module", "tally_sup"));
}

/* It loads, and then its first call kills it. */
static void bad_code_is_taken_back(struct world *world) {
    uint64_t before = world_now(world);
    write_counter(world, "error(bad)", NULL);
    json_decref(reload(world, "hot_reloaded"));
    free(world_try_eval(world, "a", NULL, "gen_server:call(tally, add)", WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    assert_current(world, 2);
    json_t *info = world_info(world, "a");
    assert_string_equal(text_of(json_object_get(info, "last_error"), "code"), "reload_failed");
    json_decref(info);
    assert_answers(world, "{two,106}");
}

/* Killed, the daemon loses nothing that it said; and the history goes on where it was. */
static void the_next_daemon_knows(struct world *world) {
    write_counter(world, "five", NULL);
    json_decref(reload(world, "hot_reloaded"));
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    assert_answers(world, "{five,107}");
    assert_current(world, 5);
    write_counter(world, "two", NULL); /* code that ran before has its number again */
    json_decref(reload(world, "hot_reloaded"));
    assert_answers(world, "{two,108}");
    assert_current(world, 2);
}

/* The same from C. */
static void the_library_has_it(struct world *world) {
    struct sbx_error error;
    char *json = NULL;
    struct sbx *client = world_client(world);
    assert_int_equal(sbx_rollback(client, "a", "tally", "{\"to\": 5}", NULL, &error), 0);
    assert_int_equal(sbx_versions(client, "a", "tally", &json, &error), 0);
    assert_non_null(strstr(json, "\"current\""));
    free(json);
    assert_int_equal(sbx_hot_reload(client, "a", NULL, "{\"wait\": true, \"probation_ms\": 1}", NULL, &error), 0);
    assert_current(world, 2);
    assert_int_equal(sbx_hot_reload(client, "none", NULL, NULL, NULL, &error), -1);
    assert_string_equal(error.code, "not_found");
    sbx_error_clear(&error);
}

static void a_restart_runs_the_code_that_ran(struct world *world) {
    world_do(world, "restart", "{s:s, s:b}", "id", "a", "fresh", 1);
    assert_answers(world, "{two,1}");
}

static void code_changes_while_it_runs(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    json_decref(world_create(world, "a", write_counter(world, "one", NULL), "medium"));
    assert_answers(world, "{one,1}");
    states_are_kept(world);
    errors_change_nothing(world);
    a_migration_is_the_callers(world);
    rolled_back_by_hand(world);
    bad_code_is_taken_back(world);
    the_next_daemon_knows(world);
    the_library_has_it(world);
    a_restart_runs_the_code_that_ran(world);
    world_destroy(world, "a");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(code_changes_while_it_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
