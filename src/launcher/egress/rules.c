/* Rules of egress, from a policy and a place. Pure. */
#include "launcher/egress/rules.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that is not public, and what it is instead. */
static const struct {
    const char *prefix;
    const char *kind;
} not_public[] = {
    {"0.0.0.0/8", "unspecified"},    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "private"}, /* between a provider and its customers; some clouds' metadata */
    {"127.0.0.0/8", "loopback"},     {"169.254.0.0/16", "link-local"}, /* metadata of most clouds */
    {"172.16.0.0/12", "private"},    {"192.0.0.0/24", "reserved"},
    {"192.0.2.0/24", "reserved"},    {"192.88.99.0/24", "reserved"},
    {"192.168.0.0/16", "private"},   {"198.18.0.0/15", "reserved"},
    {"198.51.100.0/24", "reserved"}, {"203.0.113.0/24", "reserved"},
    {"224.0.0.0/4", "multicast"},    {"240.0.0.0/4", "reserved"},
    {"::/96", "loopback"},           {"::ffff:0:0/96", "mapped"}, /* some systems read it as a v4 address */
    {"64:ff9b::/32", "mapped"},      {"fc00::/7", "private"},
    {"fe80::/10", "link-local"},     {"fec0::/10", "private"},
    {"ff00::/8", "multicast"},       {"2001::/23", "reserved"},
    {"2001:db8::/32", "reserved"},   {"2002::/16", "mapped"},
    {"3fff::/20", "reserved"},       {"::/3", "reserved"}, /* public ones begin with 2 or 3 */
    {"4000::/2", "reserved"},        {"8000::/1", "reserved"},
};

/* What leads to slirp4netns itself, and through it to the host. */
static const char *const slirps_own[] = {"198.18.0.0/15", "fd00::/64", "fe80::/10"};

static const char resolver[] = JAIL_RESOLVER ":53";

enum { FIXED_RULES_MAX = 32 }; /* of one node, besides what its policy lists */

_Static_assert(ARRAY_SIZE(not_public) <= EGRESS_RULES_MAX, "every refusal has room");
_Static_assert((int)JAIL_HOSTS_MAX + (int)JAIL_PORTS_MAX + (int)FIXED_RULES_MAX <= (int)EGRESS_RULES_MAX,
               "the longest policy has room");
_Static_assert((int)JAIL_RESOLVED_MAX <= (int)EGRESS_RULES_MAX, "what names stand for has room");

static int check_row(const char *prefix, struct error *reterr) {
    struct jail_host host;
    return jail_host_parse(prefix, &host, reterr) < 0 ? error_prefix(reterr, "egress rule '%s'", prefix) : 0;
}

int egress_rules_check(struct error *reterr) {
    for (size_t i = 0; i < ARRAY_SIZE(not_public); i++)
        if (check_row(not_public[i].prefix, reterr) < 0) return -1;
    for (size_t i = 0; i < ARRAY_SIZE(slirps_own); i++)
        if (check_row(slirps_own[i], reterr) < 0) return -1;
    return check_row(resolver, reterr);
}

void egress_place_make(uint16_t number, struct egress_place *ret) {
    struct egress_place place = {.number = number, .index = EGRESS_INDEX_BASE + (uint32_t)number};
    uint8_t high = (uint8_t)(number >> 8), low = (uint8_t)number;
    snprintf(place.interface, sizeof place.interface, "v%u", number);
    place.v4 = (struct jail_host){.bits = 32, .address = {198, 19, high, low}};
    place.v6 = (struct jail_host){.is_v6 = true, .bits = 128, .address = {0xfd, 0x01, [14] = high, [15] = low}};
    memcpy(place.inside_mac, (uint8_t[]){0x02, 'S', 'B', 0, high, low}, sizeof place.inside_mac);
    memcpy(place.outside_mac, (uint8_t[]){0x02, 'S', 'B', 1, high, low}, sizeof place.outside_mac);
    *ret = place;
}

/* Room is for the longest policy there can be: JAIL_HOSTS_MAX, JAIL_PORTS_MAX, and the fixed ones. */
static struct egress_rule *add(struct egress_rules *rules, enum egress_match match, enum egress_verdict verdict) {
    if (rules->count == EGRESS_RULES_MAX) abort(); /* fewer rules would let more through */
    struct egress_rule *rule = &rules->items[rules->count++];
    *rule = (struct egress_rule){.match = match, .verdict = verdict};
    return rule;
}

static void add_host(struct egress_rules *rules, enum egress_match match, enum egress_verdict verdict,
                     const struct jail_host *host) {
    add(rules, match, verdict)->host = *host;
}

/* Of the tables above, which egress_rules_check has read at the launcher's start. */
static struct jail_host host_of_row(const char *prefix) {
    struct jail_host host;
    if (jail_host_parse(prefix, &host, NULL) < 0) abort(); /* without its rule more would be let through */
    return host;
}

static void add_prefix(struct egress_rules *rules, const char *prefix, enum egress_verdict verdict) {
    struct jail_host host = host_of_row(prefix);
    add_host(rules, EGRESS_TO, verdict, &host);
}

/* Neither another's address nor another's name on the wire. */
static void add_identity(struct egress_rules *rules, const struct egress_place *place) {
    memcpy(add(rules, EGRESS_NOT_FROM_MAC, EGRESS_DROP)->mac, place->inside_mac, sizeof place->inside_mac);
    add_host(rules, EGRESS_NOT_FROM, EGRESS_REFUSE, &place->v4);
    add_host(rules, EGRESS_NOT_FROM, EGRESS_REFUSE, &place->v6);
}

/* The total is counted even where it is not bounded: it may be later. */
static void add_bounds(struct egress_rules *rules, uint64_t told_rate_bytes, uint64_t rate_bytes,
                       enum egress_verdict at_the_end) {
    if (told_rate_bytes) add(rules, EGRESS_OVER_RATE, EGRESS_TELL)->number = told_rate_bytes;
    if (rate_bytes) add(rules, EGRESS_OVER_RATE, EGRESS_DROP)->number = rate_bytes;
    add(rules, EGRESS_OVER_TOTAL, at_the_end);
}

/* A name server may answer with any address: that opens none that is refused to all nodes. */
static void add_named(struct egress_rules *rules) {
    add(rules, EGRESS_ANY, EGRESS_ASK_PUBLIC);
    add(rules, EGRESS_ANY, EGRESS_ASK_OWN);
    add(rules, EGRESS_ANY, EGRESS_ASK_NAMED);
}

/* What is not listed. True: that is everything, since all ports are let through. */
static bool add_ports(struct egress_rules *rules, const struct jail_egress *egress) {
    for (size_t i = 0; i < egress->port_count; i++) {
        struct jail_host port = {.first_port = egress->ports[i], .last_port = egress->ports[i]};
        add_host(rules, EGRESS_TO_PORT, EGRESS_ACCEPT, &port);
    }
    if (egress->port_count == 0) add(rules, EGRESS_ANY, EGRESS_ACCEPT);
    return egress->port_count == 0;
}

/* Where everything is let through at some ports, a name opens others of public addresses alone: it must not open more
   than its own row says. */
static void add_reach(struct egress_rules *rules, const struct jail_egress *egress) {
    if (egress->reach == JAIL_REACH_ANYWHERE && add_ports(rules, egress)) return;
    add_named(rules);
    if (egress->reach == JAIL_REACH_PUBLIC && add_ports(rules, egress)) return;
    add(rules, EGRESS_ANY, EGRESS_REFUSE);
}

void egress_rules_up(const struct egress_place *place, const struct jail_egress *egress, struct egress_rules *ret) {
    ret->count = 0;
    add_identity(ret, place);
    add_bounds(ret, egress->network_rate_bytes, egress->network_rate_bytes, EGRESS_REJECT);
    add(ret, EGRESS_ESTABLISHED, EGRESS_ACCEPT);
    if (egress->connections) {
        add(ret, EGRESS_OVER_CONNECTIONS, EGRESS_TELL)->number = egress->connections;
        add(ret, EGRESS_OVER_CONNECTIONS, EGRESS_REJECT)->number = egress->connections;
    }
    add_prefix(ret, resolver, EGRESS_ACCEPT);
    for (size_t i = 0; i < ARRAY_SIZE(slirps_own); i++) add_prefix(ret, slirps_own[i], EGRESS_REFUSE);
    for (size_t i = 0; i < egress->host_count; i++) add_host(ret, EGRESS_TO, EGRESS_ACCEPT, &egress->hosts[i]);
    add_reach(ret, egress);
}

void egress_rules_down(const struct egress_place *place, const struct jail_egress *egress, struct egress_rules *ret) {
    (void)place;
    ret->count = 0;
    /* What goes there waits in a queue, since slirp4netns takes long to send again what was dropped. */
    add_bounds(ret, egress->network_rate_bytes, 4 * egress->network_rate_bytes, EGRESS_DROP);
    add(ret, EGRESS_ESTABLISHED, EGRESS_ACCEPT);
    add(ret, EGRESS_ANY, EGRESS_DROP);
}

void egress_rules_named(const struct jail_egress *egress, struct egress_rules *ret) {
    ret->count = 0;
    for (size_t i = 0; i < egress->resolved_count; i++) add_host(ret, EGRESS_TO, EGRESS_ACCEPT, &egress->resolved[i]);
}

void egress_rules_public(struct egress_rules *ret) {
    ret->count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(not_public); i++) add_prefix(ret, not_public[i].prefix, EGRESS_REFUSE);
}

static bool is_within(const struct jail_host *prefix, const uint8_t *address) {
    unsigned whole = prefix->bits / 8, rest = prefix->bits % 8;
    if (memcmp(prefix->address, address, whole) != 0) return false;
    return rest == 0 || ((prefix->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

const char *egress_address_kind(bool is_v6, const uint8_t *address) {
    for (size_t i = 0; i < ARRAY_SIZE(not_public); i++) {
        struct jail_host prefix = host_of_row(not_public[i].prefix);
        if (prefix.is_v6 == is_v6 && is_within(&prefix, address)) return not_public[i].kind;
    }
    return "not allowed";
}
