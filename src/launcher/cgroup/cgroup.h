/* Cgroups: one facade, a backend per version (backend.h). */
#ifndef LAUNCHER_CGROUP_CGROUP_H
#define LAUNCHER_CGROUP_CGROUP_H

#include <limits.h>

#include "jail/jail.h"

enum { CGROUP_FDS_MAX = 8, CGROUP_HIERARCHY_BYTES = 512, CGROUP_REMOVE_WAIT_MS = 2000 };

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_CPU,
    CGROUP_CPUACCT, /* v1 only */
    CGROUP_PIDS,
    CGROUP_FREEZER, /* v1 only; the unified hierarchy freezes better */
    CGROUP_UNIFIED, /* v2, or the hybrid one beside v1: cgroup.freeze, cgroup.kill, cgroup.events */
    CGROUP_CONTROLLER_COUNT
};

/* Where this instance's cgroups live, found once at start. */
struct cgroup_host {
    int version;          /* 0: none usable; 1; 2 */
    char mount[PATH_MAX]; /* "/sys/fs/cgroup", or a fake tree in tests */
    char group[128];      /* the instance's directory below each hierarchy, e.g. "sandbox/3" */
    bool is_root;
    bool has_memory, has_cpu, has_tasks, has_freezer;
    bool counts_sockets; /* their buffers are bounded, with the memory (v2) or beside it (v1) */
    bool has_yielding;   /* known once the group was made */
    char hierarchies[CGROUP_CONTROLLER_COUNT][CGROUP_HIERARCHY_BYTES]; /* below mount; "" when absent */
};

/* One node's cgroups. */
struct cgroup {
    char node[JAIL_NAME_BYTES];
    int join_fds[CGROUP_FDS_MAX]; /* files to write "0" to, opened by cgroup_make, closed by cgroup_close */
    int join_count;
    bool has_unified;
    int unified_fd;   /* that hierarchy's directory, to start a process in */
    int unified_join; /* which of join_fds is that hierarchy's */
};

/* Look only: what an instance could use here. */
void cgroup_host_find(const char *mount, bool root, struct cgroup_host *ret);
/* The same, and make the group's directories. A host without usable cgroups is no failure: its version is 0 and every
   function below accepts it and does nothing. */
int cgroup_host_open(const char *mount, const char *group, bool root, struct cgroup_host *ret, struct error *reterr);
/* Another group of the same instance, in a directory of its own, where memory and tasks are bounded and the processor
   is not: what is in there has no part of the nodes' share. E_GUARANTEE where the host bounds neither. */
int cgroup_host_open_sibling(const struct cgroup_host *nodes, const char *group, struct cgroup_host *ret,
                             struct error *reterr);
/* Remove the group's directories, and those above it that are ours and empty. */
void cgroup_host_close(const struct cgroup_host *host);
/* Make the directories and set the limits (memory is memory plus disk, swap 0). Nothing is left when it fails;
   E_EXISTS when cgroups of that name have processes. A limit of 0 is no limit. */
int cgroup_make(const struct cgroup_host *host, const char *node, const struct jail_limits *limits, struct cgroup *ret,
                struct error *reterr);
/* Those that are there already, for one more process. */
int cgroup_open(const struct cgroup_host *host, const char *node, struct cgroup *ret, struct error *reterr);
/* In the child, after clone: only write(2). 0 or an errno. */
int cgroup_join(const struct cgroup *cgroup);
/* The process was started inside unified_fd, so that it need not join there: a process that moves waits for every CPU,
   milliseconds. */
void cgroup_started_inside(struct cgroup *cgroup);
void cgroup_close(struct cgroup *cgroup);
/* E_CONFLICT, and nothing changed, when the node uses more memory than the new limit, or its sockets do. A limit of 0
   stays as it is, but for the CPU's: no cap. */
int cgroup_set_limits(const struct cgroup_host *host, const char *node, const struct jail_limits *limits,
                      struct error *reterr);
/* Whether every other node goes first: it has the processor only while they want none. It has the usual weight when it
   no longer yields, and so has one whose limits are set. E_GUARANTEE where the kernel has no such thing. */
int cgroup_set_yielding(const struct cgroup_host *host, const char *node, bool yields, struct error *reterr);
bool cgroup_yields(const struct cgroup_host *host, const char *node);
int cgroup_lift_cpu(const struct cgroup_host *host, const char *node,
                    struct error *reterr); /* so that dying is quick, however busy the others are */
/* It goes first, as one that dies: for as long as others wait for it, until its weight is set. */
int cgroup_hurry(const struct cgroup_host *host, const char *node, struct error *reterr);
int cgroup_set_weight(const struct cgroup_host *host, const char *node, uint64_t weight_percent,
                      struct error *reterr); /* 0: the usual */
/* Returns when it took effect; E_TIMEOUT: not yet, after so long. The kernel goes on with it, v1 when it is asked
   again.
 */
int cgroup_freeze(const struct cgroup_host *host, const char *node, bool frozen, uint32_t wait_ms,
                  struct error *reterr);
/* Whichever freezer and launcher froze it: a frozen process does not die on v1. Fire and forget: there may be
   nothing to thaw. */
void cgroup_thaw_everywhere(const struct cgroup_host *host, const char *node);
bool cgroup_is_frozen(const struct cgroup_host *host, const char *node);
uint64_t cgroup_oom_kills(const struct cgroup_host *host, const char *node);
/* Every pid in it, to adopt or to kill. Returns the count, at most max. */
size_t cgroup_pids(const struct cgroup_host *host, const char *node, pid_t *ret, size_t max);
/* Kill whatever is inside, and remove the directories; false: what was killed has not ended. *ret says why some stay;
   E_NONE: none does. */
bool cgroup_try_remove(const struct cgroup_host *host, const char *node, struct error *ret);
/* The same, tried until then by the monotonic clock: where no request waits meanwhile. */
int cgroup_remove(const struct cgroup_host *host, const char *node, uint64_t until_ms, struct error *reterr);
/* Remove the directories unless a process is inside. */
void cgroup_remove_if_empty(const struct cgroup_host *host, const char *node);
/* Names of the nodes that have cgroups here, for adoption. */
int cgroup_list(const struct cgroup_host *host, void (*each)(void *data, const char *node), void *data,
                struct error *reterr);
void cgroup_memory_dir(const struct cgroup_host *host, const char *node,
                       char ret[PATH_MAX]); /* "" where there is none */
void cgroup_cpu_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]);
void cgroup_tasks_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]);

#endif
