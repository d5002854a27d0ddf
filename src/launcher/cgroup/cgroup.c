/* Cgroups of nodes: found, made, joined and removed, whichever version the host has. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/wire.h"
#include "launcher/cgroup/backend.h"
#include "launcher/cgroup/cgroup.h"

enum {
    GROUP_ATTEMPTS = 8,
    MOST_WEIGHT_PERCENT = 10000, /* there is: building and dying take milliseconds, and others would have them wait */
};

/* Kernels before 5.15 have no such file. */
const struct cgroup_setting cgroup_not_yielding = {CGROUP_CPU, "cpu.idle", "0", true};

const struct cgroup_backend *cgroup_backend_of(const struct cgroup_host *host) {
    return host->version == 2 ? &cgroup_v2 : &cgroup_v1;
}

bool cgroup_is_distinct(const struct cgroup_host *host, enum cgroup_controller controller) {
    if (!host->hierarchies[controller][0]) return false;
    for (unsigned earlier = 0; earlier < controller; earlier++)
        if (strcmp(host->hierarchies[earlier], host->hierarchies[controller]) == 0) return false;
    return true;
}

int cgroup_path(const struct cgroup_host *host, enum cgroup_controller controller, const char *node, const char *file,
                char ret[PATH_MAX], struct error *reterr) {
    return string_format(ret, PATH_MAX, reterr, "%s/%s/%s%s%s%s%s", host->mount, host->hierarchies[controller],
                         host->group, node ? "/" : "", node ? node : "", file ? "/" : "", file ? file : "");
}

/* Where this process is in the unified hierarchy: "" for its root, else "/…". */
static void own_unified_path(char *ret, size_t size) {
    char text[4096];
    *ret = '\0';
    if (cgroup_read("/proc/self/cgroup", text, sizeof text) < 0) return;
    char *at = text;
    for (char *line; (line = wire_next_line(&at));)
        if (string_starts(line, "0::/") && line[4]) snprintf(ret, size, "%s", line + 3);
}

static bool counts_sockets(const struct cgroup_host *host) {
    const char *file = cgroup_backend_of(host)->socket_limit_file;
    char path[PATH_MAX], options[4096];
    if (!host->has_memory) return false;
    if (!file) return cgroup_read("/proc/cmdline", options, sizeof options) < 0 || cgroup_v2_counts_sockets(options);
    const char *hierarchy = host->hierarchies[CGROUP_MEMORY];
    if (string_format(path, sizeof path, NULL, "%s/%s/%s", host->mount, hierarchy, file) < 0) return false;
    return access(path, F_OK) == 0;
}

static void note_abilities(struct cgroup_host *host) {
    host->has_memory = host->hierarchies[CGROUP_MEMORY][0];
    host->has_cpu = host->hierarchies[CGROUP_CPU][0];
    host->has_tasks = host->hierarchies[CGROUP_PIDS][0];
    host->has_freezer = host->hierarchies[CGROUP_FREEZER][0] || host->hierarchies[CGROUP_UNIFIED][0];
    host->counts_sockets = counts_sockets(host);
    if (!host->has_memory && !host->has_cpu && !host->has_tasks && !host->has_freezer) host->version = 0;
}

void cgroup_host_find(const char *mount, bool root, struct cgroup_host *ret) {
    struct cgroup_host host = {.is_root = root};
    char own_path[CGROUP_HIERARCHY_BYTES] = "", file[PATH_MAX];
    snprintf(host.mount, sizeof host.mount, "%s", mount);
    /* Others than root have what was delegated to them: the cgroup they are in. */
    if (!root) own_unified_path(own_path, sizeof own_path);
    bool is_v2 = string_format(file, sizeof file, NULL, "%s/cgroup.controllers", mount) == 0 && access(file, F_OK) == 0;
    host.version = is_v2 ? 2 : 1;
    if (!is_v2) cgroup_v1_find(mount, &host);
    cgroup_v2_find(mount, is_v2 ? "." : "unified", own_path, &host);
    note_abilities(&host);
    *ret = host;
}

static int make_parent(struct cgroup_host *host, const char *path) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) return -errno;
    cgroup_backend_of(host)->prepare_parent(host, path);
    return 0;
}

/* Every directory from the hierarchy's own down to the group's, since each must hand its controllers on. */
static int make_parents(struct cgroup_host *host, char *path) {
    for (char *slash = path + strlen(path) - strlen(host->group) - 1; slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = make_parent(host, path);
        *slash = '/';
        if (failed) return failed;
    }
    return make_parent(host, path);
}

static int make_group(struct cgroup_host *host, enum cgroup_controller controller, struct error *reterr) {
    char path[PATH_MAX];
    if (cgroup_path(host, controller, NULL, NULL, path, reterr) < 0) return -1;
    int failed = -ENOENT;
    /* Another instance that ends may remove the directory that we share between our finding and our using it. */
    for (int attempt = 0; failed == -ENOENT && attempt < GROUP_ATTEMPTS; attempt++) failed = make_parents(host, path);
    return failed ? error_errno(reterr, -failed, "make cgroup %s", path) : 0;
}

/* The root of the unified hierarchy has no such file, so it takes the group's own directory to tell. */
static void note_yielding(struct cgroup_host *host) {
    char path[PATH_MAX];
    host->has_yielding = host->has_cpu &&
                         cgroup_path(host, CGROUP_CPU, NULL, cgroup_not_yielding.file, path, NULL) == 0 &&
                         access(path, W_OK) == 0;
}

/* The host has only so many process ids. All nodes together leave a quarter of them to the launcher, which needs some
   to start and to end nodes, and to the rest of the host. */
static void keep_ids_free(const struct cgroup_host *host) {
    char path[PATH_MAX], text[32];
    uint64_t ids;
    if (!host->has_tasks || cgroup_path(host, CGROUP_PIDS, NULL, "pids.max", path, NULL) < 0 ||
        file_read_text(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof text) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    if (!parse_u64(text, &ids)) return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)(ids - ids / 4));
    cgroup_write(path, text);
}

static int make_groups(struct cgroup_host *host, const char *group, struct error *reterr) {
    if (string_format(host->group, sizeof host->group, reterr, "%s", group) < 0) return -1;
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++)
        if (cgroup_is_distinct(host, controller) && make_group(host, controller, reterr) < 0) {
            cgroup_host_close(host);
            return -1;
        }
    note_abilities(host);
    return 0;
}

int cgroup_host_open(const char *mount, const char *group, bool root, struct cgroup_host *ret, struct error *reterr) {
    struct cgroup_host host;
    cgroup_host_find(mount, root, &host);
    if (make_groups(&host, group, reterr) < 0) return -1;
    note_yielding(&host);
    keep_ids_free(&host);
    *ret = host;
    return 0;
}

int cgroup_host_open_sibling(const struct cgroup_host *nodes, const char *group, struct cgroup_host *ret,
                             struct error *reterr) {
    static const enum cgroup_controller left_out[] = {CGROUP_CPU, CGROUP_CPUACCT, CGROUP_FREEZER};
    struct cgroup_host host = *nodes;
    for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) host.hierarchies[left_out[i]][0] = '\0';
    /* Beside v1 the unified hierarchy has nothing that bounds. */
    if (host.version == 1) host.hierarchies[CGROUP_UNIFIED][0] = '\0';
    host.has_yielding = false;
    note_abilities(&host);
    if (!host.has_memory && !host.has_tasks)
        return error_set(reterr, E_GUARANTEE, "this host has no cgroups that bound memory or tasks");
    if (make_groups(&host, group, reterr) < 0) return -1;
    *ret = host;
    return 0;
}

void cgroup_host_close(const struct cgroup_host *host) {
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++) {
        char path[PATH_MAX];
        if (!cgroup_is_distinct(host, controller) || cgroup_path(host, controller, NULL, NULL, path, NULL) < 0)
            continue;
        char *group = path + strlen(path) - strlen(host->group);
        /* A directory above that another instance uses is not empty, and stays. */
        for (char *slash; rmdir(path) == 0 && (slash = strrchr(group, '/'));) *slash = '\0';
    }
}

static int write_setting(const struct cgroup_host *host, const char *node, const struct cgroup_setting *setting,
                         struct error *reterr) {
    char path[PATH_MAX];
    if (cgroup_path(host, setting->controller, node, setting->file, path, reterr) < 0) return -1;
    int failed = cgroup_write(path, setting->value);
    if (failed == 0 || (failed == -ENOENT && setting->optional)) return 0;
    if (failed == -EBUSY)
        return error_set(reterr, E_CONFLICT, "node %s uses more than %s of %s", node, setting->value, setting->file);
    return error_errno(reterr, -failed, "write %s to %s", setting->value, path);
}

static int write_limits(const struct cgroup_host *host, const char *node, const struct jail_limits *limits,
                        bool raising, struct error *reterr) {
    struct cgroup_setting settings[CGROUP_SETTINGS_MAX];
    size_t count = cgroup_backend_of(host)->limit_settings(host, limits, raising, settings);
    for (size_t i = 0; i < count; i++)
        if (write_setting(host, node, &settings[i], reterr) < 0) return -1;
    return 0;
}

/* A directory that an ended instance left behind may be used again; one with processes in it may not. */
static int make_directory(const struct cgroup_host *host, enum cgroup_controller controller, const char *node,
                          struct error *reterr) {
    char path[PATH_MAX], procs[PATH_MAX], pids[16];
    if (cgroup_path(host, controller, node, NULL, path, reterr) < 0 ||
        cgroup_path(host, controller, node, "cgroup.procs", procs, reterr) < 0)
        return -1;
    if (mkdir(path, 0755) == 0) return 0;
    if (errno != EEXIST) return error_errno(reterr, errno, "make cgroup %s", path);
    if (cgroup_read(procs, pids, sizeof pids) == 0 && *pids)
        return error_set(reterr, E_EXISTS, "node %s is running", node);
    return 0;
}

static int open_join_file(const struct cgroup_host *host, enum cgroup_controller controller, struct cgroup *cgroup,
                          struct error *reterr) {
    const char *file = controller == CGROUP_UNIFIED ? "cgroup.procs" : cgroup_backend_of(host)->join_file;
    char path[PATH_MAX];
    if (cgroup_path(host, controller, cgroup->node, file, path, reterr) < 0) return -1;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "open %s", path);
    cgroup->join_fds[cgroup->join_count++] = fd;
    if (strcmp(host->hierarchies[controller], host->hierarchies[CGROUP_UNIFIED]) != 0) return 0;
    if (cgroup_path(host, controller, cgroup->node, NULL, path, reterr) < 0) return -1;
    cgroup->unified_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cgroup->unified_fd < 0) return error_errno(reterr, errno, "open %s", path);
    cgroup->unified_join = cgroup->join_count - 1;
    cgroup->has_unified = true;
    return 0;
}

static int make_all(const struct cgroup_host *host, const struct jail_limits *limits, struct cgroup *cgroup,
                    struct error *reterr) {
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++) {
        if (!cgroup_is_distinct(host, controller)) continue;
        if (make_directory(host, controller, cgroup->node, reterr) < 0 ||
            open_join_file(host, controller, cgroup, reterr) < 0)
            return -1;
    }
    return write_limits(host, cgroup->node, limits, false, reterr);
}

int cgroup_make(const struct cgroup_host *host, const char *node, const struct jail_limits *limits, struct cgroup *ret,
                struct error *reterr) {
    struct cgroup cgroup = {0};
    struct error failure = {0};
    if (string_format(cgroup.node, sizeof cgroup.node, reterr, "%s", node) < 0) return -1;
    if (make_all(host, limits, &cgroup, &failure) < 0) {
        cgroup_close(&cgroup);
        if (failure.code != E_EXISTS) cgroup_remove(host, node, clock_monotonic_ms() + CGROUP_REMOVE_WAIT_MS, NULL);
        return error_set(reterr, failure.code, "%s", failure.detail);
    }
    *ret = cgroup;
    return 0;
}

int cgroup_open(const struct cgroup_host *host, const char *node, struct cgroup *ret, struct error *reterr) {
    struct cgroup cgroup = {0};
    int failed = string_format(cgroup.node, sizeof cgroup.node, reterr, "%s", node);
    for (unsigned controller = 0; !failed && controller < CGROUP_CONTROLLER_COUNT; controller++)
        if (cgroup_is_distinct(host, controller)) failed = open_join_file(host, controller, &cgroup, reterr);
    if (failed)
        cgroup_close(&cgroup);
    else
        *ret = cgroup;
    return failed;
}

int cgroup_join(const struct cgroup *cgroup) {
    for (int i = 0; i < cgroup->join_count; i++)
        if (write(cgroup->join_fds[i], "0", 1) != 1) return errno;
    return 0;
}

void cgroup_started_inside(struct cgroup *cgroup) {
    fd_close(cgroup->join_fds[cgroup->unified_join]);
    cgroup->join_fds[cgroup->unified_join] = cgroup->join_fds[--cgroup->join_count];
    fd_close(cgroup->unified_fd);
    cgroup->has_unified = false;
}

void cgroup_close(struct cgroup *cgroup) {
    for (int i = 0; i < cgroup->join_count; i++) fd_close(cgroup->join_fds[i]);
    cgroup->join_count = 0;
    if (cgroup->has_unified) fd_close(cgroup->unified_fd);
    cgroup->has_unified = false;
}

static uint64_t memory_number(const struct cgroup_host *host, const char *node, const char *file) {
    char path[PATH_MAX];
    uint64_t bytes = UINT64_MAX; /* "max", or not to be read */
    if (cgroup_path(host, CGROUP_MEMORY, node, file, path, NULL) == 0) cgroup_read_number(path, "", &bytes);
    return bytes;
}

/* The kernel keeps it in pages. It refuses less than is used, and for a moment more than the limit can be: writing what
   is in force already would let a node keep its other limits from being changed. */
static bool has_socket_limit(const struct cgroup_host *host, const char *node, uint64_t bytes) {
    const char *file = cgroup_backend_of(host)->socket_limit_file;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return file && host->has_memory && memory_number(host, node, file) / page_bytes == bytes / page_bytes;
}

int cgroup_set_limits(const struct cgroup_host *host, const char *node, const struct jail_limits *limits,
                      struct error *reterr) {
    const struct cgroup_backend *backend = cgroup_backend_of(host);
    bool raising = false;
    if (host->has_memory && limits->memory_bytes) {
        uint64_t wanted = limits->memory_bytes + limits->disk_bytes;
        uint64_t used = memory_number(host, node, backend->memory_usage_file);
        /* The kernel would kill to get below it. */
        if (used != UINT64_MAX && used > wanted)
            return error_set(reterr, E_CONFLICT, "node %s uses %llu bytes of memory, more than %llu", node,
                             (unsigned long long)used, (unsigned long long)wanted);
        raising = wanted > memory_number(host, node, backend->memory_limit_file);
    }
    struct jail_limits changed = *limits;
    if (has_socket_limit(host, node, limits->socket_memory_bytes)) changed.socket_memory_bytes = 0;
    return write_limits(host, node, &changed, raising, reterr);
}

int cgroup_lift_cpu(const struct cgroup_host *host, const char *node, struct error *reterr) {
    if (!host->has_cpu) return 0;
    struct cgroup_setting quota, weight;
    cgroup_backend_of(host)->cpu_setting(0, &quota);
    cgroup_backend_of(host)->weight_setting(MOST_WEIGHT_PERCENT, &weight);
    write_setting(host, node, &cgroup_not_yielding, NULL);
    write_setting(host, node, &weight, NULL); /* it is a help, no more */
    return write_setting(host, node, &quota, reterr);
}

int cgroup_hurry(const struct cgroup_host *host, const char *node, struct error *reterr) {
    return cgroup_set_weight(host, node, MOST_WEIGHT_PERCENT, reterr);
}

int cgroup_set_weight(const struct cgroup_host *host, const char *node, uint64_t weight_percent, struct error *reterr) {
    struct cgroup_setting weight;
    if (!host->has_cpu) return 0;
    cgroup_backend_of(host)->weight_setting(weight_percent, &weight);
    return write_setting(host, node, &weight, reterr);
}

int cgroup_set_yielding(const struct cgroup_host *host, const char *node, bool yields, struct error *reterr) {
    char path[PATH_MAX];
    if (!host->has_yielding) return error_set(reterr, E_GUARANTEE, "this host has no %s", cgroup_not_yielding.file);
    if (cgroup_path(host, cgroup_not_yielding.controller, node, cgroup_not_yielding.file, path, reterr) < 0) return -1;
    int failed = cgroup_write(path, yields ? "1" : "0");
    return failed ? error_errno(reterr, -failed, "write %s", path) : 0;
}

bool cgroup_yields(const struct cgroup_host *host, const char *node) {
    char path[PATH_MAX];
    uint64_t yields = 0;
    return host->has_yielding &&
           cgroup_path(host, cgroup_not_yielding.controller, node, cgroup_not_yielding.file, path, NULL) == 0 &&
           cgroup_read_number(path, "", &yields) && yields == 1;
}

static void directory_of(const struct cgroup_host *host, enum cgroup_controller controller, const char *node,
                         char ret[PATH_MAX]) {
    if (!host->hierarchies[controller][0] || cgroup_path(host, controller, node, NULL, ret, NULL) < 0) *ret = '\0';
}

void cgroup_memory_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]) {
    directory_of(host, CGROUP_MEMORY, node, ret);
}

void cgroup_cpu_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]) {
    /* cpuacct.usage there, else cpu.stat with usage_usec, which the unified hierarchy has even without controllers. */
    directory_of(host, CGROUP_CPUACCT, node, ret);
    if (!*ret) directory_of(host, CGROUP_UNIFIED, node, ret);
}

void cgroup_tasks_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]) {
    directory_of(host, CGROUP_PIDS, node, ret);
}

/* Names of the directories in one hierarchy's group that were not seen in another. */
static int list_group(const struct cgroup_host *host, enum cgroup_controller controller, struct map *seen,
                      struct error *reterr) {
    char path[PATH_MAX];
    if (cgroup_path(host, controller, NULL, NULL, path, reterr) < 0) return -1;
    DIR *directory = opendir(path);
    if (!directory) return errno == ENOENT ? 0 : error_errno(reterr, errno, "open %s", path);
    for (struct dirent *entry; (entry = readdir(directory)) && seen->count < JAIL_NODES_MAX;)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && !map_get(seen, entry->d_name))
            map_set(seen, entry->d_name, seen);
    closedir(directory);
    return 0;
}

int cgroup_list(const struct cgroup_host *host, void (*each)(void *data, const char *node), void *data,
                struct error *reterr) {
    CLEANUP(map_free) struct map seen = MAP_INIT;
    for (unsigned controller = 0; controller < CGROUP_CONTROLLER_COUNT; controller++)
        if (cgroup_is_distinct(host, controller) && list_group(host, controller, &seen, reterr) < 0) return -1;
    size_t at = 0;
    const char *node;
    void *value;
    while (map_next(&seen, &at, &node, &value)) each(data, node);
    return 0;
}
