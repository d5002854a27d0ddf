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

enum { DEPTH_MAX = 32 };

struct hashing {
    EVP_MD_CTX *context;
    size_t entries;
    size_t total_bytes;
};

static bool is_ignored(const char *name) {
    static const char *const names[] = {".", "..", "_build", ".git", ".elixir_ls", "node_modules"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void hash_text(struct hashing *hashing, const char *text) {
    EVP_DigestUpdate(hashing->context, text, strlen(text) + 1);
}

static bool hash_file(struct hashing *hashing, int folder, const char *name) {
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char chunk[64 * 1024];
    ssize_t count = -1;
    while (fd >= 0 && (count = read(fd, chunk, sizeof chunk)) > 0) {
        hashing->total_bytes += (size_t)count;
        if (hashing->total_bytes > PROJECT_TOTAL_MAX_BYTES) return false;
        EVP_DigestUpdate(hashing->context, chunk, (size_t)count);
    }
    hash_text(hashing, "end of file");
    return fd >= 0 && count == 0;
}

static bool hash_link(struct hashing *hashing, int folder, const char *name) {
    char target[PATH_MAX];
    ssize_t length = readlinkat(folder, name, target, sizeof target);
    if (length >= 0) EVP_DigestUpdate(hashing->context, target, (size_t)length);
    return length >= 0;
}

static bool hash_folder(struct hashing *hashing, int parent, const char *name, unsigned depth);

static bool hash_entry(struct hashing *hashing, int folder, const char *name, unsigned depth) {
    struct stat status;
    if (++hashing->entries > PROJECT_ENTRIES_MAX || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    hash_text(hashing, name);
    if (S_ISREG(status.st_mode)) return hash_file(hashing, folder, name);
    if (S_ISLNK(status.st_mode)) return hash_link(hashing, folder, name);
    return !S_ISDIR(status.st_mode) || hash_folder(hashing, folder, name, depth + 1);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a folder, sorted, so that the same content always gives the same digest. */
static size_t list_names(DIR *directory, char ***ret) {
    size_t count = 0, capacity = 0;
    char **names = NULL;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (is_ignored(entry->d_name)) continue;
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 32;
            char **grown = capacity > PROJECT_ENTRIES_MAX * 2 ? NULL : realloc(names, capacity * sizeof *names);
            if (!grown) break;
            names = grown;
        }
        names[count] = strdup(entry->d_name);
        if (!names[count]) break;
        count++;
    }
    if (count > 0) qsort(names, count, sizeof *names, by_name);
    *ret = names;
    return count;
}

static bool hash_folder(struct hashing *hashing, int parent, const char *name, unsigned depth) {
    int fd = depth > DEPTH_MAX ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return false;
    }
    char **names;
    size_t count = list_names(directory, &names);
    bool whole = true;
    for (size_t i = 0; i < count; i++) {
        whole = whole && hash_entry(hashing, fd, names[i], depth);
        free(names[i]);
    }
    free(names);
    closedir(directory);
    hash_text(hashing, "end of folder");
    return whole;
}

bool cache_key(int project, const char *toolchain, const char *kind, const char *name, char ret[STORE_DIGEST_BYTES]) {
    struct hashing hashing = {.context = EVP_MD_CTX_new()};
    uint8_t digest[EVP_MAX_MD_SIZE];
    bool whole = hashing.context && EVP_DigestInit_ex(hashing.context, EVP_sha256(), NULL) == 1;
    if (whole) {
        hash_text(&hashing, toolchain);
        hash_text(&hashing, kind);
        hash_text(&hashing, name);
        whole = hash_folder(&hashing, project, ".", 0) && EVP_DigestFinal_ex(hashing.context, digest, NULL) == 1;
    }
    EVP_MD_CTX_free(hashing.context);
    if (whole) hex_encode(digest, 32, ret);
    return whole;
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
