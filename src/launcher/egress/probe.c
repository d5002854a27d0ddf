/* Whether there can be egress here: a program, a device, and rules that the kernel knows. Looks only. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/egress/rules.h"

const char *egress_find_slirp(void) {
    static const char *const places[] = {"/usr/bin/slirp4netns", "/usr/local/bin/slirp4netns", "/bin/slirp4netns"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (access(places[i], X_OK) == 0) return places[i];
    return NULL;
}

static bool has_tunnels(void) {
    CLEANUP_FD int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    return fd >= 0;
}

/* Which generation of rules is in force is the least there is to ask. */
static bool has_rules(void) {
    struct {
        struct nlmsghdr header;
        struct nfgenmsg generic;
    } question = {.header = {.nlmsg_len = sizeof question,
                             .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
                             .nlmsg_flags = NLM_F_REQUEST}},
      answer = {0};
    CLEANUP_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
    return fd >= 0 && send(fd, &question, sizeof question, 0) == (ssize_t)sizeof question &&
           recv(fd, &answer, sizeof answer, 0) >= (ssize_t)sizeof answer.header &&
           answer.header.nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN);
}

bool egress_is_possible(void) {
    return egress_find_slirp() && has_tunnels() && has_rules();
}
