/* Binding into a node that runs already: a helper goes in, since a mount can only be attached from inside. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/launcher_internal.h"

#define ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

static int open_source(const struct launcher *launcher, const char *source, int *ret_fd, struct error *reterr) {
    CLEANUP_FD int fd = -1;
    fs_rights_of_daemon(launcher);
    int failed = sources_open_tree(source, &fd, reterr);
    fs_rights_restore(launcher);
    if (failed || sources_restrict(fd, ATTRIBUTES, reterr) < 0) return -1;
    *ret_fd = take_fd(&fd);
    return 0;
}

/* The node's uid in there, so that what is made belongs to it; capabilities over its namespaces stay. */
static int take_identity(struct error *reterr) {
    if (setresgid(NODE_ID_INSIDE, NODE_ID_INSIDE, NODE_ID_INSIDE) < 0 ||
        setresuid(NODE_ID_INSIDE, NODE_ID_INSIDE, NODE_ID_INSIDE) < 0)
        return error_errno(reterr, errno, "take the node's uid");
    return 0;
}

static int enter_as_root(const struct launcher_node *node, struct error *reterr) {
    if (setns(node->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0) return error_errno(reterr, errno, "enter the node");
    return take_identity(reterr);
}

/* The init lets nobody in but root, since it is not dumpable; its first child, the program, lets its own user in. */
static int open_program(const struct launcher_node *node) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)node->pid, (int)node->pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) return -1;
    int pid = atoi(text);
    return pid > 0 ? pidfd_open(pid, 0) : (errno = ESRCH, -1);
}

/* Without root a source can be opened only in mounts of one's own: a copy of the host's, in the node's user namespace.
 */
static int enter_as_user(const struct launcher *launcher, const struct launcher_node *node, const char *source,
                         int *ret_tree_fd, struct error *reterr) {
    CLEANUP_FD int tree_fd = -1;
    CLEANUP_FD int program_fd = open_program(node);
    if (program_fd < 0 || setns(program_fd, CLONE_NEWUSER) < 0)
        return error_errno(reterr, errno, "enter the node's user namespace");
    if (take_identity(reterr) < 0) return -1;
    if (unshare(CLONE_NEWNS) < 0) return error_errno(reterr, errno, "copy the mounts");
    if (open_source(launcher, source, &tree_fd, reterr) < 0) return -1;
    if (setns(program_fd, CLONE_NEWNS) < 0) return error_errno(reterr, errno, "enter the node's mounts");
    *ret_tree_fd = take_fd(&tree_fd);
    return 0;
}

/* The node's root is read-only as a mount, not as a file system: a writable view of the parent makes the place. */
static int make_target(const char *target) {
    char parent[PATH_MAX];
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    const char *slash = strrchr(target, '/');
    snprintf(parent, sizeof parent, "%.*s", slash == target ? 1 : (int)(slash - target), target);
    CLEANUP_FD int fd = open_tree(AT_FDCWD, parent, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &writable, sizeof writable) < 0) return -1;
    return mkdirat(fd, slash + 1, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

/* No link is followed: the node may have made it. */
static int open_target(const char *target) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, target, &how, sizeof how);
    if (fd >= 0 || errno != ENOENT || make_target(target) < 0) return fd;
    return (int)syscall(SYS_openat2, AT_FDCWD, target, &how, sizeof how);
}

static int attach(const struct launcher *launcher, const struct launcher_node *node, int tree_fd, const char *source,
                  const char *target, struct error *reterr) {
    if ((launcher->root ? enter_as_root(node, reterr) : enter_as_user(launcher, node, source, &tree_fd, reterr)) < 0)
        return -1;
    CLEANUP_FD int target_fd = open_target(target);
    if (target_fd < 0) return error_errno(reterr, errno, "make %s in the node", target);
    if (move_mount(tree_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return error_errno(reterr, errno, "mount %s at %s", source, target);
    return 0;
}

int node_mount(const struct launcher *launcher, const struct launcher_node *node, const char *source,
               const char *target, struct error *reterr) {
    CLEANUP_FD int tree_fd = -1;
    int fds[2];
    if (launcher->root && open_source(launcher, source, &tree_fd, reterr) < 0) return -1;
    if (pipe2(fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        struct error error = {0};
        attach(launcher, node, tree_fd, source, target, &error);
        if (write(fds[1], &error, sizeof error) < 0) _exit(EXIT_FAILURE);
        _exit(EXIT_SUCCESS);
    }
    struct error error = {0};
    close(fds[1]);
    ssize_t size = pid < 0 ? -1 : read(fds[0], &error, sizeof error);
    close(fds[0]);
    if (pid < 0) return error_errno(reterr, errno, "start a helper");
    waitpid(pid, NULL, 0);
    if (size == (ssize_t)sizeof error && error.code == E_NONE) return 0;
    return error_set(reterr, error.code ? error.code : E_SYSTEM, "%s", *error.detail ? error.detail : "mount failed");
}
