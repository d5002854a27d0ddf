/* A node's interface: a pair of which one end is in its namespace. Each node has a link of its own, routed, so that
   there is no segment on which two could see each other. */
#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"

enum {
    MESSAGE_BYTES = 1024,
    MTU = 65520,
    INSIDE_INDEX = 2,
    LOOPBACK_INDEX = 1,
    BURST_MIN_BYTES = 256 * 1024,
    QUEUE_BYTES = 4 * 1024 * 1024,
};

#define INSIDE_NAME "eth0"

/* One request in the making. */
struct draft {
    _Alignas(struct nlmsghdr) char bytes[MESSAGE_BYTES];
    struct nlmsghdr *header;
};

static void *begin(struct draft *draft, struct netlink *netlink, uint16_t type, uint16_t flags, size_t body_size) {
    draft->header = mnl_nlmsg_put_header(draft->bytes);
    draft->header->nlmsg_type = type;
    draft->header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
    draft->header->nlmsg_seq = netlink->sequence++;
    return mnl_nlmsg_put_extra_header(draft->header, body_size);
}

static int ask(const struct draft *draft, const struct netlink *netlink, const char *what, struct error *reterr) {
    return netlink_ask(netlink, draft->bytes, draft->header->nlmsg_len, what, reterr);
}

static void put_address(struct draft *draft, uint16_t attribute, const struct jail_host *host) {
    mnl_attr_put(draft->header, attribute, host->is_v6 ? 16 : 4, host->address);
}

static struct jail_host host_of(const char *text) {
    struct jail_host host = {0};
    jail_host_parse(text, &host, NULL);
    return host;
}

static int link_up(struct netlink *netlink, uint32_t index, struct error *reterr) {
    struct draft draft;
    struct ifinfomsg *link = begin(&draft, netlink, RTM_NEWLINK, 0, sizeof *link);
    *link = (struct ifinfomsg){.ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    return ask(&draft, netlink, "bring an interface up", reterr);
}

/* No duplicate can be there: the link has two ends only. */
static int add_address(struct netlink *netlink, uint32_t index, const struct jail_host *host, uint8_t bits,
                       struct error *reterr) {
    struct draft draft;
    struct ifaddrmsg *address = begin(&draft, netlink, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, sizeof *address);
    *address = (struct ifaddrmsg){.ifa_family = host->is_v6 ? AF_INET6 : AF_INET,
                                  .ifa_prefixlen = bits,
                                  .ifa_flags = host->is_v6 ? IFA_F_NODAD : 0,
                                  .ifa_index = index};
    put_address(&draft, IFA_LOCAL, host);
    put_address(&draft, IFA_ADDRESS, host);
    return ask(&draft, netlink, "give an interface its address", reterr);
}

/* to NULL: everything else; via NULL: the destination is on that link. */
static int add_route(struct netlink *netlink, uint32_t index, bool is_v6, const struct jail_host *to,
                     const struct jail_host *via, struct error *reterr) {
    struct draft draft;
    struct rtmsg *route = begin(&draft, netlink, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof *route);
    *route = (struct rtmsg){.rtm_family = is_v6 ? AF_INET6 : AF_INET,
                            .rtm_dst_len = to ? to->bits : 0,
                            .rtm_table = RT_TABLE_MAIN,
                            .rtm_protocol = RTPROT_STATIC,
                            .rtm_scope = via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                            .rtm_type = RTN_UNICAST};
    if (to) put_address(&draft, RTA_DST, to);
    if (via) put_address(&draft, RTA_GATEWAY, via);
    mnl_attr_put_u32(draft.header, RTA_OIF, index);
    return ask(&draft, netlink, "add a route", reterr);
}

static int make_pair(struct netlink *outside, const struct egress_place *place, int node_fd, struct error *reterr) {
    struct draft draft;
    struct ifinfomsg *link = begin(&draft, outside, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof *link);
    struct nlmsghdr *header = draft.header;
    link->ifi_index = (int)place->index;
    mnl_attr_put_strz(header, IFLA_IFNAME, place->interface);
    mnl_attr_put(header, IFLA_ADDRESS, sizeof place->outside_mac, place->outside_mac);
    mnl_attr_put_u32(header, IFLA_MTU, MTU);
    struct nlattr *info = mnl_attr_nest_start(header, IFLA_LINKINFO);
    mnl_attr_put_strz(header, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(header, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(header, VETH_INFO_PEER);
    struct ifinfomsg *inner = mnl_nlmsg_put_extra_header(header, sizeof *inner);
    inner->ifi_index = INSIDE_INDEX;
    mnl_attr_put_strz(header, IFLA_IFNAME, INSIDE_NAME);
    mnl_attr_put(header, IFLA_ADDRESS, sizeof place->inside_mac, place->inside_mac);
    mnl_attr_put_u32(header, IFLA_MTU, MTU);
    mnl_attr_put_u32(header, IFLA_NET_NS_FD, (uint32_t)node_fd);
    mnl_attr_nest_end(header, peer);
    mnl_attr_nest_end(header, data);
    mnl_attr_nest_end(header, info);
    return ask(&draft, outside, "make a node's interface", reterr);
}

static int remove_pair(struct netlink *outside, const struct egress_place *place) {
    struct draft draft;
    struct ifinfomsg *link = begin(&draft, outside, RTM_DELLINK, 0, sizeof *link);
    link->ifi_index = (int)place->index;
    return ask(&draft, outside, "remove a node's interface", NULL);
}

/* The kernel takes its time with the namespaces of the dead: the node that had this number may still have its
   interface. */
static int make_pair_anew(struct netlink *outside, const struct egress_place *place, int node_fd,
                          struct error *reterr) {
    int result = make_pair(outside, place, node_fd, reterr);
    bool is_in_the_way = result < 0 && remove_pair(outside, place) == 0;
    return is_in_the_way ? make_pair(outside, place, node_fd, reterr) : result;
}

int veth_make(struct netlink *outside, const struct egress_place *place, int node_fd, struct error *reterr) {
    struct jail_host gateway = host_of(EGRESS_GATEWAY_V6);
    int result = make_pair_anew(outside, place, node_fd, reterr);
    if (result == 0) result = link_up(outside, place->index, reterr);
    if (result == 0) result = add_address(outside, place->index, &gateway, 64, reterr);
    if (result == 0) result = add_route(outside, place->index, false, &place->v4, NULL, reterr);
    return result < 0 ? result : add_route(outside, place->index, true, &place->v6, NULL, reterr);
}

static int unshape(struct netlink *outside, const struct egress_place *place, struct error *reterr) {
    struct draft draft;
    struct tcmsg *queue = begin(&draft, outside, RTM_DELQDISC, 0, sizeof *queue);
    *queue = (struct tcmsg){.tcm_family = AF_UNSPEC, .tcm_ifindex = (int)place->index, .tcm_parent = TC_H_ROOT};
    return ask(&draft, outside, "let a node's interface go as fast as it can", reterr);
}

int veth_shape(struct netlink *outside, const struct egress_place *place, uint64_t rate_bytes, struct error *reterr) {
    struct draft draft;
    struct tcmsg *queue = begin(&draft, outside, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, sizeof *queue);
    uint64_t burst = rate_bytes / 8 > BURST_MIN_BYTES ? rate_bytes / 8 : BURST_MIN_BYTES;
    struct tc_tbf_qopt options = {.rate = {.linklayer = TC_LINKLAYER_ETHERNET,
                                           .rate = rate_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)rate_bytes},
                                  .limit = QUEUE_BYTES};
    if (rate_bytes == 0) return unshape(outside, place, reterr);
    *queue = (struct tcmsg){.tcm_family = AF_UNSPEC, .tcm_ifindex = (int)place->index, .tcm_parent = TC_H_ROOT};
    mnl_attr_put_strz(draft.header, TCA_KIND, "tbf");
    struct nlattr *nest = mnl_attr_nest_start(draft.header, TCA_OPTIONS);
    mnl_attr_put(draft.header, TCA_TBF_PARMS, sizeof options, &options);
    mnl_attr_put_u32(draft.header, TCA_TBF_BURST, burst > UINT32_MAX ? UINT32_MAX : (uint32_t)burst);
    if (rate_bytes > UINT32_MAX) mnl_attr_put_u64(draft.header, TCA_TBF_RATE64, rate_bytes);
    mnl_attr_nest_end(draft.header, nest);
    return ask(&draft, outside, "bound the rate of a node's interface", reterr);
}

int veth_settle(struct netlink *inside, const struct egress_place *place, struct error *reterr) {
    struct jail_host gateway = host_of(EGRESS_GATEWAY), gateway_v6 = host_of(EGRESS_GATEWAY_V6);
    int result = link_up(inside, INSIDE_INDEX, reterr);
    if (result == 0) result = add_address(inside, INSIDE_INDEX, &place->v4, 32, reterr);
    if (result == 0) result = add_address(inside, INSIDE_INDEX, &place->v6, 128, reterr);
    if (result == 0) result = add_route(inside, INSIDE_INDEX, false, &gateway, NULL, reterr);
    if (result == 0) result = add_route(inside, INSIDE_INDEX, false, NULL, &gateway, reterr);
    return result < 0 ? result : add_route(inside, INSIDE_INDEX, true, NULL, &gateway_v6, reterr);
}

int veth_prepare_gateway(struct netlink *outside, struct error *reterr) {
    struct jail_host gateway = host_of(EGRESS_GATEWAY);
    int result = link_up(outside, LOOPBACK_INDEX, reterr);
    return result < 0 ? result : add_address(outside, LOOPBACK_INDEX, &gateway, 32, reterr);
}

int veth_prepare_tap(struct netlink *outside, struct error *reterr) {
    struct jail_host address = host_of(EGRESS_TAP_V6), slirp = host_of(EGRESS_SLIRP_V6);
    uint32_t index = if_nametoindex(EGRESS_TAP);
    int result = add_address(outside, index, &address, 64, reterr);
    return result < 0 ? result : add_route(outside, index, true, NULL, &slirp, reterr);
}
