/* Whether a user's toolchain can be changed by other users: what they write there would run in that user's sandboxes.
   Runs with the caller's rights. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/project/project.h"

enum { LEVELS_MAX = 64 };

bool toolchain_is_safe(const struct stat *status, uid_t owner) {
    if (status->st_uid != 0 && status->st_uid != owner) return false;
    return S_ISLNK(status->st_mode) || !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* In a sticky folder, such as /tmp, no other user can put something else in the place of what is root's or one's own.
 */
static bool is_safe_above(const struct stat *status, uid_t owner) {
    struct stat without_write = *status;
    if (status->st_mode & S_ISVTX) without_write.st_mode &= ~(mode_t)(S_IWGRP | S_IWOTH);
    return toolchain_is_safe(&without_write, owner);
}

static int refuse(const struct stat *status, int level, struct error *reterr) {
    const char *which = level == 0 ? "the folder" : "a folder above it";
    if (status->st_mode & (S_IWGRP | S_IWOTH))
        return error_set(reterr, E_TOOLCHAIN,
                         "other users can write %s (mode %04o, %d levels up); `chmod go-w` keeps them out", which,
                         status->st_mode & 07777u, level);
    return error_set(reterr, E_TOOLCHAIN, "%s (%d levels up) is of uid %u, neither root's nor the caller's", which,
                     level, status->st_uid);
}

int toolchain_check_owners(int folder_fd, uid_t owner, struct error *reterr) {
    struct stat status, last = {0};
    CLEANUP_FD int fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);
    for (int level = 0; level < LEVELS_MAX; level++) {
        if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "look %d levels up", level);
        if (status.st_dev == last.st_dev && status.st_ino == last.st_ino) return 0; /* the root is its own parent */
        if (level == 0 ? !toolchain_is_safe(&status, owner) : !is_safe_above(&status, owner))
            return refuse(&status, level, reterr);
        last = status;
        int above_fd = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close(fd);
        fd = above_fd;
    }
    return error_set(reterr, E_TOOLCHAIN, "it lies too deep");
}
