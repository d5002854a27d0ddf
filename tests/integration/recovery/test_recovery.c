/* Programs that end, by force or in order, and what the next ones find. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client/client.h"
#include "processes.h"
#include "support.h"

/* ---- a sandbox that is known again ---- */

struct sighting {
    pid_t os_pid;
    char *value; /* of its counter */
};

static pid_t os_pid_of(struct world *world, const char *id) {
    json_t *info = world_info(world, id);
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    assert_true(pid > 1);
    return pid;
}

static struct sighting create_counter(struct world *world, const char *id, int value) {
    char code[64];
    json_decref(world_create(world, id, EXAMPLES "/counter_erl", "medium"));
    snprintf(code, sizeof code, "counter:increment(%d)", value);
    char *text = world_eval_text(world, id, NULL, code);
    return (struct sighting){os_pid_of(world, id), text};
}

static void assert_same(struct world *world, const char *id, const struct sighting *before) {
    assert_int_equal(os_pid_of(world, id), before->os_pid);
    CLEANUP_FREE char *value = world_eval_text(world, id, NULL, "counter:value()");
    assert_string_equal(value, before->value);
}

static void destroy_counter(struct world *world, const char *id, struct sighting *before) {
    CLEANUP_FD int pidfd = process_open(before->os_pid);
    world_destroy(world, id);
    assert_true(process_ends(pidfd, 0));
    free(before->value);
}

/* One service and two sandboxes go through all of it: what was adopted once is adopted again. */
struct survivors {
    struct world *world;
    struct sighting a, b;
};

static int open_world(void **state) {
    struct survivors *survivors = calloc(1, sizeof *survivors);
    assert_non_null(survivors);
    survivors->world = world_open(NULL);
    survivors->a = create_counter(survivors->world, "a", 3);
    survivors->b = create_counter(survivors->world, "b", 70);
    *state = survivors;
    return 0;
}

static int close_world(void **state) {
    struct survivors *survivors = *state;
    world_close(survivors->world);
    free(survivors);
    return 0;
}

/* Every event from the first on; the last one's number. */
static uint64_t assert_events_in_order(struct world *world) {
    json_t *events = world_op(world, "events", NULL), *event;
    json_int_t last = 0;
    size_t i;
    json_array_foreach(events, i, event) {
        json_int_t seq = json_integer_value(json_object_get(event, "seq"));
        if (seq <= last) fail_msg("event %lld comes after event %lld", (long long)seq, (long long)last);
        last = seq;
    }
    json_decref(events);
    return (uint64_t)last;
}

static void assert_exec_is_refused(struct world *world, const char *id) {
    uint64_t before = world_now(world);
    free(world_try_eval(world, id, "erlang", "os:cmd(\"id\")", 2000));
    json_decref(world_wait_event(world, before, &(struct event_pattern){"violation", id, "what", "execve"}));
}

/* ---- killed ---- */

static void a_killed_daemon_finds_its_sandboxes(void **state) {
    struct survivors *survivors = *state;
    struct world *world = survivors->world;
    pid_t launcher = world_pid(world, "launcher.lock"), daemon = world_pid(world, "daemon.lock");
    uint64_t before = world_now(world);
    process_end(daemon, SIGKILL);
    assert_same(world, "a", &survivors->a);
    assert_same(world, "b", &survivors->b);
    assert_int_equal(world_pid(world, "launcher.lock"), launcher);
    assert_int_not_equal(world_pid(world, "daemon.lock"), daemon);
    json_t *ready = world_wait_event(world, before, &(struct event_pattern){.kind = "service_ready"});
    assert_int_equal(json_integer_value(json_object_get(json_object_get(ready, "data"), "sandboxes")), 2);
    json_decref(ready);
    assert_true(assert_events_in_order(world) > before);
    assert_exec_is_refused(world, "a");
    destroy_counter(world, "b", &survivors->b);
}

static void a_killed_launcher_is_replaced(void **state) {
    struct survivors *survivors = *state;
    struct world *world = survivors->world;
    pid_t launcher = world_pid(world, "launcher.lock"), daemon = world_pid(world, "daemon.lock");
    uint64_t before = world_now(world);
    process_end(launcher, SIGKILL);
    assert_true(process_lives(daemon));
    assert_true(process_lives(survivors->a.os_pid));
    assert_same(world, "a", &survivors->a); /* the command that starts the new one */
    assert_int_not_equal(world_pid(world, "launcher.lock"), launcher);
    assert_int_equal(world_pid(world, "daemon.lock"), daemon);
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "launcher_back"}));
    assert_exec_is_refused(world, "a");
    destroy_counter(world, "a", &survivors->a);
    survivors->a = create_counter(world, "a", 5);
}

static void both_killed_lose_nothing(void **state) {
    struct survivors *survivors = *state;
    struct world *world = survivors->world;
    pid_t launcher = world_pid(world, "launcher.lock"), daemon = world_pid(world, "daemon.lock");
    CLEANUP_FD int daemon_fd = process_open(daemon);
    process_end(launcher, SIGKILL); /* first, or it would start another daemon */
    kill(daemon, SIGKILL);
    assert_true(process_ends(daemon_fd, WORLD_DEADLINE_MS));
    assert_same(world, "a", &survivors->a);
    assert_int_not_equal(world_pid(world, "launcher.lock"), launcher);
    assert_int_not_equal(world_pid(world, "daemon.lock"), daemon);
    assert_exec_is_refused(world, "a");
}

/* ---- one of each ---- */

/* Run one of our programs on the world's home, with one more argument or NULL; its exit status. */
static int run_program(struct world *world, const char *name, const char *argument) {
    char program[PATH_MAX];
    const char *arguments[] = {name, "--home", world_home(world), argument, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    assert_int_equal(client_find_program(name, program, NULL), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments, NULL), 0);
    posix_spawn_file_actions_destroy(&actions);
    CLEANUP_FD int pidfd = process_open(pid);
    if (!process_ends(pidfd, WORLD_DEADLINE_MS)) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_second_of_each_is_refused(void **state) {
    struct world *world = ((struct survivors *)*state)->world;
    pid_t launcher = world_pid(world, "launcher.lock"), daemon = world_pid(world, "daemon.lock");
    assert_int_equal(run_program(world, "sandboxd", NULL), 4);
    assert_int_equal(run_program(world, "sandbox-launcher", NULL), 4);
    assert_int_equal(world_pid(world, "launcher.lock"), launcher);
    assert_int_equal(world_pid(world, "daemon.lock"), daemon);
    json_decref(world_op(world, "list", NULL));
    assert_true(process_lives(launcher) && process_lives(daemon));
}

/* ---- in order ---- */

/* The next service's launcher is ours to wait for. */
static void start_service_anew(struct world *world) {
    pid_t launcher = world_pid(world, "launcher.lock"), daemon = world_pid(world, "daemon.lock");
    process_end(launcher, SIGKILL);
    process_end(daemon, SIGKILL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    world_do(world, "list", NULL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
}

/* The launcher ends with its daemon's status. */
static void sigterm_is_graceful(void **state) {
    struct survivors *survivors = *state;
    struct world *world = survivors->world;
    int status;
    start_service_anew(world);
    pid_t launcher = world_pid(world, "launcher.lock");
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_int_equal(waitpid(launcher, &status, 0), launcher);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(process_lives(survivors->a.os_pid));
    assert_same(world, "a", &survivors->a);
}

/* The command line must not hang on a daemon that has no launcher to end its nodes. */
static void shutdown_needs_no_living_launcher(void **state) {
    struct survivors *survivors = *state;
    struct world *world = survivors->world;
    CLEANUP_FD int node = process_open(survivors->a.os_pid);
    CLEANUP_FD int daemon = process_open(world_pid(world, "daemon.lock"));
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
    assert_int_equal(run_program(world, "sandbox", "shutdown"), 0);
    assert_true(process_ends(daemon, 0));
    assert_true(process_ends(node, 0));
    free(survivors->a.value);
    world_do(world, "list", NULL); /* a service again, for the world to close */
}

/* ---- nodes without a daemon ---- */

static void an_unclaimed_node_halts_itself(void **state) {
    (void)state;
    struct world *world = world_open("grace = 2s\n");
    struct sighting a = create_counter(world, "a", 8);
    CLEANUP_FD int node = process_open(a.os_pid);
    pid_t daemon = world_pid(world, "daemon.lock");
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
    process_end(daemon, SIGKILL);
    assert_true(process_ends(node, WORLD_DEADLINE_MS));
    json_t *info = world_info(world, "a"), *error = json_object_get(info, "last_error");
    assert_string_equal(json_string_value(json_object_get(info, "status")), "error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "node_failed");
    assert_string_equal(json_string_value(json_object_get(error, "detail")), "the VM ended while no daemon watched it");
    json_decref(info);
    world_destroy(world, "a");
    free(a.value);
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_daemon_finds_its_sandboxes),
        cmocka_unit_test(a_killed_launcher_is_replaced),
        cmocka_unit_test(both_killed_lose_nothing),
        cmocka_unit_test(a_second_of_each_is_refused),
        cmocka_unit_test(sigterm_is_graceful),
        cmocka_unit_test(shutdown_needs_no_living_launcher),
        cmocka_unit_test(an_unclaimed_node_halts_itself),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
