/* The child's side: the node's root, made of a small tmpfs, binds and tmpfs mounts. Everything is reached through
   descriptors below the new root, never by a path that could lead out of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/start/spawn.h"

/* Directories and empty files to mount at are all it holds. */
static const char root_size[] = "262144", root_inodes[] = "4096";
static const char scaffold[] = "/tmp"; /* a place every host has, covered until the root is entered */

static int open_below(int root_fd, const char *path, uint64_t flags) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    return file_open_how(root_fd, path, &how);
}

/* The directory that holds path; *ret_name is its last part. */
static int open_parent(int root_fd, const char *path, const char **ret_name) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    *ret_name = slash + 1;
    return open_below(root_fd, *parent ? parent : "/", O_PATH | O_DIRECTORY);
}

static int make_directory(int root_fd, const char *path) {
    const char *name;
    CLEANUP_FD int parent_fd = open_parent(root_fd, path, &name);
    if (parent_fd < 0) return -1;
    return mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static int make_parents(int root_fd, const char *path) {
    char prefix[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(prefix, sizeof prefix, "%.*s", (int)(slash - path), path);
        if (make_directory(root_fd, prefix) < 0) return -1;
    }
    return 0;
}

static int make_file(int root_fd, const char *path) {
    const char *name;
    CLEANUP_FD int parent_fd = open_parent(root_fd, path, &name);
    if (parent_fd < 0) return -1;
    return mknodat(parent_fd, name, S_IFREG | 0444, 0) < 0 && errno != EEXIST ? -1 : 0;
}

/* The directory to mount at, made below root_fd with all above it where it is missing. */
static int open_target(int root_fd, const char *target, bool is_directory, int *ret_fd, struct error *reterr) {
    int fd = open_below(root_fd, target, O_PATH);
    if (fd < 0 && errno == ENOENT && make_parents(root_fd, target) == 0 &&
        (is_directory ? make_directory : make_file)(root_fd, target) == 0)
        fd = open_below(root_fd, target, O_PATH);
    if (fd < 0) return error_errno(reterr, errno, "make %s in the node", target);
    *ret_fd = fd;
    return 0;
}

static int attach(int mount_fd, int root_fd, const char *target, bool is_directory, struct error *reterr) {
    CLEANUP_FD int target_fd = -1;
    if (open_target(root_fd, target, is_directory, &target_fd, reterr) < 0) return -1;
    if (move_mount(mount_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return error_errno(reterr, errno, "mount at %s", target);
    return 0;
}

struct option {
    const char *key, *value;
};

/* A new, detached instance of a file system. Options end with a NULL key. */
static int make_filesystem(const char *type, const struct option *options, unsigned attributes) {
    CLEANUP_FD int context_fd = fsopen(type, FSOPEN_CLOEXEC);
    if (context_fd < 0) return -1;
    for (; options->key; options++)
        if (fsconfig(context_fd, FSCONFIG_SET_STRING, options->key, options->value, 0) < 0) return -1;
    if (fsconfig(context_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) return -1;
    return fsmount(context_fd, FSMOUNT_CLOEXEC, attributes);
}

struct root {
    const struct spawn *spawn;
    int fd;
};

static int attach_tree(const struct root *root, const struct jail_plan_op *op, int tree_fd, const char *target,
                       struct error *reterr) {
    struct stat status;
    if (fstat(tree_fd, &status) < 0) return error_errno(reterr, errno, "look at %s", op->words[0]);
    if (attach(tree_fd, root->fd, target, S_ISDIR(status.st_mode), reterr) < 0)
        return error_prefix(reterr, "mount of %s", op->words[0]);
    return 0;
}

static int mount_bind(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr) {
    return attach_tree(root, op, tree_fd, op->words[1], reterr);
}

static int mount_device(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr) {
    char target[PATH_MAX];
    snprintf(target, sizeof target, "/dev/%s", op->words[0]);
    return attach_tree(root, op, tree_fd, target, reterr);
}

static int mount_tmpfs(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr) {
    (void)tree_fd;
    struct disk_bounds bounds = disk_bounds(&root->spawn->limits, op->number);
    const char *mode = strcmp(op->words[0], "/tmp") == 0 ? "1777" : "0700";
    const struct option options[] = {{"size", bounds.size}, {"nr_inodes", bounds.inodes}, {"mode", mode}, {NULL, NULL}};
    CLEANUP_FD int fd = make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "make a tmpfs for %s", op->words[0]);
    return attach(fd, root->fd, op->words[0], true, reterr);
}

static int make_empty(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr) {
    (void)tree_fd;
    CLEANUP_FD int fd = -1;
    return open_target(root->fd, op->words[0], true, &fd, reterr);
}

/* The kernel refuses it where parts of the host's /proc are covered; the VM boots without. Read-only: nothing inside
   writes to its own memory past the protection of its pages. */
static int mount_proc(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr) {
    (void)op;
    (void)tree_fd;
    static const struct option options[] = {{"subset", "pid"}, {NULL, NULL}};
    CLEANUP_FD int target_fd = -1;
    if (open_target(root->fd, "/proc", true, &target_fd, reterr) < 0) return -1;
    CLEANUP_FD int fd =
        make_filesystem("proc", options, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? 0 : attach(fd, root->fd, "/proc", true, reterr);
}

typedef int (*mount_fn)(const struct root *root, const struct jail_plan_op *op, int tree_fd, struct error *reterr);

static const mount_fn mount_functions[JAIL_PLAN_VERB_COUNT] = {
    [JAIL_PLAN_BIND] = mount_bind,      [JAIL_PLAN_BIND_EXEC] = mount_bind, [JAIL_PLAN_TOOLCHAIN] = mount_bind,
    [JAIL_PLAN_DEVICE] = mount_device,  [JAIL_PLAN_TMPFS] = mount_tmpfs,    [JAIL_PLAN_PROC] = mount_proc,
    [JAIL_PLAN_DIRECTORY] = make_empty, [JAIL_PLAN_VOLUME] = mount_bind,
};

int start_make_root(struct spawn *spawn, int *ret_root_fd, struct error *reterr) {
    static const struct option options[] = {
        {"size", root_size}, {"nr_inodes", root_inodes}, {"mode", "0755"}, {NULL, NULL}};
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(reterr, errno, "make the mounts private");
    if (!spawn->launcher->root && sources_open(spawn, reterr) < 0) return -1;
    CLEANUP_FD int fd = make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0 || move_mount(fd, "", AT_FDCWD, scaffold, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_errno(reterr, errno, "mount the node's root");
    struct root root = {spawn, fd};
    for (size_t i = 0; i < spawn->plan->count; i++) {
        mount_fn function = mount_functions[spawn->plan->ops[i].verb];
        if (function && function(&root, &spawn->plan->ops[i], spawn->trees[i], reterr) < 0) return -1;
    }
    *ret_root_fd = take_fd(&fd);
    return 0;
}
