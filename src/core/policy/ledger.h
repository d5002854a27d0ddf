/* ledger: whose builds are on the disk, and how much of the quota `disk` they are. */
#ifndef CORE_POLICY_LEDGER_H
#define CORE_POLICY_LEDGER_H

#include "base/base.h"
#include "quota/quota.h"
#include "store/store.h"

struct ledger {
    struct quotas *quotas;
    struct map builds;  /* by digest */
    struct map refused; /* users who had no room, since the last sweep: what they do not use is to go soon */
};

/* Before it is written. E_LIMIT: its owner's quota is used up. */
int ledger_admit(struct ledger *ledger, uid_t uid, uint64_t bytes, struct error *reterr);
bool ledger_is_short(const struct ledger *ledger, uid_t uid); /* one was refused to this user, since the last sweep */
/* It was not written after all. */
void ledger_give_back(struct ledger *ledger, uid_t uid, uint64_t bytes);
/* It is there. One that is known already counts for its first owner alone. Without is_admitted it is counted whether or
   not there is room. */
void ledger_add(struct ledger *ledger, uid_t uid, const char *digest, uint64_t bytes, bool is_admitted);
/* All but these were removed; the list ends with NULL. */
void ledger_swept(struct ledger *ledger, const char *const *keep);
void ledger_free(struct ledger *ledger);

#endif
