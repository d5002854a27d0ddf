/* Tests the list of a node's processes, with the test itself as the process. */
#include <sys/prctl.h>

#include "node/node_internal.h"
#include "scratch.h"

static struct node node_at(const struct scratch *scratch) {
    struct node node = {0};
    snprintf(node.memory_cgroup, sizeof node.memory_cgroup, "%s", scratch->path);
    return node;
}

static void test_a_process_is_told_as_the_kernel_has_it(void **state) {
    struct node_task tasks[4] = {0};
    struct node node = node_at(*state);
    char pids[64];
    assert_int_equal(prctl(PR_SET_NAME, "a) R (b\n"), 0);
    snprintf(pids, sizeof pids, "%d\n0\n", getpid()); /* 0 stands for one of another pid namespace */
    scratch_file(*state, "cgroup.procs", pids);
    assert_int_equal(node_tasks(&node, tasks, ARRAY_SIZE(tasks)), 1);
    assert_int_equal(tasks[0].pid, getpid());
    assert_string_equal(tasks[0].name, "a) R (b\\x0a");
    assert_int_equal(tasks[0].state, 'R');
    assert_int_equal(tasks[0].threads, 1);
    assert_in_range(tasks[0].memory_bytes, 100 << 10, 1 << 30);
}

static void test_no_more_than_asked_for(void **state) {
    struct node_task task = {.pid = 7};
    struct node node = node_at(*state);
    char pids[64];
    assert_int_equal(node_tasks(&node, &task, 1), 0);
    snprintf(pids, sizeof pids, "%d\n%d\n", getpid(), getpid());
    scratch_file(*state, "cgroup.procs", pids);
    assert_int_equal(node_tasks(&node, &task, 0), 0);
    assert_int_equal(task.pid, 7);
    assert_int_equal(node_tasks(&node, &task, 1), 1);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_a_process_is_told_as_the_kernel_has_it),
        IN_SCRATCH(test_no_more_than_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
