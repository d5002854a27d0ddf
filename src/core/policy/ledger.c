/* The owners of the builds and of the bytes of versions on the disk. A build counts in the quota `disk` of the user
   whose project it was made of, once, however many sandboxes run it, from the moment before it is written until it is
   swept. */
#include "core/policy/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ledger_build {
    uid_t uid;
    uint64_t bytes;
    uint64_t kept_in; /* the last sweep that kept it */
    bool is_shared;   /* another user made the same one: what that user does is not looked at when the owner is short */
};

enum { OWNER_NAME_BYTES = 16 };

static const char *owner_name(uid_t uid, char ret[OWNER_NAME_BYTES]) {
    snprintf(ret, OWNER_NAME_BYTES, "%u", uid);
    return ret;
}

bool ledger_name_user(struct map *users, uid_t uid) {
    char name[OWNER_NAME_BYTES];
    return map_set(users, owner_name(uid, name), users);
}

int ledger_admit(struct ledger *ledger, uid_t uid, uint64_t bytes, struct error *reterr) {
    int result = quotas_take(ledger->quotas, uid, QUOTA_DISK, bytes, reterr);
    if (result < 0) ledger_name_user(&ledger->refused, uid); /* without memory: another time */
    return result < 0 ? error_prefix(reterr, "there is no room on the disk") : 0;
}

void ledger_give_back(struct ledger *ledger, uid_t uid, uint64_t bytes) {
    quotas_give(ledger->quotas, uid, QUOTA_DISK, bytes);
}

void ledger_add(struct ledger *ledger, uid_t uid, const char *digest, uint64_t bytes, bool is_admitted) {
    struct ledger_build *known = map_get(&ledger->builds, digest), *build = known ? NULL : calloc(1, sizeof *build);
    if (known && known->uid != uid) known->is_shared = true;
    if (build && map_set(&ledger->builds, digest, build)) {
        *build = (struct ledger_build){.uid = uid, .bytes = bytes};
        if (!is_admitted) quotas_count(ledger->quotas, uid, QUOTA_DISK, bytes);
        return;
    }
    free(build);
    if (is_admitted) ledger_give_back(ledger, uid, bytes);
}

static void forget(struct ledger *ledger, const char *digest) {
    struct ledger_build *build = map_get(&ledger->builds, digest);
    map_remove(&ledger->builds, digest);
    ledger_give_back(ledger, build->uid, build->bytes);
    free(build);
}

void ledger_swept(struct ledger *ledger, const char *const *keep) {
    size_t at = 0;
    const char *digest;
    void *value;
    ledger->sweeps++;
    for (; *keep; keep++) {
        struct ledger_build *build = map_get(&ledger->builds, *keep);
        if (build) build->kept_in = ledger->sweeps;
    }
    while (map_next(&ledger->builds, &at, &digest, &value))
        if (((struct ledger_build *)value)->kept_in != ledger->sweeps) forget(ledger, digest);
}

/* ---- bytes of versions ---- */

void ledger_beams_written(struct ledger *ledger, uid_t uid, uint64_t bytes) {
    char name[OWNER_NAME_BYTES];
    uint64_t *held = map_get(&ledger->beams, owner_name(uid, name));
    if (!held && bytes > 0) {
        held = new_or_abort(uint64_t);
        if (!map_set(&ledger->beams, name, held)) abort();
    }
    if (held) *held += bytes;
    quotas_count(ledger->quotas, uid, QUOTA_DISK, bytes);
}

void ledger_beams_removed(struct ledger *ledger, uid_t uid, uint64_t bytes) {
    char name[OWNER_NAME_BYTES];
    uint64_t *held = map_get(&ledger->beams, owner_name(uid, name));
    uint64_t given = held && bytes < *held ? bytes : held ? *held : 0;
    if (!held) return;
    *held -= given;
    ledger_give_back(ledger, uid, given);
    if (*held > 0) return;
    map_remove(&ledger->beams, name);
    free(held);
}

/* ---- users who have no room ---- */

static void find_rested(const struct ledger *ledger, const struct map *busy, struct map *ret) {
    size_t at = 0;
    const char *user;
    while (map_next(&ledger->refused, &at, &user, NULL))
        if (!map_get(busy, user)) map_set(ret, user, ret);
}

void ledger_take_spare(struct ledger *ledger, const struct map *busy, struct map *ret_digests) {
    CLEANUP(map_free) struct map rested = MAP_INIT;
    char name[OWNER_NAME_BYTES];
    const char *key;
    void *value;
    size_t at = 0;
    find_rested(ledger, busy, &rested);
    while (rested.count > 0 && map_next(&ledger->builds, &at, &key, &value)) {
        const struct ledger_build *build = value;
        if (!build->is_shared && map_get(&rested, owner_name(build->uid, name))) map_set(ret_digests, key, ledger);
    }
    at = 0;
    while (map_next(&rested, &at, &key, NULL)) map_remove(&ledger->refused, key);
}

void ledger_removed(struct ledger *ledger, const struct map *digests) {
    size_t at = 0;
    const char *digest;
    while (map_next(digests, &at, &digest, NULL))
        if (map_get(&ledger->builds, digest)) forget(ledger, digest);
}

void ledger_free(struct ledger *ledger) {
    static const char *const none[] = {NULL};
    ledger_swept(ledger, none);
    const char *user;
    void *held;
    for (size_t at = 0; map_next(&ledger->beams, &at, &user, &held); at = 0)
        ledger_beams_removed(ledger, (uid_t)strtoul(user, NULL, 10), *(uint64_t *)held);
    map_free(&ledger->beams);
    map_free(&ledger->builds);
    map_free(&ledger->refused);
}
