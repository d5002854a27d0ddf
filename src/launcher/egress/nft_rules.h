/* Between nft.c, which makes tables and chains, and nft_rules.c, which makes the rules in them. */
#ifndef LAUNCHER_EGRESS_NFT_RULES_H
#define LAUNCHER_EGRESS_NFT_RULES_H

#include <netinet/in.h>

#include "launcher/egress/network.h"

/* After the C library's headers for networks: the kernel's own give way to those. */
#include <libnftnl/rule.h>

#define NFT_TABLE "egress"
#define NFT_UP "up"         /* a map: which chain is for what comes from an interface */
#define NFT_DOWN "down"     /* a map: for what goes to it */
#define NFT_REFUSE "refuse" /* a map, and the chain that looks into it: for what is refused to it */
#define NFT_PUBLIC "public"
#define NFT_OWN "own"
#define NFT_NAMED "named"
#define NFT_REJECT "reject" /* a chain: what is refused without a word to us */

enum { NFT_NAME_BYTES = 32 };

/* Changes that take effect together. Too many fail it. */
struct nft_batch {
    struct netlink *netlink;
    bool failed;
    size_t count, size;
    _Alignas(8) char bytes[NETLINK_BYTES];
};

void nft_put_rule(struct nft_batch *batch, struct nftnl_rule *rule); /* frees it */
/* What rules of a place refer to; "" where there is no such thing. */
struct nft_references {
    char quota[NFT_NAME_BYTES];
    char named[NFT_NAME_BYTES]; /* the chain of what its names stand for */
};
void nft_put_egress_rule(struct nft_batch *batch, const char *chain, const struct nft_references *references,
                         const struct egress_rule *rule);
/* What every packet meets first, and last. */
void nft_put_fixed_rules(struct nft_batch *batch);
/* Tell the sender. */
void nft_put_rejection(struct nft_batch *batch, const char *chain);
/* Tell us of some, and the sender of all. */
void nft_put_refusal(struct nft_batch *batch, const char *chain);

#endif
