/* A project's files with their digests. A file that looks the same as before is not read again. */
#include "compile/project/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/cache/hash.h"
#include "compile/compile_internal.h"

/* A file that was changed so shortly before it was read may have been changed again since with the same time on it. */
static const int64_t settled_ns = 50000000;

struct scan {
    const struct tree *before;
    struct tree *tree;
    bool is_project;     /* and no folder that was handed over with it */
    char path[PATH_MAX]; /* in the project's own folder it begins with a name of it */
};

static int64_t time_ns(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Of _build only what belongs to a project: dependencies that rebar3 fetched to _build/PROFILE/lib, and what was built
   natively for _build/ENV/lib/APP/priv. */
static bool is_ignored_in_build(const char *name, unsigned depth) {
    static const char *const built[] = {"ebin", "consolidated", ".mix", ".rebar3", ".git", NULL};
    enum { PROFILE_DEPTH = 2, APP_DEPTH = 4 };
    return (depth == PROFILE_DEPTH && strcmp(name, "lib") != 0) || (depth == APP_DEPTH && is_one_of(name, built));
}

/* What is built anew or is history is not part of a project's sources; further down, the names mean nothing. */
static bool is_ignored(const struct scan *scan, const char *name, unsigned depth) {
    static const char *const dots[] = {".", "..", NULL}, *const history[] = {".git", ".elixir_ls", "node_modules",
                                                                             NULL};
    if (is_one_of(name, dots)) return true;
    if (depth == 0 && scan->is_project && string_starts(name, "erts-")) return true; /* of a release: never used */
    if (depth == 0) return is_one_of(name, history) || (strcmp(name, "_build") == 0 && !scan->is_project);
    return scan->is_project && string_starts(scan->path, "_build/") && is_ignored_in_build(name, depth);
}

/* ---- one file ---- */

static bool digest_fd(int fd, size_t *total_bytes, uint8_t ret[DIGEST_BYTES]) {
    uint8_t chunk[64 * 1024];
    struct hash hash;
    ssize_t count = -1;
    hash_begin(&hash);
    while (fd >= 0 && (count = read(fd, chunk, sizeof chunk)) > 0) {
        *total_bytes += (size_t)count;
        if (*total_bytes > PROJECT_TOTAL_MAX_BYTES) break;
        hash_bytes(&hash, chunk, (size_t)count);
    }
    return hash_end(&hash, ret) && count == 0;
}

static bool digest_link(int folder, const char *name, uint8_t ret[DIGEST_BYTES]) {
    char target[PATH_MAX];
    ssize_t length = readlinkat(folder, name, target, sizeof target);
    return length >= 0 && length < (ssize_t)sizeof target &&
           EVP_Digest(target, (size_t)length, ret, NULL, EVP_sha256(), NULL) == 1;
}

static bool is_same(const struct tree_file *known, const struct tree_file *file) {
    return known->mode == file->mode && known->device == file->device && known->inode == file->inode &&
           known->size == file->size && known->changed_ns == file->changed_ns &&
           known->modified_ns == file->modified_ns;
}

static void take_status(struct tree_file *file, const struct stat *status) {
    file->mode = status->st_mode & S_IFMT;
    file->device = status->st_dev;
    file->inode = status->st_ino;
    file->size = (uint64_t)status->st_size;
    file->changed_ns = time_ns(&status->st_ctim);
    file->modified_ns = time_ns(&status->st_mtim);
}

bool tree_file_is_same(int folder, const char *path, const struct tree_file *file) {
    struct stat status;
    struct tree_file now;
    if (fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    take_status(&now, &status);
    return is_same(file, &now);
}

/* What an earlier reading found, where nothing can have changed since. */
static bool recall(const struct scan *scan, struct tree_file *file) {
    const struct tree_file *known = scan->before ? tree_find(scan->before, file->path) : NULL;
    if (!known || !is_same(known, file) || file->changed_ns > scan->before->scanned_ns - settled_ns) return false;
    memcpy(file->digest, known->digest, sizeof file->digest);
    scan->tree->total_bytes += file->size;
    return scan->tree->total_bytes <= PROJECT_TOTAL_MAX_BYTES;
}

static bool digest_entry(struct scan *scan, int folder, const char *name, struct tree_file *file) {
    if (S_ISLNK(file->mode)) return digest_link(folder, name, file->digest);
    if (!S_ISREG(file->mode) || recall(scan, file)) return true; /* a folder's name is all there is to it */
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return digest_fd(fd, &scan->tree->total_bytes, file->digest);
}

bool tree_digest_file(int folder, const char *path, uint8_t ret[DIGEST_BYTES]) {
    char parent[PATH_MAX] = "";
    size_t total_bytes = 0;
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof parent) return false;
    if (slash) memcpy(parent, path, (size_t)(slash - path)), parent[slash - path] = '\0';
    CLEANUP_FD int parent_fd = open_below(folder, parent);
    CLEANUP_FD int fd =
        parent_fd < 0 ? -1
                      : openat(parent_fd, slash ? slash + 1 : path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return digest_fd(fd, &total_bytes, ret);
}

bool tree_digest_target(int folder, const char *path, uint8_t ret[DIGEST_BYTES]) {
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    size_t total_bytes = 0;
    struct stat status;
    CLEANUP_FD int fd = file_open_how(folder, path, &how);
    return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && digest_fd(fd, &total_bytes, ret);
}

/* ---- the folder ---- */

static struct tree_file *add_file(struct tree *tree, const char *path) {
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity ? tree->capacity * 2 : 64;
        struct tree_file *grown =
            tree->count >= PROJECT_ENTRIES_MAX ? NULL : realloc(tree->files, capacity * sizeof *grown);
        if (!grown) return NULL;
        tree->files = grown;
        tree->capacity = capacity;
    }
    struct tree_file *file = &tree->files[tree->count];
    *file = (struct tree_file){.path = strdup(path)};
    if (!file->path) return NULL;
    tree->count++;
    return file;
}

static bool scan_folder(struct scan *scan, int parent, const char *name, size_t path_length, unsigned depth);

/* Its folders come and go whenever another tool compiles: only files count. */
static bool is_in_build(const struct scan *scan) {
    return scan->is_project && (string_starts(scan->path, "_build/") || strcmp(scan->path, "_build") == 0);
}

static bool scan_entry(struct scan *scan, int folder, const char *name, size_t path_length, unsigned depth) {
    struct stat status;
    size_t name_length = strlen(name), length = path_length + name_length + (path_length > 0);
    if (length >= sizeof scan->path) return false;
    if (path_length > 0) scan->path[path_length] = '/';
    memcpy(scan->path + length - name_length, name, name_length + 1);
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    if (is_in_build(scan) && S_ISDIR(status.st_mode)) return scan_folder(scan, folder, name, length, depth + 1);
    if (is_in_build(scan) && !S_ISREG(status.st_mode)) return true; /* Mix links to the project's own folders */
    struct tree_file *file = add_file(scan->tree, scan->path);
    if (!file) return false;
    take_status(file, &status);
    if (S_ISDIR(file->mode)) return scan_folder(scan, folder, name, length, depth + 1);
    return digest_entry(scan, folder, name, file);
}

static bool scan_folder(struct scan *scan, int parent, const char *name, size_t path_length, unsigned depth) {
    int fd = depth > PROJECT_DEPTH_MAX ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return false;
    }
    bool whole = true;
    struct dirent *entry;
    while (whole && (errno = 0, entry = readdir(directory)))
        whole = is_ignored(scan, entry->d_name, depth) || scan_entry(scan, fd, entry->d_name, path_length, depth);
    whole = whole && errno == 0;
    closedir(directory);
    return whole;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

/* Each entry adds its kind, its name with the end marked, and a digest of fixed size: no content can be taken for the
   entries that follow it. */
static bool digest_all(struct tree *tree) {
    struct hash hash;
    hash_begin(&hash);
    for (size_t i = 0; i < tree->count; i++) {
        const struct tree_file *file = &tree->files[i];
        hash_bytes(&hash, &file->mode, sizeof file->mode);
        hash_text(&hash, file->path);
        hash_bytes(&hash, file->digest, sizeof file->digest);
    }
    return hash_end(&hash, tree->digest);
}

bool tree_scan(const struct tree_folder *folders, size_t count, const struct tree *before, struct tree *ret) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tree tree = {.scanned_ns = time_ns(&now)};
    struct scan scan = {.before = before, .tree = &tree};
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        size_t length = strlen(folders[i].seen);
        scan.is_project = length == 0;
        whole = length < sizeof scan.path;
        if (whole) memcpy(scan.path, folders[i].seen, length + 1);
        whole = whole && scan_folder(&scan, folders[i].fd, ".", length, 0);
    }
    if (whole && tree.count > 0) qsort(tree.files, tree.count, sizeof *tree.files, by_path);
    if (!whole || !digest_all(&tree)) {
        tree_free(&tree);
        return false;
    }
    *ret = tree;
    return true;
}

void tree_free(struct tree *tree) {
    for (size_t i = 0; i < tree->count; i++) free(tree->files[i].path);
    free(tree->files);
    *tree = (struct tree){0};
}

static int compare_path(const void *key, const void *file) {
    return strcmp(key, ((const struct tree_file *)file)->path);
}

const struct tree_file *tree_find(const struct tree *tree, const char *path) {
    return tree->count == 0 ? NULL : bsearch(path, tree->files, tree->count, sizeof *tree->files, compare_path);
}
