/* Which build a project's present content gives: a digest of everything it was made from names it. The key is computed
   here, from the files themselves, so a compiler node can only ever spoil what its own sources make. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

/* One folder or file being hashed. Each has a digest of its own, of a fixed size, so that no content can be taken for
   the entries that follow it. */
struct hashing {
    size_t entries;
    size_t total_bytes;
};

enum { DIGEST_BYTES = 32 };

static void free_context(EVP_MD_CTX **context) {
    EVP_MD_CTX_free(*context);
}

static EVP_MD_CTX *new_context(void) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1) return context;
    EVP_MD_CTX_free(context);
    return NULL;
}

/* What is built anew or is history is not part of a project's sources; further down, the names mean nothing. */
static bool is_ignored(const char *name, unsigned depth) {
    static const char *const names[] = {"_build", ".git", ".elixir_ls", "node_modules"};
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return true;
    for (size_t i = 0; depth == 0 && i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void hash_text(EVP_MD_CTX *context, const char *text) {
    EVP_DigestUpdate(context, text, strlen(text) + 1);
}

static bool hash_file(struct hashing *hashing, int folder, const char *name, uint8_t ret[DIGEST_BYTES]) {
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    CLEANUP(free_context) EVP_MD_CTX *context = fd < 0 ? NULL : new_context();
    char chunk[64 * 1024];
    ssize_t count = -1;
    while (context && (count = read(fd, chunk, sizeof chunk)) > 0) {
        hashing->total_bytes += (size_t)count;
        if (hashing->total_bytes > PROJECT_TOTAL_MAX_BYTES) return false;
        EVP_DigestUpdate(context, chunk, (size_t)count);
    }
    return count == 0 && EVP_DigestFinal_ex(context, ret, NULL) == 1;
}

static bool hash_link(int folder, const char *name, uint8_t ret[DIGEST_BYTES]) {
    char target[PATH_MAX];
    ssize_t length = readlinkat(folder, name, target, sizeof target);
    return length >= 0 && length < (ssize_t)sizeof target &&
           EVP_Digest(target, (size_t)length, ret, NULL, EVP_sha256(), NULL) == 1;
}

static bool hash_folder(struct hashing *hashing, int parent, const char *name, unsigned depth,
                        uint8_t ret[DIGEST_BYTES]);

/* The entry's kind, its name and the digest of its content. What is neither file, folder nor link has none. */
static bool hash_entry(struct hashing *hashing, EVP_MD_CTX *context, int folder, const char *name, unsigned depth) {
    struct stat status;
    uint8_t digest[DIGEST_BYTES] = {0};
    if (++hashing->entries > PROJECT_ENTRIES_MAX || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    bool whole = true;
    if (S_ISREG(status.st_mode)) whole = hash_file(hashing, folder, name, digest);
    if (S_ISLNK(status.st_mode)) whole = hash_link(folder, name, digest);
    if (S_ISDIR(status.st_mode)) whole = hash_folder(hashing, folder, name, depth + 1, digest);
    mode_t kind = status.st_mode & S_IFMT;
    EVP_DigestUpdate(context, &kind, sizeof kind);
    hash_text(context, name);
    EVP_DigestUpdate(context, digest, sizeof digest);
    return whole;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
    char **items;
    size_t count, capacity;
};

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->items[i]);
    free(names->items);
}

static bool add_name(struct names *names, const char *name) {
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 32;
        char **grown = names->count >= PROJECT_ENTRIES_MAX ? NULL : realloc(names->items, capacity * sizeof *grown);
        if (!grown) return false;
        names->items = grown;
        names->capacity = capacity;
    }
    names->items[names->count] = strdup(name);
    return names->items[names->count] && ++names->count;
}

/* All names in a folder, sorted, so that the same content always gives the same digest. */
static bool list_names(DIR *directory, unsigned depth, struct names *names) {
    struct dirent *entry;
    errno = 0;
    while ((entry = readdir(directory)))
        if (!is_ignored(entry->d_name, depth) && !add_name(names, entry->d_name)) return false;
    if (errno != 0) return false;
    if (names->count > 0) qsort(names->items, names->count, sizeof *names->items, by_name);
    return true;
}

static bool hash_folder(struct hashing *hashing, int parent, const char *name, unsigned depth,
                        uint8_t ret[DIGEST_BYTES]) {
    int fd = depth > PROJECT_DEPTH_MAX ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return false;
    }
    CLEANUP(free_names) struct names names = {0};
    CLEANUP(free_context) EVP_MD_CTX *context = new_context();
    bool whole = context && list_names(directory, depth, &names);
    for (size_t i = 0; i < names.count && whole; i++) whole = hash_entry(hashing, context, fd, names.items[i], depth);
    closedir(directory);
    return whole && EVP_DigestFinal_ex(context, ret, NULL) == 1;
}

/* Which folder it is, of whose: an inode's number alone is used again, and its next owner must not get what the last
   one had compiled in it. */
static bool hash_place(EVP_MD_CTX *context, const struct cache_subject *subject) {
    struct stat status;
    char text[96] = "ours";
    if (fstat(subject->folder, &status) < 0) return false;
    if (!subject->is_ours)
        snprintf(text, sizeof text, "%llx %llx %u", (unsigned long long)status.st_dev,
                 (unsigned long long)status.st_ino, subject->owner);
    hash_text(context, text);
    return true;
}

bool cache_key(const struct cache_subject *subject, char ret[STORE_DIGEST_BYTES]) {
    struct hashing hashing = {0};
    uint8_t digest[DIGEST_BYTES];
    CLEANUP(free_context) EVP_MD_CTX *context = new_context();
    if (!context || !hash_place(context, subject)) return false;
    hash_text(context, subject->toolchain);
    hash_text(context, subject->kind);
    hash_text(context, subject->name);
    if (!hash_folder(&hashing, subject->folder, ".", 0, digest)) return false;
    EVP_DigestUpdate(context, digest, sizeof digest);
    if (EVP_DigestFinal_ex(context, digest, NULL) != 1) return false;
    hex_encode(digest, sizeof digest, ret);
    return true;
}

static bool cache_path(const char *home, const char *key, const char *suffix, char ret[PATH_MAX]) {
    int length = snprintf(ret, PATH_MAX, "%s/store/cache/%s%s", home, key, suffix);
    return length > 0 && length < PATH_MAX;
}

bool cache_find(const char *home, const struct store *store, const char *key, char ret_digest[STORE_DIGEST_BYTES]) {
    char path[PATH_MAX], build[PATH_MAX], digest[STORE_DIGEST_BYTES] = "";
    struct error ignored;
    CLEANUP_FD int fd = cache_path(home, key, "", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || read(fd, digest, sizeof digest - 1) != sizeof digest - 1) return false;
    if (store_build_path(store, digest, build, sizeof build, &ignored) < 0) {
        unlink(path); /* its build was swept */
        return false;
    }
    memcpy(ret_digest, digest, sizeof digest);
    return true;
}

/* Best effort: without the entry the next compilation just runs. */
void cache_keep(const char *home, const char *key, const char *digest) {
    char path[PATH_MAX], temporary[PATH_MAX];
    if (!cache_path(home, "", "", path) || (mkdir(path, 0700) < 0 && errno != EEXIST)) return;
    if (!cache_path(home, key, "", path) || !cache_path(home, key, ".new", temporary)) return;
    CLEANUP_FD int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t length = strlen(digest);
    bool written = fd >= 0 && write(fd, digest, length) == (ssize_t)length;
    if (!written || rename(temporary, path) < 0) unlink(temporary);
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
    DIR *directory = entries && cache_path(home, "", "", path) ? opendir(path) : NULL;
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
