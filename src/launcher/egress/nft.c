/* The rules of egress, as the kernel takes them: all changes of one call at once, or none. */
#include "launcher/egress/nft_rules.h"

#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/object.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"

enum { RULE_ROOM = 4096, VERDICT_TYPE = 0xffffff00, INDEX_TYPE = 20 /* as nft names it */ };

static const char *const maps[] = {NFT_UP, NFT_DOWN, NFT_REFUSE};

/* ---- a batch of changes ---- */

static size_t aligned(size_t size) {
    return (size + NLMSG_ALIGNTO - 1) & ~(size_t)(NLMSG_ALIGNTO - 1);
}

/* As nft_rules.c: what can't even be put into words ends the launcher. */
static void *must(void *object) {
    if (!object) abort();
    return object;
}

static struct nlmsghdr *begin(struct nft_batch *batch, uint16_t type, uint16_t flags) {
    if (batch->size + RULE_ROOM > sizeof batch->bytes) {
        batch->failed = true;
        batch->size = 0; /* it is never sent */
    }
    /* The first is acknowledged when all took effect; the others only if they fail. */
    if (batch->count++ == 0) flags |= NLM_F_ACK;
    return nftnl_nlmsg_build_hdr(batch->bytes + batch->size, type, NFPROTO_INET, flags, batch->netlink->sequence++);
}

static void end(struct nft_batch *batch, const struct nlmsghdr *header) {
    batch->size += aligned(header->nlmsg_len);
}

static struct nft_batch *batch_new(struct netlink *netlink) {
    struct nft_batch *batch = must(malloc(sizeof *batch));
    batch->netlink = netlink;
    batch->failed = false;
    batch->count = 0;
    batch->size = aligned(nftnl_batch_begin(batch->bytes, netlink->sequence++)->nlmsg_len);
    return batch;
}

static int batch_send(struct nft_batch *batch, const char *what, struct error *reterr) {
    if (batch->failed) return error_set(reterr, E_TOO_LARGE, "%s: there are too many rules", what);
    batch->size += nftnl_batch_end(batch->bytes + batch->size, batch->netlink->sequence++)->nlmsg_len;
    return netlink_ask(batch->netlink, batch->bytes, batch->size, what, reterr);
}

/* ---- tables, chains and maps ---- */

static void put_table(struct nft_batch *batch, uint16_t type, uint16_t flags) {
    struct nftnl_table *table = must(nftnl_table_alloc());
    struct nlmsghdr *header = begin(batch, type, flags);
    nftnl_table_set_u32(table, NFTNL_TABLE_FAMILY, NFPROTO_INET);
    nftnl_table_set_str(table, NFTNL_TABLE_NAME, NFT_TABLE);
    nftnl_table_nlmsg_build_payload(header, table);
    end(batch, header);
    nftnl_table_free(table);
}

/* hook -1: one that others lead to. What such a chain at a hook does not decide is dropped. */
static void put_chain(struct nft_batch *batch, uint16_t type, const char *name, int hook, const char *kind) {
    struct nftnl_chain *chain = must(nftnl_chain_alloc());
    struct nlmsghdr *header = begin(batch, type, type == NFT_MSG_NEWCHAIN ? NLM_F_CREATE : 0);
    nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, NFT_TABLE);
    nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, name);
    if (hook >= 0) {
        bool is_nat = strcmp(kind, "nat") == 0;
        nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, kind);
        nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, (uint32_t)hook);
        nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, is_nat ? 100 : 0);
        nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, is_nat ? NF_ACCEPT : NF_DROP);
    }
    nftnl_chain_nlmsg_build_payload(header, chain);
    end(batch, header);
    nftnl_chain_free(chain);
}

static struct nftnl_set *new_map(const char *name, uint32_t id) {
    struct nftnl_set *map = must(nftnl_set_alloc());
    nftnl_set_set_str(map, NFTNL_SET_TABLE, NFT_TABLE);
    nftnl_set_set_str(map, NFTNL_SET_NAME, name);
    nftnl_set_set_u32(map, NFTNL_SET_FAMILY, NFPROTO_INET);
    nftnl_set_set_u32(map, NFTNL_SET_ID, id);
    nftnl_set_set_u32(map, NFTNL_SET_KEY_TYPE, INDEX_TYPE);
    nftnl_set_set_u32(map, NFTNL_SET_KEY_LEN, sizeof(uint32_t));
    return map;
}

/* From an interface's index to the chain to go to. */
static void put_map(struct nft_batch *batch, const char *name, uint32_t id) {
    struct nftnl_set *map = new_map(name, id);
    struct nlmsghdr *header = begin(batch, NFT_MSG_NEWSET, NLM_F_CREATE);
    nftnl_set_set_u32(map, NFTNL_SET_FLAGS, NFT_SET_MAP);
    nftnl_set_set_u32(map, NFTNL_SET_DATA_TYPE, VERDICT_TYPE);
    nftnl_set_nlmsg_build_payload(header, map);
    end(batch, header);
    nftnl_set_free(map);
}

static void put_map_entry(struct nft_batch *batch, uint16_t type, const char *name, uint32_t index, const char *chain) {
    struct nftnl_set *map = new_map(name, 0);
    struct nftnl_set_elem *entry = must(nftnl_set_elem_alloc());
    struct nlmsghdr *header = begin(batch, type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
    nftnl_set_elem_set_u32(entry, NFTNL_SET_ELEM_KEY, index);
    nftnl_set_elem_set_u32(entry, NFTNL_SET_ELEM_VERDICT, (uint32_t)NFT_GOTO);
    nftnl_set_elem_set_str(entry, NFTNL_SET_ELEM_CHAIN, chain);
    nftnl_set_elem_add(map, entry);
    nftnl_set_elems_nlmsg_build_payload(header, map);
    end(batch, header);
    nftnl_set_free(map);
}

/* What is left of a place's traffic, for both directions; of 0 more than any node uses up. One that is there already
   keeps what was used of it. */
static void put_quota(struct nft_batch *batch, uint16_t type, const char *name, uint64_t bytes, uint64_t used_bytes) {
    struct nftnl_obj *quota = must(nftnl_obj_alloc());
    struct nlmsghdr *header = begin(batch, type, type == NFT_MSG_NEWOBJ ? NLM_F_CREATE : 0);
    nftnl_obj_set_str(quota, NFTNL_OBJ_TABLE, NFT_TABLE);
    nftnl_obj_set_str(quota, NFTNL_OBJ_NAME, name);
    nftnl_obj_set_u32(quota, NFTNL_OBJ_TYPE, NFT_OBJECT_QUOTA);
    nftnl_obj_set_u64(quota, NFTNL_OBJ_QUOTA_BYTES, bytes ? bytes : INT64_MAX);
    nftnl_obj_set_u64(quota, NFTNL_OBJ_QUOTA_CONSUMED, used_bytes);
    nftnl_obj_set_u32(quota, NFTNL_OBJ_QUOTA_FLAGS, NFT_QUOTA_F_INV);
    nftnl_obj_nlmsg_build_payload(header, quota);
    end(batch, header);
    nftnl_obj_free(quota);
}

void nft_put_rule(struct nft_batch *batch, struct nftnl_rule *rule) {
    struct nlmsghdr *header = begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    nftnl_rule_nlmsg_build_payload(header, rule);
    end(batch, header);
    nftnl_rule_free(rule);
}

static void put_flush(struct nft_batch *batch, const char *chain) {
    struct nftnl_rule *rule = must(nftnl_rule_alloc());
    struct nlmsghdr *header = begin(batch, NFT_MSG_DELRULE, 0);
    nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, NFT_TABLE);
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
    nftnl_rule_nlmsg_build_payload(header, rule);
    end(batch, header);
    nftnl_rule_free(rule);
}

static void put_rules(struct nft_batch *batch, const char *chain, const struct nft_references *references,
                      const struct egress_rules *rules) {
    for (size_t i = 0; i < rules->count; i++) nft_put_egress_rule(batch, chain, references, &rules->items[i]);
}

/* ---- the whole ---- */

static const struct nft_references nothing;

int nft_make_table(struct netlink *netlink, struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    struct egress_rules public;
    /* Made first, so that there is one to delete: then what an earlier launcher left half-made is gone. */
    put_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    put_table(batch, NFT_MSG_DELTABLE, 0);
    put_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    for (uint32_t i = 0; i < ARRAY_SIZE(maps); i++) put_map(batch, maps[i], i + 1);
    put_chain(batch, NFT_MSG_NEWCHAIN, NFT_REFUSE, -1, NULL);
    put_chain(batch, NFT_MSG_NEWCHAIN, NFT_PUBLIC, -1, NULL);
    put_chain(batch, NFT_MSG_NEWCHAIN, NFT_OWN, -1, NULL);
    put_chain(batch, NFT_MSG_NEWCHAIN, NFT_REJECT, -1, NULL);
    put_chain(batch, NFT_MSG_NEWCHAIN, "forward", NF_INET_FORWARD, "filter");
    put_chain(batch, NFT_MSG_NEWCHAIN, "input", NF_INET_LOCAL_IN, "filter");
    put_chain(batch, NFT_MSG_NEWCHAIN, "leave", NF_INET_POST_ROUTING, "nat");
    egress_rules_public(&public);
    put_rules(batch, NFT_PUBLIC, &nothing, &public);
    nft_put_rejection(batch, NFT_REJECT);
    nft_put_fixed_rules(batch);
    return batch_send(batch, "make the rules of egress", reterr);
}

int nft_set_own(struct netlink *netlink, const struct jail_host *addresses, size_t count, struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    put_flush(batch, NFT_OWN);
    for (size_t i = 0; i < count; i++) {
        struct egress_rule rule = {.match = EGRESS_TO, .verdict = EGRESS_REFUSE, .host = addresses[i]};
        nft_put_egress_rule(batch, NFT_OWN, &nothing, &rule);
    }
    return batch_send(batch, "refuse the host's own addresses", reterr);
}

struct names {
    char chains[ARRAY_SIZE(maps)][NFT_NAME_BYTES]; /* one for each map */
    struct nft_references references;
};

static struct names names_of(const struct egress_place *place) {
    struct names names;
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        snprintf(names.chains[i], sizeof names.chains[i], "%s-%u", maps[i], place->number);
    snprintf(names.references.quota, sizeof names.references.quota, "total-%u", place->number);
    snprintf(names.references.named, sizeof names.references.named, NFT_NAMED "-%u", place->number);
    return names;
}

static void put_traffic_rules(struct nft_batch *batch, const struct names *names, const struct egress_place *place,
                              const struct jail_egress *egress) {
    struct egress_rules rules;
    egress_rules_up(place, egress, &rules);
    put_rules(batch, names->chains[0], &names->references, &rules);
    egress_rules_down(place, egress, &rules);
    put_rules(batch, names->chains[1], &names->references, &rules);
}

static void put_named_rules(struct nft_batch *batch, const struct names *names, const struct jail_egress *egress) {
    struct egress_rules rules;
    egress_rules_named(egress, &rules);
    put_rules(batch, names->references.named, &names->references, &rules);
}

/* A node that ended while no launcher ran may have left its own: no node gets rules of another. */
static void put_empty_chain(struct nft_batch *batch, const char *name) {
    put_chain(batch, NFT_MSG_NEWCHAIN, name, -1, NULL);
    put_flush(batch, name);
}

int nft_add_place(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                  uint64_t used_bytes, struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    struct names names = names_of(place);
    bool is_used_up =
        egress->network_total_bytes && used_bytes > egress->network_total_bytes; /* the kernel takes no such quota */
    put_empty_chain(batch, names.references.named);
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++) put_empty_chain(batch, names.chains[i]);
    /* Nor a quota that is used up. It must be there to be removed. */
    put_quota(batch, NFT_MSG_NEWOBJ, names.references.quota, 0, 0);
    put_quota(batch, NFT_MSG_DELOBJ, names.references.quota, 0, 0);
    put_quota(batch, NFT_MSG_NEWOBJ, names.references.quota, egress->network_total_bytes,
              is_used_up ? egress->network_total_bytes : used_bytes);
    put_named_rules(batch, &names, egress);
    put_traffic_rules(batch, &names, place, egress);
    nft_put_refusal(batch, names.chains[2]);
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        put_map_entry(batch, NFT_MSG_NEWSETELEM, maps[i], place->index, names.chains[i]);
    return batch_send(batch, "make a node's rules", reterr);
}

int nft_set_named(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                  struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    struct names names = names_of(place);
    put_flush(batch, names.references.named);
    put_named_rules(batch, &names, egress);
    return batch_send(batch, "let through what a node's names stand for", reterr);
}

int nft_set_bounds(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                   struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    struct names names = names_of(place);
    put_flush(batch, names.chains[0]);
    put_flush(batch, names.chains[1]);
    put_quota(batch, NFT_MSG_NEWOBJ, names.references.quota, egress->network_total_bytes, 0);
    put_traffic_rules(batch, &names, place, egress);
    return batch_send(batch, "change the bounds of a node's traffic", reterr);
}

int nft_remove_place(struct netlink *netlink, const struct egress_place *place, struct error *reterr) {
    CLEANUP_FREE struct nft_batch *batch = batch_new(netlink);
    struct names names = names_of(place);
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        put_map_entry(batch, NFT_MSG_DELSETELEM, maps[i], place->index, names.chains[i]);
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++) put_chain(batch, NFT_MSG_DELCHAIN, names.chains[i], -1, NULL);
    put_chain(batch, NFT_MSG_NEWCHAIN, names.references.named, -1, NULL); /* one of an older launcher has none */
    put_chain(batch, NFT_MSG_DELCHAIN, names.references.named, -1, NULL);
    put_quota(batch, NFT_MSG_DELOBJ, names.references.quota, 0, 0);
    return batch_send(batch, "remove a node's rules", reterr);
}

uint64_t nft_read_used(struct netlink *netlink, const struct egress_place *place) {
    _Alignas(8) char bytes[RULE_ROOM];
    struct names names = names_of(place);
    struct nftnl_obj *quota = must(nftnl_obj_alloc());
    struct nlmsghdr *header = nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETOBJ, NFPROTO_INET, 0, netlink->sequence++);
    nftnl_obj_set_str(quota, NFTNL_OBJ_TABLE, NFT_TABLE);
    nftnl_obj_set_str(quota, NFTNL_OBJ_NAME, names.references.quota);
    nftnl_obj_set_u32(quota, NFTNL_OBJ_TYPE, NFT_OBJECT_QUOTA);
    nftnl_obj_nlmsg_build_payload(header, quota);
    ssize_t got = netlink_get(netlink, bytes, header->nlmsg_len, bytes, sizeof bytes);
    bool is_told = got > 0 && netlink_is_whole(header, (int)got) && nftnl_obj_nlmsg_parse(header, quota) >= 0;
    uint64_t used_bytes = is_told ? nftnl_obj_get_u64(quota, NFTNL_OBJ_QUOTA_CONSUMED) : 0;
    nftnl_obj_free(quota);
    return used_bytes;
}
