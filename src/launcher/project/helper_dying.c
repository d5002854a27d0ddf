/* Helpers that were killed and have not ended. A process that closes a file on FUSE waits for the server of the file
   system, and no signal ends that: the server's owner could have any number of them wait. */
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>

#include "launcher/launcher_internal.h"

static bool has_ended(int pidfd) {
    return poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0) != 0;
}

/* Of one uid; those that have ended meanwhile are forgotten. */
static size_t count_dying(struct launcher *launcher, uid_t uid) {
    size_t kept = 0, count = 0;
    for (size_t i = 0; i < launcher->dying_count; i++) {
        struct dying_helper helper = launcher->dying[i];
        if (has_ended(helper.pidfd)) {
            fd_close(helper.pidfd);
            continue;
        }
        launcher->dying[kept++] = helper;
        count += helper.uid == uid;
    }
    launcher->dying_count = kept;
    return count;
}

int helper_end_of(struct launcher *launcher, uid_t uid, int pidfd) {
    if (pidfd < 0) return -1;
    pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    if (launcher->dying_count == HELPERS_DYING_MAX) count_dying(launcher, uid);
    /* Where there is no room, so many users have been refused that it no longer matters. */
    if (launcher->dying_count == HELPERS_DYING_MAX || has_ended(pidfd)) return fd_close(pidfd);
    launcher->dying[launcher->dying_count++] = (struct dying_helper){uid, pidfd};
    return -1;
}

int helper_check_dying(struct launcher *launcher, uid_t uid, struct error *reterr) {
    if (count_dying(launcher, uid) < HELPERS_DYING_OF_ONE) return 0;
    return error_set(reterr, E_LIMIT,
                     "%d processes that read earlier projects of uid %u do not end: their file system does not answer",
                     HELPERS_DYING_OF_ONE, uid);
}

void helper_forget_dying(struct launcher *launcher) {
    for (size_t i = 0; i < launcher->dying_count; i++) fd_close(launcher->dying[i].pidfd);
    launcher->dying_count = 0;
}
