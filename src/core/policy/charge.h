/* charge: what of its owner's quotas a sandbox holds, from its creation until it is gone; and requests under way. */
#ifndef CORE_POLICY_CHARGE_H
#define CORE_POLICY_CHARGE_H

#include "base/base.h"
#include "jail/jail.h"
#include "quota/quota.h"

struct engine;
struct request;

struct charge {
    uid_t uid;
    uint64_t of[QUOTAS];
};

/* A new sandbox with its project; E_LIMIT names the quota that is used up. */
int charge_create(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret,
                  struct error *reterr);
/* The same for one that is there already, and stays whatever the quotas say. */
void charge_restored(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret);
/* For limits that are larger than the present ones. With `anyway` it is never refused. */
int charge_raise(struct engine *engine, struct charge *charge, const struct jail_limits *limits, bool anyway,
                 struct error *reterr);
/* For so many ports, published and connected, instead of the present number. */
int charge_ports(struct engine *engine, struct charge *charge, size_t count, bool anyway, struct error *reterr);
void charge_lower(struct engine *engine, struct charge *charge, const struct jail_limits *limits);
void charge_give(struct engine *engine, struct charge *charge, enum quota quota);
void charge_give_all(struct engine *engine, struct charge *charge);

/* ---- quotas.c ---- */

/* Count a request among those of its caller until it is answered; E_LIMIT: there are too many. */
int request_admit(struct engine *engine, struct request *request, struct error *reterr);
void request_over(struct engine *engine, struct request *request); /* it is being answered */

#endif
