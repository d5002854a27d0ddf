/* Control files of cgroups, written and read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "jail/wire.h"
#include "launcher/cgroup/backend.h"

int cgroup_write(const char *path, const char *text) {
    CLEANUP_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return -errno;
    /* One write: the kernel takes each as a whole value. */
    ssize_t written = write(fd, text, strlen(text));
    return written < 0 ? -errno : 0;
}

int cgroup_read(const char *path, char *ret, size_t size) {
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    size_t used = 0;
    while (used < size - 1) {
        ssize_t got = read(fd, ret + used, size - 1 - used);
        if (got < 0) return -errno;
        if (got == 0) break;
        used += (size_t)got;
    }
    ret[used] = '\0';
    return 0;
}

static bool line_number(char *line, const char *key, uint64_t *ret) {
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) return false;
    if (length == 0) return parse_u64(line, ret);
    return line[length] == ' ' && parse_u64(line + length + 1, ret);
}

bool cgroup_read_number(const char *path, const char *key, uint64_t *ret) {
    char text[1024];
    if (cgroup_read(path, text, sizeof text) < 0) return false;
    char *at = text;
    for (char *line; (line = wire_next_line(&at));)
        if (line_number(line, key, ret)) return true;
    return false;
}
