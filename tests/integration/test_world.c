/* The support itself: a world works, and its closing would notice what is left. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "folder.h"
#include "leftovers.h"
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

static void a_sandbox_lives_in_a_world(void **state) {
    struct world *world = *state;
    json_t *sandbox = world_create(world, "a", EXAMPLES "/counter_erl", "medium");
    assert_string_equal(json_string_value(json_object_get(sandbox, "status")), "running");
    json_decref(sandbox);
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, "counter:increment()");
    assert_string_equal(text, "1");
    CLEANUP_FREE char *failure = world_try_eval(world, "a", "erlang", "error(no)", 1000);
    if (!string_starts(failure, "! runtime_error: ")) fail_msg("%s", failure);
    json_decref(world_fails(world, "info", "not_found", "{s:s}", "id", "b"));
    uint64_t before = world_now(world);
    world_destroy(world, "a");
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "destroyed", .sandbox_id = "a"}));
    assert_null(world_find_event(world, before, &(struct event_pattern){.kind = "no_such"}, 20));
}

/* A process that has the home in its command line, in namespaces of its own. */
static pid_t start_stray(const char *home, int namespaces) {
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(namespaces) == 0) execl("/bin/sleep", home, "60", (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* the exec closes it */
    close(ready[0]);
    return pid;
}

static void end_child(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void what_is_left_is_noticed(void **state) {
    (void)state;
    char home[TEST_FOLDER_BYTES], nodes[64], expected[64];
    assert_non_null(test_folder_make(home));
    snprintf(nodes, sizeof nodes, "%s/nodes", home);
    assert_int_equal(mkdir(nodes, 0700), 0);
    strcat(nodes, "/n1");
    assert_int_equal(mkdir(nodes, 0700), 0);
    struct footprint *footprint = footprint_take(home);
    pid_t stray = start_stray(home, 0);
    CLEANUP_FREE char *left = footprint_left(footprint);
    footprint_free(footprint);
    end_child(stray);
    remove_tree(home);
    assert_non_null(left);
    snprintf(expected, sizeof expected, "file %s\n", nodes);
    assert_non_null(strstr(left, expected));
    snprintf(expected, sizeof expected, "process %d", (int)stray);
    assert_non_null(strstr(left, expected));
}

/* Numbers of namespaces are given again at once, and others' nodes come while ours go. */
static void whoever_comes_later_is_somebody_elses(void **state) {
    enum { LATER = 20 };
    (void)state;
    char home[TEST_FOLDER_BYTES], *left = NULL;
    assert_non_null(test_folder_make(home));
    pid_t node = start_stray(home, CLONE_NEWNET);
    struct footprint *footprint = footprint_take(home);
    end_child(node);
    for (int i = 0; i < LATER && !left; i++) {
        pid_t later = start_stray("another", CLONE_NEWNET);
        left = footprint_left(footprint);
        end_child(later);
    }
    footprint_free(footprint);
    remove_tree(home);
    if (left) fail_msg("%s", left);
}

struct forgotten {
    char home[64];
    pid_t daemon;
};

static void open_and_fail(int fd) {
    struct world *world = world_open(NULL);
    struct forgotten forgotten = {.daemon = world_pid(world, "daemon.lock")};
    snprintf(forgotten.home, sizeof forgotten.home, "%s", world_home(world));
    exit(write(fd, &forgotten, sizeof forgotten) == sizeof forgotten ? 0 : 1);
}

static void a_world_that_nobody_closes_ends_with_its_process(void **state) {
    (void)state;
    int told[2], status;
    struct forgotten forgotten;
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) open_and_fail(told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &forgotten, sizeof forgotten), sizeof forgotten);
    close(told[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(process_lives(forgotten.daemon));
    assert_int_equal(access(forgotten.home, F_OK), -1);
    struct footprint *footprint = footprint_take(forgotten.home);
    CLEANUP_FREE char *left = footprint_left(footprint);
    footprint_free(footprint);
    if (left) fail_msg("%s", left);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sandbox_lives_in_a_world, open_world, close_world),
        cmocka_unit_test(what_is_left_is_noticed),
        cmocka_unit_test(whoever_comes_later_is_somebody_elses),
        cmocka_unit_test(a_world_that_nobody_closes_ends_with_its_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
