/* Processes that do one thing for the launcher, with fewer rights, and end. The system reaps them, not the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/privileges.h"
#include "launcher/project/helper.h"

/* First out of the way of where they are wanted, then there; all else closes. */
static int keep_only(const int *fds, size_t fd_count) {
    int spare[HELPER_FDS_MAX];
    if (fd_count > ARRAY_SIZE(spare)) return -1;
    for (size_t i = 0; i < fd_count; i++)
        if ((spare[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, HELPER_FD + HELPER_FDS_MAX)) < 0) return -1;
    for (size_t i = 0; i < fd_count; i++)
        if (dup3(spare[i], HELPER_FD + (int)i, O_CLOEXEC) < 0) return -1;
    return close_range(HELPER_FD + (unsigned)fd_count, ~0U, 0);
}

static pid_t fork_with_pidfd(int *ret_pidfd) {
    struct clone_args arguments = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)ret_pidfd, .exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

/* The process between the launcher and the helper: it ends at once, so that the system reaps the helper and not we. By
   then nothing of ours is open in the helper: a caller's file system could not be unmounted as long as it were. */
static _Noreturn void start_between(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count) {
    int socket_fd = HELPER_FD + (int)fd_count - 1, pidfd = -1;
    if (keep_only(fds, fd_count) < 0) _exit(EXIT_FAILURE);
    pid_t pid = fork_with_pidfd(&pidfd);
    if (pid != 0)
        _exit(pid > 0 && fd_send(socket_fd, "", 1, &pidfd, 1, MSG_DONTWAIT) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    close(socket_fd);
    signals_reset();
    priority_reset();
    body(data);
    _exit(EXIT_SUCCESS);
}

int helper_start(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count, int *ret_pidfd,
                 struct error *reterr) {
    int pair[2], kept[HELPER_FDS_MAX];
    if (fd_count >= HELPER_FDS_MAX) return error_set(reterr, E_INVALID, "too many descriptors for a helper");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    CLEANUP_FD int own_fd = pair[0];
    CLEANUP_FD int between_fd = pair[1];
    memcpy(kept, fds, fd_count * sizeof *fds);
    kept[fd_count] = between_fd;
    pid_t pid = fork();
    if (pid < 0) return error_errno(reterr, errno, "start a helper");
    if (pid == 0) start_between(body, data, kept, fd_count + 1);
    waitpid(pid, NULL, 0);
    int pidfd = -1;
    char byte;
    if (fd_receive(own_fd, &byte, 1, &pidfd, 1, MSG_DONTWAIT) != 1 || pidfd < 0)
        return error_set(reterr, E_SYSTEM, "a helper did not start");
    *ret_pidfd = pidfd;
    return 0;
}

int helper_error(const struct error *report, struct error *reterr) {
    if (report->code == E_NONE) return 0;
    bool is_known = report->code > E_NONE && report->code < E_COUNT;
    return error_set(reterr, is_known ? report->code : E_SYSTEM, "%.*s", (int)sizeof report->detail - 1,
                     report->detail);
}

int helper_end(int pidfd) {
    /* SIGKILL alone: its user may have stopped it, and no other signal reaches a stopped process. */
    if (pidfd >= 0) pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    return fd_close(pidfd);
}

/* ---- helpers that were killed and have not ended ----

   A process that closes a file on FUSE waits for the server of the file system, and no signal ends that: the server's
   owner could have any number of them wait. */

static bool has_ended(int pidfd) {
    return poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0) != 0;
}

/* Of one principal; those that have ended meanwhile are forgotten. */
static size_t count_dying(struct launcher *launcher, uid_t uid) {
    size_t kept = 0, count = 0;
    for (size_t i = 0; i < launcher->helpers.dying_count; i++) {
        struct dying_helper helper = launcher->helpers.dying[i];
        if (has_ended(helper.pidfd)) {
            fd_close(helper.pidfd);
            continue;
        }
        launcher->helpers.dying[kept++] = helper;
        count += principals_of(&launcher->principals, helper.uid) == uid;
    }
    launcher->helpers.dying_count = kept;
    return count;
}

int helper_end_of(struct launcher *launcher, uid_t uid, int pidfd) {
    if (pidfd < 0) return -1;
    pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    if (launcher->helpers.dying_count == HELPERS_DYING_MAX) count_dying(launcher, uid);
    /* Where there is no room, so many users have been refused that it no longer matters. */
    if (launcher->helpers.dying_count == HELPERS_DYING_MAX || has_ended(pidfd)) return fd_close(pidfd);
    launcher->helpers.dying[launcher->helpers.dying_count++] = (struct dying_helper){uid, pidfd};
    return -1;
}

int helper_check_dying(struct launcher *launcher, uid_t uid, struct error *reterr) {
    if (count_dying(launcher, uid) < HELPERS_DYING_OF_ONE) return 0;
    return error_set(reterr, E_LIMIT,
                     "%d processes that read earlier projects of uid %u do not end: their file system does not answer",
                     HELPERS_DYING_OF_ONE, uid);
}

void helper_forget_dying(struct launcher *launcher) {
    for (size_t i = 0; i < launcher->helpers.dying_count; i++) fd_close(launcher->helpers.dying[i].pidfd);
    launcher->helpers.dying_count = 0;
}
