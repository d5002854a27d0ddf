/* Finding BEAM files in what the launcher opened for a caller, and validating them on all processors. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"
#include "compile/validate.h"

struct search {
    const struct validate_request *request;
    char **paths; /* below the folder */
    size_t count, capacity, entries;
};

static void search_free(struct search *search) {
    for (size_t i = 0; i < search->count; i++) free(search->paths[i]);
    free(search->paths);
}

static int check_called_off(const struct validate_request *request, struct error *reterr) {
    if (!atomic_load(request->call_off)) return 0;
    return error_set(reterr, E_SHUTDOWN, "the validation was called off");
}

/* ---- finding ---- */

static int add_path(struct search *search, const char *path, struct error *reterr) {
    if (search->count == VALIDATE_FILES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%s holds more than %d BEAM files", search->request->path,
                         VALIDATE_FILES_MAX);
    if (search->count == search->capacity) {
        size_t capacity = search->capacity ? search->capacity * 2 : 64;
        char **paths = reallocarray(search->paths, capacity, sizeof *paths);
        if (!paths) return error_set(reterr, E_NO_MEMORY, "no memory for a list of files");
        search->paths = paths;
        search->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a list of files");
    search->paths[search->count++] = copy;
    return 0;
}

static int search_folder(struct search *search, int fd, const char *path, unsigned depth, struct error *reterr);

static bool is_folder(int folder, const struct dirent *entry) {
    struct stat status;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

static int search_entry(struct search *search, int folder, const struct dirent *entry, const char *path, unsigned depth,
                        struct error *reterr) {
    if (++search->entries > VALIDATE_ENTRIES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%s holds more than %d files; name a folder further down",
                         search->request->path, VALIDATE_ENTRIES_MAX);
    if (is_folder(folder, entry)) {
        if (depth == PROJECT_DEPTH_MAX) return 0;
        return search_folder(search, openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                             path, depth + 1, reterr);
    }
    bool wanted = search->request->is_file || string_ends(entry->d_name, ".beam");
    return wanted ? add_path(search, path, reterr) : 0;
}

/* Takes fd over. Folders that can't be read are the caller's own doing: what can be is validated. */
static int search_folder(struct search *search, int fd, const char *path, unsigned depth, struct error *reterr) {
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (!directory) {
        fd_close(fd);
        return depth > 0 ? 0 : error_errno(reterr, errno, "reading %s", search->request->path);
    }
    int result = check_called_off(search->request, reterr);
    while (result == 0 && (entry = readdir(directory))) {
        char below[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = string_format(below, sizeof below, reterr, "%s%s%s", path, *path ? "/" : "", entry->d_name);
        if (result == 0) result = search_entry(search, dirfd(directory), entry, below, depth, reterr);
    }
    closedir(directory);
    return result;
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- reading ---- */

/* A regular file below the folder, reached through no link. */
static int open_file(int folder, const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 0, path);
    CLEANUP_FD int below = open_below(folder, parent);
    if (below < 0) return -1;
    return openat(below, slash ? slash + 1 : path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int read_bounded(int folder, const char *path, struct buf *content, struct error *reterr) {
    CLEANUP_FD int fd = open_file(folder, path);
    struct stat status;
    ssize_t got = 1;
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "reading it");
    if (!S_ISREG(status.st_mode)) return error_set(reterr, E_FORMAT, "it is not a regular file");
    while (got > 0 && content->size <= VALIDATE_FILE_MAX_BYTES) {
        if (!buf_reserve(content, 64 << 10)) return error_set(reterr, E_NO_MEMORY, "no memory for a file");
        got = read(fd, content->data + content->size, content->capacity - content->size);
        if (got < 0) return error_errno(reterr, errno, "reading it");
        content->size += (size_t)got;
    }
    if (content->size > VALIDATE_FILE_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "it is larger than %d MiB", VALIDATE_FILE_MAX_BYTES >> 20);
    return 0;
}

/* ---- validating ---- */

/* All files of one request; each round of the loop has an object of its own. */
struct validation {
    const struct validate_request *request;
    int folder;
    char **paths;
    json_t **objects;
    atomic_size_t total_bytes;
    atomic_llong names_left;
};

/* What can't be read is no valid file, whatever its content. */
static int unreadable(const char *path, const struct error *why, json_t **ret, struct error *reterr) {
    atomic_llong no_names = 0;
    if (why->code == E_NO_MEMORY) return error_set(reterr, E_NO_MEMORY, "%s", why->detail);
    int result = validate_bytes(path, NULL, 0, 0, &no_names, ret, reterr);
    if (result == 0)
        json_object_set_new(*ret, "error",
                            json_pack("{s:s, s:s}", "code", error_kind(why->code)->slug, "detail", why->detail));
    return result;
}

static int validate_content(struct validation *validation, const char *path, const struct buf *content, json_t **ret,
                            struct error *reterr) {
    const struct validate_request *request = validation->request;
    if (atomic_fetch_add(&validation->total_bytes, content->size) + content->size > VALIDATE_TOTAL_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the BEAM files of %s are larger than %d MiB all told", request->path,
                         VALIDATE_TOTAL_MAX_BYTES >> 20);
    return validate_bytes(path, content->data, content->size, request->otp, &validation->names_left, ret, reterr);
}

static int validate_file(void *context, size_t index, struct error *reterr) {
    struct validation *validation = context;
    const struct validate_request *request = validation->request;
    const char *path = validation->paths[index];
    char full[2 * PATH_MAX];
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    struct error error;
    snprintf(full, sizeof full, request->is_file ? "%s" : "%s/%s", request->path, path);
    int result = check_called_off(request, reterr);
    if (result < 0) return result;
    if (read_bounded(validation->folder, path, &content, &error) < 0)
        return unreadable(full, &error, &validation->objects[index], reterr);
    return validate_content(validation, full, &content, &validation->objects[index], reterr);
}

/* Takes the objects over. */
static json_t *answer(json_t **objects, size_t count) {
    json_t *files = json_array();
    bool all_valid = true;
    for (size_t i = 0; i < count; i++) {
        if (!json_is_true(json_object_get(objects[i], "valid"))) all_valid = false;
        json_array_append_new(files, objects[i]);
    }
    return json_pack("{s:b, s:o}", "valid", all_valid, "files", files);
}

static int validate_all(struct validation *validation, size_t count, json_t **ret, struct error *reterr) {
    CLEANUP_FREE json_t **objects = validation->objects = calloc(count, sizeof *objects);
    if (!objects) return error_set(reterr, E_NO_MEMORY, "no memory for a list of files");
    int result = parallel_each(count, validate_file, validation, reterr);
    if (result == 0)
        *ret = answer(objects, count);
    else
        for (size_t i = 0; i < count; i++) json_decref(objects[i]);
    return result;
}

static int validate_folder(const struct validate_request *request, int folder, json_t **ret, struct error *reterr) {
    CLEANUP(search_free) struct search search = {.request = request};
    int result = search_folder(&search, openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0, reterr);
    if (result >= 0 && search.count == 0)
        result = error_set(reterr, E_INVALID, "%s holds no BEAM files", request->path);
    if (result < 0) return result;
    qsort(search.paths, search.count, sizeof *search.paths, by_path);
    struct validation validation = {
        .request = request, .folder = folder, .paths = search.paths, .names_left = VALIDATE_NAMES_MAX_BYTES};
    return validate_all(&validation, search.count, ret, reterr);
}

/* ---- a stream becomes a folder of ours for as long as it takes ---- */

static int unpack(const struct validate_request *request, char *folder, size_t size, struct error *reterr) {
    int result = string_format(folder, size, reterr, "%s/store/tmp/validate-XXXXXX", request->home);
    if (result < 0) return result;
    if (!mkdtemp(folder)) return error_errno(reterr, errno, "making %s", folder);
    result = receive_project(request->fd, folder, reterr);
    if (result < 0) remove_tree(folder);
    return result;
}

int validate_run(const struct validate_request *request, json_t **ret, struct error *reterr) {
    char folder[PATH_MAX];
    if (!request->is_stream) return validate_folder(request, request->fd, ret, reterr);
    int result = unpack(request, folder, sizeof folder, reterr);
    if (result < 0) return result;
    CLEANUP_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    result = fd < 0 ? error_errno(reterr, errno, "opening %s", folder) : validate_folder(request, fd, ret, reterr);
    remove_tree(folder);
    return result;
}
