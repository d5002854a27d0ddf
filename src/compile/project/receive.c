/* A project that could not be bound arrives as a stream of its files, read with its caller's rights; here it becomes a
   folder of ours. The link to the launcher has all of the stream in a file before it comes here: reading never waits
   for the process that sent it. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

enum { LINE_MAX_BYTES = 3 * PATH_MAX };

struct stream {
    int fd;
    int folder;
    size_t entries;
    size_t total_bytes;
    size_t at, have; /* what is in the buffer and not taken yet */
    uint8_t buffer[64 * 1024];
};

static int damaged(struct error *reterr) {
    return error_set(reterr, E_SYSTEM, "the project's files came damaged");
}

/* ---- reading ---- */

static int refill(struct stream *stream, struct error *reterr) {
    ssize_t got;
    do {
        got = read(stream->fd, stream->buffer, sizeof stream->buffer);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return error_errno(reterr, errno, "reading the project's files");
    if (got == 0) return error_set(reterr, E_SYSTEM, "the project's files ended early");
    stream->at = 0;
    stream->have = (size_t)got;
    return 0;
}

/* Some of the bytes that come next, at most `wanted` of them; they are valid until the next call. */
static int take_some(struct stream *stream, size_t wanted, const uint8_t **ret, size_t *ret_size,
                     struct error *reterr) {
    int result = stream->at == stream->have ? refill(stream, reterr) : 0;
    if (result < 0) return result;
    size_t left = stream->have - stream->at;
    *ret = stream->buffer + stream->at;
    *ret_size = left < wanted ? left : wanted;
    stream->at += *ret_size;
    return 0;
}

static int take_line(struct stream *stream, char line[LINE_MAX_BYTES], struct error *reterr) {
    for (size_t length = 0; length < LINE_MAX_BYTES; length++) {
        const uint8_t *byte;
        size_t size;
        int result = take_some(stream, 1, &byte, &size, reterr);
        if (result < 0) return result;
        if (*byte == '\0') return damaged(reterr);
        line[length] = *byte == '\n' ? '\0' : (char)*byte;
        if (*byte == '\n') return 0;
    }
    return damaged(reterr);
}

/* ---- paths ---- */

static int hex_digit(char digit) {
    if (!isxdigit((unsigned char)digit)) return -1;
    return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
}

static bool decode_percent(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || high + low == 0) return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return true;
}

/* Names joined by slashes, and none that leads anywhere but down. */
static bool is_inside(const char *path) {
    for (unsigned depth = 0; depth < PROJECT_DEPTH_MAX; depth++) {
        size_t length = strcspn(path, "/");
        if (length == 0 || (length == 1 && path[0] == '.') || (length == 2 && memcmp(path, "..", 2) == 0)) return false;
        if (path[length] == '\0') return true;
        path += length + 1;
    }
    return false;
}

/* ---- entries ---- */

static int take_file(struct stream *stream, int folder, const char *name, size_t size, struct error *reterr) {
    CLEANUP_FD int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return error_errno(reterr, errno, "copying %s", name);
    while (size > 0) {
        const uint8_t *data;
        size_t count;
        int result = take_some(stream, size, &data, &count, reterr);
        if (result < 0) return result;
        if (file_write_all(fd, data, count) < 0) return error_errno(reterr, errno, "copying %s", name);
        size -= count;
    }
    return 0;
}

static int take_link(struct stream *stream, int folder, const char *name, size_t size, struct error *reterr) {
    char target[PATH_MAX];
    if (size >= sizeof target) return damaged(reterr);
    for (size_t have = 0; have < size;) {
        const uint8_t *data;
        size_t count;
        int result = take_some(stream, size - have, &data, &count, reterr);
        if (result < 0) return result;
        memcpy(target + have, data, count);
        have += count;
    }
    target[size] = '\0';
    if (symlinkat(target, folder, name) < 0) return error_errno(reterr, errno, "copying the link %s", name);
    return 0;
}

static int take_folder(struct stream *stream, int folder, const char *name, size_t size, struct error *reterr) {
    (void)stream;
    if (size != 0) return damaged(reterr);
    return mkdirat(folder, name, 0755) < 0 ? error_errno(reterr, errno, "copying %s", name) : 0;
}

static const struct entry_kind {
    char letter;
    int (*take)(struct stream *stream, int folder, const char *name, size_t size, struct error *reterr);
} entry_kinds[] = {{'F', take_file}, {'L', take_link}, {'D', take_folder}};

/* The path's last name, in the folder that the others lead to: without following a link that came before. */
static int take_at(struct stream *stream, const struct entry_kind *kind, char *path, size_t size,
                   struct error *reterr) {
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (slash) *slash = '\0';
    CLEANUP_FD int folder = open_below(stream->folder, slash ? path : "");
    if (folder < 0) return error_errno(reterr, errno, "copying into %s", slash ? path : "the project's folder");
    return kind->take(stream, folder, name, size, reterr);
}

/* "F 644 12 lib/a.ex" */
static int take_entry(struct stream *stream, char *line, struct error *reterr) {
    const struct entry_kind *kind = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(entry_kinds); i++)
        if (line[0] == entry_kinds[i].letter && line[1] == ' ') kind = &entry_kinds[i];
    char *size_text = kind ? strchr(line + 2, ' ') : NULL; /* modes are not kept: all of it is only read */
    char *path = size_text ? strchr(size_text + 1, ' ') : NULL;
    if (!path) return damaged(reterr);
    *path++ = '\0';
    uint64_t size;
    if (!parse_u64(size_text + 1, &size) || !decode_percent(path) || !is_inside(path)) return damaged(reterr);
    if (++stream->entries > PROJECT_ENTRIES_MAX || size > PROJECT_FILE_MAX_BYTES ||
        (stream->total_bytes += size) > PROJECT_TOTAL_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the project has more than %d files or %d MiB, or a file of over %d MiB",
                         PROJECT_ENTRIES_MAX, PROJECT_TOTAL_MAX_BYTES >> 20, PROJECT_FILE_MAX_BYTES >> 20);
    return take_at(stream, kind, path, (size_t)size, reterr);
}

static struct stream *open_stream(int source, int folder, struct error *reterr) {
    struct stream *stream = malloc(sizeof *stream);
    if (!stream) {
        error_set(reterr, E_NO_MEMORY, "no memory for a project's files");
        return NULL;
    }
    stream->fd = source, stream->folder = folder;
    stream->entries = stream->total_bytes = stream->at = stream->have = 0;
    return stream;
}

static int take_content(struct stream *stream, size_t size, struct buf *content, struct error *reterr) {
    while (size > 0) {
        const uint8_t *data;
        size_t count;
        int result = take_some(stream, size, &data, &count, reterr);
        if (result < 0) return result;
        buf_append(content, data, count);
        size -= count;
    }
    return content->failed ? error_set(reterr, E_NO_MEMORY, "no memory for a file") : 0;
}

int receive_file(int source, struct buf *content, struct error *reterr) {
    CLEANUP_FREE struct stream *stream = open_stream(source, -1, reterr);
    char line[LINE_MAX_BYTES] = {0};
    unsigned mode;
    unsigned long long size;
    if (!stream) return -E_NO_MEMORY;
    int result = take_line(stream, line, reterr);
    if (result < 0) return result;
    if (sscanf(line, "F %o %llu ", &mode, &size) != 2) return damaged(reterr);
    if (size > PROJECT_FILE_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "it is larger than %d MiB", PROJECT_FILE_MAX_BYTES >> 20);
    return take_content(stream, (size_t)size, content, reterr);
}

int receive_project(int source, const char *folder, struct error *reterr) {
    CLEANUP_FD int target = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target < 0) return error_errno(reterr, errno, "opening %s", folder);
    CLEANUP_FREE struct stream *stream = open_stream(source, target, reterr);
    if (!stream) return -E_NO_MEMORY;
    char line[LINE_MAX_BYTES] = {0};
    for (;;) {
        int result = take_line(stream, line, reterr);
        if (result < 0) return result;
        if (strcmp(line, "E") == 0) return 0;
        result = take_entry(stream, line, reterr);
        if (result < 0) return result;
    }
}
