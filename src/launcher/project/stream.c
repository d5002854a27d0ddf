/* A project's files through a pipe, for file systems that can't be bound. Runs with the caller's rights; what the
   caller can't read is not there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/wire.h"
#include "launcher/project/project.h"

enum { ENTRIES_MAX = 20000, DEPTH_MAX = 64, CHUNK_BYTES = 65536, MODE_BITS = 0777 };

#define FILE_MAX_BYTES (64LL << 20)
#define TOTAL_MAX_BYTES (512LL << 20)

struct stream {
    int out_fd;
    size_t entries;
    long long bytes;
    char path[PATH_MAX]; /* of the entry at hand, below the project */
};

static int write_out(int fd, const void *data, size_t size, struct error *reterr) {
    return file_write_all(fd, data, size) < 0 ? error_errno(reterr, errno, "write to the pipe") : 0;
}

static int write_head(struct stream *stream, char kind, mode_t mode, long long size, struct error *reterr) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    stream->bytes += size;
    if (++stream->entries > ENTRIES_MAX)
        return error_set(reterr, E_TOO_LARGE, "the project has more than %d entries", ENTRIES_MAX);
    if (size > FILE_MAX_BYTES) return error_set(reterr, E_TOO_LARGE, "%s is too large", stream->path);
    if (stream->bytes > TOTAL_MAX_BYTES) return error_set(reterr, E_TOO_LARGE, "the project is too large");
    buf_printf(&line, "%c %o %lld ", kind, mode & MODE_BITS, size);
    wire_put_word(&line, stream->path);
    buf_append_byte(&line, '\n');
    if (line.failed) return error_set(reterr, E_NO_MEMORY, "no memory for a line");
    return write_out(stream->out_fd, line.data, line.size, reterr);
}

/* As many bytes as were promised: a file that shrinks meanwhile fails, one that grows is cut. */
static int write_file(struct stream *stream, int fd, const struct stat *status, struct error *reterr) {
    char chunk[CHUNK_BYTES];
    if (write_head(stream, 'F', status->st_mode, status->st_size, reterr) < 0) return -1;
    for (long long left = status->st_size; left > 0;) {
        ssize_t got = read(fd, chunk, left < CHUNK_BYTES ? (size_t)left : sizeof chunk);
        if (got < 0) return error_errno(reterr, errno, "read %s", stream->path);
        if (got == 0) return error_set(reterr, E_CONFLICT, "%s shrank while it was read", stream->path);
        if (write_out(stream->out_fd, chunk, (size_t)got, reterr) < 0) return -1;
        left -= got;
    }
    return 0;
}

static int write_link(struct stream *stream, int directory_fd, const char *name, struct error *reterr) {
    char target[PATH_MAX];
    ssize_t size = readlinkat(directory_fd, name, target, sizeof target);
    if (size < 0 || size == (ssize_t)sizeof target) return 0;
    if (write_head(stream, 'L', 0, size, reterr) < 0) return -1;
    return write_out(stream->out_fd, target, (size_t)size, reterr);
}

static int write_directory(struct stream *stream, int fd, int depth, struct error *reterr);

static int write_entry(struct stream *stream, int directory_fd, const char *name, int depth, struct error *reterr) {
    struct stat status;
    if (fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return 0;
    if (S_ISLNK(status.st_mode)) return write_link(stream, directory_fd, name, reterr);
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return 0;
    CLEANUP_FD int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0) return 0;
    if (S_ISREG(status.st_mode)) return write_file(stream, fd, &status, reterr);
    if (!S_ISDIR(status.st_mode)) return 0;
    if (write_head(stream, 'D', status.st_mode, 0, reterr) < 0) return -1;
    return write_directory(stream, fd, depth + 1, reterr);
}

/* What is built anew or is history is not part of a project's sources. */
static bool is_skipped(const char *name, int depth) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0 ||
           (depth == 0 && strcmp(name, "_build") == 0);
}

static int write_directory(struct stream *stream, int fd, int depth, struct error *reterr) {
    size_t length = strlen(stream->path);
    int listing_fd = depth < DEPTH_MAX ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *listing = listing_fd < 0 ? NULL : fdopendir(listing_fd);
    if (!listing) {
        fd_close(listing_fd);
        return error_set(reterr, E_TOO_LARGE, "'%s' can't be listed, or lies too deep", stream->path);
    }
    int failed = 0;
    for (struct dirent *entry; !failed && (entry = readdir(listing));) {
        if (is_skipped(entry->d_name, depth)) continue;
        failed = string_format(stream->path + length, sizeof stream->path - length, reterr, "%s%s", length ? "/" : "",
                               entry->d_name);
        if (!failed) failed = write_entry(stream, fd, entry->d_name, depth, reterr);
        stream->path[length] = '\0';
    }
    closedir(listing);
    return failed;
}

int project_stream_write(int source_fd, const char *name, int out_fd, struct error *reterr) {
    struct stream stream = {.out_fd = out_fd};
    struct stat status;
    if (fstat(source_fd, &status) < 0) return error_errno(reterr, errno, "look at the project");
    if (name) snprintf(stream.path, sizeof stream.path, "%s", name);
    int failed =
        name ? write_file(&stream, source_fd, &status, reterr) : write_directory(&stream, source_fd, 0, reterr);
    return failed ? failed : write_out(out_fd, "E\n", 2, reterr);
}
