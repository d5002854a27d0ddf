/* Between the cgroup files: what differs from one cgroup version to the other, as data and pure functions. */
#ifndef LAUNCHER_CGROUP_BACKEND_H
#define LAUNCHER_CGROUP_BACKEND_H

#include "launcher/cgroup/cgroup.h"

enum {
    CGROUP_SETTINGS_MAX = 10,
    CGROUP_VALUE_BYTES = 48,
    CGROUP_PERIOD_US = 100000, /* of the CPU quota */
    CGROUP_PIDS_MAX = 4096,    /* read from one cgroup at a time */
};

/* One value for one control file of a node. */
struct cgroup_setting {
    enum cgroup_controller controller;
    const char *file;
    char value[CGROUP_VALUE_BYTES];
    bool optional; /* the kernel may have been built without the file */
};

struct cgroup_backend {
    const char *join_file; /* in a controller's hierarchy; the unified one always has cgroup.procs */
    const char *memory_usage_file;
    const char *memory_limit_file;
    const char *socket_limit_file; /* NULL: buffers of sockets are memory like any other */
    const char *oom_file;          /* has a line "oom_kill N" */
    /* Pure: what to write, in which order; raising says that the memory limit goes up. Returns the count. */
    size_t (*limit_settings)(const struct cgroup_host *host, const struct jail_limits *limits, bool raising,
                             struct cgroup_setting ret[CGROUP_SETTINGS_MAX]);
    void (*cpu_setting)(uint64_t cpu_percent, struct cgroup_setting *ret);       /* the quota alone; 0: no cap */
    void (*weight_setting)(uint64_t weight_percent, struct cgroup_setting *ret); /* 0: the usual */
    /* Let the directories below this one have controllers; one that can't be had is dropped from the host. */
    void (*prepare_parent)(struct cgroup_host *host, const char *directory);
};

/* The same for both: whether all other cgroups go first. While it does, the kernel takes no weight. */
extern const struct cgroup_setting cgroup_not_yielding;

extern const struct cgroup_backend cgroup_v1;
extern const struct cgroup_backend cgroup_v2;

/* Fill hierarchies from what is mounted and writable below mount; leaves them empty where there is none. */
void cgroup_v1_find(const char *mount, struct cgroup_host *ret);
/* subdirectory: where the unified hierarchy is mounted below mount; own_path: where in it ours begins, "" or "/…". */
void cgroup_v2_find(const char *mount, const char *subdirectory, const char *own_path, struct cgroup_host *ret);

/* Unless the kernel was started with cgroup.memory=nosocket among its options. */
bool cgroup_v2_counts_sockets(const char *kernel_options);

const struct cgroup_backend *cgroup_backend_of(const struct cgroup_host *host);

/* "mount/hierarchy/group/node/file" without the parts that are NULL. */
int cgroup_path(const struct cgroup_host *host, enum cgroup_controller controller, const char *node, const char *file,
                char ret[PATH_MAX], struct error *reterr);
/* Whether this controller's hierarchy is there and is not an earlier controller's too. */
bool cgroup_is_distinct(const struct cgroup_host *host, enum cgroup_controller controller);

/* Control files. A read gives the terminated text; negative errno on failure. */
int cgroup_write(const char *path, const char *text);
int cgroup_read(const char *path, char *ret, size_t size);
/* The number on the line that starts with "key "; a file with nothing but a number has the key "". */
bool cgroup_read_number(const char *path, const char *key, uint64_t *ret);

#endif
