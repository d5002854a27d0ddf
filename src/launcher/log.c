/* The launcher's end of `daemon.log`, which the daemon rotates: before a line is written, and before a daemon or a
   helper is given the file, it is the one that has the name now. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/home.h"
#include "launcher/launcher.h"

#define LOG_NAME "daemon.log"

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

void launcher_log_open(struct launcher *launcher) {
    struct stat ours, named;
    launcher->follows_log = fstat(STDERR_FILENO, &ours) == 0 && S_ISREG(ours.st_mode) &&
                            fstatat(launcher->home.fd, LOG_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                            is_same(&ours, &named);
}

/* With the daemon's rights, never made, and no link: what lies there is the daemon's choice, and root writes to it. */
static int open_named(const struct launcher *launcher) {
    struct stat status;
    fs_rights_of_daemon(launcher);
    CLEANUP_FD int fd = openat(launcher->home.fd, LOG_NAME, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    fs_rights_restore(launcher);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) return -1;
    return take_fd(&fd);
}

void launcher_log_follow(const struct launcher *launcher) {
    struct stat ours, named;
    if (!launcher->follows_log || fstat(STDERR_FILENO, &ours) < 0 ||
        fstatat(launcher->home.fd, LOG_NAME, &named, AT_SYMLINK_NOFOLLOW) < 0 || is_same(&ours, &named))
        return;
    CLEANUP_FD int fd = open_named(launcher);
    if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0) dup2(fd, STDERR_FILENO);
}
