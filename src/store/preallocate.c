/* Preallocated empty files and folders in the store's file system. Making an inode takes longer than writing and
   renaming a small file, up to twenty times as long after many deletions. Taking one is a rename. So the stock is
   always empty and consistent after a kill, and any number of threads may take from it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_internal.h"

enum { PREALLOCATED_NAME_BYTES = 32 };

/* Enough for a few small changes in a row. */
static const struct {
    const char *name;
    unsigned count;
} kinds[] = {
    [PREALLOCATED_FILE] = {"file", 12},
    [PREALLOCATED_FOLDER] = {"folder", 8},
};

static const char *name_place(enum preallocated_kind kind, unsigned place, char ret[PREALLOCATED_NAME_BYTES]) {
    snprintf(ret, PREALLOCATED_NAME_BYTES, "%s-%u", kinds[kind].name, place);
    return ret;
}

static bool has(int preallocated_fd, const char *name) {
    return faccessat(preallocated_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Entries are taken from the first on and filled from the last on: if the last is missing, all are. This check costs a
   fraction of a rename between folders, which takes a lock of the whole file system. */
int preallocated_take(int preallocated_fd, enum preallocated_kind kind, int parent_fd, const char *path) {
    char name[PREALLOCATED_NAME_BYTES];
    if (!has(preallocated_fd, name_place(kind, kinds[kind].count - 1, name))) return -1;
    for (unsigned i = 0; i < kinds[kind].count; i++) {
        if (!has(preallocated_fd, name_place(kind, i, name))) continue;
        if (renameat2(preallocated_fd, name, parent_fd, path, RENAME_NOREPLACE) == 0) return 0;
        if (errno != ENOENT) return -1;
    }
    return -1;
}

/* ---- taking or making ---- */

int preallocated_open_file(int preallocated_fd, int parent_fd, const char *path) {
    if (preallocated_take(preallocated_fd, PREALLOCATED_FILE, parent_fd, path) == 0)
        return openat(parent_fd, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP_FD int fd = openat(parent_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    /* Independent of the umask: nodes have other uids. */
    return fd < 0 || fchmod(fd, 0644) < 0 ? -1 : take_fd(&fd);
}

static int make_folder(int parent_fd, const char *path) {
    return mkdirat(parent_fd, path, 0755) < 0 ? -1 : fchmodat(parent_fd, path, 0755, 0);
}

int preallocated_make_folder(int preallocated_fd, int parent_fd, const char *path) {
    if (preallocated_take(preallocated_fd, PREALLOCATED_FOLDER, parent_fd, path) == 0) return 0;
    return errno == EEXIST ? -1 : make_folder(parent_fd, path);
}

int store_open_file(const char *home, const char *path) {
    char folder[PATH_MAX];
    CLEANUP_FD int fd = string_format(folder, sizeof folder, NULL, "%s/store/" PREALLOCATED_NAME, home) < 0
                            ? -1
                            : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return preallocated_open_file(fd, AT_FDCWD, path);
}

/* ---- filling ---- */

static bool make_file(int parent_fd, const char *path) {
    CLEANUP_FD int fd = openat(parent_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd >= 0 && fchmod(fd, 0644) == 0;
}

/* An entry that a killed daemon left, with any mode, is removed. */
static bool make(int parent_fd, enum preallocated_kind kind, const char *path) {
    if (kind == PREALLOCATED_FILE) return make_file(parent_fd, path);
    return (mkdirat(parent_fd, path, 0755) == 0 || errno == EEXIST) && fchmodat(parent_fd, path, 0755, 0) == 0;
}

/* Made in another folder: a thread that takes an entry would wait for the folder's lock meanwhile. */
static bool fill_place(int preallocated_fd, int making_fd, enum preallocated_kind kind, const char *name) {
    const char *made = kinds[kind].name;
    if (has(preallocated_fd, name)) return true;
    return make(making_fd, kind, made) && renameat2(making_fd, made, preallocated_fd, name, RENAME_NOREPLACE) == 0;
}

/* Best effort: without preallocated entries, callers make their own. */
void preallocate(int preallocated_fd) {
    char name[PREALLOCATED_NAME_BYTES];
    mkdirat(preallocated_fd, "making", 0700);
    CLEANUP_FD int making_fd = openat(preallocated_fd, "making", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (enum preallocated_kind kind = 0; kind < PREALLOCATED_KINDS; kind++)
        for (unsigned i = kinds[kind].count; i-- > 0;)
            if (!fill_place(preallocated_fd, making_fd, kind, name_place(kind, i, name))) return;
}
