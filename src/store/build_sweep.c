/* Removes builds that are no longer needed, and temporary files of killed daemons. */
#include "store/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void cleanup_dir(DIR **dir) {
    if (*dir) closedir(*dir);
}

bool build_is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_directory(int parent_fd, const char *name, DIR **ret) {
    CLEANUP_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) return -1;
    take_fd(&fd);
    *ret = dir;
    return 0;
}

/* The recursion is as deep as build_write allows paths to be. */
static int remove_content(int parent_fd, const char *name, struct error *reterr) {
    CLEANUP(cleanup_dir) DIR *dir = NULL;
    if (open_directory(parent_fd, name, &dir) < 0) return error_errno(reterr, errno, "opening '%.200s'", name);
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir))) {
        if (build_is_dots(entry->d_name)) continue;
        int result = build_remove_tree(dirfd(dir), entry->d_name, reterr);
        if (result < 0) return result;
    }
    return errno ? error_errno(reterr, errno, "reading '%.200s'", name) : 0;
}

int build_remove_tree(int parent_fd, const char *name, struct error *reterr) {
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return error_errno(reterr, errno, "removing '%.200s'", name);
    int result = remove_content(parent_fd, name, reterr);
    if (result == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        result = error_errno(reterr, errno, "removing '%.200s'", name);
    return result;
}

void build_sync(int parent_fd, const char *name) {
    CLEANUP_FD int fd = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(cleanup_dir) DIR *dir = NULL;
    if (fd < 0) return;
    if (open_directory(fd, ".", &dir) == 0) {
        struct dirent *entry;
        while ((entry = readdir(dir)))
            if (!build_is_dots(entry->d_name)) build_sync(dirfd(dir), entry->d_name);
    }
    fsync(fd);
}

/* Moves the build away in one step, so that a kill leaves no half of it. */
static int retire_build(const struct build_queue *queue, const char *name, struct error *reterr) {
    int result = build_remove_tree(queue->tmp_fd, name, reterr);
    if (result == 0 && renameat(queue->builds_fd, name, queue->tmp_fd, name) < 0)
        result = error_errno(reterr, errno, "retiring the build '%.80s'", name);
    return result < 0 ? result : build_remove_tree(queue->tmp_fd, name, reterr);
}

static bool is_young(int builds_fd, const char *name, int64_t min_age_s) {
    struct stat status;
    return fstatat(builds_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           clock_wall_ms() / 1000 - status.st_ctime < min_age_s;
}

static int retire_unnamed(const struct build_queue *queue, const struct map *keep, int64_t min_age_s,
                          struct error *reterr) {
    CLEANUP(cleanup_dir) DIR *dir = NULL;
    if (open_directory(queue->builds_fd, ".", &dir) < 0) return error_errno(reterr, errno, "opening the builds");
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir))) {
        if (build_is_dots(entry->d_name) || map_get(keep, entry->d_name) ||
            is_young(queue->builds_fd, entry->d_name, min_age_s))
            continue;
        int result = retire_build(queue, entry->d_name, reterr);
        if (result < 0) return result;
    }
    return errno ? error_errno(reterr, errno, "reading the builds") : 0;
}

/* One that stays, or can't be noted, is told of another time. */
void build_remove_named(const struct build_queue *queue, const struct map *digests, struct map *ret_gone) {
    size_t at = 0;
    const char *digest;
    struct error ignored;
    while (map_next(digests, &at, &digest, NULL)) {
        bool is_gone = faccessat(queue->builds_fd, digest, F_OK, 0) < 0 && errno == ENOENT;
        if (is_gone || retire_build(queue, digest, &ignored) == 0) map_set(ret_gone, digest, ret_gone);
    }
}

/* Failed writes of this daemon. Other entries are copies of projects and BEAM files that are in use now. */
static bool is_failed_write(const struct build_queue *queue, const char *name) {
    (void)queue;
    return string_starts(name, BUILD_PUT_PREFIX);
}

/* A home has one daemon at a time, so other daemons' folders are unused. */
static bool is_anothers(const struct build_queue *queue, const char *name) {
    return strcmp(name, strrchr(queue->tmp_path, '/') + 1) != 0;
}

static int remove_left(const struct build_queue *queue, int folder_fd,
                       bool (*is_left)(const struct build_queue *queue, const char *name), struct error *reterr) {
    CLEANUP(cleanup_dir) DIR *dir = NULL;
    if (open_directory(folder_fd, ".", &dir) < 0) return error_errno(reterr, errno, "opening the unfinished builds");
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir))) {
        if (build_is_dots(entry->d_name) || !is_left(queue, entry->d_name)) continue;
        int result = build_remove_tree(folder_fd, entry->d_name, reterr);
        if (result < 0) return result;
    }
    return errno ? error_errno(reterr, errno, "reading the unfinished builds") : 0;
}

int build_sweep(const struct build_queue *queue, const struct map *keep, int64_t min_age_s, struct error *reterr) {
    int result = retire_unnamed(queue, keep, min_age_s, reterr);
    if (result == 0) result = remove_left(queue, queue->tmp_fd, is_failed_write, reterr);
    return result < 0 ? result : remove_left(queue, queue->all_tmp_fd, is_anothers, reterr);
}
