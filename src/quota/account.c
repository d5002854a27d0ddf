/* What each principal holds. An account is made when something is first taken, and forgotten when nothing is held and
   every rate is full again: the memory of accounts is bounded by what is held. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/quota.h"

enum {
    REFILL_MS = 60000,      /* from empty to full */
    REFILL_MAX_MS = 120000, /* from all that may be overdrawn */
    TIDY_EVERY_MS = 60000,  /* accounts that only waited to be full again */
    UID_BYTES = 12,
};

struct account {
    uid_t uid;
    gid_t *groups; /* as of its last connection; NULL: none are known */
    size_t group_count;
    uint64_t held[QUOTAS]; /* of a rate: what has not refilled yet */
    uint64_t refilled_ms;
    uint64_t left_out;
};

struct quotas {
    struct quotas_config config;
    struct map accounts; /* uid as text → struct account */
    uint64_t tidied_ms;
};

static uint64_t default_now_ms(void) {
    return clock_monotonic_ms();
}

int quotas_open(const struct quotas_config *config, struct quotas **ret, struct error *reterr) {
    struct quotas *quotas = calloc(1, sizeof *quotas);
    if (!quotas) return error_set(reterr, E_NO_MEMORY, "no memory for quotas");
    quotas->config = *config;
    if (!quotas->config.now_ms) quotas->config.now_ms = default_now_ms;
    quotas->tidied_ms = quotas->config.now_ms();
    *ret = quotas;
    return 0;
}

static void free_account(struct account *account) {
    free(account->groups);
    free(account);
}

struct quotas *quotas_close(struct quotas *quotas) {
    size_t at = 0;
    void *account;
    if (!quotas) return NULL;
    while (map_next(&quotas->accounts, &at, NULL, &account)) free_account(account);
    map_free(&quotas->accounts);
    free(quotas);
    return NULL;
}

bool quotas_is_bound(const struct quotas *quotas, uid_t uid) {
    return quotas && uid != 0 && uid != quotas->config.service_uid;
}

uid_t quotas_principal(const struct quotas *quotas, uid_t uid) {
    return quotas ? principals_of(quotas->config.principals, uid) : uid;
}

uint64_t quotas_share(const struct quotas *quotas, uid_t uid, uint64_t all, uint64_t kept_free) {
    if (!quotas_is_bound(quotas, uid)) return all;
    return all - (kept_free < all / 2 ? kept_free : all / 2);
}

bool quotas_is_fair(const struct quotas *quotas, uid_t uid, const struct share *share) {
    return share_is_fair(share, quotas_is_bound(quotas, uid));
}

const struct quota_rules *quotas_rules(const struct quotas *quotas) {
    return quotas ? quotas->config.rules : NULL;
}

/* ---- accounts ---- */

static void name_account(uid_t uid, char ret[UID_BYTES]) {
    snprintf(ret, UID_BYTES, "%" PRIu32, (uint32_t)uid);
}

static struct account *find_account(const struct quotas *quotas, uid_t uid) {
    char key[UID_BYTES];
    name_account(quotas_principal(quotas, uid), key);
    return map_get(&quotas->accounts, key);
}

static struct quota_identity identity_of(uid_t uid, const struct account *account) {
    return (struct quota_identity){
        .uid = uid, .groups = account ? account->groups : NULL, .group_count = account ? account->group_count : 0};
}

static uint64_t limit_of(const struct quotas *quotas, const struct account *account, enum quota quota) {
    struct quota_identity identity = identity_of(account->uid, account);
    return quota_rules_resolve(quotas->config.rules, &identity, quota, NULL);
}

/* Rates come back with time. There is one of them, so one time for all is enough. */
static void refill(const struct quotas *quotas, struct account *account) {
    uint64_t now_ms = quotas->config.now_ms(), passed_ms = now_ms - account->refilled_ms;
    if (passed_ms > REFILL_MAX_MS) passed_ms = REFILL_MAX_MS;
    for (unsigned i = 0; i < QUOTAS; i++) {
        uint64_t *used = &account->held[i];
        if (quota_row(i)->kind != QUOTA_RATE) continue;
        uint64_t limit = limit_of(quotas, account, i);
        uint64_t back = limit > UINT64_MAX / REFILL_MAX_MS ? limit : limit * passed_ms / REFILL_MS;
        if (*used > 0 && back == 0) return; /* the time that passed counts with the next look */
        *used -= back < *used ? back : *used;
    }
    account->refilled_ms = now_ms;
}

static bool is_idle(const struct account *account) {
    for (unsigned i = 0; i < QUOTAS; i++)
        if (account->held[i] > 0) return false;
    return true;
}

static void forget_if_idle(struct quotas *quotas, struct account *account) {
    char key[UID_BYTES];
    if (!is_idle(account)) return;
    if (account->left_out > 0 && quotas->config.left_out)
        quotas->config.left_out(quotas->config.data, account->uid, account->left_out);
    name_account(account->uid, key);
    map_remove(&quotas->accounts, key);
    free_account(account);
}

static void tidy(struct quotas *quotas) {
    uint64_t now_ms = quotas->config.now_ms();
    size_t at = 0;
    void *value;
    if (now_ms - quotas->tidied_ms < TIDY_EVERY_MS) return;
    quotas->tidied_ms = now_ms;
    while (map_next(&quotas->accounts, &at, NULL, &value)) {
        refill(quotas, value);
        forget_if_idle(quotas, value);
    }
}

/* NULL without memory. */
static struct account *open_account(struct quotas *quotas, uid_t uid) {
    char key[UID_BYTES];
    tidy(quotas);
    struct account *account = find_account(quotas, uid);
    if (account) return account;
    account = calloc(1, sizeof *account);
    uid = quotas_principal(quotas, uid);
    name_account(uid, key);
    if (!account || !map_set(&quotas->accounts, key, account)) {
        free(account);
        return NULL;
    }
    account->uid = uid;
    account->refilled_ms = quotas->config.now_ms();
    return account;
}

/* ---- who ---- */

void quotas_introduce(struct quotas *quotas, const struct quota_identity *identity) {
    bool is_itself = quotas_principal(quotas, identity->uid) == identity->uid;
    struct account *account = quotas && is_itself ? open_account(quotas, identity->uid) : NULL;
    if (!account) return;
    size_t count = identity->group_count < QUOTA_GROUPS_MAX ? identity->group_count : QUOTA_GROUPS_MAX;
    bool is_same = account->group_count == count &&
                   (count == 0 || memcmp(account->groups, identity->groups, count * sizeof *account->groups) == 0);
    gid_t *groups = is_same || count == 0 ? NULL : malloc(count * sizeof *groups);
    if (is_same || (count > 0 && !groups)) return;
    if (groups) memcpy(groups, identity->groups, count * sizeof *groups);
    free(account->groups);
    account->groups = groups;
    account->group_count = count;
}

bool quotas_in_group(const struct quotas *quotas, uid_t uid, gid_t gid) {
    bool is_itself = quotas_principal(quotas, uid) == uid;
    const struct account *account = quotas && is_itself ? find_account(quotas, uid) : NULL;
    for (size_t i = 0; account && i < account->group_count; i++)
        if (account->groups[i] == gid) return true;
    return false;
}

/* ---- taking and giving ---- */

/* Sums never wrap: whatever is counted by mistake stays large. */
static void add(uint64_t *sum, uint64_t amount) {
    *sum = amount > UINT64_MAX - *sum ? UINT64_MAX : *sum + amount;
}

static int refuse(const struct quotas *quotas, const struct account *account, enum quota quota, uint64_t amount,
                  uint64_t limit, struct error *reterr) {
    char used_text[QUANTITY_BYTES], limit_text[QUANTITY_BYTES], amount_text[QUANTITY_BYTES], who[QUOTA_NAME_BYTES + 8];
    const char *user = quota_rules_user(quotas->config.rules, account->uid);
    bool is_one = amount <= 1 && quota_row(quota)->unit == QUOTA_COUNT;
    quota_to_text(quota, account->held[quota], used_text);
    quota_to_text(quota, limit, limit_text);
    quota_to_text(quota, amount, amount_text);
    if (user)
        snprintf(who, sizeof who, "user %s", user);
    else
        snprintf(who, sizeof who, "uid %" PRIu32, (uint32_t)account->uid);
    return error_set(reterr, E_LIMIT, "quota \"%s\" is used up: %s of %s%s (%s)%s%s%s", quota_row(quota)->name,
                     used_text, limit_text, quota_row(quota)->kind == QUOTA_RATE ? " a minute" : "", who,
                     is_one ? "" : ", and ", is_one ? "" : amount_text, is_one ? "" : " more are asked for");
}

int quotas_take(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount, struct error *reterr) {
    if (!quotas || amount == 0) return 0;
    struct account *account = open_account(quotas, uid);
    if (!account) return error_set(reterr, E_NO_MEMORY, "no memory for quotas");
    uint64_t limit = quotas_is_bound(quotas, uid) ? limit_of(quotas, account, quota) : QUOTA_UNLIMITED;
    uint64_t held = account->held[quota];
    if (limit != QUOTA_UNLIMITED && (held > limit || amount > limit - held)) {
        int result = refuse(quotas, account, quota, amount, limit, reterr);
        forget_if_idle(quotas, account);
        return result;
    }
    add(&account->held[quota], amount);
    return 0;
}

void quotas_count(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount) {
    struct account *account = quotas ? open_account(quotas, uid) : NULL;
    if (account) add(&account->held[quota], amount);
}

void quotas_give(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount) {
    struct account *account = quotas ? find_account(quotas, uid) : NULL;
    if (!account) return;
    uint64_t *held = &account->held[quota];
    *held -= amount < *held ? amount : *held;
    refill(quotas, account);
    forget_if_idle(quotas, account);
}

uint64_t quotas_held(const struct quotas *quotas, uid_t uid, enum quota quota) {
    const struct account *account = quotas ? find_account(quotas, uid) : NULL;
    return account ? account->held[quota] : 0;
}

/* ---- rates ---- */

int quotas_spend(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount, bool may_overdraw,
                 struct error *reterr) {
    struct account *account = quotas ? open_account(quotas, uid) : NULL;
    if (!quotas) return 0;
    if (!account) return error_set(reterr, E_NO_MEMORY, "no memory for quotas");
    refill(quotas, account);
    uint64_t limit = quotas_is_bound(quotas, uid) ? limit_of(quotas, account, quota) : QUOTA_UNLIMITED;
    uint64_t most = limit == QUOTA_UNLIMITED || !may_overdraw ? limit : 2 * limit;
    uint64_t used = account->held[quota];
    if (limit != QUOTA_UNLIMITED && (used > most || amount > most - used))
        return refuse(quotas, account, quota, amount, limit, reterr);
    add(&account->held[quota], amount);
    return 0;
}

void quotas_charge(struct quotas *quotas, uid_t uid, enum quota quota, uint64_t amount) {
    quotas_count(quotas, uid, quota, amount);
}

void quotas_leave_out(struct quotas *quotas, uid_t uid) {
    struct account *account = quotas ? find_account(quotas, uid) : NULL;
    if (account) account->left_out++;
}

uint64_t quotas_take_left_out(struct quotas *quotas, uid_t uid) {
    struct account *account = quotas ? find_account(quotas, uid) : NULL;
    uint64_t count = account ? account->left_out : 0;
    if (account) account->left_out = 0;
    return count;
}

/* ---- showing ---- */

void quotas_show(struct quotas *quotas, uid_t uid, void (*each)(void *data, const struct quota_state *state),
                 void *data) {
    struct account *account = quotas ? find_account(quotas, uid) : NULL;
    if (!quotas) return;
    uid = quotas_principal(quotas, uid);
    if (account) refill(quotas, account);
    for (unsigned i = 0; i < QUOTAS; i++) {
        struct quota_identity identity = identity_of(uid, account);
        struct quota_state state = {.uid = uid,
                                    .user = quota_rules_user(quotas->config.rules, uid),
                                    .quota = i,
                                    .used = account ? account->held[i] : 0,
                                    .limit = QUOTA_UNLIMITED};
        if (quotas_is_bound(quotas, uid))
            state.limit = quota_rules_resolve(quotas->config.rules, &identity, i, &state.rule);
        each(data, &state);
    }
}

static int compare_uids(const void *a, const void *b) {
    uid_t left = *(const uid_t *)a, right = *(const uid_t *)b;
    return left < right ? -1 : left > right;
}

size_t quotas_principals(struct quotas *quotas, uid_t *ret, size_t max) {
    size_t at = 0, count = 0;
    void *value;
    if (!quotas) return 0;
    while (count < max && map_next(&quotas->accounts, &at, NULL, &value)) {
        const struct account *account = value;
        ret[count++] = account->uid;
    }
    qsort(ret, count, sizeof *ret, compare_uids);
    return count;
}
