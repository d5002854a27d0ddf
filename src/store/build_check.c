/* Checks builds after a boot of the machine, and removes those that a power failure left incomplete. */
#include "store/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A written build survives the daemon's death at once, and a power failure a moment later, after build_sync. So only a
   build of another boot may be incomplete. Its name, which is its digest, shows that. */

struct paths {
    char **items;
    size_t count;
};

static void free_paths(struct paths *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->items[i]);
    free(paths->items);
}

static bool add_path(struct paths *paths, char *path) {
    char **grown = path ? reallocarray(paths->items, paths->count + 1, sizeof *grown) : NULL;
    if (!grown) {
        free(path);
        return false;
    }
    paths->items = grown;
    paths->items[paths->count++] = path;
    return true;
}

/* Some file systems don't return the type with the name. */
static bool is_folder(int parent_fd, const struct dirent *entry) {
    struct stat info;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    return fstatat(parent_fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

/* Collects every file below the folder, by its path. False for anything that a build does not hold, and without
   memory. */
static bool collect(int parent_fd, const char *name, const char *prefix, int depth, struct paths *paths) {
    CLEANUP_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = depth > BUILD_DEPTH_MAX || fd < 0 ? NULL : fdopendir(fd);
    if (!dir) return false;
    take_fd(&fd);
    bool good = true;
    struct dirent *entry;
    while (good && (errno = 0, entry = readdir(dir))) {
        if (build_is_dots(entry->d_name)) continue;
        char *path = string_print("%s%s%s", prefix, prefix[0] ? "/" : "", entry->d_name);
        if (path && is_folder(dirfd(dir), entry)) {
            good = collect(dirfd(dir), entry->d_name, path, depth + 1, paths);
            free(path);
        } else {
            good = add_path(paths, path);
        }
    }
    good = good && errno == 0;
    closedir(dir);
    return good;
}

static bool hash_file(struct build_hash *hash, int root_fd, const char *path) {
    CLEANUP_FD int fd = openat(root_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) return false;
    size_t size = (size_t)info.st_size;
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (data == MAP_FAILED) return false;
    build_hash_add(hash, path, data, size);
    if (size) munmap(data, size);
    return true;
}

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool build_is_whole(int builds_fd, const char *digest) {
    CLEANUP(free_paths) struct paths paths = {0};
    CLEANUP(build_hash_free) struct build_hash hash;
    CLEANUP_FD int root_fd = openat(builds_fd, digest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    build_hash_begin(&hash);
    if (root_fd < 0 || !collect(root_fd, ".", "", 1, &paths) || paths.count == 0) return false;
    qsort(paths.items, paths.count, sizeof *paths.items, compare_strings);
    for (size_t i = 0; i < paths.count; i++)
        if (!hash_file(&hash, root_fd, paths.items[i])) return false;
    char actual[STORE_DIGEST_BYTES];
    return build_hash_end(&hash, actual, NULL) == 0 && strcmp(actual, digest) == 0;
}

/* Errors are ignored: without the note the next start checks again. */
static void note_boot_id(int store_fd, const char *boot_id) {
    CLEANUP_FD int fd = openat(store_fd, "boot_id", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, boot_id, strlen(boot_id)) < 0) unlinkat(store_fd, "boot_id", 0);
}

static int remove_torn(int builds_fd, struct error *reterr) {
    int fd = openat(builds_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(fd);
        return error_errno(reterr, errno, "opening the builds");
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(dir)))
        if (!build_is_dots(entry->d_name) && !build_is_whole(builds_fd, entry->d_name))
            result = build_remove_tree(builds_fd, entry->d_name, reterr);
    closedir(dir);
    return result;
}

int build_check_after_boot(int store_fd, int builds_fd, struct error *reterr) {
    char now[BOOT_ID_BYTES], noted[BOOT_ID_BYTES];
    clock_boot_id(now);
    if (file_read_text(store_fd, "boot_id", noted, sizeof noted) < 0) noted[0] = '\0';
    noted[strcspn(noted, "\n")] = '\0';
    if (now[0] && strcmp(now, noted) == 0) return 0;
    int result = remove_torn(builds_fd, reterr);
    if (result == 0) result = build_remove_tree(store_fd, PREALLOCATED_NAME, reterr);
    if (result == 0 && now[0]) note_boot_id(store_fd, now);
    return result;
}
