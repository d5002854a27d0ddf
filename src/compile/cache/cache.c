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
    /* One whose build was swept is written over by the next compilation of it, or forgotten in its turn: to remove it
       here would take what another thread may have written meanwhile. */
    if (store_build_path(store, digest, build, sizeof build, &ignored) < 0) return false;
    futimens(fd, NULL); /* used now: it is forgotten last */
    memcpy(ret_digest, digest, sizeof digest);
    return true;
}

/* All of one size: "digest owner bytes". An earlier version wrote the digest alone. */
enum { ENTRY_BYTES = STORE_DIGEST_BYTES - 1 + 1 + 10 + 1 + 20 };

static void print_entry(const struct cached_build *build, char ret[ENTRY_BYTES + 1]) {
    snprintf(ret, ENTRY_BYTES + 1, "%.64s %010u %020llu", build->digest, build->owner,
             (unsigned long long)build->bytes);
}

/* A name of ours that is no entry yet: what a killed daemon left there goes. */
static bool write_new(const char *home, const char *path, const char *text) {
    char temporary[PATH_MAX + 8];
    size_t length = strlen(text);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    CLEANUP_FD int fd = store_open_file(home, temporary);
    bool written = fd >= 0 && write(fd, text, length) == (ssize_t)length && rename(temporary, path) == 0;
    if (!written) unlink(temporary);
    return written;
}

/* All entries are of one size and less than a sector, so one that is there is whole before and after: replacing the
   file would take ten times as long. */
static bool write_over(const char *path, const char *text) {
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t length = strlen(text);
    return fd >= 0 && pwrite(fd, text, length, 0) == (ssize_t)length;
}

/* Best effort: without the entry the next compilation just runs. */
void cache_keep(const char *home, const char *key, const struct cached_build *build) {
    char path[PATH_MAX], text[ENTRY_BYTES + 1];
    print_entry(build, text);
    if (!cache_path(home, key, path) || write_over(path, text) || write_new(home, path, text)) return;
    /* It is the first one. */
    if (cache_path(home, "", path) && mkdir(path, 0700) == 0 && cache_path(home, key, path))
        write_new(home, path, text);
}

/* ---- which are kept ---- */

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

static bool read_entry(int folder, const char *key, struct cached_build *ret) {
    char text[ENTRY_BYTES + 1] = "";
    CLEANUP_FD int fd = openat(folder, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t count = fd < 0 ? -1 : read(fd, text, ENTRY_BYTES);
    if (count < STORE_DIGEST_BYTES - 1) return false;
    *ret = (struct cached_build){0};
    memcpy(ret->digest, text, STORE_DIGEST_BYTES - 1);
    if (count < ENTRY_BYTES) return true;
    ret->owner = (uid_t)strtoul(text + STORE_DIGEST_BYTES, NULL, 10);
    ret->bytes = strtoull(text + STORE_DIGEST_BYTES + 11, NULL, 10);
    return true;
}

struct owner_count {
    uid_t owner;
    size_t count;
};

/* How many of this owner were counted before. */
static size_t count_one(struct owner_count *owners, size_t *owner_count, uid_t owner) {
    size_t i = 0;
    while (i < *owner_count && owners[i].owner != owner) i++;
    if (i == *owner_count) owners[(*owner_count)++] = (struct owner_count){.owner = owner};
    return owners[i].count++;
}

void cache_choose(const struct cached_build *builds, size_t count, size_t max, bool *ret_chosen) {
    CLEANUP_FREE size_t *ranks = calloc(count + 1, sizeof *ranks); /* among those of the same owner */
    CLEANUP_FREE struct owner_count *owners = calloc(count + 1, sizeof *owners);
    size_t owner_count = 0, chosen = 0;
    for (size_t i = 0; ranks && owners && i < count; i++) ranks[i] = count_one(owners, &owner_count, builds[i].owner);
    for (size_t rank = 0; chosen < max && chosen < count; rank++)
        for (size_t i = 0; i < count && chosen < max; i++) {
            if (ret_chosen[i] || (ranks && ranks[i] != rank)) continue;
            ret_chosen[i] = true;
            chosen++;
        }
}

/* Read the entries; what is none, or not chosen, is forgotten. */
static size_t keep_chosen(DIR *directory, const struct cache_entry *entries, size_t count, struct cached_build *ret,
                          size_t max) {
    CLEANUP_FREE struct cached_build *builds = calloc(count, sizeof *builds);
    CLEANUP_FREE bool *are_chosen = calloc(count, sizeof *are_chosen);
    size_t kept = 0;
    if (!builds || !are_chosen) return 0;
    for (size_t i = 0; i < count; i++) read_entry(dirfd(directory), entries[i].key, &builds[i]);
    cache_choose(builds, count, max, are_chosen);
    for (size_t i = 0; i < count; i++) {
        if (are_chosen[i] && builds[i].digest[0])
            ret[kept++] = builds[i];
        else
            unlinkat(dirfd(directory), entries[i].key, 0);
    }
    return kept;
}

size_t cache_builds(const char *home, struct cached_build *ret, size_t max) {
    char path[PATH_MAX];
    CLEANUP_FREE struct cache_entry *entries = calloc(PROJECT_ENTRIES_MAX, sizeof *entries);
    DIR *directory = entries && cache_path(home, "", path) ? opendir(path) : NULL;
    size_t count = directory ? list_entries(directory, entries, PROJECT_ENTRIES_MAX) : 0, kept = 0;
    if (count > 0) qsort(entries, count, sizeof *entries, newest_first);
    if (count > 0) kept = keep_chosen(directory, entries, count, ret, max);
    if (directory) closedir(directory);
    return kept;
}
