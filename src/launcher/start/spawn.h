/* Starting a node: the launcher's side, and that of the child which becomes it. */
#ifndef LAUNCHER_START_SPAWN_H
#define LAUNCHER_START_SPAWN_H

#include "jail/plan.h"
#include "jail/seccomp.h"
#include "launcher/cgroup/cgroup.h"

struct launcher;
struct jailed_bind;
struct jailed_node;

struct filter_cache {
    struct sock_fprog *filters[SECCOMP_SETS][2]; /* by set, by whether execs are counted; NULL until needed */
};

/* What a new node's process gets from the launcher; the child has its own copy of it all. */
struct spawn {
    const struct launcher *launcher;
    const struct jail_plan *plan;
    struct jailed_node *node;
    struct jail_limits limits; /* as the plan has them */
    struct cgroup cgroup;
    int volume_fd; /* of /data, when it is a volume */
    int *trees;    /* one per plan op: a detached mount of its source, or -1 */
    const struct sock_fprog *filter;
    int sync_fd; /* the child's end of the socket to the launcher */
    int output_fd;
    int null_fd;
};

/* ---- spawn.c ---- */

/* Start the plan's node; volume_fd is its volume, or -1. *ret_output_fd is the read end of what it prints. Nothing is
 * left when it fails. */
int spawn_node(struct launcher *launcher, const struct jail_plan *plan, int volume_fd, uid_t owner,
               struct jailed_node **ret_node, int *ret_output_fd, struct error *reterr);
/* Whether the kernel asks us about the calls that filters don't decide; else they refuse them by themselves. */
bool launcher_notifies(const struct launcher *launcher);
void filters_free(struct filter_cache *cache);

/* ---- sources.c: what is mounted into nodes ---- */

/* Open and restrict the sources of binds, projects and devices: by the launcher with the daemon's rights, or without
   root by the child, which may only in its own namespaces. */
int sources_open(struct spawn *spawn, struct error *reterr);
/* An O_PATH descriptor, or -1. No link of /proc is followed: it leads past directories that a path has to pass, with
   the launcher's rights over processes. */
int sources_find(const char *path);
int sources_open_tree(const char *path, int *ret_fd, struct error *reterr);
/* An opened project, by its token, as this node may see it: idmapped, read-only, noexec; or a folder that its caller
   handed over, which may be writable and executable. */
int sources_open_project(const struct launcher *launcher, const struct jailed_node *node,
                         const struct jailed_bind *bind, int *ret_fd, struct error *reterr);
/* Set the attributes of all its mounts, and cut them off from those they are copies of. */
int sources_restrict(int tree_fd, uint64_t attributes, struct error *reterr);

/* ---- the child's side: enter.c, root.c, landlock.c, init.c ---- */

int start_enter(struct spawn *spawn, struct error *reterr);
int start_make_root(struct spawn *spawn, int *ret_root_fd, struct error *reterr);
int landlock_enter(const struct jail_plan *plan, struct error *reterr); /* nothing where the plan has no rules */
/* Filter, hand the listener out, start the program, reap; returns only when something failed. */
int init_run(struct spawn *spawn, struct error *reterr);

#endif
