/* Netlink requests that are answered at once. */
#ifndef LAUNCHER_EGRESS_NETLINK_H
#define LAUNCHER_EGRESS_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

enum { NETLINK_BYTES = 256 * 1024 };

struct netlink {
    int fd; /* belongs to the network namespace that it was made in */
    uint32_t sequence;
};

/* A whole message lies there. libmnl's own check takes lengths from 2 GiB on for negative ones, and lets them pass. */
static inline bool netlink_is_whole(const struct nlmsghdr *header, int left) {
    return left >= (int)sizeof *header && header->nlmsg_len >= sizeof *header && header->nlmsg_len <= (uint32_t)left;
}

int netlink_open(int protocol, struct netlink *ret, struct error *reterr);
void netlink_close(struct netlink *netlink);
/* Send messages that ask for an acknowledgement, and read what comes of it. `what` is for the error. */
int netlink_ask(const struct netlink *netlink, const void *messages, size_t size, const char *what,
                struct error *reterr);
/* Send a question, and read what the kernel says at once; its size, or -1. */
ssize_t netlink_get(const struct netlink *netlink, const void *question, size_t question_size, void *ret, size_t size);
/* The same in another namespace; comes back to the one at home. */
int netlink_open_in(int namespace_fd, int home_fd, int protocol, struct netlink *ret, struct error *reterr);

#endif
