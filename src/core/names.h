/* names: what the hosts that profiles list by name stand for. The service asks for itself, every minute; no node has a
   say in it. */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include "jail/jail.h"

struct engine;
struct sandbox;
struct names;

enum {
    NAME_ADDRESSES_MAX = 16,   /* that are kept of one name */
    NAME_KEPT_MS = 15 * 60000, /* after it was last told: others may have been told it, and use it for a while */
};

/* ---- names_known.c: pure ---- */

struct known_addresses {
    struct jail_host hosts[NAME_ADDRESSES_MAX];
    uint64_t told_ms[NAME_ADDRESSES_MAX];
    size_t count;
};

/* Add what was told now, and forget what has not been for long; the oldest give way where there is no room. True when
   the set is another one by that. */
bool known_addresses_update(struct known_addresses *known, const struct jail_host *told, size_t count, uint64_t now_ms);

/* ---- names.c ---- */

/* *ret is NULL where no profile lists a name. */
int names_open(struct engine *engine, struct names **ret, struct error *reterr);
void names_tell(struct sandbox *sandbox); /* the launcher, for its node; nothing where its profile lists none */
void names_close(struct names *names, void (*closed)(void *data), void *data); /* frees it */

#endif
