/* Limits that the kernel keeps per process, changed in a node that runs. Only the soft ones, so that they can be raised
   again; the node's filter lets no process inside do that. */
#include <stdio.h>
#include <sys/resource.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"

struct wish {
    __rlimit_resource_t resource;
    const char *name;
    rlim_t value; /* 0: as much as it was started with */
};

enum { WISHES = 2, PROCESSES_MAX = 1024 };

static void list_wishes(const struct jail_limits *limits, struct wish ret[WISHES]) {
    ret[0] = (struct wish){RLIMIT_NOFILE, "descriptors", limits->descriptors};
    ret[1] = (struct wish){RLIMIT_FSIZE, "bytes of a file", limits->file_bytes};
}

/* All of the node's, or at least the VM where there are no cgroups to tell. */
static size_t list_processes(const struct launcher *launcher, const struct jailed_node *node,
                             pid_t ret[PROCESSES_MAX]) {
    size_t count = cgroup_pids(&launcher->cgroups, node->name, ret, PROCESSES_MAX);
    if (count > 0) return count;
    ret[0] = jailed_program(node);
    return ret[0] > 0;
}

int jailed_check_rlimits(const struct jailed_node *node, const struct jail_limits *limits, struct error *reterr) {
    struct wish wishes[WISHES];
    pid_t pid = jailed_program(node);
    list_wishes(limits, wishes);
    for (size_t i = 0; pid > 0 && i < WISHES; i++) {
        struct rlimit has;
        if (prlimit(pid, wishes[i].resource, NULL, &has) == 0 && wishes[i].value > has.rlim_max)
            return error_set(reterr, E_CONFLICT,
                             "a running VM can't be given more %s than the %llu it was started with: create the "
                             "sandbox with that limit",
                             wishes[i].name, (unsigned long long)has.rlim_max);
    }
    return 0;
}

static void set_one(pid_t pid, const struct wish *wish) {
    struct rlimit limit;
    if (prlimit(pid, wish->resource, NULL, &limit) < 0) return;
    limit.rlim_cur = wish->value && wish->value < limit.rlim_max ? wish->value : limit.rlim_max;
    prlimit(pid, wish->resource, &limit, NULL);
}

void jailed_set_rlimits(const struct launcher *launcher, const struct jailed_node *node,
                        const struct jail_limits *limits) {
    struct wish wishes[WISHES];
    pid_t pids[PROCESSES_MAX];
    size_t count = list_processes(launcher, node, pids);
    list_wishes(limits, wishes);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < WISHES; k++) set_one(pids[i], &wishes[k]);
}
