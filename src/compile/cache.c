/* Which build something gave: a file named by a digest of all it was made from, which holds the build's digest. Keys
   are computed by the daemon, from the files themselves, so a compiler node can only ever spoil what its own sources
   make. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

static bool cache_path(const char *home, const char *key, char ret[PATH_MAX]) {
    int length = snprintf(ret, PATH_MAX, "%s/store/cache/%s", home, key);
    return length > 0 && length < PATH_MAX;
}

bool cache_find(const char *home, const struct store *store, const char *key, char ret_digest[STORE_DIGEST_BYTES]) {
    char path[PATH_MAX], build[PATH_MAX], digest[STORE_DIGEST_BYTES] = "";
    struct error ignored;
    CLEANUP_FD int fd = cache_path(home, key, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || read(fd, digest, sizeof digest - 1) != sizeof digest - 1) return false;
    /* One whose build was swept is written over by whoever compiles that anew, or forgotten in its turn: to remove it
       here would take what another thread may have written meanwhile. */
    if (store_build_path(store, digest, build, sizeof build, &ignored) < 0) return false;
    futimens(fd, NULL); /* used now: it is forgotten last */
    memcpy(ret_digest, digest, sizeof digest);
    return true;
}

/* A name of ours that is no entry yet: what a killed daemon left there goes. */
static bool write_new(const char *home, const char *path, const char *digest) {
    char temporary[PATH_MAX + 8];
    size_t length = strlen(digest);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    CLEANUP_FD int fd = store_open_file(home, temporary);
    bool written = fd >= 0 && write(fd, digest, length) == (ssize_t)length && rename(temporary, path) == 0;
    if (!written) unlink(temporary);
    return written;
}

/* All entries are of one size and less than a sector, so one that is there is whole before and after: replacing the
   file would take ten times as long. */
static bool write_over(const char *path, const char *digest) {
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t length = strlen(digest);
    return fd >= 0 && pwrite(fd, digest, length, 0) == (ssize_t)length;
}

/* Best effort: without the entry the next compilation just runs. */
void cache_keep(const char *home, const char *key, const char *digest) {
    char path[PATH_MAX];
    if (!cache_path(home, key, path) || write_over(path, digest) || write_new(home, path, digest)) return;
    /* It is the first one. */
    if (cache_path(home, "", path) && mkdir(path, 0700) == 0 && cache_path(home, key, path))
        write_new(home, path, digest);
}

struct cache_entry {
    struct timespec written;
    char key[STORE_DIGEST_BYTES];
};

static int newest_first(const void *a, const void *b) {
    const struct cache_entry *left = a, *right = b;
    if (left->written.tv_sec != right->written.tv_sec) return left->written.tv_sec < right->written.tv_sec ? 1 : -1;
    return left->written.tv_nsec < right->written.tv_nsec ? 1 : left->written.tv_nsec > right->written.tv_nsec ? -1 : 0;
}

static size_t list_entries(DIR *directory, struct cache_entry *ret, size_t max) {
    struct dirent *entry;
    struct stat status;
    size_t count = 0;
    while (count < max && (entry = readdir(directory))) {
        if (strlen(entry->d_name) != sizeof ret->key - 1) continue; /* one that is being written */
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
        ret[count].written = status.st_mtim;
        memcpy(ret[count++].key, entry->d_name, sizeof ret->key);
    }
    return count;
}

static bool read_entry(int folder, const char *key, char ret_digest[STORE_DIGEST_BYTES]) {
    CLEANUP_FD int fd = openat(folder, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t count = fd < 0 ? -1 : read(fd, ret_digest, STORE_DIGEST_BYTES - 1);
    ret_digest[STORE_DIGEST_BYTES - 1] = '\0';
    return count == STORE_DIGEST_BYTES - 1;
}

size_t cache_builds(const char *home, char (*ret)[STORE_DIGEST_BYTES], size_t max) {
    char path[PATH_MAX];
    size_t kept = 0;
    CLEANUP_FREE struct cache_entry *entries = calloc(PROJECT_ENTRIES_MAX, sizeof *entries);
    DIR *directory = entries && cache_path(home, "", path) ? opendir(path) : NULL;
    size_t count = directory ? list_entries(directory, entries, PROJECT_ENTRIES_MAX) : 0;
    if (count > 0) qsort(entries, count, sizeof *entries, newest_first);
    for (size_t i = 0; i < count; i++) {
        if (kept < max && read_entry(dirfd(directory), entries[i].key, ret[kept]))
            kept++;
        else
            unlinkat(dirfd(directory), entries[i].key, 0);
    }
    if (directory) closedir(directory);
    return kept;
}
