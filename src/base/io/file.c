/* Small files, read and written whole, and locks on files. */
#include "base/io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"

enum { OPEN_ATTEMPTS = 64 };

bool file_lock(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock) == 0;
}

bool file_is_locked(int fd) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int file_write_all(int fd, const void *data, size_t size) {
    for (const uint8_t *at = data; size > 0;) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

ssize_t file_read_text(int folder_fd, const char *path, char *ret, size_t size) {
    CLEANUP_FD int fd = openat(folder_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t count = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (count >= 0) ret[count] = '\0';
    return count;
}

static int read_all(int fd, uint8_t *data, size_t size, const char *path, struct error *reterr) {
    for (size_t have = 0; have < size;) {
        ssize_t count = read(fd, data + have, size - have);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return error_errno(reterr, errno, "reading %s", path);
        if (count == 0) return error_set(reterr, E_SYSTEM, "%s is damaged: it is shorter than it was", path);
        have += (size_t)count;
    }
    return 0;
}

int file_load(const char *path, size_t max_bytes, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    struct stat status;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "reading %s", path);
    if (!S_ISREG(status.st_mode)) return error_set(reterr, E_SYSTEM, "%s is not a file", path);
    size_t size = (size_t)status.st_size;
    if (size > max_bytes) return error_set(reterr, E_TOO_LARGE, "%s is larger than %zu bytes", path, max_bytes);
    CLEANUP_FREE uint8_t *data = malloc(size + 1);
    if (!data) return error_set(reterr, E_NO_MEMORY, "no memory for %s", path);
    int result = read_all(fd, data, size, path, reterr);
    if (result < 0) return result;
    *ret = take_ptr(data);
    *ret_size = size;
    return 0;
}

int file_open_how(int folder_fd, const char *path, const struct open_how *how) {
    int fd = -1;
    for (int i = 0; i < OPEN_ATTEMPTS && fd < 0 && (i == 0 || errno == EAGAIN); i++)
        fd = (int)syscall(SYS_openat2, folder_fd, path, how, sizeof *how);
    return fd;
}
