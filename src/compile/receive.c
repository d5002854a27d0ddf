/* A project that could not be bound arrives as a stream of its files, read with its caller's rights; here it becomes a
 * folder of ours. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

enum { LINE_MAX_BYTES = 3 * PATH_MAX };

struct stream {
    FILE *file;
    int folder;
    size_t entries;
    size_t total_bytes;
};

/* Percent-decoding in place, and nothing that leads out of the folder. */
static bool clean_path(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++) {
        unsigned value;
        if (*from == '%') {
            if (sscanf(from + 1, "%2x", &value) != 1 || value == 0) return false;
            *to++ = (char)value;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    if (path[0] == '/' || path[0] == '\0') return false;
    for (const char *at = path; at; at = strchr(at, '/')) {
        if (*at == '/') at++;
        size_t length = strcspn(at, "/");
        if (length == 0 || (length == 1 && at[0] == '.') || (length == 2 && at[0] == '.' && at[1] == '.')) return false;
    }
    return true;
}

static int copy_bytes(struct stream *stream, int fd, size_t size, const char *path, struct error *reterr) {
    char chunk[64 * 1024];
    while (size > 0) {
        size_t wanted = size < sizeof chunk ? size : sizeof chunk;
        size_t count = fread(chunk, 1, wanted, stream->file);
        if (count == 0) return error_set(reterr, E_SYSTEM, "the project's files ended early, in %s", path);
        if (write(fd, chunk, count) != (ssize_t)count) return error_errno(reterr, errno, "copying %s", path);
        size -= count;
    }
    return 0;
}

static int take_file(struct stream *stream, const char *path, size_t size, struct error *reterr) {
    CLEANUP_FD int fd = openat(stream->folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return error_errno(reterr, errno, "copying %s", path);
    return copy_bytes(stream, fd, size, path, reterr);
}

static int take_link(struct stream *stream, const char *path, size_t size, struct error *reterr) {
    char target[PATH_MAX];
    if (size >= sizeof target || fread(target, 1, size, stream->file) != size)
        return error_set(reterr, E_SYSTEM, "the link %s came damaged", path);
    target[size] = '\0';
    if (symlinkat(target, stream->folder, path) < 0) return error_errno(reterr, errno, "copying the link %s", path);
    return 0;
}

static int take_entry(struct stream *stream, char *line, struct error *reterr) {
    char kind;
    unsigned mode;
    unsigned long long size;
    int path_at = 0;
    if (sscanf(line, "%c %o %llu %n", &kind, &mode, &size, &path_at) != 3 || path_at == 0 ||
        !clean_path(line + path_at))
        return error_set(reterr, E_SYSTEM, "the project's files came damaged");
    const char *path = line + path_at;
    stream->total_bytes += size;
    if (++stream->entries > PROJECT_ENTRIES_MAX || size > PROJECT_FILE_MAX_BYTES ||
        stream->total_bytes > PROJECT_TOTAL_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the project has more than %d files or %d MiB", PROJECT_ENTRIES_MAX,
                         PROJECT_TOTAL_MAX_BYTES >> 20);
    switch (kind) {
    case 'F': return take_file(stream, path, (size_t)size, reterr);
    case 'L': return take_link(stream, path, (size_t)size, reterr);
    case 'D': return mkdirat(stream->folder, path, 0755) < 0 ? error_errno(reterr, errno, "copying %s", path) : 0;
    default: return error_set(reterr, E_SYSTEM, "the project's files came damaged");
    }
}

int receive_project(int pipe, const char *folder, struct error *reterr) {
    CLEANUP_FD int target = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (target < 0) return error_errno(reterr, errno, "opening %s", folder);
    int copy = fcntl(pipe, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    if (!file) {
        fd_close(copy);
        return error_errno(reterr, errno, "reading the project's files");
    }
    struct stream stream = {.file = file, .folder = target};
    char line[LINE_MAX_BYTES];
    int result = 0;
    bool ended = false;
    while (result == 0 && !ended && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        ended = strcmp(line, "E") == 0;
        if (!ended) result = take_entry(&stream, line, reterr);
    }
    if (result == 0 && !ended) result = error_set(reterr, E_SYSTEM, "the project's files ended early");
    fclose(file);
    return result;
}
