/* Limits of a sandbox: read and shown, and what happens when one is reached. jail/limits.h has the table of them. */
#ifndef CORE_LIMITS_LIMITS_H
#define CORE_LIMITS_LIMITS_H

#include <jansson.h>

#include "core/alarms.h"
#include "jail/jail.h"

struct sandbox;

struct limit_policies {
    uint8_t of[JAIL_LIMIT_COUNT]; /* enum jail_policy */
};

struct change_job;

/* What holds one sandbox to its limits now. */
struct limit_state {
    struct change_job *change;   /* of the limits, under way */
    uint64_t throttled_until_ms; /* 0: it is not throttled */
    struct error error;          /* why its VM is being ended; E_NONE: not for a limit */
    struct error killed;         /* what a limit killed last in this VM; E_NONE: nothing */
    uint64_t killed_ms;          /* when */
    struct alarms alarms;        /* apart from violations, which would drive these out */
};

struct sandbox_config;

bool limit_find(const char *name, enum jail_limit *ret); /* by its name or its field's */
/* Also by those of an earlier version, whose registry is read and whose nodes still run. */
bool limit_find_recorded(const char *name, enum jail_limit *ret);

void limit_policies_default(struct limit_policies *ret);
json_t *limit_policies_to_json(const struct limit_policies *policies); /* those that are not the default */
void limit_policies_from_json(json_t *json, struct limit_policies *ret);

/* The caller's pairs, each "VALUE", ":POLICY" or "VALUE:POLICY", on top of what limits and policies hold. */
int limits_read(json_t *pairs, struct jail_limits *limits, struct limit_policies *policies, struct error *reterr);
/* The integers of a registry's or a caller's object that have a limit's field, in place of what limits hold. */
void limits_take_fields(json_t *object, struct jail_limits *limits);
/* All of them as a list. */
json_t *limits_to_json(const struct jail_limits *limits, const struct limit_policies *policies);

bool limits_differ(const struct jail_limits *a, const struct jail_limits *b, enum jail_holder holder);
/* What the agent holds it to, as a term. */
void limits_put(struct buf *args, const struct jail_limits *limits, const struct limit_policies *policies);

/* ---- limit_reached.c ---- */

/* Add to the reason why an application ended what a limit killed just before, if it did. */
void limit_blame(const struct sandbox *sandbox, struct error *error);

/* Tell, and do what the policy says. killed: how many processes died of it already. */
void limit_reached(struct sandbox *sandbox, enum jail_limit limit, uint64_t count, uint64_t max, uint64_t killed);
void limit_bound_reached(struct sandbox *sandbox, const char *name); /* an egress limit, as the launcher reports */
void limit_look_at_refusals(struct sandbox *sandbox); /* what the kernel said no to since the last look */
/* Of these the forks alone, for busy sandboxes: at once, and a fork bomb is throttled whatever the policy.
 */
void limit_look_at_forks(struct sandbox *sandbox);
void limit_throttle_over(struct sandbox *sandbox); /* when its time has come: looked at with every measuring */
void limit_take_up(struct sandbox *sandbox);       /* a node that an earlier daemon may have throttled */
/* What the kernel is to hold it to for now. */
struct jail_limits limits_in_force(const struct sandbox *sandbox, const struct jail_limits *limits);

#endif
