/* Rules as lists of the kernel's small expressions: load something into a register, compare it, say a verdict. */
#include "launcher/egress/nft_rules.h"

#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/icmp6.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"

enum {
    MAC_SOURCE = 6,
    V4_SOURCE = 12,
    V4_DESTINATION = 16,
    V6_SOURCE = 8,
    V6_DESTINATION = 24,
    PORT_DESTINATION = 2,
    BURST_MIN_BYTES = 256 * 1024, /* a packet may be 64 KiB here */
    MINUTE_S = 60,
    TOLD_PER_MINUTE = 600,
    TOLD_AT_ONCE = 20,
    TOLD_BYTES = 64, /* of a packet: addresses and ports are in there */
};

static struct nftnl_rule *new_rule(const char *chain) {
    struct nftnl_rule *rule = nftnl_rule_alloc();
    if (!rule) abort();
    nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, NFT_TABLE);
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
    nftnl_rule_set_u32(rule, NFTNL_RULE_FAMILY, NFPROTO_INET);
    return rule;
}

/* Crash-only, as for rules themselves, where a few bytes can't be had: a rule with a condition missing would say
   something else. */
static struct nftnl_expr *add(struct nftnl_rule *rule, const char *name) {
    struct nftnl_expr *expression = nftnl_expr_alloc(name);
    if (!expression) abort();
    nftnl_rule_add_expr(rule, expression);
    return expression;
}

/* ---- conditions ---- */

static void load_meta(struct nftnl_rule *rule, uint32_t key) {
    struct nftnl_expr *meta = add(rule, "meta");
    nftnl_expr_set_u32(meta, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(meta, NFTNL_EXPR_META_DREG, NFT_REG_1);
}

static void load_payload(struct nftnl_rule *rule, uint32_t base, uint32_t offset, uint32_t size) {
    struct nftnl_expr *payload = add(rule, "payload");
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_LEN, size);
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
}

static void compare(struct nftnl_rule *rule, uint32_t how, const void *data, uint32_t size) {
    struct nftnl_expr *expression = add(rule, "cmp");
    nftnl_expr_set_u32(expression, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(expression, NFTNL_EXPR_CMP_OP, how);
    nftnl_expr_set(expression, NFTNL_EXPR_CMP_DATA, data, size);
}

static void mask(struct nftnl_rule *rule, const void *bits, uint32_t size) {
    static const uint8_t nothing[16];
    struct nftnl_expr *expression = add(rule, "bitwise");
    nftnl_expr_set_u32(expression, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    nftnl_expr_set_u32(expression, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    nftnl_expr_set_u32(expression, NFTNL_EXPR_BITWISE_LEN, size);
    nftnl_expr_set(expression, NFTNL_EXPR_BITWISE_MASK, bits, size);
    nftnl_expr_set(expression, NFTNL_EXPR_BITWISE_XOR, nothing, size);
}

static void match_family(struct nftnl_rule *rule, bool is_v6) {
    uint8_t family = is_v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
    load_meta(rule, NFT_META_NFPROTO);
    compare(rule, NFT_CMP_EQ, &family, sizeof family);
}

static void match_interface(struct nftnl_rule *rule, uint32_t key, const char *name) {
    char padded[16] = "";
    strncpy(padded, name, sizeof padded - 1);
    load_meta(rule, key);
    compare(rule, NFT_CMP_EQ, padded, sizeof padded);
}

static void match_to(struct nftnl_rule *rule, const struct jail_host *host) {
    uint8_t bits[16] = {0};
    uint32_t size = host->is_v6 ? 16 : 4;
    for (unsigned i = 0; i < host->bits; i++) bits[i / 8] = (uint8_t)(bits[i / 8] | 0x80u >> i % 8);
    match_family(rule, host->is_v6);
    load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, host->is_v6 ? V6_DESTINATION : V4_DESTINATION, size);
    mask(rule, bits, size);
    compare(rule, NFT_CMP_EQ, host->address, size);
}

static void match_not_from(struct nftnl_rule *rule, const struct jail_host *host) {
    uint32_t size = host->is_v6 ? 16 : 4;
    match_family(rule, host->is_v6);
    load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, host->is_v6 ? V6_SOURCE : V4_SOURCE, size);
    compare(rule, NFT_CMP_NEQ, host->address, size);
}

/* TCP and UDP have them at the same place; what is neither has none, and doesn't match. */
static void match_ports(struct nftnl_rule *rule, const struct jail_host *host, uint8_t protocol) {
    uint16_t first = htons(host->first_port), last = htons(host->last_port);
    load_meta(rule, NFT_META_L4PROTO);
    compare(rule, NFT_CMP_EQ, &protocol, sizeof protocol);
    load_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, PORT_DESTINATION, sizeof first);
    compare(rule, NFT_CMP_GTE, &first, sizeof first);
    compare(rule, NFT_CMP_LTE, &last, sizeof last);
}

static void match_established(struct nftnl_rule *rule) {
    static const uint32_t nothing;
    uint32_t states = 1u << (IP_CT_ESTABLISHED + 1) | 1u << (IP_CT_RELATED + 1);
    struct nftnl_expr *ct = add(rule, "ct");
    nftnl_expr_set_u32(ct, NFTNL_EXPR_CT_KEY, NFT_CT_STATE);
    nftnl_expr_set_u32(ct, NFTNL_EXPR_CT_DREG, NFT_REG_1);
    mask(rule, &states, sizeof states);
    compare(rule, NFT_CMP_NEQ, &nothing, sizeof nothing);
}

static void match_over_rate(struct nftnl_rule *rule, uint64_t bytes, uint64_t burst) {
    struct nftnl_expr *limit = add(rule, "limit");
    nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_RATE, bytes);
    nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_UNIT, 1);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_BURST, burst > UINT32_MAX ? UINT32_MAX : (uint32_t)burst);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKT_BYTES);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
}

/* Besides a second's worth, which the kernel always allows. A node that uses all of the rate is reported before
   anything is dropped. */
static uint64_t burst_of(const struct egress_rule *wanted) {
    uint64_t least = BURST_MIN_BYTES, rate = wanted->number;
    if (wanted->verdict == EGRESS_TELL) return rate < least ? least - rate : 0;
    return rate / 4 < least ? least : rate / 4;
}

static void match_over_total(struct nftnl_rule *rule, const char *quota) {
    struct nftnl_expr *reference = add(rule, "objref");
    nftnl_expr_set_u32(reference, NFTNL_EXPR_OBJREF_IMM_TYPE, NFT_OBJECT_QUOTA);
    nftnl_expr_set_str(reference, NFTNL_EXPR_OBJREF_IMM_NAME, quota);
}

static void match_over_connections(struct nftnl_rule *rule, uint32_t count) {
    struct nftnl_expr *limit = add(rule, "connlimit");
    nftnl_expr_set_u32(limit, NFTNL_EXPR_CONNLIMIT_COUNT, count);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
}

/* ---- verdicts ---- */

static void say(struct nftnl_rule *rule, uint32_t verdict, const char *chain) {
    struct nftnl_expr *expression = add(rule, "immediate");
    nftnl_expr_set_u32(expression, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(expression, NFTNL_EXPR_IMM_VERDICT, verdict);
    if (chain) nftnl_expr_set_str(expression, NFTNL_EXPR_IMM_CHAIN, chain);
}

static void ask_map(struct nftnl_rule *rule, uint32_t key, const char *map) {
    struct nftnl_expr *lookup;
    load_meta(rule, key);
    lookup = add(rule, "lookup");
    nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_str(lookup, NFTNL_EXPR_LOOKUP_SET, map);
}

static const struct {
    uint32_t verdict;
    const char *chain;
} verdicts[] = {
    [EGRESS_ACCEPT] = {NF_ACCEPT, NULL},
    [EGRESS_DROP] = {NF_DROP, NULL},
    [EGRESS_REFUSE] = {(uint32_t)NFT_GOTO, NFT_REFUSE},
    [EGRESS_ASK_PUBLIC] = {(uint32_t)NFT_JUMP, NFT_PUBLIC},
    [EGRESS_ASK_OWN] = {(uint32_t)NFT_JUMP, NFT_OWN},
    [EGRESS_ASK_NAMED] = {(uint32_t)NFT_JUMP, NFT_NAMED}, /* the place's own */
    [EGRESS_REJECT] = {(uint32_t)NFT_GOTO, NFT_REJECT},
};

static void tell(struct nftnl_rule *rule, uint64_t per_minute, uint32_t at_once, const char *prefix) {
    struct nftnl_expr *limit = add(rule, "limit");
    nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_RATE, per_minute);
    nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_UNIT, MINUTE_S);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_BURST, at_once);
    nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
    struct nftnl_expr *log = add(rule, "log");
    nftnl_expr_set_u16(log, NFTNL_EXPR_LOG_GROUP, EGRESS_LOG_GROUP);
    nftnl_expr_set_u32(log, NFTNL_EXPR_LOG_SNAPLEN, TOLD_BYTES);
    if (prefix) nftnl_expr_set_str(log, NFTNL_EXPR_LOG_PREFIX, prefix);
}

/* By the limits' names. All of a rate may be used for long; what is refused a connection wants to be known soon. */
static void tell_bound(struct nftnl_rule *rule, enum egress_match bound) {
    if (bound == EGRESS_OVER_RATE)
        tell(rule, 6, 1, "network_rate");
    else
        tell(rule, MINUTE_S, 1, "connections");
}

/* ---- rules of policies ---- */

static void add_match(struct nftnl_rule *rule, const char *quota, const struct egress_rule *wanted) {
    switch (wanted->match) {
    case EGRESS_ANY: break;
    case EGRESS_ESTABLISHED: match_established(rule); break;
    case EGRESS_NOT_FROM_MAC:
        load_payload(rule, NFT_PAYLOAD_LL_HEADER, MAC_SOURCE, sizeof wanted->mac);
        compare(rule, NFT_CMP_NEQ, wanted->mac, sizeof wanted->mac);
        break;
    case EGRESS_NOT_FROM: match_not_from(rule, &wanted->host); break;
    case EGRESS_TO: match_to(rule, &wanted->host); break;
    case EGRESS_TO_PORT: break;
    case EGRESS_OVER_RATE: match_over_rate(rule, wanted->number, burst_of(wanted)); break;
    case EGRESS_OVER_TOTAL: match_over_total(rule, quota); break;
    case EGRESS_OVER_CONNECTIONS: match_over_connections(rule, (uint32_t)wanted->number); break;
    }
}

/* protocol 0: whichever, with whatever port. */
static void put(struct nft_batch *batch, const char *chain, const struct nft_references *references,
                const struct egress_rule *wanted, uint8_t protocol) {
    struct nftnl_rule *rule = new_rule(chain);
    add_match(rule, references->quota, wanted);
    if (protocol) match_ports(rule, &wanted->host, protocol);
    if (wanted->verdict == EGRESS_TELL) {
        tell_bound(rule, wanted->match);
        nft_put_rule(batch, rule);
        return;
    }
    say(rule, verdicts[wanted->verdict].verdict,
        wanted->verdict == EGRESS_ASK_NAMED ? references->named : verdicts[wanted->verdict].chain);
    nft_put_rule(batch, rule);
}

void nft_put_egress_rule(struct nft_batch *batch, const char *chain, const struct nft_references *references,
                         const struct egress_rule *rule) {
    bool has_ports = (rule->match == EGRESS_TO || rule->match == EGRESS_TO_PORT) && rule->host.first_port;
    put(batch, chain, references, rule, has_ports ? IPPROTO_TCP : 0);
    if (has_ports) put(batch, chain, references, rule, IPPROTO_UDP);
}

/* ---- rules that are always there ---- */

static void put_dispatch(struct nft_batch *batch, const char *chain, uint32_t key, const char *map,
                         const char *only_from) {
    struct nftnl_rule *rule = new_rule(chain);
    if (only_from) match_interface(rule, NFT_META_IIFNAME, only_from);
    ask_map(rule, key, map);
    nft_put_rule(batch, rule);
}

/* Neighbours of v6 find each other by messages to us. */
static void put_neighbours(struct nft_batch *batch) {
    static const uint8_t protocol = IPPROTO_ICMPV6, first = ND_NEIGHBOR_SOLICIT, last = ND_NEIGHBOR_ADVERT;
    struct nftnl_rule *rule = new_rule("input");
    load_meta(rule, NFT_META_L4PROTO);
    compare(rule, NFT_CMP_EQ, &protocol, sizeof protocol);
    load_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof first);
    compare(rule, NFT_CMP_GTE, &first, sizeof first);
    compare(rule, NFT_CMP_LTE, &last, sizeof last);
    say(rule, NF_ACCEPT, NULL);
    nft_put_rule(batch, rule);
}

/* The kernel itself sends multicast on a link with v6; that is neither let through nor worth a word. */
static void put_silence(struct nft_batch *batch) {
    static const uint8_t protocol = IPPROTO_ICMPV6;
    struct nftnl_rule *rule = new_rule("input");
    load_meta(rule, NFT_META_L4PROTO);
    compare(rule, NFT_CMP_EQ, &protocol, sizeof protocol);
    say(rule, NF_DROP, NULL);
    nft_put_rule(batch, rule);
}

static void put_masquerade(struct nft_batch *batch) {
    struct nftnl_rule *rule = new_rule("leave");
    match_interface(rule, NFT_META_OIFNAME, EGRESS_TAP);
    add(rule, "masq");
    nft_put_rule(batch, rule);
}

void nft_put_fixed_rules(struct nft_batch *batch) {
    put_dispatch(batch, "forward", NFT_META_OIF, NFT_DOWN, EGRESS_TAP);
    put_dispatch(batch, "forward", NFT_META_IIF, NFT_UP, NULL);
    put_neighbours(batch);
    put_silence(batch);
    put_dispatch(batch, "input", NFT_META_IIF, NFT_REFUSE, NULL);
    put_dispatch(batch, NFT_REFUSE, NFT_META_IIF, NFT_REFUSE, NULL);
    put_masquerade(batch);
}

static void put_report(struct nft_batch *batch, const char *chain) {
    struct nftnl_rule *rule = new_rule(chain);
    tell(rule, TOLD_PER_MINUTE, TOLD_AT_ONCE, NULL);
    nft_put_rule(batch, rule);
}

/* protocol 0: any. */
static void put_rejection(struct nft_batch *batch, const char *chain, uint8_t protocol, uint32_t type, uint8_t code) {
    struct nftnl_rule *rule = new_rule(chain);
    if (protocol) {
        load_meta(rule, NFT_META_L4PROTO);
        compare(rule, NFT_CMP_EQ, &protocol, sizeof protocol);
    }
    struct nftnl_expr *reject = add(rule, "reject");
    nftnl_expr_set_u32(reject, NFTNL_EXPR_REJECT_TYPE, type);
    nftnl_expr_set_u8(reject, NFTNL_EXPR_REJECT_CODE, code);
    nft_put_rule(batch, rule);
}

/* A connection is reset: the kernel may take another word for a passing failure, and try for seconds. */
void nft_put_rejection(struct nft_batch *batch, const char *chain) {
    put_rejection(batch, chain, IPPROTO_TCP, NFT_REJECT_TCP_RST, 0);
    put_rejection(batch, chain, 0, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
}

void nft_put_refusal(struct nft_batch *batch, const char *chain) {
    put_report(batch, chain);
    nft_put_rejection(batch, chain);
}
