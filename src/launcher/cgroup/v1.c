/* Cgroup version 1: a hierarchy for each controller. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/cgroup/backend.h"
#include "launcher/cgroup/cgroup.h"

enum { SHARES_FULL = 1024 }; /* the kernel's own default */

/* Named for TCP, but buffers of UDP are counted there too. Kernels without CONFIG_MEMCG_KMEM have no such file. */
#define SOCKET_LIMIT_FILE "memory.kmem.tcp.limit_in_bytes"

/* Names a controller's hierarchy may be mounted under. */
static const char *const mount_names[CGROUP_CONTROLLER_COUNT][2] = {
    [CGROUP_MEMORY] = {"memory"}, [CGROUP_CPU] = {"cpu", "cpu,cpuacct"}, [CGROUP_CPUACCT] = {"cpuacct", "cpu,cpuacct"},
    [CGROUP_PIDS] = {"pids"},     [CGROUP_FREEZER] = {"freezer"},
};

static bool is_usable(const char *mount, const char *name, struct stat *ret) {
    char path[PATH_MAX], tasks[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "%s/%s", mount, name) < 0 ||
        string_format(tasks, sizeof tasks, NULL, "%s/tasks", path) < 0)
        return false;
    return access(path, W_OK) == 0 && access(tasks, F_OK) == 0 && stat(path, ret) == 0;
}

/* "cpu" and "cpuacct" are often links to one hierarchy: give both the same name, so that it is used once. */
static void join_cpu_names(struct cgroup_host *host, const struct stat *stats) {
    const struct stat *cpu = &stats[CGROUP_CPU], *account = &stats[CGROUP_CPUACCT];
    if (host->hierarchies[CGROUP_CPU][0] && host->hierarchies[CGROUP_CPUACCT][0] && cpu->st_dev == account->st_dev &&
        cpu->st_ino == account->st_ino)
        memcpy(host->hierarchies[CGROUP_CPUACCT], host->hierarchies[CGROUP_CPU], CGROUP_HIERARCHY_BYTES);
}

void cgroup_v1_find(const char *mount, struct cgroup_host *ret) {
    struct stat stats[CGROUP_CONTROLLER_COUNT] = {0};
    for (int controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++)
        for (size_t i = 0; i < ARRAY_SIZE(mount_names[0]) && !ret->hierarchies[controller][0]; i++) {
            const char *name = mount_names[controller][i];
            if (name && is_usable(mount, name, &stats[controller]))
                snprintf(ret->hierarchies[controller], CGROUP_HIERARCHY_BYTES, "%s", name);
        }
    join_cpu_names(ret, stats);
}

static void set(struct cgroup_setting *setting, enum cgroup_controller controller, const char *file, uint64_t value) {
    *setting = (struct cgroup_setting){.controller = controller, .file = file};
    snprintf(setting->value, sizeof setting->value, "%llu", (unsigned long long)value);
}

static void cpu_setting(uint64_t cpu_percent, struct cgroup_setting *ret) {
    set(ret, CGROUP_CPU, "cpu.cfs_quota_us", cpu_percent * (CGROUP_PERIOD_US / 100));
    if (cpu_percent == 0) strcpy(ret->value, "-1");
}

static void weight_setting(uint64_t weight_percent, struct cgroup_setting *ret) {
    set(ret, CGROUP_CPU, "cpu.shares", (weight_percent ? weight_percent : 100) * (uint64_t)SHARES_FULL / 100);
    ret->optional = true;
}

/* memory+swap may never be less than memory: the one that must give way goes first. */
static size_t memory_settings(uint64_t bytes, bool raising, struct cgroup_setting *ret) {
    struct cgroup_setting *memory = &ret[raising ? 1 : 0];
    struct cgroup_setting *memory_and_swap = &ret[raising ? 0 : 1];
    set(memory, CGROUP_MEMORY, "memory.limit_in_bytes", bytes);
    set(memory_and_swap, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", bytes);
    memory_and_swap->optional = true;
    return 2;
}

static size_t limit_settings(const struct cgroup_host *host, const struct jail_limits *limits, bool raising,
                             struct cgroup_setting ret[CGROUP_SETTINGS_MAX]) {
    size_t count = 0;
    /* First, since the kernel refuses less than is used: then nothing has changed yet. */
    if (host->has_memory && limits->socket_memory_bytes) {
        set(&ret[count], CGROUP_MEMORY, SOCKET_LIMIT_FILE, limits->socket_memory_bytes);
        ret[count++].optional = true;
    }
    if (host->has_memory && limits->memory_bytes)
        count += memory_settings(limits->memory_bytes + limits->disk_bytes, raising, ret + count);
    if (host->has_cpu) {
        set(&ret[count++], CGROUP_CPU, "cpu.cfs_period_us", CGROUP_PERIOD_US);
        cpu_setting(limits->cpu_percent, &ret[count++]);
        ret[count++] = cgroup_not_yielding;
        weight_setting(limits->cpu_weight_percent, &ret[count++]);
    }
    if (host->has_tasks && limits->os_tasks) set(&ret[count++], CGROUP_PIDS, "pids.max", limits->os_tasks);
    return count;
}

static void prepare_parent(struct cgroup_host *host, const char *directory) {
    (void)host, (void)directory; /* every directory of a v1 hierarchy has its controllers */
}

const struct cgroup_backend cgroup_v1 = {
    .join_file = "tasks",
    .memory_usage_file = "memory.usage_in_bytes",
    .memory_limit_file = "memory.limit_in_bytes",
    .socket_limit_file = SOCKET_LIMIT_FILE,
    .oom_file = "memory.oom_control",
    .limit_settings = limit_settings,
    .cpu_setting = cpu_setting,
    .weight_setting = weight_setting,
    .prepare_parent = prepare_parent,
};
