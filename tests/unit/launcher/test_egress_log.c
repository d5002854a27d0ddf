/* Tests whose a refused packet is, as the kernel's log tells of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"

enum { OUTSIDE = 7 }; /* an interface that is no node's */

/* A TCP packet to 198.19.0.2, port 80. */
static const uint8_t packet[40] = {0x45, 0, 0, 40, [9] = 6, [12] = 198, 19, 0, 1, 198, 19, 0, 2, 0x10, 0, 0, 80};

/* What is told of it: which way it went, in the one order or the other. */
static struct egress_refusal read_refusal(uint32_t from, uint32_t to, bool is_to_first, const char *bound) {
    _Alignas(struct nlmsghdr) char bytes[512];
    struct egress_refusal refusals[4];
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds), 0);
    struct nlmsghdr *header = mnl_nlmsg_put_header(bytes);
    header->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
    mnl_nlmsg_put_extra_header(header, sizeof(struct nfgenmsg));
    if (is_to_first) mnl_attr_put_u32(header, NFULA_IFINDEX_OUTDEV, htonl(to));
    mnl_attr_put_u32(header, NFULA_IFINDEX_INDEV, htonl(from));
    if (!is_to_first) mnl_attr_put_u32(header, NFULA_IFINDEX_OUTDEV, htonl(to));
    if (bound) mnl_attr_put_strz(header, NFULA_PREFIX, bound);
    mnl_attr_put(header, NFULA_PAYLOAD, sizeof packet, packet);
    assert_int_equal(send(fds[1], bytes, header->nlmsg_len, 0), header->nlmsg_len);
    struct netlink netlink = {.fd = fds[0]};
    assert_int_equal(egress_log_read(&netlink, refusals, ARRAY_SIZE(refusals)), 1);
    close(fds[0]);
    close(fds[1]);
    return refusals[0];
}

/* Otherwise a node could have another one blamed, and stopped, by sending to it. */
static void a_packet_between_nodes_is_its_senders(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct egress_refusal refusal = read_refusal(EGRESS_INDEX_BASE + 1, EGRESS_INDEX_BASE + 2, order, NULL);
        assert_int_equal(refusal.number, 1);
        assert_string_equal(refusal.kind, "reserved");
    }
}

static void what_comes_or_goes_outside_is_the_nodes(void **state) {
    (void)state;
    assert_int_equal(read_refusal(EGRESS_INDEX_BASE + 3, OUTSIDE, false, NULL).number, 3);
    struct egress_refusal refusal = read_refusal(OUTSIDE, EGRESS_INDEX_BASE + 4, false, "network_rate");
    assert_int_equal(refusal.number, 4);
    assert_string_equal(refusal.bound, "network_rate");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_between_nodes_is_its_senders),
        cmocka_unit_test(what_comes_or_goes_outside_is_the_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
