/* names: what the hosts that profiles list by name stand for. The service asks for itself, every minute; no node has a
   say in it. */
#ifndef CORE_NETWORK_NAMES_H
#define CORE_NETWORK_NAMES_H

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

/* Those that were told last, at most max; returns how many. */
size_t known_addresses_newest(const struct known_addresses *known, size_t max, struct jail_host *ret);

/* How much of the room each of `count` sandboxes gets: a part of the same size, and what others leave. */
void names_share(const size_t *wanted, size_t count, size_t room, size_t *ret_parts);

/* ---- names.c ---- */

struct guard_profiles;
/* Those that the profiles list are asked for from now on. The engine's names stay NULL where none ever was. */
int names_take(struct engine *engine, const struct guard_profiles *profiles, struct error *reterr);
/* What the names that its profile lists stand for, as far as is known; returns how many. */
size_t names_addresses(const struct sandbox *sandbox, struct jail_host ret[JAIL_RESOLVED_MAX]);
/* False: all is known that can be. True: tree_go_on follows, when it is or after two seconds, unless names_forgo was
   called before. */
bool names_await(struct sandbox *sandbox);
void names_forgo(struct sandbox *sandbox);
void names_take_up(struct sandbox *sandbox); /* a node that an earlier daemon told what it knew */
void names_close(struct names *names, void (*closed)(void *data), void *data); /* frees it */

#endif
