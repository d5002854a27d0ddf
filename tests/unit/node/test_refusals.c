/* Tests the counts of what the kernel refused a node at its limits: threads and processes, and writes beyond the file
   size. */
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "node/node_internal.h"
#include "scratch.h"

static struct node node_at(const struct scratch *scratch) {
    struct node node = {0};
    snprintf(node.cpu_cgroup, sizeof node.cpu_cgroup, "%s", scratch->path);
    return node;
}

static void list_threads(struct scratch *scratch, const char *name) {
    char threads[64];
    snprintf(threads, sizeof threads, "1\n%d\n", getpid());
    scratch_file(scratch, name, threads);
}

static void block_signal(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    assert_int_equal(sigprocmask(how, &set, NULL), 0);
}

/* As a node's thread that writes beyond the end of what it may. */
static void write_too_much(struct scratch *scratch) {
    struct rlimit before, tight;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/large", scratch->path);
    scratch_file(scratch, "large", "");
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){.rlim_cur = 10, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    ssize_t written = pwrite(fd, "x", 1, 10);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(written, -1);
}

static void forget_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    assert_int_equal(sigtimedwait(&set, NULL, &(struct timespec){0}), SIGXFSZ);
    block_signal(SIG_UNBLOCK);
}

static void test_a_thread_that_wrote_too_much_is_counted(void **state) {
    struct node node = node_at(*state);
    block_signal(SIG_BLOCK);
    list_threads(*state, "tasks");
    assert_int_equal(node_files_refused(&node), 0);
    write_too_much(*state);
    assert_int_equal(node_files_refused(&node), 1);
    write_too_much(*state);
    assert_int_equal(node_files_refused(&node), 1);
    list_threads(*state, "cgroup.threads"); /* as the unified hierarchy names them */
    assert_int_equal(node_files_refused(&node), 1);
    forget_signal();
    assert_int_equal(node_files_refused(&node), 0);
}

static void test_tasks_are_counted_by_the_kernel(void **state) {
    struct node node = {0};
    assert_int_equal(node_tasks_refused(&node), 0);
    assert_int_equal(node_files_refused(&node), 0);
    snprintf(node.tasks_cgroup, sizeof node.tasks_cgroup, "%s", ((struct scratch *)*state)->path);
    assert_int_equal(node_tasks_refused(&node), 0);
    scratch_file(*state, "pids.events", "max 12\n");
    assert_int_equal(node_tasks_refused(&node), 12);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_a_thread_that_wrote_too_much_is_counted),
        IN_SCRATCH(test_tasks_are_counted_by_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
