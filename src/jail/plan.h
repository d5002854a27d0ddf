/* Plans, for the code that makes, reads and checks them: the daemon's link and the launcher. jail.h has their verbs. */
#ifndef JAIL_PLAN_H
#define JAIL_PLAN_H

#include "jail/jail.h"

#define PLAN_BYTES_MAX (1ULL << 44) /* of memory or disk that a plan may ask for */

enum { PLAN_OPS_MAX = 2048, PLAN_BINDS_MAX = 256 };

struct plan_verb {
    const char *word;
    const char *operands; /* W a word, N a number */
};

const struct plan_verb *plan_verb(enum jail_plan_verb verb);
bool plan_name_is_valid(const char *name); /* 1 to 64 of [A-Za-z0-9._-], not starting with a dot or dash */
/* Words are copied; NULL where the verb has none. E_TOO_LARGE, E_NO_MEMORY. */
int plan_add(struct jail_plan *plan, enum jail_plan_verb verb, const char *first, const char *second, uint64_t number,
             struct error *reterr);

/* The plan's every word and number, once more: it comes from a process that reads strangers' input. */
int plan_check(const struct jail_plan *plan, struct error *reterr);
/* The same of a plan that only says what a running node is given. */
int plan_check_equipment(const struct jail_plan *plan, struct error *reterr);
bool path_is_clean(const char *path); /* absolute, no "", "." or ".." in it, not "/" itself */

#endif
