/* Freezing and thawing a sandbox whose service has a short heartbeat. */
#include <signal.h>

#include "processes.h"
#include "support.h"

enum {
    HEARTBEAT_MS = 100,
    HEARTBEAT_DEADLINE_MS = 1200,
    DESTROY_MAX_MS = 1500, /* milliseconds on a quiet machine; a kill that must be repeated takes three seconds */
};

static int open_world(void **state) {
    struct world *world = world_open("heartbeat = 100ms\nheartbeat-deadline = 1200ms\n");
    world_do(world, "create", "{s:s, s:s, s:{s:s}}", "id", "a", "source", EXAMPLES "/counter_erl", "limit", "processes",
             "60");
    *state = world;
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

static pid_t os_pid_of(struct world *world) {
    json_t *info = world_info(world, "a");
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    return pid;
}

static json_int_t number_in(json_t *object, const char *part, const char *name) {
    json_t *value = json_object_get(json_object_get(object, part), name);
    if (!json_is_number(value)) fail_msg("'%s' in '%s' is no number", name, part);
    return (json_int_t)json_number_value(value);
}

static void assert_frozen(struct world *world, bool frozen) {
    json_t *info = world_info(world, "a");
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    assert_true(json_is_boolean(json_object_get(info, "frozen")));
    assert_int_equal(json_is_true(json_object_get(info, "frozen")), frozen);
    json_decref(info);
}

static void assert_value(struct world *world, const char *value) {
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, "counter:value()");
    assert_string_equal(text, value);
}

struct moment {
    uint64_t over_ms;
};

static bool is_over(void *data) {
    return clock_monotonic_ms() >= ((struct moment *)data)->over_ms;
}

/* An unanswered heartbeat would have killed it by then. */
static void outlast_a_heartbeat(void) {
    struct moment moment = {clock_monotonic_ms() + HEARTBEAT_MS * 2 + HEARTBEAT_DEADLINE_MS};
    assert_true(wait_until(is_over, &moment, WORLD_DEADLINE_MS));
}

static void a_frozen_sandbox_stands_still_and_goes_on(void **state) {
    struct world *world = *state;
    free(world_eval_text(world, "a", NULL, "counter:increment(7)"));
    uint64_t since = world_now(world);
    world_do(world, "freeze", "{s:s}", "id", "a");
    world_do(world, "freeze", "{s:s}", "id", "a");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"frozen", "a", "reason", "on request"}));
    assert_frozen(world, true);
    json_t *problem = world_fails(world, "eval", "conflict", "{s:s, s:s}", "id", "a", "code", "1.");
    assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "frozen"));
    json_decref(problem);
    json_decref(world_fails(world, "reload", "conflict", "{s:s}", "id", "a"));
    json_decref(world_fails(world, "top", "conflict", "{s:s}", "id", "a"));
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "a");
    assert_true(number_in(stats, "now", "memory_bytes") > 0);
    assert_true(json_array_size(json_object_get(stats, "tasks")) >= 2);
    json_decref(stats);
    outlast_a_heartbeat();
    world_do(world, "thaw", "{s:s}", "id", "a");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"thawed", "a", NULL, NULL}));
    assert_frozen(world, false);
    assert_value(world, "7");
}

/* A daemon has bounds of its own, the next one too. One that was built with a sanitizer has no filter. */
static void assert_daemon_is_bounded(const struct world *world) {
    char path[64];
    pid_t daemon = world_pid(world, "daemon.lock");
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)daemon);
    CLEANUP_FREE char *cgroups = read_whole(path);
    assert_non_null(cgroups);
    assert_non_null(strstr(cgroups, "/sandbox-daemon/"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CLEANUP_FREE char *filter = process_status(daemon, "Seccomp");
    assert_string_equal(filter, "2");
#endif
}

static void a_new_daemon_finds_it_frozen(void **state) {
    struct world *world = *state;
    pid_t os_pid = os_pid_of(world);
    world_do(world, "freeze", "{s:s}", "id", "a");
    assert_daemon_is_bounded(world);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    assert_frozen(world, true);
    assert_daemon_is_bounded(world);
    outlast_a_heartbeat();
    world_do(world, "thaw", "{s:s}", "id", "a");
    assert_value(world, "7");
    assert_int_equal(os_pid_of(world), os_pid);
    json_t *info = world_info(world, "a");
    assert_int_equal(number_in(info, "limits", "processes"), 60);
    json_decref(info);
}

static void a_frozen_sandbox_is_destroyed_at_once(void **state) {
    struct world *world = *state;
    world_do(world, "freeze", "{s:s}", "id", "a");
    CLEANUP_FD int pidfd = process_open(os_pid_of(world));
    uint64_t began_ms = clock_monotonic_ms();
    world_destroy(world, "a");
    uint64_t took_ms = clock_monotonic_ms() - began_ms;
    assert_true(process_ends(pidfd, 0));
    assert_in_range(took_ms, 0, DESTROY_MAX_MS);
    json_decref(world_fails(world, "thaw", "not_found", "{s:s}", "id", "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_sandbox_stands_still_and_goes_on),
        cmocka_unit_test(a_new_daemon_finds_it_frozen),
        cmocka_unit_test(a_frozen_sandbox_is_destroyed_at_once),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
