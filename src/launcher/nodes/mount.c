/* What is mounted in a running node: the application's files, and how much its own may take. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "jail/plan.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/start/spawn.h"

#define ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

enum { PAGE_BYTES = 4096, INODES_LEAST = 16 };

struct binding {
    const struct launcher *launcher;
    const struct jailed_node *node;
    const struct jailed_bind *binds;
    size_t count;
    int trees[PLAN_BINDS_MAX];
};

static int open_source(const struct binding *binding, const struct jailed_bind *bind, int *ret_fd,
                       struct error *reterr) {
    if (bind->is_volume)
        return volume_dress(bind->volume_fd, bind->source, binding->node, bind->is_read_only, bind->executable, ret_fd,
                            reterr);
    if (bind->source[0] != '/') return sources_open_project(binding->launcher, binding->node, bind, ret_fd, reterr);
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
    return file_open_how(AT_FDCWD, path, &how);
}

static bool is_on_same_device(int fd, const char *path) {
    struct stat place, other;
    return fstat(fd, &place) == 0 && stat(path, &other) == 0 && place.st_dev == other.st_dev;
}

/* All else that the node sees belongs to others, such as a caller's project, and nothing is made in it. */
static bool is_own_root(int fd) {
    return is_on_same_device(fd, "/");
}

/* What is made there is the node's own, as all else in it. */
static bool is_own_data(int fd) {
    return is_on_same_device(fd, plan_disks[0]);
}

/* The node's root is read-only as a mount, not as a file system: a writable view of the parent makes the place. */
static int make_target(const char *target) {
    char parent[PATH_MAX];
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    const char *slash = strrchr(target, '/');
    snprintf(parent, sizeof parent, "%.*s", slash == target ? 1 : (int)(slash - target), target);
    CLEANUP_FD int place_fd = open_place(parent);
    if (place_fd < 0 && errno == ENOENT && slash > target && make_target(parent) == 0) place_fd = open_place(parent);
    if (place_fd < 0) return -1;
    if (is_own_data(place_fd)) return mkdirat(place_fd, slash + 1, 0755) < 0 && errno != EEXIST ? -1 : 0;
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

/* A path of the node's, from outside. */
static int open_below(int root_fd, const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
    return file_open_how(root_fd, path + 1, &how);
}

static int open_root(const struct launcher *launcher, const struct jailed_node *node) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root", (int)jailed_door(launcher, node));
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int jailed_open_disks(const struct launcher *launcher, const struct jailed_node *node, int ret_fds[JAIL_DISKS],
                      struct error *reterr) {
    CLEANUP_FD int root_fd = open_root(launcher, node);
    CLEANUP_FD int data_fd = root_fd < 0 ? -1 : open_below(root_fd, plan_disks[0]);
    CLEANUP_FD int tmp_fd = data_fd < 0 ? -1 : open_below(root_fd, plan_disks[1]);
    if (tmp_fd < 0) return error_errno(reterr, errno, "open the disk of node %s", node->name);
    ret_fds[0] = take_fd(&data_fd);
    ret_fds[1] = take_fd(&tmp_fd);
    return 0;
}

/* ---- how much its files may take ---- */

static void print_bound(uint64_t whole, uint64_t percent, uint64_t unit, uint64_t least, char ret[32]) {
    uint64_t share = whole * percent / 100 / unit * unit;
    snprintf(ret, 32, "%llu", (unsigned long long)(share < least ? least : share));
}

struct disk_bounds disk_bounds(const struct jail_limits *limits, uint64_t percent) {
    struct disk_bounds bounds;
    print_bound(limits->disk_bytes, percent, PAGE_BYTES, PAGE_BYTES, bounds.size);
    print_bound(jail_limit_value(limits, JAIL_LIMIT_FILES), percent, 1, INODES_LEAST, bounds.inodes);
    return bounds;
}

static void add_disk(int fd, struct jail_limits *ret) {
    struct statfs status;
    if (fd < 0 || fstatfs(fd, &status) < 0 || status.f_type != TMPFS_MAGIC) return;
    ret->disk_bytes += (uint64_t)status.f_blocks * (uint64_t)status.f_bsize;
    ret->files += (uint64_t)status.f_files;
}

void jailed_disk_limits(const struct launcher *launcher, const struct jailed_node *node, struct jail_limits *ret) {
    CLEANUP_FD int root_fd = open_root(launcher, node);
    for (size_t i = 0; i < JAIL_DISKS; i++) {
        CLEANUP_FD int fd = open_below(root_fd, plan_disks[i]);
        add_disk(fd, ret);
    }
}

bool jailed_disk_differs(const struct jail_limits *left, const struct jail_limits *right) {
    return left->disk_bytes != right->disk_bytes ||
           jail_limit_value(left, JAIL_LIMIT_FILES) != jail_limit_value(right, JAIL_LIMIT_FILES);
}

/* The size of a disk, from inside; 0 where the place is none, since the node's root is not to be resized, or is a
   volume, which has a size of its own. */
static uint64_t disk_size(int fd) {
    struct statfs status;
    return fd >= 0 && !is_own_root(fd) && fstatfs(fd, &status) == 0 && status.f_type == TMPFS_MAGIC
               ? (uint64_t)status.f_blocks * (uint64_t)status.f_bsize
               : 0;
}

static int set_bounds(int disk_fd, const char *name, const struct disk_bounds *bounds, struct error *reterr) {
    CLEANUP_FD int fd = fspick(disk_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
    if (fd < 0 || fsconfig(fd, FSCONFIG_SET_STRING, "size", bounds->size, 0) < 0 ||
        fsconfig(fd, FSCONFIG_SET_STRING, "nr_inodes", bounds->inodes, 0) < 0 ||
        fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        return errno == EINVAL ? error_set(reterr, E_CONFLICT, "%s holds more than %s bytes in %s files", name,
                                           bounds->size, bounds->inodes)
                               : error_errno(reterr, errno, "resize %s", name);
    return 0;
}

/* Every disk keeps its share of the whole. */
static int resize_all(void *data, struct error *reterr) {
    const struct jail_limits *limits = data;
    uint64_t sizes[JAIL_DISKS], sum = 0;
    int fds[JAIL_DISKS], failed = 0;
    for (size_t i = 0; i < JAIL_DISKS; i++) {
        fds[i] = open_place(plan_disks[i]);
        sizes[i] = disk_size(fds[i]);
        sum += sizes[i];
    }
    for (size_t i = 0; i < JAIL_DISKS; i++) {
        if (!failed && sizes[i] > 0) {
            struct disk_bounds bounds = disk_bounds(limits, (uint64_t)((double)sizes[i] * 100 / (double)sum + 0.5));
            failed = set_bounds(fds[i], plan_disks[i], &bounds, reterr);
        }
        fd_close(fds[i]);
    }
    return failed;
}

int jailed_resize(const struct launcher *launcher, const struct jailed_node *node, struct jail_limits limits,
                  struct error *reterr) {
    return jailed_do_inside(launcher, node, &(struct inside_job){NULL, resize_all, &limits}, reterr);
}

/* ---- mounts ---- */

static int attach(const struct jailed_bind *bind, int tree_fd, struct error *reterr) {
    CLEANUP_FD int target_fd = open_target(bind->target);
    if (target_fd < 0) return error_errno(reterr, errno, "make %s in the node", bind->target);
    if (move_mount(tree_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return error_errno(reterr, errno, "mount %s at %s", bind->source, bind->target);
    return 0;
}

/* All of what the disk may hold is /tmp's then. */
static int attach_data(const struct jailed_bind *bind, int tree_fd, struct error *reterr) {
    CLEANUP_FD int data_fd = open_place(JAIL_DATA);
    struct jail_limits whole = {0};
    if (disk_size(data_fd) == 0) return error_set(reterr, E_CONFLICT, "%s is no tmpfs", JAIL_DATA);
    for (size_t i = 0; i < JAIL_DISKS; i++) {
        CLEANUP_FD int fd = open_place(plan_disks[i]);
        add_disk(fd, &whole);
    }
    if (attach(bind, tree_fd, reterr) < 0) return -1;
    return resize_all(&whole, reterr);
}

static int attach_all(void *data, struct error *reterr) {
    const struct binding *binding = data;
    for (size_t i = 0; i < binding->count; i++)
        if ((strcmp(binding->binds[i].target, JAIL_DATA) == 0 ? attach_data : attach)(&binding->binds[i],
                                                                                      binding->trees[i], reterr) < 0)
            return -1;
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
