/* Plans, for the code that makes, reads and checks them: the daemon's link and the launcher. jail.h has their verbs. */
#ifndef JAIL_PLAN_H
#define JAIL_PLAN_H

#include "jail/jail.h"

enum { PLAN_OPS_MAX = 2048, PLAN_BINDS_MAX = 256 };

/* The language of plans, one row for each verb: how a line is written, and what it may say. */
struct plan_verb {
    const char *word;
    bool (*operands[2])(const char *word); /* whether a word is allowed; NULL: the verb has no such operand */
    uint64_t least, most;                  /* of the number, after the words; most 0: it has none */
    size_t times;                          /* at most */
    bool is_needed;                        /* by every plan of a node */
    bool can_be_given;                     /* to a node that runs */
};

const struct plan_verb *plan_verb(enum jail_plan_verb verb);

enum { PLAN_DEVICES = 3 };
extern const char *const plan_disks[JAIL_DISKS];     /* where a node may write */
extern const char *const plan_devices[PLAN_DEVICES]; /* below /dev: none leads to a disk, memory or a terminal */
bool plan_name_is_valid(const char *name);           /* 1 to 64 of [A-Za-z0-9._-], not starting with a dot or dash */
/* Words are copied; NULL where the verb has none. E_TOO_LARGE, E_NO_MEMORY. */
int plan_add(struct jail_plan *plan, enum jail_plan_verb verb, const char *first, const char *second, uint64_t number,
             struct error *reterr);

/* A line for each limit that the kernel holds and that has a bound. */
int plan_add_limits(struct jail_plan *plan, const struct jail_limits *limits, struct error *reterr);
/* What the plan's lines say, and 0 for the others; E_INVALID for a name that is none of the kernel's, a limit that is
   there twice, and a value that is out of bounds. */
int plan_limits(const struct jail_plan *plan, struct jail_limits *ret, struct error *reterr);

/* The plan's every word and number, once more: it comes from a process that reads strangers' input. */
int plan_check(const struct jail_plan *plan, struct error *reterr);
/* The same of a plan that only says what a running node is given. */
int plan_check_equipment(const struct jail_plan *plan, struct error *reterr);
bool plan_is_volume_place(const char *path); /* clean, and below /mnt or /data: where folders and volumes are mounted */
bool path_is_clean(const char *path);        /* absolute, no "", "." or ".." in it, not "/" itself */

#endif
