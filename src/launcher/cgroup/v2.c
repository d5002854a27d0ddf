/* Cgroup version 2: one hierarchy, with the controllers that each directory lets its children have. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/wire.h"
#include "launcher/cgroup/backend.h"
#include "launcher/cgroup/cgroup.h"

/* Where processes that were in a delegated cgroup go: one that has children with controllers may hold none itself. */
#define SERVICE_LEAF "sandbox-service"

static const struct {
    enum cgroup_controller controller;
    const char *name;
} controllers[] = {
    {CGROUP_MEMORY, "memory"},
    {CGROUP_CPU, "cpu"},
    {CGROUP_PIDS, "pids"},
};

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ') && strchr(" \n", at[length])) return true;
    return false;
}

void cgroup_v2_find(const char *mount, const char *subdirectory, const char *own_path, struct cgroup_host *ret) {
    char directory[PATH_MAX], file[PATH_MAX], available[1024], hierarchy[CGROUP_HIERARCHY_BYTES] = {0};
    if (string_format(hierarchy, sizeof hierarchy, NULL, "%s%s", subdirectory, own_path) < 0 ||
        string_format(directory, sizeof directory, NULL, "%s/%s", mount, hierarchy) < 0 ||
        string_format(file, sizeof file, NULL, "%s/cgroup.controllers", directory) < 0)
        return;
    if (access(directory, W_OK) < 0 || cgroup_read(file, available, sizeof available) < 0) return;
    memcpy(ret->hierarchies[CGROUP_UNIFIED], hierarchy, sizeof hierarchy);
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
        if (has_word(available, controllers[i].name))
            memcpy(ret->hierarchies[controllers[i].controller], hierarchy, sizeof hierarchy);
}

bool cgroup_v2_counts_sockets(const char *kernel_options) {
    static const char option[] = "cgroup.memory=";
    const char *value = strstr(kernel_options, option);
    if (!value) return true;
    size_t length = strcspn(value, " \n");
    const char *word = strstr(value, "nosocket");
    return !word || word >= value + length;
}

static void cpu_setting(uint64_t cpu_percent, struct cgroup_setting *ret) {
    *ret = (struct cgroup_setting){.controller = CGROUP_CPU, .file = "cpu.max"};
    if (cpu_percent)
        snprintf(ret->value, sizeof ret->value, "%" PRIu64 " %d", cpu_percent * (CGROUP_PERIOD_US / 100),
                 CGROUP_PERIOD_US);
    else
        snprintf(ret->value, sizeof ret->value, "max %d", CGROUP_PERIOD_US);
}

static void set(struct cgroup_setting *setting, enum cgroup_controller controller, const char *file, uint64_t value) {
    *setting = (struct cgroup_setting){.controller = controller, .file = file};
    snprintf(setting->value, sizeof setting->value, "%llu", (unsigned long long)value);
}

/* The kernel's own default is 100. */
static void weight_setting(uint64_t weight_percent, struct cgroup_setting *ret) {
    set(ret, CGROUP_CPU, "cpu.weight", weight_percent ? weight_percent : 100);
    ret->optional = true;
}

static size_t limit_settings(const struct cgroup_host *host, const struct jail_limits *limits, bool raising,
                             struct cgroup_setting ret[CGROUP_SETTINGS_MAX]) {
    (void)raising; /* swap is a bound of its own here: no order to keep. Buffers of sockets are memory. */
    size_t count = 0;
    if (host->has_memory && limits->memory_bytes) {
        set(&ret[count++], CGROUP_MEMORY, "memory.max", limits->memory_bytes + limits->disk_bytes);
        set(&ret[count], CGROUP_MEMORY, "memory.swap.max", 0);
        ret[count++].optional = true;
    }
    if (host->has_cpu) {
        cpu_setting(limits->cpu_percent, &ret[count++]);
        ret[count++] = cgroup_not_yielding;
        weight_setting(limits->cpu_weight_percent, &ret[count++]);
    }
    if (host->has_tasks && limits->os_tasks) set(&ret[count++], CGROUP_PIDS, "pids.max", limits->os_tasks);
    return count;
}

/* Move every process of the directory itself to a leaf below it. */
static void vacate(const char *directory) {
    char leaf[PATH_MAX], from[PATH_MAX], to[PATH_MAX], pids[16384];
    if (string_format(leaf, sizeof leaf, NULL, "%s/" SERVICE_LEAF, directory) < 0 ||
        string_format(from, sizeof from, NULL, "%s/cgroup.procs", directory) < 0 ||
        string_format(to, sizeof to, NULL, "%s/cgroup.procs", leaf) < 0)
        return;
    if (mkdir(leaf, 0755) < 0 && errno != EEXIST) return;
    if (cgroup_read(from, pids, sizeof pids) < 0) return;
    char *at = pids;
    for (char *pid; (pid = wire_next_line(&at));) cgroup_write(to, pid); /* one that has ended is no failure */
}

/* One by one, so that a controller which can't be had costs only its own limit. */
static void enable_each(struct cgroup_host *host, const char *file) {
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
        char word[16];
        snprintf(word, sizeof word, "+%s", controllers[i].name);
        char *hierarchy = host->hierarchies[controllers[i].controller];
        if (*hierarchy && cgroup_write(file, word) < 0) *hierarchy = '\0';
    }
}

static void prepare_parent(struct cgroup_host *host, const char *directory) {
    char file[PATH_MAX], words[64] = "";
    if (string_format(file, sizeof file, NULL, "%s/cgroup.subtree_control", directory) < 0) return;
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
        if (host->hierarchies[controllers[i].controller][0])
            snprintf(words + strlen(words), sizeof words - strlen(words), "%s+%s", *words ? " " : "",
                     controllers[i].name);
    int failed = *words ? cgroup_write(file, words) : 0;
    if (failed == -EBUSY && !host->is_root) {
        vacate(directory);
        failed = cgroup_write(file, words);
    }
    if (failed) enable_each(host, file);
}

const struct cgroup_backend cgroup_v2 = {
    .join_file = "cgroup.procs",
    .memory_usage_file = "memory.current",
    .memory_limit_file = "memory.max",
    .oom_file = "memory.events",
    .limit_settings = limit_settings,
    .cpu_setting = cpu_setting,
    .weight_setting = weight_setting,
    .prepare_parent = prepare_parent,
};
