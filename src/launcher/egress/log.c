/* What the rules refused, as the kernel tells it: the first bytes of some of those packets. */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"

enum {
    PACKET_BYTES = 64,
    DATAGRAM_BYTES = 8192,
    V4_HEADER_BYTES = 20,
    V6_HEADER_BYTES = 40,
};

static int configure(struct netlink *netlink, uint16_t attribute, const void *value, size_t size,
                     struct error *reterr) {
    _Alignas(struct nlmsghdr) char bytes[256];
    struct nlmsghdr *header = mnl_nlmsg_put_header(bytes);
    header->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    header->nlmsg_seq = netlink->sequence++;
    struct nfgenmsg *generic = mnl_nlmsg_put_extra_header(header, sizeof *generic);
    generic->nfgen_family = AF_UNSPEC;
    generic->res_id = htons(EGRESS_LOG_GROUP);
    mnl_attr_put(header, attribute, size, value);
    return netlink_ask(netlink, bytes, header->nlmsg_len, "hear of what is refused", reterr);
}

int egress_log_open(struct netlink *netlink, struct error *reterr) {
    struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
    struct nfulnl_msg_config_mode mode = {.copy_range = htonl(PACKET_BYTES), .copy_mode = NFULNL_COPY_PACKET};
    uint32_t at_once = htonl(1);
    int result = configure(netlink, NFULA_CFG_CMD, &bind, sizeof bind, reterr);
    if (result == 0) result = configure(netlink, NFULA_CFG_MODE, &mode, sizeof mode, reterr);
    return result < 0 ? result : configure(netlink, NFULA_CFG_QTHRESH, &at_once, sizeof at_once, reterr);
}

/* ---- packets ---- */

struct packet {
    bool is_v6;
    uint8_t protocol;
    const uint8_t *destination;
    uint16_t port; /* 0: none */
};

static bool take_apart(const uint8_t *bytes, size_t size, struct packet *ret) {
    if (size < V4_HEADER_BYTES) return false;
    bool is_v6 = bytes[0] >> 4 == 6;
    size_t header = is_v6 ? V6_HEADER_BYTES : (size_t)(bytes[0] & 0xf) * 4;
    if (size < header || header < V4_HEADER_BYTES) return false;
    struct packet packet = {
        .is_v6 = is_v6, .protocol = is_v6 ? bytes[6] : bytes[9], .destination = bytes + (is_v6 ? 24 : 16)};
    bool has_ports = packet.protocol == IPPROTO_TCP || packet.protocol == IPPROTO_UDP;
    if (has_ports && size >= header + 4) packet.port = (uint16_t)(bytes[header + 2] << 8 | bytes[header + 3]);
    *ret = packet;
    return true;
}

static void name_protocol(uint8_t protocol, char *ret, size_t size) {
    if (protocol == IPPROTO_TCP)
        snprintf(ret, size, "tcp");
    else if (protocol == IPPROTO_UDP)
        snprintf(ret, size, "udp");
    else
        snprintf(ret, size, "%u", protocol);
}

static void describe(const struct packet *packet, struct egress_refusal *refusal) {
    struct jail_host host = {.is_v6 = packet->is_v6,
                             .bits = packet->is_v6 ? 128 : 32,
                             .first_port = packet->port,
                             .last_port = packet->port};
    memcpy(host.address, packet->destination, packet->is_v6 ? 16 : 4);
    refusal->host = host;
    refusal->kind = egress_address_kind(packet->is_v6, packet->destination);
    name_protocol(packet->protocol, refusal->protocol, sizeof refusal->protocol);
}

struct reading {
    uint32_t from, to; /* interfaces of nodes; 0: the packet came from, or went, elsewhere */
    struct packet packet;
    bool has_packet;
    char bound[32];
};

static bool is_nodes(uint32_t index) {
    return index >= EGRESS_INDEX_BASE && index < EGRESS_INDEX_BASE + EGRESS_PLACES;
}

static int read_attribute(const struct nlattr *attribute, void *data) {
    struct reading *reading = data;
    const void *payload = mnl_attr_get_payload(attribute);
    uint16_t type = mnl_attr_get_type(attribute), size = mnl_attr_get_payload_len(attribute);
    bool is_index = (type == NFULA_IFINDEX_INDEV || type == NFULA_IFINDEX_OUTDEV) && size >= sizeof reading->from;
    if (is_index && is_nodes(ntohl(mnl_attr_get_u32(attribute))))
        *(type == NFULA_IFINDEX_INDEV ? &reading->from : &reading->to) = ntohl(mnl_attr_get_u32(attribute));
    if (type == NFULA_PREFIX) snprintf(reading->bound, sizeof reading->bound, "%.*s", size, (const char *)payload);
    if (type == NFULA_PAYLOAD) reading->has_packet = take_apart(payload, size, &reading->packet);
    return MNL_CB_OK;
}

/* The sender's, where both are nodes: a node must not have another one blamed by sending to it. */
static bool read_message(const struct nlmsghdr *header, struct egress_refusal *ret) {
    struct reading reading = {0};
    if (mnl_attr_parse(header, sizeof(struct nfgenmsg), read_attribute, &reading) < 0 || !reading.has_packet)
        return false;
    uint32_t index = reading.from ? reading.from : reading.to;
    if (!index) return false;
    memcpy(ret->bound, reading.bound, sizeof ret->bound);
    ret->number = (uint16_t)(index - EGRESS_INDEX_BASE);
    describe(&reading.packet, ret);
    return true;
}

size_t egress_log_read(const struct netlink *netlink, struct egress_refusal *ret, size_t max) {
    _Alignas(struct nlmsghdr) char bytes[DATAGRAM_BYTES];
    size_t count = 0;
    ssize_t got = recv(netlink->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    int left = got < 0 ? 0 : (int)got;
    for (const struct nlmsghdr *header = (const void *)bytes; count < max && netlink_is_whole(header, left);
         header = mnl_nlmsg_next(header, &left))
        if (header->nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
            count += read_message(header, &ret[count]);
    return count;
}
