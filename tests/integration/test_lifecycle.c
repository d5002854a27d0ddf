/* From create to destroy: what a user sees of a sandbox's life. */
#include <pthread.h>

#include "support.h"

/* One sandbox, "shared", for all tests that leave it as it is. */
static int open_world(void **state) {
    struct world *world = world_open(NULL);
    world_do(world, "create", "{s:s, s:s, s:i, s:i}", "id", "shared", "source", EXAMPLES "/counter", "memory_bytes",
             96 << 20, "cpu_percent", 150);
    *state = world;
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

static const char *text_of(json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    if (!text) fail_msg("there is no text '%s'", name);
    return text;
}

/* ---- info has every field, with what it means ---- */

static void info_tells_everything(void **state) {
    static const char *const names[] = {"id",         "status",         "app_name",        "supervisor_module",
                                        "app_pid",    "supervisor_pid", "os_pid",          "created_at",
                                        "updated_at", "restart_count",  "source",          "profile",
                                        "owner",      "limits",         "usage",           "auto_reload",
                                        "frozen",     "modules",        "lost_guarantees", "last_error"};
    static const char *const limits[] = {"memory_bytes", "cpu_percent", "processes",
                                         "max_run_ms",   "ttl_ms",      "disk_bytes"};
    static const char *const usage[] = {"memory_bytes", "cpu_percent", "processes", "atoms", "uptime_ms"};
    struct world *world = *state;
    json_t *sandbox = world_info(world, "shared");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) assert_non_null(json_object_get(sandbox, names[i]));
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        assert_non_null(json_object_get(json_object_get(sandbox, "limits"), limits[i]));
    for (size_t i = 0; i < ARRAY_SIZE(usage); i++)
        assert_non_null(json_object_get(json_object_get(sandbox, "usage"), usage[i]));
    assert_string_equal(text_of(sandbox, "app_name"), "counter");
    assert_string_equal(text_of(sandbox, "supervisor_module"), "Counter.Supervisor");
    assert_int_equal(text_of(sandbox, "supervisor_pid")[0], '<');
    assert_int_equal(json_integer_value(json_object_get(json_object_get(sandbox, "limits"), "memory_bytes")), 96 << 20);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(sandbox, "limits"), "cpu_percent")), 150);
    json_int_t memory = json_integer_value(json_object_get(json_object_get(sandbox, "usage"), "memory_bytes"));
    assert_in_range(memory, 5 << 20, 60 << 20);
    assert_in_range(json_integer_value(json_object_get(json_object_get(sandbox, "usage"), "processes")), 1, 50);
    assert_in_range(json_integer_value(json_object_get(json_object_get(sandbox, "usage"), "atoms")), 5000, 100000);
    bool has_server = false;
    json_t *module;
    size_t i;
    json_array_foreach(json_object_get(sandbox, "modules"), i, module) has_server |=
        string_equal(json_string_value(module), "Counter.Server");
    assert_true(has_server);
    json_decref(sandbox);
}

/* ---- eval ---- */

static void eval_speaks_both_languages(void **state) {
    struct world *world = *state;
    CLEANUP_FREE char *elixir = world_eval_text(world, "shared", NULL, "%{a: [1, 2.5, \"x\"], b: {:ok, nil}}");
    CLEANUP_FREE char *erlang =
        world_eval_text(world, "shared", "erlang", "#{a => [1, 2.5, <<\"x\">>], b => {ok, nil}}.");
    assert_string_equal(elixir, "%{a: [1, 2.5, \"x\"], b: {:ok, nil}}");
    assert_string_equal(erlang, "#{a => [1,2.5,<<\"x\">>],b => {ok,nil}}");
    json_t *natural =
        world_op(world, "eval", "{s:s, s:s}", "id", "shared", "code", "%{\"n\" => [1, true, nil, \"é\"]}");
    json_t *expected = json_pack("{s:[i, b, n, s]}", "n", 1, 1, "é");
    assert_true(json_equal(json_object_get(natural, "result"), expected));
    json_t *tuple = world_op(world, "eval", "{s:s, s:s}", "id", "shared", "code", "self()");
    assert_true(json_is_null(json_object_get(tuple, "result")));
    json_t *problem =
        world_fails(world, "eval", "runtime_error", "{s:s, s:s}", "id", "shared", "code", "raise \"oh no\"");
    assert_string_equal(text_of(problem, "category"), "runtime");
    assert_non_null(strstr(text_of(problem, "detail"), "oh no"));
    json_decref(natural);
    json_decref(expected);
    json_decref(tuple);
    json_decref(problem);
}

static json_int_t busy_waited(struct world *world) {
    json_t *answer = world_op(world, "eval", "{s:s, s:s, s:s}", "id", "shared", "language", "erlang", "code",
                              "ets:lookup_element(sbx_busy_wait, reductions, 2)");
    json_int_t reductions = json_integer_value(json_object_get(answer, "result"));
    json_decref(answer);
    return reductions;
}

/* On a busy machine the pauses between two questions may be too long for quite some time. */
static void who_is_asked_again_and_again_stays_awake(void **state) {
    enum { MANY_REDUCTIONS = 100000, QUESTIONS_MAX = 50000 };
    struct world *world = *state;
    unsigned asked = 0;
    assert_true(busy_waited(world) < MANY_REDUCTIONS);
    while (busy_waited(world) < MANY_REDUCTIONS) assert_true(++asked < QUESTIONS_MAX);
    assert_true(asked >= BACK_TO_BACK_LEAST);
}

/* It lives on. A later test shortens its time. */
static void eval_has_a_deadline(void **state) {
    struct world *world = *state;
    world_do(world, "create", "{s:s, s:s, s:i, s:i}", "id", "brief", "source", EXAMPLES "/counter_erl", "max_run_ms",
             500, "ttl_ms", 600000);
    json_decref(world_fails(world, "eval", "timeout", "{s:s, s:s}", "id", "brief", "code", "receive never -> ok end."));
    json_decref(world_fails(world, "eval", "timeout", "{s:s, s:s, s:i}", "id", "brief", "code",
                            "receive never -> ok end.", "timeout_ms", 50));
    CLEANUP_FREE char *text = world_eval_text(world, "brief", NULL, "still_here.");
    assert_string_equal(text, "still_here");
}

static void a_sandbox_ends_with_its_time(void **state) {
    struct world *world = *state;
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "brief", "set", "ttl", "1s");
    json_decref(world_wait_event(world, 0, &(struct event_pattern){.kind = "expired", .sandbox_id = "brief"}));
    json_decref(world_wait_event(world, 0, &(struct event_pattern){.kind = "destroyed", .sandbox_id = "brief"}));
    json_decref(world_fails(world, "info", "not_found", "{s:s}", "id", "brief"));
}

/* ---- restart: a new VM, the same configuration; each transition is an event, in order ---- */

static void assert_transitions(struct world *world, uint64_t since, const char *id) {
    static const char *const statuses[] = {"initializing", "compiling", "starting", "running",
                                           "stopping",     "starting",  "running",  "stopping"};
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        json_t *event = world_wait_event(world, since, &(struct event_pattern){.kind = "status", .sandbox_id = id});
        assert_string_equal(text_of(json_object_get(event, "data"), "to"), statuses[i]);
        uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
        assert_true(seq > since);
        since = seq;
        json_decref(event);
    }
}

static void assert_restart_is_fresh(struct world *world, const char *id) {
    uint64_t since = world_now(world);
    world_do(world, "create", "{s:s, s:s, s:i, s:{s:s}}", "id", id, "source", EXAMPLES "/counter_erl", "processes", 77,
             "env", "COLOUR", "blue");
    json_t *before = world_info(world, id);
    CLEANUP_FREE char *one = world_eval_text(world, id, NULL, "counter:increment().");
    world_do(world, "restart", "{s:s, s:b}", "id", id, "fresh", 1);
    json_t *after = world_info(world, id);
    CLEANUP_FREE char *zero = world_eval_text(world, id, NULL, "counter:value().");
    CLEANUP_FREE char *colour = world_eval_text(world, id, NULL, "os:getenv(\"COLOUR\").");
    assert_string_equal(one, "1");
    assert_string_equal(zero, "0");
    assert_string_equal(colour, "\"blue\"");
    assert_int_not_equal(json_integer_value(json_object_get(before, "os_pid")),
                         json_integer_value(json_object_get(after, "os_pid")));
    assert_int_equal(json_integer_value(json_object_get(after, "restart_count")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(after, "limits"), "processes")), 77);
    json_decref(before);
    json_decref(after);
    world_destroy(world, id);
    assert_transitions(world, since, id);
}

/* ---- no sandbox waits for another's operations, nor a look for its own ---- */

struct slow_eval {
    struct world *world;
    char *text;
};

static void *eval_slowly(void *data) {
    struct slow_eval *slow = data;
    slow->text = world_try_eval(slow->world, "shared", "erlang", "register(waiter, self()), receive go -> went end.",
                                2 * WORLD_DEADLINE_MS);
    return NULL;
}

/* While one is busy, another lives from create to destroy. */
static void sandboxes_do_not_wait_for_each_other(void **state) {
    struct world *world = *state;
    struct slow_eval slow = {.world = world};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, eval_slowly, &slow), 0);
    assert_restart_is_fresh(world, "free");
    json_decref(world_info(world, "shared"));
    /* Evaluations run side by side, so this one can free the other. */
    CLEANUP_FREE char *freed = world_eval_text(world, "shared", "erlang",
                                               "(fun Try(0) -> gave_up; Try(N) -> case whereis(waiter) of undefined -> "
                                               "receive after 10 -> Try(N - 1) end; P -> P ! go end end)(500).");
    assert_string_equal(freed, "go");
    pthread_join(thread, NULL);
    assert_string_equal(slow.text, "went");
    free(slow.text);
}

/* ---- logs, destroy in the middle of something ---- */

/* What an evaluation prints is its own; what the application prints is in the log. */
static void output_and_logs_are_kept(void **state) {
    struct world *world = *state;
    char *json;
    struct sbx_error error;
    json_t *done = world_op(world, "eval", "{s:s, s:s}", "id", "shared", "code",
                            "require Logger; IO.puts(\"printed by it\"); "
                            "eval = self(); spawn(fn -> ref = Process.monitor(eval); receive do {:DOWN, ^ref, _, _, _} "
                            "-> :ok end; IO.puts(\"printed, ünïcode\"); Logger.error(\"logged\") end)");
    assert_string_equal(text_of(done, "output"), "printed by it\n");
    json_decref(done);
    json_t *failed = world_fails(world, "eval", "runtime_error", "{s:s, s:s}", "id", "shared", "code",
                                 "IO.puts(\"before\"); raise \"after\"");
    assert_string_equal(text_of(json_object_get(failed, "result"), "output"), "before\n");
    json_decref(failed);
    /* A call's process sends its answer itself, so that it may overtake a record of the logger's. */
    uint64_t end_ms = clock_monotonic_ms() + WORLD_DEADLINE_MS;
    for (bool is_there = false; !is_there;) {
        assert_int_equal(sbx_op(world_client(world), "logs", "{\"id\": \"shared\"}", &json, &error), 0);
        is_there = strstr(json, "logged") || clock_monotonic_ms() > end_ms;
        if (!is_there) free(json);
    }
    assert_non_null(strstr(json, "printed, ünïcode"));
    assert_null(strstr(json, "printed by it"));
    assert_non_null(strstr(json, "logged"));
    assert_non_null(strstr(json, "\"level\":"));
    free(json);
}

static void *create_slowly(void *data) {
    struct world *world = data;
    json_decref(world_fails(world, "create", "conflict", "{s:s, s:s}", "id", "c", "source", world_path(world, "slow")));
    return NULL;
}

static void destroy_calls_off_a_create(void **state) {
    struct world *world = *state;
    pthread_t thread;
    world_file(world, "slow/slow.ex", "defmodule Slow do\n  receive do\n    :never -> :ok\n  end\nend\n");
    uint64_t since = world_now(world);
    assert_int_equal(pthread_create(&thread, NULL, create_slowly, world), 0);
    json_decref(world_wait_event(
        world, since,
        &(struct event_pattern){.kind = "status", .sandbox_id = "c", .field = "to", .value = "compiling"}));
    world_destroy(world, "c");
    pthread_join(thread, NULL);
    json_decref(world_fails(world, "info", "not_found", "{s:s}", "id", "c"));
}

/* ---- run ---- */

static int keep_item(const char *item_json, void *data) {
    buf_append_string(data, item_json);
    return 0;
}

static void a_run_leaves_nothing(void **state) {
    struct world *world = *state;
    struct sbx_error error;
    CLEANUP(buf_free) struct buf items = BUF_INIT;
    char *json;
    const char *options = "{\"eval\": \"io:put_chars(\\\"hi\\\"), counter:increment(5).\"}";
    assert_int_equal(sbx_run(world_client(world), EXAMPLES "/counter_erl", options, keep_item, &items, &json, &error),
                     0);
    assert_non_null(strstr(buf_string(&items), "\"text\":\"hi\""));
    assert_non_null(strstr(json, "\"text\":\"5\""));
    free(json);
    json_t *list = world_op(world, "list", "{}");
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(text_of(json_array_get(list, 0), "id"), "shared");
    json_decref(list);
}

/* ---- the same id again ---- */

static void an_id_is_given_once(void **state) {
    json_decref(
        world_fails(*state, "create", "already_exists", "{s:s, s:s}", "id", "shared", "source", EXAMPLES "/counter"));
}

/* ---- wait ---- */

struct waiter {
    struct world *world;
    const char *code; /* of the expected failure; NULL: it succeeds */
};

static void *wait_for_stopped(void *data) {
    struct waiter *waiter = data;
    if (waiter->code)
        json_decref(world_fails(waiter->world, "wait", waiter->code, "{s:s, s:s}", "id", "w", "for", "stopped"));
    else
        world_do(waiter->world, "wait", "{s:s, s:s}", "id", "w", "for", "stopped");
    return NULL;
}

static void wait_while(struct world *world, const char *code, void (*act)(struct world *world)) {
    pthread_t thread;
    struct waiter waiter = {world, code};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_stopped, &waiter), 0);
    act(world);
    pthread_join(thread, NULL);
}

/* A moment later, so that the wait has begun. */
static void stop_it(struct world *world) {
    free(world_eval_text(world, "w", "erlang", "spawn(fun() -> timer:sleep(100), application:stop(counter) end)"));
}

static void destroy_it(struct world *world) {
    world_destroy(world, "w");
}

static void waiting_ends_with_the_status(void **state) {
    struct world *world = *state;
    world_do(world, "create", "{s:s, s:s}", "id", "w", "source", EXAMPLES "/counter");
    world_do(world, "wait", "{s:s}", "id", "w");
    json_decref(world_fails(world, "wait", "timeout", "{s:s, s:s, s:i}", "id", "w", "for", "stopped", "timeout_ms", 1));
    json_decref(world_fails(world, "wait", "not_found", "{s:s}", "id", "unknown"));
    wait_while(world, NULL, stop_it);
    json_t *problem = world_fails(world, "wait", "conflict", "{s:s}", "id", "w");
    assert_non_null(strstr(text_of(problem, "detail"), "does not become running by itself"));
    json_decref(problem);
    world_do(world, "restart", "{s:s}", "id", "w");
    wait_while(world, "not_found", destroy_it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_tells_everything),
        cmocka_unit_test(eval_speaks_both_languages),
        cmocka_unit_test(eval_has_a_deadline),
        cmocka_unit_test(who_is_asked_again_and_again_stays_awake),
        cmocka_unit_test(sandboxes_do_not_wait_for_each_other),
        cmocka_unit_test(output_and_logs_are_kept),
        cmocka_unit_test(destroy_calls_off_a_create),
        cmocka_unit_test(an_id_is_given_once),
        cmocka_unit_test(a_sandbox_ends_with_its_time),
        cmocka_unit_test(a_run_leaves_nothing),
        cmocka_unit_test(waiting_ends_with_the_status),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
