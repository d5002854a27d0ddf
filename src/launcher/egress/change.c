/* Egress of a node, changed while it runs. What it may reach is known first, so that a namespace that is made
   again has it; then the kernel is told. What fails leaves it as it was. */
#include "jail/egress_policy.h"
#include "launcher/egress/egress.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"

static bool is_bounded_alike(const struct jail_egress *left, const struct jail_egress *right) {
    return left->network_rate_bytes == right->network_rate_bytes &&
           left->network_total_bytes == right->network_total_bytes && left->connections == right->connections;
}

static int put_in_force(struct launcher *launcher, const struct jailed_node *node, const struct jail_egress *before,
                        struct error *reterr) {
    struct egress_place place = egress_place_of(launcher, node);
    const struct jail_egress *now = node->egress;
    if (!node->egress_is_up) return 0; /* it will be made with them */
    if (is_bounded_alike(now, before)) return nft_set_named(&launcher->egress.rules, &place, now, reterr);
    if (nft_set_bounds(&launcher->egress.rules, &place, now, reterr) < 0) return -1;
    /* As when it is attached: the rules hold it without such queues, too. */
    if (now->network_rate_bytes != before->network_rate_bytes)
        veth_shape(&launcher->egress.route, &place, now->network_rate_bytes, NULL);
    return 0;
}

static int change(struct launcher *launcher, struct jailed_node *node, const struct jail_egress *wanted,
                  struct error *reterr) {
    struct jail_egress before = *node->egress;
    *node->egress = *wanted;
    if (egress_policy_write(launcher, node, reterr) == 0 && put_in_force(launcher, node, &before, reterr) == 0)
        return 0;
    *node->egress = before;
    egress_policy_write(launcher, node, NULL);
    return -1;
}

int egress_set_resolved(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                        struct error *reterr) {
    if (!node->egress) return error_set(reterr, E_CONFLICT, "node %s has no egress", node->name);
    struct jail_egress wanted = *node->egress;
    if (egress_read_resolved(plan, &wanted, reterr) < 0) return -1;
    return change(launcher, node, &wanted, reterr);
}

int egress_confirm(struct launcher *launcher, struct jailed_node *node, const struct jail_plan *plan,
                   struct error *reterr) {
    struct jail_egress wanted, as_told_before;
    if (egress_read(plan, &wanted, reterr) < 0) return -1;
    as_told_before = wanted;
    jail_egress_resolve(&as_told_before, node->egress->resolved, node->egress->resolved_count);
    if (!egress_is_same(node->egress, &as_told_before))
        return error_set(reterr, E_CONFLICT, "node %s has another egress policy", node->name);
    return egress_is_same(node->egress, &wanted) ? 0 : change(launcher, node, &wanted, reterr);
}

int egress_set_bounds(struct launcher *launcher, struct jailed_node *node, const struct jail_limits *limits,
                      struct error *reterr) {
    if (!node->egress) return 0;
    struct jail_egress wanted = jail_egress_bounded(node->egress, limits);
    return is_bounded_alike(&wanted, node->egress) ? 0 : change(launcher, node, &wanted, reterr);
}
