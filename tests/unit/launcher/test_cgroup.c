/* Tests the cgroup backends of v1 and v2: on a fake tree of files, and with this machine's own cgroups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "launcher/cgroup/backend.h"
#include "launcher/cgroup/cgroup.h"

#define MIB (1ULL << 20)

enum { FREEZE_WAIT_MS = 500 };

static const struct jail_limits limits = {.memory_bytes = 48 * MIB,
                                          .socket_memory_bytes = 4 * MIB,
                                          .disk_bytes = 16 * MIB,
                                          .cpu_percent = 50,
                                          .os_tasks = 32};

/* ---- what would be written ---- */

static void assert_settings(const struct cgroup_backend *backend, const struct cgroup_host *host,
                            const struct jail_limits *wanted, bool raising, const char *expected) {
    struct cgroup_setting settings[CGROUP_SETTINGS_MAX];
    size_t count = backend->limit_settings(host, wanted, raising, settings);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s=%s%s\n", settings[i].file, settings[i].value, settings[i].optional ? " ?" : "");
    assert_string_equal(buf_string(&text), expected);
}

static const struct cgroup_host able = {.has_memory = true, .has_cpu = true, .has_tasks = true};

static void v1_settings(void **state) {
    (void)state;
    assert_settings(&cgroup_v1, &able, &limits, false,
                    "memory.kmem.tcp.limit_in_bytes=4194304 ?\n"
                    "memory.limit_in_bytes=67108864\n"
                    "memory.memsw.limit_in_bytes=67108864 ?\n"
                    "cpu.cfs_period_us=100000\n"
                    "cpu.cfs_quota_us=50000\n"
                    "cpu.idle=0 ?\n"
                    "cpu.shares=1024 ?\n"
                    "pids.max=32\n");
    assert_settings(&cgroup_v1, &able, &(struct jail_limits){.memory_bytes = 1}, true,
                    "memory.memsw.limit_in_bytes=1 ?\n"
                    "memory.limit_in_bytes=1\n"
                    "cpu.cfs_period_us=100000\n"
                    "cpu.cfs_quota_us=-1\n"
                    "cpu.idle=0 ?\n"
                    "cpu.shares=1024 ?\n");
    assert_settings(&cgroup_v1, &(struct cgroup_host){.has_cpu = true}, &(struct jail_limits){.cpu_weight_percent = 2},
                    false, "cpu.cfs_period_us=100000\ncpu.cfs_quota_us=-1\ncpu.idle=0 ?\ncpu.shares=20 ?\n");
    assert_settings(&cgroup_v1, &(struct cgroup_host){.has_tasks = true}, &limits, false, "pids.max=32\n");
}

static void v2_settings(void **state) {
    (void)state;
    assert_settings(&cgroup_v2, &able, &limits, false,
                    "memory.max=67108864\n"
                    "memory.swap.max=0 ?\n"
                    "cpu.max=50000 100000\n"
                    "cpu.idle=0 ?\n"
                    "cpu.weight=100 ?\n"
                    "pids.max=32\n");
    assert_settings(&cgroup_v2, &able, &(struct jail_limits){.os_tasks = 7}, true,
                    "cpu.max=max 100000\ncpu.idle=0 ?\ncpu.weight=100 ?\npids.max=7\n");
    assert_settings(&cgroup_v2, &(struct cgroup_host){.has_cpu = true}, &(struct jail_limits){.cpu_weight_percent = 2},
                    false, "cpu.max=max 100000\ncpu.idle=0 ?\ncpu.weight=2 ?\n");
}

static void v2_sockets_are_memory_unless_the_kernel_was_told(void **state) {
    (void)state;
    assert_true(cgroup_v2_counts_sockets("ro quiet\n"));
    assert_true(cgroup_v2_counts_sockets("ro cgroup.memory=nokmem nosocket\n"));
    assert_false(cgroup_v2_counts_sockets("ro cgroup.memory=nokmem,nosocket quiet\n"));
}

/* ---- v2 on a fake tree ---- */

struct tree {
    char root[64];
    struct cgroup_host host;
};

static void put(const struct tree *tree, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", tree->root, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_file(const struct tree *tree, const char *name, const char *expected) {
    char path[512], text[256];
    snprintf(path, sizeof path, "%s/%s", tree->root, name);
    assert_int_equal(cgroup_read(path, text, sizeof text), 0);
    assert_string_equal(text, expected);
}

static void make(const struct tree *tree, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", tree->root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int delete_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static int tree_setup(void **state) {
    struct tree *tree = calloc(1, sizeof *tree);
    if (!test_folder_make(tree->root)) return -1;
    put(tree, "cgroup.controllers", "cpuset cpu io memory pids\n");
    put(tree, "cgroup.subtree_control", "");
    make(tree, "sandbox");
    put(tree, "sandbox/cgroup.subtree_control", "");
    make(tree, "sandbox/3");
    put(tree, "sandbox/3/cgroup.subtree_control", "");
    *state = tree;
    return 0;
}

static int tree_teardown(void **state) {
    struct tree *tree = *state;
    int failed = nftw(tree->root, delete_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(tree);
    return failed;
}

/* The files that the kernel would put into a new directory. */
static void make_node(const struct tree *tree, const char *node) {
    static const char *const files[] = {"cgroup.procs", "memory.max", "memory.swap.max", "cpu.max",
                                        "cpu.weight",   "pids.max",   "cgroup.freeze"};
    char name[256];
    snprintf(name, sizeof name, "sandbox/3/%s", node);
    make(tree, name);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(name, sizeof name, "sandbox/3/%s/%s", node, files[i]);
        put(tree, name, "");
    }
    snprintf(name, sizeof name, "sandbox/3/%s/cgroup.events", node);
    put(tree, name, "populated 1\nfrozen 1\n");
    snprintf(name, sizeof name, "sandbox/3/%s/memory.current", node);
    put(tree, name, "20971520\n");
    snprintf(name, sizeof name, "sandbox/3/%s/memory.events", node);
    put(tree, name, "low 0\nmax 4\noom 2\noom_kill 3\n");
}

static void v2_enables_controllers_on_the_way_down(void **state) {
    struct tree *tree = *state;
    struct error error;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    assert_int_equal(tree->host.version, 2);
    assert_true(tree->host.has_memory && tree->host.has_cpu && tree->host.has_tasks && tree->host.has_freezer);
    assert_file(tree, "cgroup.subtree_control", "+memory +cpu +pids");
    assert_file(tree, "sandbox/cgroup.subtree_control", "+memory +cpu +pids");
    assert_file(tree, "sandbox/3/cgroup.subtree_control", "+memory +cpu +pids");
}

/* A kernel may have been built without the file that bounds them. */
static void v1_says_whether_sockets_are_bounded(void **state) {
    struct tree *tree = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/cgroup.controllers", tree->root);
    assert_int_equal(remove(path), 0);
    make(tree, "memory");
    put(tree, "memory/tasks", "");
    cgroup_host_find(tree->root, true, &tree->host);
    assert_int_equal(tree->host.version, 1);
    assert_true(tree->host.has_memory);
    assert_false(tree->host.counts_sockets);
    put(tree, "memory/memory.kmem.tcp.limit_in_bytes", "");
    cgroup_host_find(tree->root, true, &tree->host);
    assert_true(tree->host.counts_sockets);
}

/* The kernel would refuse it while more is used, though it is no change. */
static void v1_leaves_a_socket_limit_that_is_in_force(void **state) {
    struct tree *tree = *state;
    char path[128];
    struct error error;
    struct jail_limits changed = {.memory_bytes = 64 * MIB, .socket_memory_bytes = 4 * MIB + 1};
    snprintf(path, sizeof path, "%s/cgroup.controllers", tree->root);
    assert_int_equal(remove(path), 0);
    make(tree, "memory");
    put(tree, "memory/tasks", "");
    put(tree, "memory/memory.kmem.tcp.limit_in_bytes", "");
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make(tree, "memory/sandbox/3/n1");
    put(tree, "memory/sandbox/3/n1/memory.limit_in_bytes", "");
    put(tree, "memory/sandbox/3/n1/memory.kmem.tcp.limit_in_bytes", "4194304\n");
    assert_int_equal(cgroup_set_limits(&tree->host, "n1", &changed, &error), 0);
    assert_file(tree, "memory/sandbox/3/n1/memory.kmem.tcp.limit_in_bytes", "4194304\n"); /* not written */
    assert_file(tree, "memory/sandbox/3/n1/memory.limit_in_bytes", "67108864");
    changed.socket_memory_bytes = 8 * MIB;
    assert_int_equal(cgroup_set_limits(&tree->host, "n1", &changed, &error), 0);
    assert_file(tree, "memory/sandbox/3/n1/memory.kmem.tcp.limit_in_bytes", "8388608");
}

static void v2_says_what_it_lacks(void **state) {
    struct tree *tree = *state;
    put(tree, "cgroup.controllers", "cpuset pids\n");
    cgroup_host_find(tree->root, true, &tree->host);
    assert_int_equal(tree->host.version, 2);
    assert_true(tree->host.has_tasks);
    assert_false(tree->host.has_memory || tree->host.has_cpu);
    char path[128];
    snprintf(path, sizeof path, "%s/none", tree->root);
    cgroup_host_find(path, true, &tree->host);
    assert_int_equal(tree->host.version, 0);
}

/* What belongs to the service and not to nodes has no part in their share of the processor. */
static void v2_bounds_the_service_beside_its_nodes(void **state) {
    struct tree *tree = *state;
    struct cgroup_host sibling;
    struct error error;
    struct cgroup cgroup;
    static const char *const files[] = {"cgroup.procs", "memory.max", "memory.swap.max", "cpu.max", "pids.max"};
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make(tree, "service");
    put(tree, "service/cgroup.subtree_control", "");
    make(tree, "service/3");
    put(tree, "service/3/cgroup.subtree_control", "");
    make(tree, "service/3/daemon");
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char name[256];
        snprintf(name, sizeof name, "service/3/daemon/%s", files[i]);
        put(tree, name, "");
    }
    assert_int_equal(cgroup_host_open_sibling(&tree->host, "service/3", &sibling, &error), 0);
    assert_file(tree, "service/3/cgroup.subtree_control", "+memory +pids");
    assert_int_equal(cgroup_make(&sibling, "daemon", &limits, &cgroup, &error), 0);
    assert_int_equal(cgroup_join(&cgroup), 0);
    cgroup_close(&cgroup);
    assert_file(tree, "service/3/daemon/cgroup.procs", "0");
    assert_file(tree, "service/3/daemon/memory.max", "67108864");
    assert_file(tree, "service/3/daemon/pids.max", "32");
    assert_file(tree, "service/3/daemon/cpu.max", "");
    put(tree, "cgroup.controllers", "cpuset cpu\n");
    cgroup_host_find(tree->root, true, &tree->host);
    assert_int_equal(cgroup_host_open_sibling(&tree->host, "service/4", &sibling, &error), -E_GUARANTEE);
}

static void v2_writes_limits(void **state) {
    struct tree *tree = *state;
    struct error error;
    struct cgroup cgroup;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make_node(tree, "n1");
    assert_int_equal(cgroup_make(&tree->host, "n1", &limits, &cgroup, &error), 0);
    assert_int_equal(cgroup.join_count, 1);
    assert_int_equal(cgroup_join(&cgroup), 0);
    cgroup_close(&cgroup);
    assert_file(tree, "sandbox/3/n1/cgroup.procs", "0");
    assert_file(tree, "sandbox/3/n1/memory.max", "67108864");
    assert_file(tree, "sandbox/3/n1/memory.swap.max", "0");
    assert_file(tree, "sandbox/3/n1/cpu.max", "50000 100000");
    assert_file(tree, "sandbox/3/n1/pids.max", "32");
    assert_int_equal(cgroup_oom_kills(&tree->host, "n1"), 3);
    assert_int_equal(cgroup_make(&tree->host, "n1", &limits, &cgroup, &error), -E_EXISTS);
}

static void v2_refuses_to_go_below_use(void **state) {
    struct tree *tree = *state;
    struct error error;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make_node(tree, "n1");
    struct jail_limits small = {.memory_bytes = 8 * MIB, .cpu_percent = 10};
    assert_int_equal(cgroup_set_limits(&tree->host, "n1", &small, &error), -E_CONFLICT);
    assert_non_null(strstr(error.detail, "20971520"));
    assert_file(tree, "sandbox/3/n1/cpu.max", "");
    small.disk_bytes = 16 * MIB;
    assert_int_equal(cgroup_set_limits(&tree->host, "n1", &small, &error), 0);
    assert_file(tree, "sandbox/3/n1/memory.max", "25165824");
    assert_int_equal(cgroup_lift_cpu(&tree->host, "n1", &error), 0);
    assert_file(tree, "sandbox/3/n1/cpu.max", "max 100000");
    assert_file(tree, "sandbox/3/n1/cpu.weight", "10000"); /* who dies goes first */
}

static void v2_hurries_a_node_that_is_waited_for(void **state) {
    struct tree *tree = *state;
    struct error error;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make_node(tree, "n1");
    assert_int_equal(cgroup_hurry(&tree->host, "n1", &error), 0);
    assert_file(tree, "sandbox/3/n1/cpu.weight", "10000");
    assert_int_equal(cgroup_set_weight(&tree->host, "n1", 2, &error), 0);
    assert_file(tree, "sandbox/3/n1/cpu.weight", "2");
    assert_int_equal(cgroup_set_weight(&tree->host, "n1", 0, &error), 0);
    assert_file(tree, "sandbox/3/n1/cpu.weight", "100");
}

static void v2_freezes_until_it_took_effect(void **state) {
    struct tree *tree = *state;
    struct error error;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make_node(tree, "n1");
    assert_int_equal(cgroup_freeze(&tree->host, "n1", true, FREEZE_WAIT_MS, &error), 0);
    assert_file(tree, "sandbox/3/n1/cgroup.freeze", "1");
    assert_true(cgroup_is_frozen(&tree->host, "n1"));
    /* The fake tree never reports the thaw. */
    assert_int_equal(cgroup_freeze(&tree->host, "n1", false, FREEZE_WAIT_MS, &error), -E_TIMEOUT);
}

static void append_name(void *data, const char *node) {
    buf_printf(data, "[%s]", node);
}

static void v2_lists_nodes(void **state) {
    struct tree *tree = *state;
    struct error error;
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    assert_int_equal(cgroup_host_open(tree->root, "sandbox/3", true, &tree->host, &error), 0);
    make_node(tree, "only");
    assert_int_equal(cgroup_list(&tree->host, append_name, &names, &error), 0);
    assert_string_equal(buf_string(&names), "[only]");
}

/* ---- this machine's own cgroups ---- */

struct real {
    char group[64];
    struct cgroup_host host;
};

static int real_setup(void **state) {
    struct real *real = calloc(1, sizeof *real);
    struct error error;
    snprintf(real->group, sizeof real->group, "sandbox-test-%d/1", getpid());
    if (cgroup_host_open("/sys/fs/cgroup", real->group, true, &real->host, &error) < 0) {
        print_error("%s\n", error.detail);
        return -1;
    }
    *state = real;
    return 0;
}

static int real_teardown(void **state) {
    struct real *real = *state;
    int left = 0;
    cgroup_host_close(&real->host);
    *strchr(real->host.group, '/') = '\0';
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++) {
        char path[PATH_MAX];
        if (!cgroup_is_distinct(&real->host, controller)) continue;
        cgroup_path(&real->host, controller, NULL, NULL, path, NULL);
        left += access(path, F_OK) == 0;
    }
    free(real);
    return left ? -1 : 0;
}

static void assert_value(const struct cgroup_host *host, enum cgroup_controller controller, const char *file,
                         const char *expected) {
    char path[PATH_MAX], text[128];
    assert_int_equal(cgroup_path(host, controller, "n1", file, path, NULL), 0);
    assert_int_equal(cgroup_read(path, text, sizeof text), 0);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, expected);
}

/* All nodes together: the launcher and the host have the rest. */
static void nodes_leave_process_ids(void **state) {
    struct real *real = *state;
    char path[PATH_MAX], text[32];
    uint64_t most, ids;
    assert_int_equal(cgroup_path(&real->host, CGROUP_PIDS, NULL, "pids.max", path, NULL), 0);
    assert_int_equal(cgroup_read(path, text, sizeof text), 0);
    text[strcspn(text, "\n")] = '\0';
    assert_true(parse_u64(text, &most));
    assert_true(file_read_text(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof text) > 0);
    text[strcspn(text, "\n")] = '\0';
    assert_true(parse_u64(text, &ids));
    assert_int_equal(most, ids - ids / 4);
}

/* A child in the node's cgroups that does what body says; *ret_ready is readable once it has joined. */
static pid_t start_inside(struct cgroup *cgroup, void (*body)(void)) {
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char failed = (char)cgroup_join(cgroup);
        if (write(pipes[1], &failed, 1) != 1 || failed) _exit(99);
        body();
        _exit(0);
    }
    close(pipes[1]);
    char failed = 1;
    assert_int_equal(read(pipes[0], &failed, 1), 1);
    close(pipes[0]);
    assert_int_equal(failed, 0);
    return pid;
}

static void wait_for_signal(void) {
    for (;;) pause();
}

static void spin(void) {
    for (volatile bool forever = true; forever;) continue;
}

static void use_more_memory_than_allowed(void) {
    for (;;) {
        char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) _exit(98);
        memset(block, 1, MIB);
    }
}

static void real_limits_are_the_kernels(void **state) {
    struct real *real = *state;
    const struct cgroup_host *host = &real->host;
    struct cgroup cgroup;
    struct error error;
    assert_int_equal(cgroup_make(host, "n1", &limits, &cgroup, &error), 0);
    cgroup_close(&cgroup);
    if (host->version == 1) {
        assert_value(host, CGROUP_MEMORY, "memory.limit_in_bytes", "67108864");
        assert_value(host, CGROUP_MEMORY, "memory.kmem.tcp.limit_in_bytes", "4194304");
        assert_value(host, CGROUP_CPU, "cpu.cfs_quota_us", "50000");
    } else {
        assert_value(host, CGROUP_MEMORY, "memory.max", "67108864");
        assert_value(host, CGROUP_CPU, "cpu.max", "50000 100000");
    }
    assert_value(host, CGROUP_PIDS, "pids.max", "32");
    struct jail_limits other = {.memory_bytes = 256 * MIB, .os_tasks = 64};
    assert_int_equal(cgroup_set_limits(host, "n1", &other, &error), 0); /* up, past memory+swap */
    assert_int_equal(cgroup_set_limits(host, "n1", &limits, &error), 0);
    assert_value(host, CGROUP_MEMORY, cgroup_backend_of(host)->memory_limit_file, "67108864");
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
}

static void yields(const struct cgroup_host *host, bool wanted) {
    struct error error;
    if (cgroup_set_yielding(host, "n1", wanted, &error) < 0) fail_msg("%s", error.detail);
    assert_value(host, CGROUP_CPU, "cpu.idle", wanted ? "1" : "0");
}

/* The kernel takes no weight while a group yields: setting one ends the yielding first. */
static void real_yielding_ends_with_new_limits(void **state) {
    struct real *real = *state;
    const struct cgroup_host *host = &real->host;
    const char *weight_file = host->version == 1 ? "cpu.shares" : "cpu.weight";
    struct cgroup cgroup;
    struct error error;
    assert_true(host->has_yielding);
    assert_int_equal(cgroup_make(host, "n1", &limits, &cgroup, &error), 0);
    cgroup_close(&cgroup);
    assert_value(host, CGROUP_CPU, "cpu.idle", "0");
    yields(host, true);
    yields(host, true);
    yields(host, false);
    assert_value(host, CGROUP_CPU, weight_file, host->version == 1 ? "1024" : "100");
    yields(host, true);
    assert_int_equal(cgroup_set_limits(host, "n1", &limits, &error), 0);
    assert_value(host, CGROUP_CPU, "cpu.idle", "0");
    yields(host, true);
    assert_int_equal(cgroup_lift_cpu(host, "n1", &error), 0);
    assert_value(host, CGROUP_CPU, weight_file, host->version == 1 ? "102400" : "10000");
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    assert_true(cgroup_set_yielding(host, "n1", true, &error) < 0);
    assert_int_not_equal(error.code, E_GUARANTEE);
}

static void real_freeze_and_remove(void **state) {
    struct real *real = *state;
    const struct cgroup_host *host = &real->host;
    struct cgroup cgroup;
    struct error error;
    struct jail_limits slow = limits;
    slow.cpu_percent = 2;
    assert_int_equal(cgroup_make(host, "n1", &slow, &cgroup, &error), 0);
    pid_t spinner = start_inside(&cgroup, spin), sleeper = start_inside(&cgroup, wait_for_signal);
    cgroup_close(&cgroup);
    pid_t pids[8];
    assert_int_equal(cgroup_pids(host, "n1", pids, ARRAY_SIZE(pids)), 2);
    assert_int_equal(cgroup_make(host, "n1", &limits, &cgroup, &error), -E_EXISTS);
    assert_int_equal(cgroup_freeze(host, "n1", true, FREEZE_WAIT_MS, &error), 0);
    assert_true(cgroup_is_frozen(host, "n1"));
    assert_int_equal(cgroup_freeze(host, "n1", false, FREEZE_WAIT_MS, &error), 0);
    assert_false(cgroup_is_frozen(host, "n1"));
    assert_int_equal(cgroup_freeze(host, "n1", true, FREEZE_WAIT_MS, &error), 0);
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    int status;
    assert_int_equal(waitpid(spinner, &status, 0), spinner);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(sleeper, &status, 0), sleeper);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void real_v1_freezer(void **state) {
    struct real *real = *state;
    if (!real->host.hierarchies[CGROUP_FREEZER][0]) return; /* v2 has none */
    struct cgroup_host host = real->host;
    host.hierarchies[CGROUP_UNIFIED][0] = '\0';
    struct cgroup cgroup;
    struct error error;
    assert_int_equal(cgroup_make(&host, "n1", &limits, &cgroup, &error), 0);
    pid_t sleeper = start_inside(&cgroup, wait_for_signal);
    cgroup_close(&cgroup);
    assert_int_equal(cgroup_freeze(&host, "n1", true, FREEZE_WAIT_MS, &error), 0);
    assert_true(cgroup_is_frozen(&host, "n1"));
    assert_int_equal(cgroup_remove(&host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    int status;
    assert_int_equal(waitpid(sleeper, &status, 0), sleeper);
    assert_true(WIFSIGNALED(status));
}

static void real_oom_is_counted(void **state) {
    struct real *real = *state;
    const struct cgroup_host *host = &real->host;
    struct cgroup cgroup;
    struct error error;
    struct jail_limits tight = {.memory_bytes = 8 * MIB, .os_tasks = 8};
    assert_int_equal(cgroup_make(host, "n1", &tight, &cgroup, &error), 0);
    assert_int_equal(cgroup_oom_kills(host, "n1"), 0);
    pid_t greedy = start_inside(&cgroup, use_more_memory_than_allowed);
    cgroup_close(&cgroup);
    int status;
    assert_int_equal(waitpid(greedy, &status, 0), greedy);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(cgroup_oom_kills(host, "n1"), 1);
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
}

static void real_usage_has_directories(void **state) {
    struct real *real = *state;
    const struct cgroup_host *host = &real->host;
    struct cgroup cgroup;
    struct error error;
    char path[PATH_MAX];
    assert_int_equal(cgroup_make(host, "n1", &limits, &cgroup, &error), 0);
    cgroup_close(&cgroup);
    cgroup_memory_dir(host, "n1", path);
    assert_int_equal(access(path, R_OK), 0);
    cgroup_cpu_dir(host, "n1", path);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(cgroup_remove(host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    struct cgroup_host none = {0};
    cgroup_memory_dir(&none, "n1", path);
    assert_string_equal(path, "");
}

static void a_host_without_cgroups_does_nothing(void **state) {
    (void)state;
    struct cgroup_host host;
    struct cgroup cgroup;
    struct error error;
    assert_int_equal(cgroup_host_open("/nonexistent", "sandbox/1", true, &host, &error), 0);
    assert_int_equal(host.version, 0);
    assert_int_equal(cgroup_make(&host, "n1", &limits, &cgroup, &error), 0);
    assert_int_equal(cgroup_join(&cgroup), 0);
    assert_int_equal(cgroup_set_limits(&host, "n1", &limits, &error), 0);
    assert_int_equal(cgroup_lift_cpu(&host, "n1", &error), 0);
    assert_int_equal(cgroup_freeze(&host, "n1", true, FREEZE_WAIT_MS, &error), -E_GUARANTEE);
    assert_int_equal(cgroup_set_yielding(&host, "n1", true, &error), -E_GUARANTEE);
    assert_int_equal(cgroup_pids(&host, "n1", NULL, 0), 0);
    assert_int_equal(cgroup_remove(&host, "n1", clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, &error), 0);
    cgroup_host_close(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_settings),
        cmocka_unit_test(v2_settings),
        cmocka_unit_test(v2_sockets_are_memory_unless_the_kernel_was_told),
        cmocka_unit_test_setup_teardown(v2_enables_controllers_on_the_way_down, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v1_says_whether_sockets_are_bounded, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v1_leaves_a_socket_limit_that_is_in_force, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_says_what_it_lacks, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_bounds_the_service_beside_its_nodes, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_writes_limits, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_refuses_to_go_below_use, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_hurries_a_node_that_is_waited_for, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_freezes_until_it_took_effect, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(v2_lists_nodes, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(nodes_leave_process_ids, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_limits_are_the_kernels, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_yielding_ends_with_new_limits, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_freeze_and_remove, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_v1_freezer, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_oom_is_counted, real_setup, real_teardown),
        cmocka_unit_test_setup_teardown(real_usage_has_directories, real_setup, real_teardown),
        cmocka_unit_test(a_host_without_cgroups_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
