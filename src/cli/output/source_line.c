/* Reads a line of the user's source. The file's name comes from a compiler that ran strangers' code. So only files
   below the project are opened, whatever the name says and wherever links lead. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli_internal.h"

enum { SOURCE_READ_MAX_BYTES = 8 << 20 };

static int open_beneath(int folder, const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return file_open_how(folder, path, &how);
}

/* The project's folder; of a single file the one that it lies in. */
static int open_root(const char *source) {
    char parent[PATH_MAX];
    int fd = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || string_format(parent, sizeof parent, NULL, "%s", source) < 0) return fd;
    return open(dirname(parent), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static FILE *open_source(const char *source, const char *file) {
    CLEANUP_FD int root = open_root(source);
    CLEANUP_FD int fd = root < 0 ? -1 : open_beneath(root, file);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) return NULL;
    FILE *stream = fdopen(fd, "r");
    if (stream) take_fd(&fd);
    return stream;
}

static bool read_line(FILE *stream, size_t number, struct buf *ret) {
    size_t line = 1;
    int byte;
    for (size_t read = 0; read < SOURCE_READ_MAX_BYTES && (byte = getc(stream)) != EOF; read++) {
        if (byte == '\n' && line == number) return true;
        if (byte == '\n')
            line++;
        else if (line == number && byte != '\r')
            buf_append_byte(ret, (uint8_t)byte);
    }
    return ret->size > 0;
}

bool source_line(const struct cli *cli, const char *file, size_t line, struct buf *ret) {
    FILE *stream = NULL;
    if (cli->code)
        stream = fmemopen((void *)cli->code, strlen(cli->code), "r");
    else if (cli->source && file)
        stream = open_source(cli->source, file);
    if (!stream) return false;
    bool found = read_line(stream, line, ret);
    fclose(stream);
    return found && !ret->failed;
}
