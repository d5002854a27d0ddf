/* Limits that the kernel keeps per process, changed in a node that runs. Only the soft ones, so that they can be raised
   again; the node's filter lets no process inside do that. */
#include <stdio.h>
#include <sys/resource.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"

enum { PROCESSES_MAX = 1024 };

const struct jailed_rlimit jailed_rlimits[JAILED_RLIMITS] = {
    {JAIL_LIMIT_DESCRIPTORS, RLIMIT_NOFILE},
    {JAIL_LIMIT_FILE_SIZE, RLIMIT_FSIZE},
};

/* All of the node's, or at least the VM where there are no cgroups to tell. */
static size_t list_processes(const struct launcher *launcher, const struct jailed_node *node,
                             pid_t ret[PROCESSES_MAX]) {
    size_t count = cgroup_pids(&launcher->cgroups, node->name, ret, PROCESSES_MAX);
    if (count > 0) return count;
    ret[0] = jailed_program(node);
    return ret[0] > 0;
}

int jailed_check_rlimits(const struct jailed_node *node, const struct jail_limits *limits, struct error *reterr) {
    pid_t pid = jailed_program(node);
    for (size_t i = 0; pid > 0 && i < JAILED_RLIMITS; i++) {
        enum jail_limit limit = jailed_rlimits[i].limit;
        struct rlimit has;
        if (prlimit(pid, (__rlimit_resource_t)jailed_rlimits[i].resource, NULL, &has) == 0 &&
            jail_limit_get(limits, limit) > has.rlim_max)
            return error_set(reterr, E_CONFLICT,
                             "a running VM can't be given more %s than the %llu it was started with: create the "
                             "sandbox with that limit",
                             jail_limit_kind(limit)->name, (unsigned long long)has.rlim_max);
    }
    return 0;
}

/* 0: as much as it was started with. */
static void set_one(pid_t pid, int resource, uint64_t value) {
    struct rlimit limit;
    if (prlimit(pid, (__rlimit_resource_t)resource, NULL, &limit) < 0) return;
    limit.rlim_cur = value && value < limit.rlim_max ? value : limit.rlim_max;
    prlimit(pid, (__rlimit_resource_t)resource, &limit, NULL);
}

void jailed_set_rlimits(const struct launcher *launcher, const struct jailed_node *node,
                        const struct jail_limits *limits) {
    pid_t pids[PROCESSES_MAX];
    size_t count = list_processes(launcher, node, pids);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < JAILED_RLIMITS; k++)
            set_one(pids[i], jailed_rlimits[k].resource, jail_limit_get(limits, jailed_rlimits[k].limit));
}
