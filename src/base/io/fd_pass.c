/* Descriptors in control messages: the one place that knows how they are laid out. */
#include "base/io/fd_pass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/util.h"

union control {
    char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
    struct cmsghdr header; /* aligns them */
};

ssize_t fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count, int flags) {
    union control control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(void *)data, size}, .msg_iovlen = 1};
    if (fd_count > FD_PASS_MAX) return errno = EINVAL, -1;
    if (fd_count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL | flags);
}

static void take_descriptors(struct msghdr *message, int *ret_fds, size_t fds_max) {
    size_t taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (taken < fds_max)
                ret_fds[taken++] = fd;
            else
                fd_close(fd);
        }
    }
}

ssize_t fd_receive(int socket_fd, void *ret, size_t size, int *ret_fds, size_t fds_max, int flags) {
    union control control;
    struct msghdr message = {.msg_iov = &(struct iovec){ret, size},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    for (size_t i = 0; i < fds_max; i++) ret_fds[i] = -1;
    ssize_t received = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | flags);
    if (received < 0) return -1;
    take_descriptors(&message, ret_fds, fds_max);
    if (!(message.msg_flags & MSG_TRUNC)) return received;
    for (size_t i = 0; i < fds_max; i++) ret_fds[i] = fd_close(ret_fds[i]);
    errno = EMSGSIZE;
    return -1;
}
