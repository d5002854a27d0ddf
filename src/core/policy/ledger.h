/* ledger: whose builds and bytes of versions are on the disk, and how much of the quota `disk` they are. */
#ifndef CORE_POLICY_LEDGER_H
#define CORE_POLICY_LEDGER_H

#include "base/base.h"
#include "compile/compile.h"
#include "quota/quota.h"
#include "store/store.h"

struct ledger {
    struct quotas *quotas;
    struct map builds;  /* by digest */
    struct map beams;   /* bytes of versions, by their owner */
    struct map refused; /* users who had no room: what they do not use is to go soon */
    uint64_t sweeps;
};

/* The builds of a home: kept, counted and swept. */
struct build_shelf {
    struct build_keeper keeper;
    struct ledger ledger;
    uint64_t at_sweep;      /* builds that had been written when they were swept last */
    bool is_sweeping;       /* the pool reads which builds are kept */
    bool is_removing;       /* builds of users who had no room */
    bool is_sweeping_beams; /* bytes of versions */
};

/* Before it is written. E_LIMIT: its owner's quota is used up. */
int ledger_admit(struct ledger *ledger, uid_t uid, uint64_t bytes, struct error *reterr);
/* It was not written after all. */
void ledger_give_back(struct ledger *ledger, uid_t uid, uint64_t bytes);
/* It is there. One that is known already counts for its first owner alone, and is shared from then on. Without
   is_admitted it is counted whether or not there is room. */
void ledger_add(struct ledger *ledger, uid_t uid, const char *digest, uint64_t bytes, bool is_admitted);
/* Bytes of versions. They are counted whether or not there is room. */
void ledger_beams_written(struct ledger *ledger, uid_t uid, uint64_t bytes);
void ledger_beams_removed(struct ledger *ledger, uid_t uid, uint64_t bytes);
/* All but these were removed; the list ends with NULL. */
void ledger_swept(struct ledger *ledger, const char *const *keep);
/* Adds a user to a set; false without memory. */
bool ledger_name_user(struct map *users, uid_t uid);
/* The builds of users who were refused one and are not busy, but not what users share: a set of digests. These users
   are not short any more. Nothing is forgotten yet. */
void ledger_take_spare(struct ledger *ledger, const struct map *busy, struct map *ret_digests);
void ledger_removed(struct ledger *ledger, const struct map *digests); /* these were */
void ledger_free(struct ledger *ledger);

#endif
