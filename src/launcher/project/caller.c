/* Acting as the person who asked: never with more than that person's rights, and never in the launcher's own process,
   which a slow or hostile file system could hold up. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launcher/launcher_internal.h"

/* Both ends of a unix connection report a peer, but only the accepting end's is the one who asked: on the other it is
   whoever listens, maybe root. An accepted socket has its listener's name, and its peer none. */
static bool is_accepted(int fd) {
    struct sockaddr_un own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own.sun_family == AF_UNIX &&
           own_size > sizeof own.sun_family && peer_size == sizeof peer.sun_family;
}

/* The daemon has these too. One of a pair that root made has root at its other end, and could be given a name. */
static bool is_inherited(int fd) {
    struct stat status, own;
    if (fstat(fd, &status) < 0) return true;
    for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; standard++)
        if (fstat(standard, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino) return true;
    return false;
}

/* Who has gone wants nothing opened any more: a connection that was kept must not stand for its caller for ever. */
static bool is_gone(int fd) {
    struct pollfd state = {.fd = fd};
    return poll(&state, 1, 0) != 0 && state.revents & (POLLHUP | POLLERR | POLLNVAL);
}

int caller_of(int peer_fd, struct caller *ret, struct error *reterr) {
    struct ucred peer;
    struct caller caller = {0};
    socklen_t size = sizeof peer, groups_size = sizeof caller.groups;
    if (!is_accepted(peer_fd) || is_inherited(peer_fd))
        return error_set(reterr, E_FORBIDDEN, "not a connection that somebody made to us");
    if (is_gone(peer_fd)) return error_set(reterr, E_FORBIDDEN, "the caller has gone");
    if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return error_errno(reterr, errno, "who is calling");
    if (peer.uid == (uid_t)-1 || peer.gid == (gid_t)-1)
        return error_set(reterr, E_FORBIDDEN, "the caller has no identity");
    if (getsockopt(peer_fd, SOL_SOCKET, SO_PEERGROUPS, caller.groups, &groups_size) < 0)
        return error_errno(reterr, errno, "which groups the caller has");
    caller.uid = peer.uid;
    caller.gid = peer.gid;
    caller.group_count = groups_size / sizeof *caller.groups;
    *ret = caller;
    return 0;
}

int caller_become(const struct caller *caller, bool root, struct error *reterr) {
    if (root && privileges_become(caller->uid, caller->gid, caller->groups, caller->group_count, reterr) < 0) return -1;
    /* The caller could otherwise look into a process that was the launcher a moment ago. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return 0;
}

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

static int send_pidfd(int socket_fd, int pidfd) {
    union {
        char bytes[CMSG_SPACE(sizeof pidfd)];
        struct cmsghdr header;
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof pidfd)}};
    struct msghdr message = {.msg_iov = &(struct iovec){(char *)"", 1},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    memcpy(CMSG_DATA(&control.header), &pidfd, sizeof pidfd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static int receive_pidfd(int socket_fd) {
    char byte;
    int pidfd = -1;
    union {
        char bytes[CMSG_SPACE(sizeof pidfd)];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &(struct iovec){&byte, 1},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof pidfd))
        memcpy(&pidfd, CMSG_DATA(header), sizeof pidfd);
    return pidfd;
}

/* The process between the launcher and the helper: it ends at once, so that the system reaps the helper and not we. By
   then nothing of ours is open in the helper: a caller's file system could not be unmounted as long as it were. */
static _Noreturn void start_between(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count) {
    int socket_fd = HELPER_FD + (int)fd_count - 1, pidfd = -1;
    if (keep_only(fds, fd_count) < 0) _exit(EXIT_FAILURE);
    pid_t pid = fork_with_pidfd(&pidfd);
    if (pid != 0) _exit(pid > 0 && send_pidfd(socket_fd, pidfd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
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
    int pidfd = receive_pidfd(own_fd);
    if (pidfd < 0) return error_set(reterr, E_SYSTEM, "a helper did not start");
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
