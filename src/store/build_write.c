/* Writes a build: checks its paths, computes its name, writes the files, and renames the finished folder into place. */
#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files come from a compiler node, which is not trusted. */
enum { FILES_MAX = 65536, PATH_MAX_BYTES = 1024, DEPTH_MAX = BUILD_DEPTH_MAX };
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

static int hash_files(const struct store_file *const *sorted, size_t count, char ret[STORE_DIGEST_BYTES],
                      struct error *reterr) {
    CLEANUP(build_hash_free) struct build_hash hash;
    build_hash_begin(&hash);
    for (size_t i = 0; i < count; i++) build_hash_add(&hash, sorted[i]->path, sorted[i]->data, sorted[i]->size);
    return build_hash_end(&hash, ret, reterr);
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

/* The folder in which a build is being written. */
struct place {
    int root_fd;
    int base_fd; /* a build that may share files; -1: none */
    int preallocated_fd;
};

static int make_parents(const struct place *place, const char *path, struct error *reterr) {
    char parent[PATH_MAX_BYTES + 1];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
        if (preallocated_make_folder(place->preallocated_fd, place->root_fd, parent) < 0 && errno != EEXIST)
            return error_errno(reterr, errno, "making the folder '%.200s' of a build", parent);
    }
    return 0;
}

static int open_failed(const char *path, struct error *reterr) {
    if (errno == EEXIST || errno == ENOTDIR || errno == EISDIR)
        return error_set(reterr, E_INVALID, "'%.200s' is in the build twice, or is a folder too", path);
    return error_errno(reterr, errno, "creating '%.200s' of a build", path);
}

static bool has_content(int fd, const uint8_t *data, size_t size) {
    uint8_t chunk[16 * 1024];
    ssize_t count;
    while ((count = read(fd, chunk, sizeof chunk)) > 0) {
        if ((size_t)count > size || memcmp(chunk, data, (size_t)count) != 0) return false;
        data += count;
        size -= (size_t)count;
    }
    return count == 0 && size == 0;
}

static bool link_to(int folder_fd, const char *path, int root_fd, const struct store_file *file) {
    CLEANUP_FD int fd = openat(folder_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && has_content(fd, file->data, file->size) && linkat(folder_fd, path, root_fd, file->path, 0) == 0;
}

/* Files of builds never change, so builds may share them: making an inode takes longer than writing its bytes. */
static bool link_same(const struct place *place, const struct store_file *file) {
    return (place->base_fd >= 0 && link_to(place->base_fd, file->path, place->root_fd, file)) ||
           (file->twin && link_to(AT_FDCWD, file->twin, place->root_fd, file));
}

static int write_file(const struct place *place, const struct store_file *file, struct error *reterr) {
    int result = make_parents(place, file->path, reterr);
    if (result < 0 || link_same(place, file)) return result;
    CLEANUP_FD int fd = preallocated_open_file(place->preallocated_fd, place->root_fd, file->path);
    if (fd < 0) return open_failed(file->path, reterr);
    if (file_write_all(fd, file->data, file->size) < 0)
        return error_errno(reterr, errno, "writing '%.200s' of a build", file->path);
    return 0;
}

static int write_tree(const struct build_queue *queue, const char *name, int base_fd,
                      const struct store_file *const *sorted, size_t count, struct error *reterr) {
    if (preallocated_make_folder(queue->preallocated_fd, queue->tmp_fd, name) < 0)
        return error_errno(reterr, errno, "making a folder for a build");
    CLEANUP_FD int root_fd = openat(queue->tmp_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root_fd < 0) return error_errno(reterr, errno, "opening a build's folder");
    const struct place place = {root_fd, base_fd, queue->preallocated_fd};
    for (size_t i = 0; i < count; i++) {
        int result = write_file(&place, sorted[i], reterr);
        if (result < 0) return result;
    }
    return 0;
}

/* The rename makes the build exist. Another put of the same content may have come first. */
static int publish(const struct build_queue *queue, const char *tmp_name, const char *digest, struct error *reterr) {
    if (renameat(queue->tmp_fd, tmp_name, queue->builds_fd, digest) < 0) {
        if (errno != EEXIST && errno != ENOTEMPTY) return error_errno(reterr, errno, "putting a build in its place");
        return build_remove_tree(queue->tmp_fd, tmp_name, reterr);
    }
    return 0;
}

static int open_base(const struct build_queue *queue, const char *base) {
    return base[0] ? openat(queue->builds_fd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

int build_write(const struct build_queue *queue, const char *tmp_name, const char *base, const struct store_file *files,
                size_t count, char ret_digest[STORE_DIGEST_BYTES], bool *ret_written, struct error *reterr) {
    CLEANUP_FREE const struct store_file **sorted = NULL;
    char digest[STORE_DIGEST_BYTES];
    int result = check_files(files, count, reterr);
    if (result == 0) result = sort_files(files, count, &sorted, reterr);
    if (result < 0 || !sorted) return result;
    result = hash_files(sorted, count, digest, reterr);
    if (result < 0) return result;
    bool present = faccessat(queue->builds_fd, digest, F_OK, 0) == 0;
    if (!present) {
        /* A killed daemon may have left the name. */
        CLEANUP_FD int base_fd = open_base(queue, base);
        result = build_remove_tree(queue->tmp_fd, tmp_name, reterr);
        if (result == 0) result = write_tree(queue, tmp_name, base_fd, sorted, count, reterr);
        if (result == 0) result = publish(queue, tmp_name, digest, reterr);
        if (result < 0) build_remove_tree(queue->tmp_fd, tmp_name, NULL);
    }
    if (result < 0) return result;
    memcpy(ret_digest, digest, sizeof digest);
    *ret_written = !present;
    return 0;
}
