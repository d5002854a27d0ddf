/* BEAM files in what the launcher opened for a caller: found, and read. */
#include "compile/check/beam_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

struct search {
    const struct beam_source *source;
    char **paths; /* below the folder */
    size_t count, capacity, entries;
};

static int check_called_off(const struct beam_source *source, struct error *reterr) {
    if (!atomic_load(source->call_off)) return 0;
    return error_set(reterr, E_SHUTDOWN, "it was called off");
}

/* ---- finding ---- */

static int add_path(struct search *search, const char *path, struct error *reterr) {
    if (search->count == BEAM_FILES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%s holds more than %d BEAM files", search->source->path, BEAM_FILES_MAX);
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

static bool is_wanted(const struct beam_source *source, const char *path) {
    if (source->wants) return source->wants(path);
    return source->is_file || string_ends(path, ".beam");
}

static int search_entry(struct search *search, int folder, const struct dirent *entry, const char *path, unsigned depth,
                        struct error *reterr) {
    if (++search->entries > BEAM_FILES_ENTRIES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%s holds more than %d files; name a folder further down",
                         search->source->path, BEAM_FILES_ENTRIES_MAX);
    if (is_folder(folder, entry)) {
        if (depth == PROJECT_DEPTH_MAX || (search->source->enters && !search->source->enters(entry->d_name))) return 0;
        return search_folder(search, openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                             path, depth + 1, reterr);
    }
    return is_wanted(search->source, path) ? add_path(search, path, reterr) : 0;
}

/* Takes fd over. Folders that can't be read are the caller's own doing: what can be is read. */
static int search_folder(struct search *search, int fd, const char *path, unsigned depth, struct error *reterr) {
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (!directory) {
        fd_close(fd);
        return depth > 0 ? 0 : error_errno(reterr, errno, "reading %s", search->source->path);
    }
    int result = check_called_off(search->source, reterr);
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
    while (got > 0 && content->size <= BEAM_FILE_MAX_BYTES) {
        if (!buf_reserve(content, 64 << 10)) return error_set(reterr, E_NO_MEMORY, "no memory for a file");
        got = read(fd, content->data + content->size, content->capacity - content->size);
        if (got < 0) return error_errno(reterr, errno, "reading it");
        content->size += (size_t)got;
    }
    if (content->size > BEAM_FILE_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "it is larger than %d MiB", BEAM_FILE_MAX_BYTES >> 20);
    return 0;
}

static bool is_single(const struct beam_files *files) {
    return files->source->is_stream && files->source->is_file;
}

int beam_files_read(struct beam_files *files, size_t index, struct buf *content, struct error *reterr) {
    if (is_single(files)) {
        *content = files->single;
        files->single = (struct buf){0};
        return 0;
    }
    return read_bounded(files->folder, files->paths[index], content, reterr);
}

int beam_files_count(struct beam_files *files, size_t bytes, struct error *reterr) {
    int result = check_called_off(files->source, reterr);
    if (result < 0) return result;
    if (atomic_fetch_add(&files->total_bytes, bytes) + bytes > BEAM_FILES_TOTAL_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the BEAM files of %s are larger than %d MiB all told",
                         files->source->path, BEAM_FILES_TOTAL_MAX_BYTES >> 20);
    return 0;
}

void beam_files_name(const struct beam_files *files, size_t index, char ret[BEAM_FILE_NAME_BYTES]) {
    const struct beam_source *source = files->source;
    snprintf(ret, BEAM_FILE_NAME_BYTES, source->is_file ? "%s" : "%s/%s", source->path, files->paths[index]);
}

/* ---- opening ---- */

/* A stream becomes a folder of ours for as long as it takes. */
static int unpack(struct beam_files *files, struct error *reterr) {
    char folder[PATH_MAX];
    int result = string_format(folder, sizeof folder, reterr, "%s/beams-XXXXXX", files->source->scratch);
    if (result < 0) return result;
    if (!mkdtemp(folder)) return error_errno(reterr, errno, "making %s", folder);
    memcpy(files->unpacked, folder, sizeof folder);
    return receive_project(files->source->fd, folder, reterr);
}

static int open_folder(struct beam_files *files, struct error *reterr) {
    int result = files->source->is_stream ? unpack(files, reterr) : 0;
    if (result < 0) return result;
    files->folder = files->source->is_stream ? open(files->unpacked, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                             : openat(files->source->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return files->folder < 0 ? error_errno(reterr, errno, "reading %s", files->source->path) : 0;
}

static int find_all(struct beam_files *files, struct error *reterr) {
    struct search search = {.source = files->source};
    int fd = openat(files->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = search_folder(&search, fd, "", 0, reterr);
    files->paths = search.paths;
    files->count = search.count;
    if (result < 0) return result;
    if (search.count == 0 && files->source->wants) return 0;
    if (search.count == 0) return error_set(reterr, E_INVALID, "%s holds no BEAM files", files->source->path);
    qsort(files->paths, files->count, sizeof *files->paths, by_path);
    return 0;
}

static int receive_single(struct beam_files *files, struct error *reterr) {
    int result = receive_file(files->source->fd, &files->single, reterr);
    if (result < 0) return error_prefix(reterr, "%s", files->source->path);
    files->paths = calloc(1, sizeof *files->paths);
    if (!files->paths) return error_set(reterr, E_NO_MEMORY, "no memory for a list of files");
    files->count = 1; /* without a path below */
    return 0;
}

int beam_files_open(const struct beam_source *source, struct beam_files *ret, struct error *reterr) {
    *ret = (struct beam_files){.source = source, .folder = -1};
    if (is_single(ret)) return receive_single(ret, reterr);
    int result = open_folder(ret, reterr);
    return result < 0 ? result : find_all(ret, reterr);
}

void beam_files_close(struct beam_files *files) {
    for (size_t i = 0; i < files->count; i++) free(files->paths[i]);
    free(take_ptr(files->paths));
    files->count = 0;
    buf_free(&files->single);
    files->folder = fd_close(files->folder);
    if (files->unpacked[0]) remove_tree(files->unpacked);
    files->unpacked[0] = '\0';
}
