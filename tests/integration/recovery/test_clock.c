/* The wall clock is stepped while a sandbox runs, by a day and by years, forwards and backwards: nothing ends. The
   daemon takes the step from a file. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "processes.h"
#include "support.h"

#define DAY_MS INT64_C(86400000)
#define YEARS_MS (3650 * DAY_MS)

static char clock_path[] = "/tmp/sandbox-clock-XXXXXX";

static void step_wall(int64_t step_ms) {
    CLEANUP_FD int fd = open(clock_path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &step_ms, sizeof step_ms, 0), sizeof step_ms);
}

static void make_clock(void) {
    CLEANUP_FD int fd = mkstemp(clock_path);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0644), 0);
    step_wall(0);
    setenv("SANDBOX_TEST_CLOCK", clock_path, 1);
}

static pid_t os_pid_of(struct world *world) {
    json_t *info = world_info(world, "x");
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    json_int_t uptime_ms = json_integer_value(json_object_get(json_object_get(info, "usage"), "uptime_ms"));
    assert_true(uptime_ms >= 0);
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    return pid;
}

/* The daemon's idea of the time, from an event's. */
static void expect_year_after(struct world *world, uint64_t since, const char *than) {
    json_t *event =
        world_wait_event(world, since, &(struct event_pattern){.kind = "limits_changed", .sandbox_id = "x"});
    const char *time = json_string_value(json_object_get(event, "time"));
    assert_true(strncmp(time, than, 4) > 0);
    json_decref(event);
}

/* A change of limits starts the timer of the time to live again. */
static void change_limits(struct world *world) {
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "x", "set", "ttl", "1h");
}

static void end_daemon(struct world *world) {
    pid_t daemon = world_pid(world, "daemon.lock");
    CLEANUP_FD int pidfd = process_open(daemon);
    process_end(daemon, SIGKILL);
    assert_true(process_ends(pidfd, WORLD_DEADLINE_MS));
}

static void a_stepped_wall_clock_ends_nothing(void **state) {
    static const int64_t steps_ms[] = {DAY_MS, YEARS_MS, -DAY_MS, -YEARS_MS, YEARS_MS};
    (void)state;
    make_clock();
    struct world *world = world_open("heartbeat = 100ms\n");
    world_do(world, "create", "{s:s, s:s, s:i, s:s}", "id", "x", "source", EXAMPLES "/counter_erl", "ttl_ms", 3600000,
             "restart", "on-failure");
    pid_t os_pid = os_pid_of(world);
    for (size_t i = 0; i < ARRAY_SIZE(steps_ms); i++) {
        uint64_t since = world_now(world);
        step_wall(steps_ms[i]);
        change_limits(world);
        if (steps_ms[i] == YEARS_MS) expect_year_after(world, since, "2030");
        assert_int_equal(os_pid_of(world), os_pid);
    }
    end_daemon(world); /* the next one finds the sandbox ten years older by the wall clock */
    assert_int_equal(os_pid_of(world), os_pid);
    step_wall(-YEARS_MS);
    end_daemon(world);
    assert_int_equal(os_pid_of(world), os_pid);
    world_destroy(world, "x");
    world_close(world);
    assert_int_equal(unlink(clock_path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stepped_wall_clock_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
