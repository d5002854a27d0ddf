/* Virtual machines that end, by force or by themselves, and what becomes of their sandboxes. */
#include <signal.h>

#include "cases.h"
#include "processes.h"
#include "support.h"

static int open_world(void **state) {
    *state = world_open("heartbeat = 10m\n");
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

static pid_t os_pid_of(struct world *world, const char *id) {
    json_t *info = world_info(world, id);
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    assert_true(pid > 1);
    return pid;
}

static void create_with_policy(struct world *world, const char *id, const char *policy) {
    world_do(world, "create", "{s:s, s:s, s:s, s:i}", "id", id, "source", EXAMPLES "/counter_erl", "restart", policy,
             "processes", 100);
}

static void restart(struct world *world, const char *id) {
    world_do(world, "restart", "{s:s}", "id", id);
}

/* ---- causes ---- */

static json_t *ended_info(struct world *world, uint64_t since, const char *id, const char *status) {
    world_wait_status(world, since, id, status);
    json_t *info = world_info(world, id);
    assert_string_equal(json_string_value(json_object_get(info, "status")), status);
    assert_true(json_is_null(json_object_get(info, "os_pid")));
    return info;
}

static void assert_cause(json_t *info, const char *expected) {
    json_t *error = json_object_get(info, "last_error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "node_failed");
    assert_string_equal(json_string_value(json_object_get(error, "category")), "runtime");
    assert_string_equal(json_string_value(json_object_get(error, "recovery")), "restart");
    assert_string_equal(json_string_value(json_object_get(error, "detail")), expected);
    json_decref(info);
}

/* The longest back-off here would be 400 ms: what has not begun by twice that doesn't. */
static void assert_no_start(struct world *world, uint64_t since, const char *id) {
    assert_null(world_find_event(world, since, &(struct event_pattern){"status", id, "to", "starting"}, 800));
}

static void a_vm_killed_from_outside_is_an_error(void **state) {
    struct world *world = *state;
    create_with_policy(world, "a", "never");
    uint64_t before = world_now(world);
    kill(process_child(os_pid_of(world, "a")), SIGKILL);
    assert_cause(ended_info(world, before, "a", "error"), "the VM ended by signal 9");
    assert_no_start(world, before, "a");
}

/* By then those who watch its limits sleep, and neither a call nor a beat nor a full table wakes them. */
static void many_processes_in_an_idle_vm_are_noticed(void **state) {
    enum { IDLE_MS = 3200, NOTICED_MS = 2500 };
    struct world *world = *state;
    restart(world, "a"); /* which the last test has ended */
    uint64_t before = world_now(world);
    free(world_eval_text(world, "a", NULL,
                         "spawn(fun() -> timer:sleep(3200), "
                         "[spawn(fun() -> timer:sleep(infinity) end) || _ <- lists:seq(1, 1000)] end)"));
    struct event_pattern reached = {"limit", "a", "limit", "processes"};
    json_t *event = world_find_event(world, before, &reached, IDLE_MS + NOTICED_MS);
    assert_non_null(event);
    json_decref(event);
    /* What the next test starts would be killed with the rest. */
    free(world_eval_text(world, "a", NULL,
                         "(fun Wait() -> case erlang:system_info(process_count) < 150 of true -> gone; "
                         "false -> timer:sleep(2), Wait() end end)()"));
}

static void a_normal_end_is_no_error(void **state) {
    struct world *world = *state;
    uint64_t before = world_now(world);
    free(world_try_eval(world, "a", "erlang", "spawn(fun() -> application:stop(counter_erl) end)", 5000));
    json_t *info = ended_info(world, before, "a", "stopped");
    assert_true(json_is_null(json_object_get(info, "last_error")));
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), 1);
    json_decref(info);
    world_destroy(world, "a");
}

/* ---- the first second ---- */

/* Its only process ends after a tenth of a second, and its supervisor gives up with it. */
static const char *write_brief(struct world *world, const char *before) {
    char text[512];
    world_file(world, "brief/src/brief.app.src",
               "{application, brief, [{vsn, \"1\"}, {mod, {brief, []}}, {applications, [kernel, stdlib]}]}.\n");
    world_file(world, "brief/src/brief.erl",
               "-module(brief).\n-behaviour(application).\n-export([start/2, stop/1, init/1]).\n"
               "start(_, _) -> supervisor:start_link(?MODULE, []).\nstop(_) -> ok.\n"
               "init([]) -> {ok, {#{intensity => 0}, [#{id => s, start => {brief_server, start_link, []}}]}}.\n");
    snprintf(text, sizeof text,
             "-module(brief_server).\n-behaviour(gen_server).\n"
             "-export([start_link/0, init/1, handle_call/3, handle_cast/2, handle_info/2]).\n"
             "start_link() -> gen_server:start_link(?MODULE, [], []).\ninit([]) -> %s {ok, 0, 100}.\n"
             "handle_call(_, _, S) -> {reply, S, S}.\nhandle_cast(_, S) -> {noreply, S}.\n"
             "handle_info(timeout, _) -> exit(no_database).\n",
             before);
    world_file(world, "brief/src/brief_server.erl", text);
    return world_path(world, "brief");
}

static void assert_too_brief(struct world *world, const char *before, const char *settle) {
    json_t *problem = world_fails(world, "create", "start_failed", "{s:s, s:s, s:s}", "id", "brief", "source",
                                  write_brief(world, before), "settle_ms", settle);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    if (!strstr(detail, "ended as soon as it had started") || !strstr(detail, "no_database")) fail_msg("%s", detail);
    json_decref(problem);
    json_decref(world_fails(world, "info", "not_found", "{s:s}", "id", "brief"));
}

/* It is waited for where the caller wants it, or where an error was logged. */
static void a_death_in_the_first_second_is_a_failed_create(void **state) {
    assert_too_brief(*state, "", "1s");
    assert_too_brief(*state, "logger:error(\"no connection\"),", "0");
}

/* ---- restart policies ---- */

enum { TURN_MS = 5 };

/* When an event happened, in milliseconds of the day. */
static long event_ms(json_t *event) {
    int hours, minutes, seconds, ms;
    const char *time = strchr(json_string_value(json_object_get(event, "time")), 'T');
    assert_int_equal(sscanf(time, "T%d:%d:%d.%d", &hours, &minutes, &seconds, &ms), 4);
    json_decref(event);
    return ((hours * 60L + minutes) * 60 + seconds) * 1000 + ms;
}

#define KILLED NULL

/* By code of its own, or by killing its init. */
static void end(struct world *world, const char *id, const char *code) {
    if (code)
        free(world_try_eval(world, id, "erlang", code, 5000));
    else
        process_end(os_pid_of(world, id), SIGKILL);
}

/* End it so, and see it start again, no sooner than its back-off allows. */
static void assert_comes_back(struct world *world, const char *id, const char *code, const char *status, int count,
                              long backoff_ms) {
    uint64_t before = world_now(world);
    end(world, id, code);
    long ended = event_ms(world_wait_event(world, before, &(struct event_pattern){"status", id, "to", status}));
    long begun = event_ms(world_wait_event(world, before, &(struct event_pattern){"status", id, "to", "starting"}));
    /* The loop counts from its last turn, the events by the clock. */
    if ((begun - ended + 86400000 + TURN_MS) % 86400000 < backoff_ms) fail_msg("%ld ms of back-off", begun - ended);
    json_t *event = world_wait_event(world, before, &(struct event_pattern){.kind = "restarted", .sandbox_id = id});
    assert_int_equal(json_integer_value(json_object_get(json_object_get(event, "data"), "restart_count")), count);
    json_decref(event);
    json_t *info = world_info(world, id);
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), count);
    json_decref(info);
}

static void assert_stays(struct world *world, const char *id, const char *code, const char *status, int count) {
    uint64_t before = world_now(world);
    end(world, id, code);
    json_t *info = ended_info(world, before, id, status);
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), count);
    json_decref(info);
    assert_no_start(world, before, id);
}

/* Two restarts are allowed, and were used before the daemon was killed: the next one counts on. */
static void failures_are_restarted_so_often(void **state) {
    struct world *world = *state;
    create_with_policy(world, "a", "on-failure:2");
    assert_comes_back(world, "a", "halt(1)", "error", 1, 100);
    assert_comes_back(world, "a", "halt(1)", "error", 2, 200);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    assert_stays(world, "a", "halt(1)", "error", 2);
    restart(world, "a"); /* a restart that is asked for begins the count anew */
    assert_stays(world, "a", "init:stop()", "stopped", 3);
    world_destroy(world, "a");
}

static void any_end_is_followed_by_a_start(void **state) {
    struct world *world = *state;
    create_with_policy(world, "always", "always");
    assert_comes_back(world, "always", "init:stop()", "stopped", 1, 100);
    assert_comes_back(world, "always", KILLED, "error", 2, 200);
    world_destroy(world, "always");
}

int main(void) {
    const struct test_case cases[] = {
        CASE(a_vm_killed_from_outside_is_an_error),
        CASE(many_processes_in_an_idle_vm_are_noticed),
        CASE(a_normal_end_is_no_error),
        LONG_CASE(a_death_in_the_first_second_is_a_failed_create),
        CASE(failures_are_restarted_so_often),
        LONG_CASE(any_end_is_followed_by_a_start),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
