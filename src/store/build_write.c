#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The files come from a compiler node, which is a stranger. */
enum { FILES_MAX = 65536, PATH_MAX_BYTES = 1024, DEPTH_MAX = 32 };
static const uint64_t total_max_bytes = 1ULL << 30;

/* ---- checking ---- */

static bool component_valid(const char *start, size_t length) {
    return length > 0 && length <= 255 && !(length == 1 && start[0] == '.') &&
           !(length == 2 && start[0] == '.' && start[1] == '.');
}

static bool path_valid(const char *path) {
    if (strlen(path) > PATH_MAX_BYTES) return false;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        size_t length = strcspn(path, "/");
        if (!component_valid(path, length)) return false;
        if (path[length] == '\0') return true;
        path += length + 1;
    }
    return false;
}

static int check_files(const struct store_file *files, size_t count, struct error *reterr) {
    if (count == 0) return error_set(reterr, E_INVALID, "a build without files");
    if (count > FILES_MAX)
        return error_set(reterr, E_TOO_LARGE, "a build of %zu files; %d are allowed", count, FILES_MAX);
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (!path_valid(files[i].path))
            return error_set(reterr, E_INVALID, "'%.200s' is not a path inside a build", files[i].path);
        if (files[i].size > total_max_bytes - total)
            return error_set(reterr, E_TOO_LARGE, "a build of more than %llu bytes",
                             (unsigned long long)total_max_bytes);
        total += files[i].size;
    }
    return 0;
}

/* ---- naming ---- */

static int compare_paths(const void *a, const void *b) {
    return strcmp((*(const struct store_file *const *)a)->path, (*(const struct store_file *const *)b)->path);
}

/* Lengths go in before what they measure, so that no two sets of files give the same bytes. */
static bool hash_bytes(EVP_MD_CTX *context, const void *data, size_t size) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
    return EVP_DigestUpdate(context, length, sizeof length) == 1 && EVP_DigestUpdate(context, data, size) == 1;
}

static void cleanup_digest(EVP_MD_CTX **context) {
    EVP_MD_CTX_free(*context);
}

static int hash_files(const struct store_file *const *sorted, size_t count, char ret[STORE_DIGEST_BYTES],
                      struct error *reterr) {
    CLEANUP(cleanup_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    bool good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; good && i < count; i++)
        good = hash_bytes(context, sorted[i]->path, strlen(sorted[i]->path)) &&
               hash_bytes(context, sorted[i]->data, sorted[i]->size);
    if (!good || EVP_DigestFinal_ex(context, digest, NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "hashing a build");
    hex_encode(digest, (STORE_DIGEST_BYTES - 1) / 2, ret);
    return 0;
}

static int sort_files(const struct store_file *files, size_t count, const struct store_file ***ret,
                      struct error *reterr) {
    const struct store_file **sorted = calloc(count, sizeof(*sorted));
    if (!sorted) return error_set(reterr, E_NO_MEMORY, "sorting a build's files");
    for (size_t i = 0; i < count; i++) sorted[i] = &files[i];
    qsort(sorted, count, sizeof(*sorted), compare_paths);
    *ret = sorted;
    return 0;
}

/* ---- writing ---- */

/* Whatever the process's umask is: nodes have uids of their own. */
static int make_folder(int parent_fd, const char *name) {
    return mkdirat(parent_fd, name, 0755) < 0 ? -1 : fchmodat(parent_fd, name, 0755, 0);
}

static int make_parents(int root_fd, const char *path, struct error *reterr) {
    char parent[PATH_MAX_BYTES + 1];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
        if (make_folder(root_fd, parent) < 0 && errno != EEXIST)
            return error_errno(reterr, errno, "making the folder '%.200s' of a build", parent);
    }
    return 0;
}

static int write_all(int fd, const uint8_t *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        data += written;
        size -= (size_t)written;
    }
    return 0;
}

static int open_failed(const char *path, struct error *reterr) {
    if (errno == EEXIST || errno == ENOTDIR || errno == EISDIR)
        return error_set(reterr, E_INVALID, "'%.200s' is in the build twice, or is a folder too", path);
    return error_errno(reterr, errno, "creating '%.200s' of a build", path);
}

static int write_file(int root_fd, const struct store_file *file, struct error *reterr) {
    int result = make_parents(root_fd, file->path, reterr);
    if (result < 0) return result;
    CLEANUP_FD int fd = openat(root_fd, file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return open_failed(file->path, reterr);
    if (write_all(fd, file->data, file->size) < 0 || fchmod(fd, 0644) < 0)
        return error_errno(reterr, errno, "writing '%.200s' of a build", file->path);
    return 0;
}

static int sync_path(int root_fd, const char *path, struct error *reterr) {
    CLEANUP_FD int fd = openat(root_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0) return error_errno(reterr, errno, "syncing '%.200s' of a build", path);
    return 0;
}

static int sync_parents(int root_fd, const char *path, const char *previous, struct error *reterr) {
    char parent[PATH_MAX_BYTES + 1];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (previous && strncmp(previous, path, length + 1) == 0) continue;
        memcpy(parent, path, length);
        parent[length] = '\0';
        int result = sync_path(root_fd, parent, reterr);
        if (result < 0) return result;
    }
    return 0;
}

/* After everything is written, not file by file: the first fsync brings the file system's journal up to date and the
   others find little left to do. Sorted paths let each folder be synced once. */
static int sync_tree(int root_fd, const struct store_file *const *sorted, size_t count, struct error *reterr) {
    for (size_t i = 0; i < count; i++) {
        int result = sync_path(root_fd, sorted[i]->path, reterr);
        if (result == 0) result = sync_parents(root_fd, sorted[i]->path, i ? sorted[i - 1]->path : NULL, reterr);
        if (result < 0) return result;
    }
    if (fsync(root_fd) < 0) return error_errno(reterr, errno, "syncing a build");
    return 0;
}

static int write_tree(int tmp_fd, const char *name, const struct store_file *const *sorted, size_t count,
                      struct error *reterr) {
    if (make_folder(tmp_fd, name) < 0) return error_errno(reterr, errno, "making a folder for a build");
    CLEANUP_FD int root_fd = openat(tmp_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root_fd < 0) return error_errno(reterr, errno, "opening a build's folder");
    for (size_t i = 0; i < count; i++) {
        int result = write_file(root_fd, sorted[i], reterr);
        if (result < 0) return result;
    }
    return sync_tree(root_fd, sorted, count, reterr);
}

/* The rename is what makes the build exist; another put of the same content may have been faster. */
static int publish(const struct build_queue *queue, const char *tmp_name, const char *digest, struct error *reterr) {
    if (renameat(queue->tmp_fd, tmp_name, queue->builds_fd, digest) < 0) {
        if (errno != EEXIST && errno != ENOTEMPTY) return error_errno(reterr, errno, "putting a build in its place");
        return build_remove_tree(queue->tmp_fd, tmp_name, reterr);
    }
    if (fsync(queue->builds_fd) < 0) return error_errno(reterr, errno, "syncing the builds");
    return 0;
}

int build_write(const struct build_queue *queue, const char *tmp_name, const struct store_file *files, size_t count,
                char ret_digest[STORE_DIGEST_BYTES], struct error *reterr) {
    CLEANUP_FREE const struct store_file **sorted = NULL;
    char digest[STORE_DIGEST_BYTES];
    int result = check_files(files, count, reterr);
    if (result == 0) result = sort_files(files, count, &sorted, reterr);
    if (result == 0) result = hash_files(sorted, count, digest, reterr);
    if (result < 0) return result;
    if (faccessat(queue->builds_fd, digest, F_OK, 0) < 0) {
        /* The name may be taken by what a killed daemon left. */
        result = build_remove_tree(queue->tmp_fd, tmp_name, reterr);
        if (result == 0) result = write_tree(queue->tmp_fd, tmp_name, sorted, count, reterr);
        if (result == 0) result = publish(queue, tmp_name, digest, reterr);
        if (result < 0) build_remove_tree(queue->tmp_fd, tmp_name, NULL);
    }
    if (result == 0) memcpy(ret_digest, digest, sizeof digest);
    return result;
}
