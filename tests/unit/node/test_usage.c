/* What a node uses, from folders that look like its cgroups: of either version, and where there is nothing to read. */
#include "node/node_internal.h"
#include "scratch.h"

static struct node node_at(const struct scratch *scratch, const char *folder) {
    struct node node = {.disk_fds = {-1, -1}};
    snprintf(node.memory_cgroup, sizeof node.memory_cgroup, "%s/%s", scratch->path, folder);
    snprintf(node.cpu_cgroup, sizeof node.cpu_cgroup, "%s/%s", scratch->path, folder);
    snprintf(node.tasks_cgroup, sizeof node.tasks_cgroup, "%s/%s", scratch->path, folder);
    return node;
}

static void test_cgroups_of_the_first_version(void **state) {
    struct node_usage usage;
    scratch_folder(*state, "n");
    scratch_file(*state, "n/memory.usage_in_bytes", "16064512\n");
    scratch_file(*state, "n/cpuacct.usage", "150000001\n");
    scratch_file(*state, "n/pids.current", "11\n");
    scratch_file(*state, "cpuacct.usage", "900000000\n");
    struct node node = node_at(*state, "n");
    node_usage(&node, &usage);
    assert_int_equal(usage.used.memory_bytes, 16064512);
    assert_int_equal(usage.cpu_ns, 150000001);
    assert_int_equal(usage.used.os_tasks, 11);
    assert_true(usage.used.disk_bytes == NODE_UNKNOWN && usage.fullest_percent.disk_bytes == NODE_UNKNOWN);
    assert_int_equal(node_cpu_of_all_ns(&node), 900000000);
}

static void test_cgroups_of_the_second_version(void **state) {
    struct node_usage usage;
    scratch_folder(*state, "n");
    scratch_file(*state, "n/memory.current", "4096\n");
    scratch_file(*state, "n/cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n");
    scratch_file(*state, "n/pids.current", "3\n");
    scratch_file(*state, "cpu.stat", "nr_periods 0\nusage_usec 5000\n");
    struct node node = node_at(*state, "n");
    node_usage(&node, &usage);
    assert_int_equal(usage.used.memory_bytes, 4096);
    assert_int_equal(usage.cpu_ns, 1234000);
    assert_int_equal(usage.used.os_tasks, 3);
    assert_int_equal(node_cpu_of_all_ns(&node), 5000000);
}

static void test_what_is_not_told_is_unknown(void **state) {
    struct node_usage usage;
    scratch_folder(*state, "n");
    scratch_file(*state, "n/memory.current", "max\n");
    scratch_file(*state, "n/cpu.stat", "user_usec 1000\n");
    scratch_file(*state, "n/pids.current", "");
    struct node node = node_at(*state, "n");
    node_usage(&node, &usage);
    assert_true(usage.used.memory_bytes == NODE_UNKNOWN && usage.cpu_ns == NODE_UNKNOWN &&
                usage.used.os_tasks == NODE_UNKNOWN);
    assert_true(usage.used.descriptors == NODE_UNKNOWN);
    assert_true(node_cpu_of_all_ns(&node) == NODE_UNKNOWN);
    node.memory_cgroup[0] = node.cpu_cgroup[0] = node.tasks_cgroup[0] = '\0'; /* rootless: there are none */
    node_usage(&node, &usage);
    assert_true(usage.used.memory_bytes == NODE_UNKNOWN && usage.cpu_ns == NODE_UNKNOWN &&
                usage.used.os_tasks == NODE_UNKNOWN);
}

/* Without cgroups the VM's own process tells; here it is this one. */
static void test_a_process_tells_where_no_cgroup_does(void **state) {
    (void)state;
    struct node_usage usage;
    struct node node = {.vm_pid = getpid(), .disk_fds = {-1, -1}};
    node_usage(&node, &usage);
    assert_true(usage.cpu_ns != NODE_UNKNOWN);
    assert_true(usage.used.memory_bytes == NODE_UNKNOWN);
}

static void test_the_fullest_place_counts(void **state) {
    struct scratch *scratch = *state;
    struct node_usage usage;
    struct node node = node_at(scratch, "none");
    node.disk_fds[0] = open(scratch->path, O_PATH | O_CLOEXEC);
    node_usage(&node, &usage);
    assert_true(usage.used.disk_bytes == NODE_UNKNOWN); /* one alone says too little */
    node.disk_fds[1] = open("/dev/shm", O_PATH | O_CLOEXEC);
    node_usage(&node, &usage);
    assert_true(usage.used.disk_bytes != NODE_UNKNOWN);
    assert_in_range(usage.fullest_percent.disk_bytes, 0, 100);
    node_close_disk(&node);
    assert_true(node.disk_fds[0] == -1 && node.disk_fds[1] == -1);
}

static void test_traffic_is_the_outward_interface_s(void **state) {
    (void)state;
    struct node_traffic traffic = {7, 7};
    struct node node = {0};
    assert_false(node_traffic(&node, &traffic)); /* not started yet */
    node.pid = INT32_MAX;
    assert_false(node_traffic(&node, &traffic)); /* gone */
    assert_int_equal(traffic.in_bytes, 7);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_cgroups_of_the_first_version), IN_SCRATCH(test_cgroups_of_the_second_version),
        IN_SCRATCH(test_what_is_not_told_is_unknown),  cmocka_unit_test(test_a_process_tells_where_no_cgroup_does),
        IN_SCRATCH(test_the_fullest_place_counts),     cmocka_unit_test(test_traffic_is_the_outward_interface_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
