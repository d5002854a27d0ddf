/* Requests to the kernel's network configuration. It answers while the request is made, so nothing here waits. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/egress/netlink.h"

int netlink_open(int protocol, struct netlink *ret, struct error *reterr) {
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    int send_bytes = 2 * NETLINK_BYTES;
    CLEANUP_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(reterr, errno, "open a netlink socket");
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof send_bytes); /* for the longest batch */
    *ret = (struct netlink){.fd = take_fd(&fd), .sequence = 1};
    return 0;
}

void netlink_close(struct netlink *netlink) {
    fd_close(netlink->fd);
    netlink->fd = -1;
}

int netlink_open_in(int namespace_fd, int home_fd, int protocol, struct netlink *ret, struct error *reterr) {
    if (setns(namespace_fd, CLONE_NEWNET) < 0) return error_errno(reterr, errno, "enter a network namespace");
    int result = netlink_open(protocol, ret, reterr);
    /* A launcher in a network that is not its own must not go on. */
    if (setns(home_fd, CLONE_NEWNET) < 0) abort();
    return result;
}

/* The errors of one datagram, and how many acknowledgements it has. */
static int read_errors(const char *bytes, size_t size, unsigned *acknowledged) {
    int left = (int)size;
    for (const struct nlmsghdr *header = (const void *)bytes; netlink_is_whole(header, left);
         header = mnl_nlmsg_next(header, &left)) {
        const struct nlmsgerr *report = mnl_nlmsg_get_payload(header);
        if (header->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(header) < sizeof *report) continue;
        if (report->error) return -report->error;
        ++*acknowledged;
    }
    return 0;
}

int netlink_ask(const struct netlink *netlink, const void *messages, size_t size, const char *what,
                struct error *reterr) {
    _Alignas(struct nlmsghdr) char answer[8192];
    unsigned acknowledged = 0;
    int failed = 0;
    if (send(netlink->fd, messages, size, 0) != (ssize_t)size) return error_errno(reterr, errno, "%s", what);
    for (ssize_t got; (got = recv(netlink->fd, answer, sizeof answer, 0)) > 0;) {
        int error = read_errors(answer, (size_t)got, &acknowledged);
        if (error && !failed) failed = error;
    }
    if (failed) return error_errno(reterr, failed, "%s", what);
    return acknowledged > 0 ? 0 : error_set(reterr, E_SYSTEM, "%s: the kernel did not answer", what);
}

ssize_t netlink_get(const struct netlink *netlink, const void *question, size_t question_size, void *ret, size_t size) {
    if (send(netlink->fd, question, question_size, 0) != (ssize_t)question_size) return -1;
    return recv(netlink->fd, ret, size, 0);
}
