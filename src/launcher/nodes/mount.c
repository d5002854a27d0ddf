/* What is mounted in a running node: the application's files, and how much its own may take. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/start/spawn.h"

#define ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

enum { MOUNTS_TEXT_BYTES = 65536, TMPFS_MAX = 16, TMPFS_LEAST_BYTES = 4096 };

struct binding {
    const struct launcher *launcher;
    const struct jailed_node *node;
    const struct jailed_bind *binds;
    size_t count;
    int trees[PLAN_BINDS_MAX];
};

static int open_source(const struct binding *binding, const struct jailed_bind *bind, int *ret_fd,
                       struct error *reterr) {
    if (bind->source[0] != '/')
        return sources_open_project(binding->launcher, binding->node, bind->source, ret_fd, reterr);
    fs_rights_of_daemon(binding->launcher);
    int failed = sources_open_tree(bind->source, ret_fd, reterr);
    fs_rights_restore(binding->launcher);
    uint64_t attributes = bind->executable ? ATTRIBUTES : ATTRIBUTES | MOUNT_ATTR_NOEXEC;
    return failed ? failed : sources_restrict(*ret_fd, attributes, reterr);
}

static int open_sources(void *data, struct error *reterr) {
    struct binding *binding = data;
    for (size_t i = 0; i < binding->count; i++)
        if (open_source(binding, &binding->binds[i], &binding->trees[i], reterr) < 0) return -1;
    return 0;
}

/* No link is followed: the node may have made it. */
static int open_place(const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* All else that the node sees belongs to others, such as a caller's project, and nothing is made in it. */
static bool is_own_root(int fd) {
    struct stat place, root;
    return fstat(fd, &place) == 0 && stat("/", &root) == 0 && place.st_dev == root.st_dev;
}

/* The node's root is read-only as a mount, not as a file system: a writable view of the parent makes the place. */
static int make_target(const char *target) {
    char parent[PATH_MAX];
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    const char *slash = strrchr(target, '/');
    snprintf(parent, sizeof parent, "%.*s", slash == target ? 1 : (int)(slash - target), target);
    CLEANUP_FD int place_fd = open_place(parent);
    if (place_fd < 0) return -1;
    if (!is_own_root(place_fd)) {
        errno = EROFS;
        return -1;
    }
    CLEANUP_FD int fd = open_tree(place_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &writable, sizeof writable) < 0) return -1;
    return mkdirat(fd, slash + 1, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static int open_target(const char *target) {
    int fd = open_place(target);
    if (fd >= 0 || errno != ENOENT || make_target(target) < 0) return fd;
    return open_place(target);
}

static int attach(const struct jailed_bind *bind, int tree_fd, struct error *reterr) {
    CLEANUP_FD int target_fd = open_target(bind->target);
    if (target_fd < 0) return error_errno(reterr, errno, "make %s in the node", bind->target);
    if (move_mount(tree_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return error_errno(reterr, errno, "mount %s at %s", bind->source, bind->target);
    return 0;
}

static int attach_all(void *data, struct error *reterr) {
    const struct binding *binding = data;
    for (size_t i = 0; i < binding->count; i++)
        if (attach(&binding->binds[i], binding->trees[i], reterr) < 0) return -1;
    return 0;
}

/* All of them by one helper, whose end closes what it opened. */
int jailed_mount(const struct launcher *launcher, const struct jailed_node *node, const struct jailed_bind *binds,
                 size_t count, struct error *reterr) {
    struct binding binding = {.launcher = launcher, .node = node, .binds = binds, .count = count};
    struct inside_job job = {open_sources, attach_all, &binding};
    if (count > PLAN_BINDS_MAX) return error_set(reterr, E_INVALID, "more than %d mounts at once", PLAN_BINDS_MAX);
    return jailed_do_inside(launcher, node, &job, reterr);
}

static int open_below(int root_fd, const char *name) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
    return (int)syscall(SYS_openat2, root_fd, name, &how, sizeof how);
}

int jailed_open_disks(const struct launcher *launcher, const struct jailed_node *node, int ret_fds[JAIL_DISKS],
                      struct error *reterr) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root", (int)jailed_door(launcher, node));
    CLEANUP_FD int root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FD int data_fd = root_fd < 0 ? -1 : open_below(root_fd, "data");
    CLEANUP_FD int tmp_fd = data_fd < 0 ? -1 : open_below(root_fd, "tmp");
    if (tmp_fd < 0) return error_errno(reterr, errno, "open the disk of node %s", node->name);
    ret_fds[0] = take_fd(&data_fd);
    ret_fds[1] = take_fd(&tmp_fd);
    return 0;
}

struct resizing {
    char *mounts; /* the text of the node's /proc/PID/mounts; it can make none itself */
    uint64_t disk_bytes;
};

struct writable {
    const char *target;
    uint64_t bytes;
};

/* The target of a line "source target tmpfs rw…", cut off in place; NULL for other lines. */
static const char *tmpfs_target(char *line) {
    char *target = strchr(line, ' ');
    char *type = target ? strchr(target + 1, ' ') : NULL;
    if (!type || !string_starts(type, " tmpfs rw")) return NULL;
    *type = '\0';
    return target + 1;
}

static size_t find_writable(char *mounts, struct writable ret[TMPFS_MAX]) {
    size_t count = 0;
    for (char *line; count < TMPFS_MAX && (line = wire_next_line(&mounts));) {
        struct statfs status;
        const char *target = tmpfs_target(line);
        if (target && statfs(target, &status) == 0)
            ret[count++] = (struct writable){target, (uint64_t)status.f_blocks * (uint64_t)status.f_bsize};
    }
    return count;
}

static int set_size(const char *target, uint64_t bytes, struct error *reterr) {
    char size[32];
    snprintf(size, sizeof size, "%llu", (unsigned long long)(bytes < TMPFS_LEAST_BYTES ? TMPFS_LEAST_BYTES : bytes));
    CLEANUP_FD int fd = fspick(AT_FDCWD, target, FSPICK_CLOEXEC);
    if (fd < 0 || fsconfig(fd, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        return errno == EINVAL ? error_set(reterr, E_CONFLICT, "%s holds more than %s bytes", target, size)
                               : error_errno(reterr, errno, "resize %s", target);
    return 0;
}

/* Every tmpfs keeps its share of the whole. */
static int resize_all(void *data, struct error *reterr) {
    const struct resizing *resizing = data;
    struct writable found[TMPFS_MAX];
    size_t count = find_writable(resizing->mounts, found);
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)found[i].bytes;
    if (sum <= 0) return count ? error_set(reterr, E_SYSTEM, "the node's disk has no size") : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t share = (uint64_t)((double)resizing->disk_bytes * (double)found[i].bytes / sum);
        if (set_size(found[i].target, share, reterr) < 0) return -1;
    }
    return 0;
}

int jailed_resize(const struct launcher *launcher, const struct jailed_node *node, uint64_t disk_bytes,
                  struct error *reterr) {
    char path[64];
    CLEANUP_FREE char *text = calloc(1, MOUNTS_TEXT_BYTES);
    snprintf(path, sizeof path, "/proc/%d/mounts", (int)jailed_door(launcher, node));
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t size = -1;
    while (text && fd >= 0 && (size = read(fd, text + used, MOUNTS_TEXT_BYTES - 1 - used)) > 0) used += (size_t)size;
    if (size < 0) return error_errno(reterr, errno, "read %s", path);
    struct resizing resizing = {text, disk_bytes};
    struct inside_job job = {NULL, resize_all, &resizing};
    return jailed_do_inside(launcher, node, &job, reterr);
}
