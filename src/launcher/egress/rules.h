/* Egress as values: a node's addresses on the egress network, what is refused to it, and the rules that follow from
   a policy. Pure; network.h has what carries them out. */
#ifndef LAUNCHER_EGRESS_RULES_H
#define LAUNCHER_EGRESS_RULES_H

#include "jail/egress_policy.h"

/* The egress network lies in a range reserved for tests (RFC 2544), so that it hides no network of the host's. */
#define EGRESS_NETWORK "198.18.0.0/24" /* JAIL_RESOLVER is in it */
#define EGRESS_GATEWAY "198.18.1.1"
#define EGRESS_GATEWAY_V6 "fe80::1"
#define EGRESS_TAP "tap0"
#define EGRESS_TAP_V6 "fd00::100"
#define EGRESS_SLIRP_V6 "fd00::2"

enum {
    EGRESS_RULES_MAX = 128,
    EGRESS_NAME_BYTES = 16,
    EGRESS_INDEX_BASE = 1000, /* interfaces of nodes have indices from here on */
    EGRESS_PLACES = 65536,
};

/* ---- probe.c: what this host has for it ---- */

/* The path of slirp4netns, or NULL. Only from folders where only root installs programs. */
const char *egress_find_slirp(void);
bool egress_is_possible(void);

/* ---- a node's place: everything follows from its number ---- */

struct egress_place {
    uint16_t number;
    uint32_t index; /* of the interface outside the node */
    char interface[EGRESS_NAME_BYTES];
    struct jail_host v4, v6; /* its addresses */
    uint8_t inside_mac[6], outside_mac[6];
};

void egress_place_make(uint16_t number, struct egress_place *ret);

/* ---- rules ---- */

enum egress_match {
    EGRESS_ANY,
    EGRESS_ESTABLISHED,     /* part of a connection that was let through */
    EGRESS_NOT_FROM_MAC,    /* mac */
    EGRESS_NOT_FROM,        /* host, of its family */
    EGRESS_TO,              /* host, and its ports where it has some */
    EGRESS_TO_PORT,         /* host's ports, of any address */
    EGRESS_OVER_RATE,       /* number: bytes per second */
    EGRESS_OVER_TOTAL,      /* what the quota of that place has left is used up */
    EGRESS_OVER_CONNECTIONS /* number */
};

enum egress_verdict {
    EGRESS_ACCEPT,
    EGRESS_DROP,
    EGRESS_REFUSE,     /* tell the sender, and us */
    EGRESS_ASK_PUBLIC, /* refuse what is not public, else go on */
    EGRESS_ASK_OWN,    /* refuse the host's own addresses, else go on */
    EGRESS_ASK_NAMED,  /* accept what its names stand for, else go on */
    EGRESS_REJECT,     /* tell the sender alone */
    EGRESS_TELL,       /* tell us that a bound is reached, and go on */
};

struct egress_rule {
    enum egress_match match;
    enum egress_verdict verdict;
    struct jail_host host;
    uint8_t mac[6];
    uint64_t number;
};

struct egress_rules {
    struct egress_rule items[EGRESS_RULES_MAX];
    size_t count;
};

/* Whether every row of the tables of refusals can be read; E_INVALID names the first that can't. The launcher does not
   start without. */
int egress_rules_check(struct error *reterr);
/* For what the node sends, for what it gets, for what its names stand for, and for all nodes: what is not public. */
void egress_rules_up(const struct egress_place *place, const struct jail_egress *egress, struct egress_rules *ret);
void egress_rules_down(const struct egress_place *place, const struct jail_egress *egress, struct egress_rules *ret);
void egress_rules_named(const struct jail_egress *egress, struct egress_rules *ret);
void egress_rules_public(struct egress_rules *ret);

/* Why such an address is refused: "private", "link-local", … ; "not allowed" for public ones. */
const char *egress_address_kind(bool is_v6, const uint8_t *address);

#endif
