/* What a node may reach, as lines of a plan. */
#ifndef JAIL_EGRESS_POLICY_H
#define JAIL_EGRESS_POLICY_H

#include "jail/jail.h"

/* Without its bounds, which are limits: plan_add_limits. */
int egress_write(const struct jail_egress *egress, struct jail_plan *plan, struct error *reterr);
int egress_read(const struct jail_plan *plan, struct jail_egress *ret, struct error *reterr);
bool egress_is_same(const struct jail_egress *left, const struct jail_egress *right); /* but for its bounds */
/* What names stand for, alone. */
int egress_write_resolved(const struct jail_host *hosts, size_t count, struct jail_plan *plan, struct error *reterr);
int egress_read_resolved(const struct jail_plan *plan, struct jail_egress *egress, struct error *reterr);

#endif
