/* quota: what one principal may hold at once and ask for. A principal is a uid. Rules say how much each one may have
   (rules.c, pure); accounts count what each one has (account.c). Knows nothing of what it counts. */
#ifndef QUOTA_QUOTA_H
#define QUOTA_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

/* A held quota is given back; a rate refills by itself, and a minute's worth of it may be used at once. */
enum quota_kind { QUOTA_HELD, QUOTA_RATE };
enum quota_unit { QUOTA_COUNT, QUOTA_BYTES, QUOTA_PERCENT, QUOTA_BYTES_PER_MINUTE };

#define QUOTA_UNLIMITED UINT64_MAX
#define QUOTA_HALF_THE_MEMORY (UINT64_MAX - 1) /* of the machine */

/* Every quota there is: name, how it is called in settings and answers, kind, unit, default, what it bounds. */
#define QUOTA_LIST(X)                                                                                                  \
    X(CONNECTIONS, "connections", HELD, COUNT, 64, "connections to the service")                                       \
    X(STREAMS, "streams", HELD, COUNT, 32, "answers that come in pieces: events, logs, runs")                          \
    X(REQUESTS, "requests", HELD, COUNT, 64, "requests under way")                                                     \
    X(SANDBOXES, "sandboxes", HELD, COUNT, 200, "sandboxes, whatever their status")                                    \
    X(MEMORY, "memory", HELD, BYTES, QUOTA_HALF_THE_MEMORY,                                                            \
      "sum of the limits memory and socket_memory of its sandboxes")                                                   \
    X(DISK, "disk", HELD, BYTES, UINT64_C(16) << 30,                                                                   \
      "sum of the disk limits of its sandboxes, builds, and code of versions")                                         \
    X(CPU, "cpu", HELD, PERCENT, QUOTA_UNLIMITED,                                                                      \
      "sum of the CPU limits of its sandboxes; one without a limit counts as every core of the machine")               \
    X(TASKS, "tasks", HELD, COUNT, 16384, "sum of the limits os_tasks of its sandboxes")                               \
    X(COMPILERS, "compilers", HELD, COUNT, 4, "compilations at once; more of them wait their turn")                    \
    X(PROJECTS, "projects", HELD, COUNT, 32, "projects that are open: being compiled, checked or reloaded")            \
    X(PORTS, "ports", HELD, COUNT, 64, "published ports, and services that sandboxes connect to")                      \
    X(LOG, "log", RATE, BYTES_PER_MINUTE, 16 << 20, "bytes in daemon.log and in the audit trail, each minute")

enum quota {
#define X(name, text, kind, unit, fallback, summary) QUOTA_##name,
    QUOTA_LIST(X)
#undef X
        QUOTAS
};

struct quota_row {
    const char *name;
    enum quota_kind kind;
    enum quota_unit unit;
    uint64_t fallback;
    const char *summary;
};

const struct quota_row *quota_row(enum quota quota);
const char *quota_unit_name(enum quota_unit unit);
/* "64", "4G", "400%", "unlimited" */
void quota_to_text(enum quota quota, uint64_t value, char ret[QUANTITY_BYTES]);

/* ---- names.c: users and groups in settings; asks the system, so only while the service starts ---- */

enum { QUOTA_NAME_BYTES = 64 };

/* A name, or a number, which need not have a name. E_INVALID for an unknown one. */
int quota_find_user(const char *name, uid_t *ret, struct error *reterr);
int quota_find_group(const char *name, gid_t *ret, struct error *reterr);

/* ---- rules.c ---- */

enum { QUOTA_RULES_MAX = 128, QUOTA_GROUPS_MAX = 256 };

enum quota_whom { QUOTA_OF_ALL, QUOTA_OF_USER, QUOTA_OF_GROUP };

struct quota_rule {
    enum quota_whom whom;
    uint32_t id; /* a uid or a gid */
    char name[QUOTA_NAME_BYTES];
    uint32_t set; /* a bit for each quota that it has a value for */
    uint64_t values[QUOTAS];
};

struct quota_rules {
    struct quota_rule items[QUOTA_RULES_MAX]; /* the first is of all */
    size_t count;
    uint64_t memory_bytes; /* of the machine */
};

void quota_rules_init(struct quota_rules *ret, uint64_t memory_bytes);
/* "quota", "quota user NAME" or "quota group NAME": the lines that follow are this rule's. */
int quota_rules_begin(struct quota_rules *rules, const char *header, struct quota_rule **ret, struct error *reterr);
int quota_rule_set(struct quota_rule *rule, const char *name, const char *value, struct error *reterr);

struct quota_identity {
    uid_t uid;
    const gid_t *groups; /* all of them, the primary one too */
    size_t group_count;
};

/* The user's own rule goes before those of groups, of which the most generous counts, and those before the one of all.
 *ret_rule, unless NULL, is where it comes from. */
uint64_t quota_rules_resolve(const struct quota_rules *rules, const struct quota_identity *identity, enum quota quota,
                             const struct quota_rule **ret_rule);
bool quota_rules_equal(const struct quota_rules *one, const struct quota_rules *other);
const char *quota_rules_user(const struct quota_rules *rules, uid_t uid); /* the name a rule has for it, or NULL */

/* ---- account.c ---- */

struct quotas;

struct quotas_config {
    const struct quota_rules *rules;     /* must live as long */
    uid_t service_uid;                   /* this one and root are counted, but not bound */
    const struct principals *principals; /* must live as long; NULL: each uid is its own */
    uint64_t (*now_ms)(void);            /* NULL: the monotonic clock */
    /* Lines or records that were left out of the log for want of quota, before the account is forgotten. */
    void (*left_out)(void *data, uid_t uid, uint64_t count);
    void *data;
};

/* In all that follows quotas may be NULL: then nothing is counted or bound. */
int quotas_open(const struct quotas_config *config, struct quotas **ret, struct error *reterr);
struct quotas *quotas_close(struct quotas *quotas); /* accepts NULL, returns NULL */

bool quotas_is_bound(const struct quotas *quotas, uid_t uid);
/* The uid that has the account of this one. All other functions look that up themselves. */
uid_t quotas_principal(const struct quotas *quotas, uid_t uid);
/* How many of a bound that all share one caller may take: places are kept free for those who are not bound. */
uint64_t quotas_share(const struct quotas *quotas, uid_t uid, uint64_t all, uint64_t kept_free);

/* Whether a caller may have what it asks for of a pool that all share: see base/schedule/share.h. */
bool quotas_is_fair(const struct quotas *quotas, uid_t uid, const struct share *share);

/* A principal has connected: the groups it is in count from now on, for all that this uid does. A subordinate uid is in
   no group: its user may be in any that it has there. */
void quotas_introduce(struct quotas *quotas, const struct quota_identity *identity);
bool quotas_in_group(const struct quotas *quotas, uid_t uid, gid_t gid);

/* E_LIMIT says which quota is used up; nothing is taken then. Nothing may always be taken, of what was lowered too. */
int quotas_take(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount, struct error *reterr);
/* Whether or not there is room: for what is there already. */
void quotas_count(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount);
void quotas_give(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount);
uint64_t quotas_held(const struct quotas *quotas, uid_t uid, enum quota quota);

/* Of a rate. What ends something may overdraw it, by as much again. */
int quotas_spend(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount, bool may_overdraw,
                 struct error *reterr);
void quotas_charge(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount); /* in any case */
/* Something was not written. */
void quotas_leave_out(struct quotas *quotas, uid_t uid);
/* How many were left out since this was last asked. */
uint64_t quotas_take_left_out(struct quotas *quotas, uid_t uid);

struct quota_state {
    uid_t uid;
    const char *user; /* NULL: no rule names it */
    enum quota quota;
    uint64_t used, limit;
    const struct quota_rule *rule; /* NULL: it is not bound */
};

/* Each quota of one principal, also of one that has no account. */
void quotas_show(struct quotas *quotas, uid_t uid, void (*each)(void *data, const struct quota_state *state),
                 void *data);
/* The principals that have an account, at most max: uids in rising order. Returns how many. */
size_t quotas_principals(struct quotas *quotas, uid_t *ret, size_t max);
const struct quota_rules *quotas_rules(const struct quotas *quotas); /* NULL without quotas */

#endif
