/* Folders that callers hand to sandboxes: opened with their caller's rights and mounted into nodes, idmapped, so that
   what a node writes there is the caller's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launcher/project/project.h"

enum { DESCRIPTORS_LOOKED_AT = 4096 };

/* No link on the whole way: a node that can write above a folder could otherwise lead the next start elsewhere. */
static int find(const char *path, struct error *reterr) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = file_open_how(AT_FDCWD, path, &how);
    if (fd >= 0) return fd;
    switch (errno) {
    case ELOOP: return error_set(reterr, E_INVALID, "%s leads through a link; name the folder by its real path", path);
    case ENOTDIR: return error_set(reterr, E_INVALID, "%s is no folder", path);
    case ENOENT: return error_set(reterr, E_NOT_FOUND, "there is no folder %s", path);
    case EACCES: return error_set(reterr, E_FORBIDDEN, "%s: %s", path, strerror(EACCES));
    default: return error_errno(reterr, errno, "open %s", path);
    }
}

static bool is_same(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* The caller's own process, not one that got its number since. */
static bool is_process_of(int process_fd, uid_t uid) {
    struct stat status;
    return fstat(process_fd, &status) == 0 && status.st_uid == uid;
}

/* The mode of such a link tells what the descriptor is open for. */
static bool is_hold(int descriptors_fd, const char *name, enum folder_hold hold) {
    struct stat link;
    return fstatat(descriptors_fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
           (link.st_mode & S_IRUSR) == (hold == HOLD_TO_WRITE ? S_IRUSR : 0);
}

static bool any_is(int descriptors_fd, const struct stat *wanted, enum folder_hold hold) {
    int fd = fcntl(descriptors_fd, F_DUPFD_CLOEXEC, 0), left = DESCRIPTORS_LOOKED_AT;
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    if (!listing) {
        fd_close(fd);
        return false;
    }
    for (struct dirent *entry; !found && left-- > 0 && (entry = readdir(listing));) {
        struct stat status;
        found = entry->d_name[0] != '.' && fstatat(descriptors_fd, entry->d_name, &status, 0) == 0 &&
                S_ISDIR(status.st_mode) && is_same(&status, wanted) && is_hold(descriptors_fd, entry->d_name, hold);
    }
    closedir(listing);
    return found;
}

/* The daemon names the path, and the kernel only the caller: what a daemon gone bad names could be any folder of any
   caller's. So the caller holds open what it lets sandboxes write, or find services in, which the kernel shows and no
   other can forge. */
bool folder_is_held_open(const struct caller *caller, const struct stat *folder, enum folder_hold hold) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)caller->pid);
    CLEANUP_FD int process_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (process_fd < 0 || !is_process_of(process_fd, caller->uid)) return false;
    CLEANUP_FD int descriptors_fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return descriptors_fd >= 0 && any_is(descriptors_fd, folder, hold);
}

static int check_writable(const struct caller *caller, int fd, const char *path, bool root, struct error *reterr) {
    struct stat status;
    if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
        return error_set(reterr, E_FORBIDDEN, "you can't write to %s (%s); `:ro` hands it over to be read", path,
                         strerror(errno));
    if (!root || caller->pid == 0) return 0; /* the daemon is the caller's own; or it was agreed to before */
    if (fstat(fd, &status) < 0) return error_errno(reterr, errno, "look at %s", path);
    if (folder_is_held_open(caller, &status, HOLD_TO_WRITE)) return 0;
    return error_set(reterr, E_FORBIDDEN,
                     "%s is handed over to be written only by a process that holds it open, as `sandbox` does; `:ro` "
                     "hands it over to be read",
                     path);
}

/* Where it is now: its owner may rename what is above it at any moment. */
static bool has_mounts(int fd) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || size == (ssize_t)sizeof path - 1) return true;
    path[size] = '\0';
    return folder_has_mounts(path);
}

static int check_file_system(int fd, const char *path, struct error *reterr) {
    struct statfs status;
    if (fstatfs(fd, &status) < 0) return error_errno(reterr, errno, "look at %s", path);
    if (status.f_type == FUSE_SUPER_MAGIC)
        return error_set(reterr, E_GUARANTEE, "%s lies on FUSE, which can't be mounted into sandboxes", path);
    /* Without what covers them, the files below would be seen that their caller can't. */
    if (has_mounts(fd))
        return error_set(reterr, E_INVALID, "a file system is mounted below %s; hand over a folder without one", path);
    return 0;
}

int folder_open(const struct caller *caller, const char *path, enum folder_access access, bool root,
                struct error *reterr) {
    CLEANUP_FD int found_fd = find(path, reterr);
    if (found_fd < 0) return -1;
    CLEANUP_FD int fd = openat(found_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_set(reterr, errno == EACCES ? E_FORBIDDEN : E_SYSTEM, "%s: %s", path, strerror(errno));
    if (check_file_system(fd, path, reterr) < 0) return -1;
    if (access == FOLDER_WRITE && check_writable(caller, fd, path, root, reterr) < 0) return -1;
    return take_fd(&fd);
}

/* ---- the launcher's side ---- */

uint64_t folder_attributes(const struct launcher_project *folder, bool is_executable) {
    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (folder->folder == FOLDER_WRITE ? 0 : MOUNT_ATTR_RDONLY) |
           (is_executable ? 0 : MOUNT_ATTR_NOEXEC);
}

int folder_mount(const struct launcher_project *folder, int userns_fd, bool is_executable, int *ret_fd,
                 struct error *reterr) {
    CLEANUP_FD int fd = open_tree(folder->source_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "bind %s", folder->path);
    struct mount_attr change = {.attr_set = folder_attributes(folder, is_executable) | MOUNT_ATTR_IDMAP,
                                .propagation = MS_PRIVATE,
                                .userns_fd = (unsigned)userns_fd};
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &change, sizeof change) < 0)
        return error_set(reterr, E_GUARANTEE,
                         "%s can't be mounted into a sandbox: its file system has no idmapped mounts (%s)",
                         folder->path, strerror(errno));
    *ret_fd = take_fd(&fd);
    return 0;
}
