/* The child's side: from a fresh process in new namespaces to one that has nothing left but the node's rights. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/privileges.h"
#include "launcher/start/spawn.h"

static int join_cgroups(struct spawn *spawn, struct error *reterr) {
    int failed = cgroup_join(&spawn->cgroup);
    if (failed) return error_errno(reterr, failed, "join the node's cgroups");
    /* Only now: a namespace made with the process would have the launcher's cgroup as its root. */
    if (unshare(CLONE_NEWCGROUP) < 0) return error_errno(reterr, errno, "make a cgroup namespace");
    return 0;
}

/* Before any file is made, so that all of them are the node's own. */
static int take_identity(struct spawn *spawn, struct error *reterr) {
    if (spawn->launcher->root && setgroups(0, NULL) < 0) return error_errno(reterr, errno, "drop groups");
    if (setresgid(JAILED_ID_INSIDE, JAILED_ID_INSIDE, JAILED_ID_INSIDE) < 0 ||
        setresuid(JAILED_ID_INSIDE, JAILED_ID_INSIDE, JAILED_ID_INSIDE) < 0)
        return error_errno(reterr, errno, "take the node's uid");
    setsid();
    umask(022);
    return 0;
}

static int enter_root(struct spawn *spawn, struct error *reterr) {
    CLEANUP_FD int root_fd = -1;
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (start_make_root(spawn, &root_fd, reterr) < 0) return -1;
    /* The old root ends up on top of the new one, at the same place, and is taken off. */
    if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_errno(reterr, errno, "enter the node's root");
    if (mount_setattr(AT_FDCWD, "/", 0, &read_only, sizeof read_only) < 0)
        return error_errno(reterr, errno, "make the node's root read-only");
    return 0;
}

static int set_hostname(const struct jail_plan_op *op, struct error *reterr) {
    if (sethostname(op->words[0], strlen(op->words[0])) < 0)
        return error_errno(reterr, errno, "set the hostname %s", op->words[0]);
    return 0;
}

static int set_network(const struct jail_plan_op *op, struct error *reterr) {
    if (strcmp(op->words[0], "loopback") != 0) return 0;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0) return error_errno(reterr, errno, "bring up the loopback");
    return 0;
}

static int set_directory(const struct jail_plan_op *op, struct error *reterr) {
    if (chdir(op->words[0]) < 0) return error_errno(reterr, errno, "go to %s", op->words[0]);
    return 0;
}

typedef int (*settle_fn)(const struct jail_plan_op *op, struct error *reterr);

static const settle_fn settle_functions[JAIL_PLAN_VERB_COUNT] = {
    [JAIL_PLAN_HOSTNAME] = set_hostname,
    [JAIL_PLAN_NETWORK] = set_network,
    [JAIL_PLAN_CHDIR] = set_directory,
};

static int settle(const struct jail_plan *plan, struct error *reterr) {
    for (size_t i = 0; i < plan->count; i++) {
        settle_fn function = settle_functions[plan->ops[i].verb];
        if (function && function(&plan->ops[i], reterr) < 0) return -1;
    }
    return 0;
}

static int set_rlimit(int resource, uint64_t value, struct error *reterr) {
    struct rlimit limit = {0};
    getrlimit((__rlimit_resource_t)resource, &limit);
    /* More than the launcher has itself can't be given, and is not needed for safety. */
    if (limit.rlim_max > value) limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
        return error_errno(reterr, errno, "set the resource limit %d", resource);
    return 0;
}

static int bound_process(const struct jail_limits *limits, struct error *reterr) {
    static const struct {
        int resource;
        uint64_t value;
    } fixed[] = {
        {RLIMIT_CORE, 1}, /* not 0, at which the host's handler of crashes is still started, with root's rights */
        {RLIMIT_MEMLOCK, 65536},
        {RLIMIT_MSGQUEUE, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        if (set_rlimit(fixed[i].resource, fixed[i].value, reterr) < 0) return -1;
    for (size_t i = 0; i < JAILED_RLIMITS; i++) {
        uint64_t value = jail_limit_get(limits, jailed_rlimits[i].limit);
        if (value && set_rlimit(jailed_rlimits[i].resource, value, reterr) < 0) return -1;
    }
    return 0;
}

int start_enter(struct spawn *spawn, struct error *reterr) {
    static int (*const before[])(struct spawn * spawn, struct error * reterr) = {join_cgroups, take_identity,
                                                                                 enter_root};
    for (size_t i = 0; i < ARRAY_SIZE(before); i++)
        if (before[i](spawn, reterr) < 0) return -1;
    if (settle(spawn->plan, reterr) < 0 || bound_process(&spawn->limits, reterr) < 0 ||
        privileges_drop_bounding(reterr) < 0 || privileges_drop_all(reterr) < 0)
        return -1;
    return landlock_enter(spawn->plan, reterr);
}
