/* Detached mounts of what a plan binds. As root the launcher opens them with the daemon's rights over files, so that a
   daemon gone bad gains nothing by asking for them; without root the child does, since only it may mount. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/project/project.h"
#include "launcher/start/spawn.h"
#include "launcher/start/userns.h"
#include "launcher/volumes/volumes.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

int sources_find(const char *path) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    return file_open_how(AT_FDCWD, path, &how);
}

/* What is mounted below comes along: without it one would see what it covers. */
int sources_open_tree(const char *path, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int place_fd = sources_find(path);
    int fd =
        place_fd < 0 ? -1 : open_tree(place_fd, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "open %s", path);
    *ret_fd = fd;
    return 0;
}

int sources_restrict(int tree_fd, uint64_t attributes, struct error *reterr) {
    /* Private: what is mounted on a copy of a shared mount would be mounted on the host's own too. */
    struct mount_attr change = {.attr_set = attributes, .propagation = MS_PRIVATE};
    if (mount_setattr(tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof change) < 0)
        return error_errno(reterr, errno, "restrict a mount");
    return 0;
}

static int open_bind(const char *path, uint64_t attributes, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    if (sources_open_tree(path, &fd, reterr) < 0) return -1;
    if (sources_restrict(fd, attributes, reterr) < 0) return error_prefix(reterr, "%s", path);
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Without root the mount can only be found by its path again: make sure that it leads to the same file. */
static int open_own(const struct launcher_project *project, uint64_t attributes, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    struct stat opened, found;
    if (open_bind(project->path, attributes, &fd, reterr) < 0) return -1;
    if (fstat(project->source_fd, &opened) < 0 || fstat(fd, &found) < 0 || opened.st_dev != found.st_dev ||
        opened.st_ino != found.st_ino)
        return error_set(reterr, E_CONFLICT, "%s is not what was opened", project->path);
    *ret_fd = take_fd(&fd);
    return 0;
}

static int open_folder(const struct launcher *launcher, const struct jailed_node *node,
                       const struct launcher_project *folder, bool is_executable, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int userns_fd = -1;
    struct userns_map map = project_map(folder, node->uid, node->uid);
    if (!launcher->root) return open_own(folder, folder_attributes(folder, is_executable), ret_fd, reterr);
    if (userns_make(&map, &userns_fd, reterr) < 0) return -1;
    return folder_mount(folder, userns_fd, is_executable, ret_fd, reterr);
}

int sources_open_project(const struct launcher *launcher, const struct jailed_node *node,
                         const struct jailed_bind *bind, int *ret_fd, struct error *reterr) {
    const char *token = bind->source;
    /* Looking up changes nothing; the table is const only for the child's sake. */
    struct launcher_project *project = project_find((struct launcher *)launcher, token);
    if (!project) return error_set(reterr, E_NOT_FOUND, "no project %s is open", token);
    if (!project->bindable)
        return error_set(reterr, E_GUARANTEE, "project %s can't be bound: its file system has no idmapped mounts",
                         token);
    if (project->folder != FOLDER_NONE) return open_folder(launcher, node, project, bind->executable, ret_fd, reterr);
    if (!launcher->root) return open_own(project, READ_ONLY | MOUNT_ATTR_NOEXEC, ret_fd, reterr);
    CLEANUP_FD int userns_fd = -1;
    struct userns_map map = project_map(project, node->uid, node->uid);
    if (userns_make(&map, &userns_fd, reterr) < 0) return -1;
    return project_mount(project, userns_fd, false, ret_fd, reterr);
}

/* Executable, as no project is: only what was opened as a toolchain. */
static int open_toolchain(const struct spawn *spawn, const char *token, int *ret_fd, struct error *reterr) {
    const struct launcher_project *project = project_find((struct launcher *)spawn->launcher, token);
    if (!project || !project->below[0] || !project->bindable)
        return error_set(reterr, E_NOT_FOUND, "no toolchain %s is open", token);
    if (!spawn->launcher->root) return open_own(project, READ_ONLY, ret_fd, reterr);
    CLEANUP_FD int userns_fd = -1;
    struct userns_map map = project_map(project, spawn->node->uid, spawn->node->uid);
    if (userns_make(&map, &userns_fd, reterr) < 0) return -1;
    if (project_mount(project, userns_fd, true, ret_fd, NULL) == 0) return 0;
    return project_mount(project, -1, true, ret_fd, reterr); /* by what all users may read */
}

static int open_source(const struct spawn *spawn, const struct jail_plan_op *op, int *ret_fd, struct error *reterr) {
    char path[PATH_MAX];
    switch (op->verb) {
    case JAIL_PLAN_TOOLCHAIN: return open_toolchain(spawn, op->words[0], ret_fd, reterr);
    case JAIL_PLAN_VOLUME:
        return volume_dress(spawn->volume_fd, op->words[0], spawn->node, false, false, ret_fd, reterr);
    case JAIL_PLAN_BIND: return open_bind(op->words[0], READ_ONLY | MOUNT_ATTR_NOEXEC, ret_fd, reterr);
    case JAIL_PLAN_BIND_EXEC: return open_bind(op->words[0], READ_ONLY, ret_fd, reterr);
    case JAIL_PLAN_DEVICE:
        snprintf(path, sizeof path, "/dev/%s", op->words[0]);
        /* Read-only is the name, not the device: it can't be taken for a disk of the node's where /dev is a tmpfs. */
        return open_bind(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, ret_fd, reterr);
    default: return 0;
    }
}

/* The agent is for every node to see, wherever it is installed. */
static bool wants_daemon_rights(const struct launcher *launcher, const struct jail_plan_op *op) {
    return op->verb == JAIL_PLAN_BIND_EXEC ||
           (op->verb == JAIL_PLAN_BIND && !installation_is_agent(launcher, op->words[0]));
}

int sources_open(struct spawn *spawn, struct error *reterr) {
    for (size_t i = 0; i < spawn->plan->count; i++) {
        const struct jail_plan_op *op = &spawn->plan->ops[i];
        bool as_daemon = wants_daemon_rights(spawn->launcher, op);
        if (as_daemon) fs_rights_of_daemon(spawn->launcher);
        int failed = open_source(spawn, op, &spawn->trees[i], reterr);
        if (as_daemon) fs_rights_restore(spawn->launcher);
        if (failed) return failed;
    }
    return 0;
}
