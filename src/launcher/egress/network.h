/* The parts of egress: interfaces, rules, the process that keeps the network namespace, and the log of what
   was refused. */
#ifndef LAUNCHER_EGRESS_NETWORK_H
#define LAUNCHER_EGRESS_NETWORK_H

#include "launcher/egress/netlink.h"
#include "launcher/egress/rules.h"

/* ---- veth.c: interfaces, addresses and routes ---- */

/* The pair, its outer end configured; the inner end lies in node_fd's namespace, still down. */
int veth_make(struct netlink *outside, const struct egress_place *place, int node_fd, struct error *reterr);
/* Have what goes to the node wait for its turn; 0: it no longer does. */
int veth_shape(struct netlink *outside, const struct egress_place *place, uint64_t rate_bytes, struct error *reterr);
/* The inner end's addresses and routes; up. */
int veth_settle(struct netlink *inside, const struct egress_place *place, struct error *reterr);
/* The gateway's address, for all nodes, and the loopback that has it. */
int veth_prepare_gateway(struct netlink *outside, struct error *reterr);
/* What slirp4netns does not do by itself: the address and the way of v6. */
int veth_prepare_tap(struct netlink *outside, struct error *reterr);

/* ---- nft.c: the rules ---- */

/* Everything that is there before the first node; replaces what was there. */
int nft_make_table(struct netlink *netlink, struct error *reterr);
/* The host's own addresses, all of them. */
int nft_set_own(struct netlink *netlink, const struct jail_host *addresses, size_t count, struct error *reterr);
/* used_bytes: of its total, elsewhere. */
int nft_add_place(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                  uint64_t used_bytes, struct error *reterr);
uint64_t nft_read_used(struct netlink *netlink, const struct egress_place *place); /* of its total; 0: not known */
/* What its names stand for, and the bounds of its traffic, in place of those from before. What it used of its total
   stays used; connections that are open are not counted among those it may have from then on. */
int nft_set_named(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                  struct error *reterr);
int nft_set_bounds(struct netlink *netlink, const struct egress_place *place, const struct jail_egress *egress,
                   struct error *reterr);
int nft_remove_place(struct netlink *netlink, const struct egress_place *place, struct error *reterr);

enum { EGRESS_LOG_GROUP = 1 };

/* ---- keeper.c: the process that keeps the namespace ---- */

/* Its first and last word to the launcher. */
struct egress_greeting {
    pid_t pid;
    struct error error; /* E_NONE: there is egress */
};

_Noreturn void egress_keep(int ready_fd);

/* ---- log.c: what was refused ---- */

struct egress_refusal {
    uint16_t number; /* of the place */
    struct jail_host host;
    char protocol[16];
    const char *kind; /* of address */
    char bound[32];   /* which of its bounds was reached, for which it is told; "": none */
};

int egress_log_open(struct netlink *netlink, struct error *reterr);
/* Those of one datagram, if there is one; returns how many. */
size_t egress_log_read(const struct netlink *netlink, struct egress_refusal *ret, size_t max);

#endif
