/* Who has the builds on the disk. A build counts in the quota `disk` of the user whose project it was made of, once,
   however many sandboxes run it, from the moment before it is written until it is swept. */
#include "core/policy/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ledger_build {
    uid_t uid;
    uint64_t bytes;
};

enum { OWNER_NAME_BYTES = 16 };

static const char *owner_name(uid_t uid, char ret[OWNER_NAME_BYTES]) {
    snprintf(ret, OWNER_NAME_BYTES, "%u", uid);
    return ret;
}

/* Without memory: another time. */
static void note_refused(struct ledger *ledger, uid_t uid) {
    char name[OWNER_NAME_BYTES];
    map_set(&ledger->refused, owner_name(uid, name), ledger);
}

int ledger_admit(struct ledger *ledger, uid_t uid, uint64_t bytes, struct error *reterr) {
    int result = quotas_take(ledger->quotas, uid, QUOTA_DISK, bytes, reterr);
    if (result < 0) note_refused(ledger, uid);
    return result < 0 ? error_prefix(reterr, "there is no room for the build") : 0;
}

bool ledger_is_short(const struct ledger *ledger, uid_t uid) {
    char name[OWNER_NAME_BYTES];
    return map_get(&ledger->refused, owner_name(uid, name)) != NULL;
}

void ledger_give_back(struct ledger *ledger, uid_t uid, uint64_t bytes) {
    quotas_give(ledger->quotas, uid, QUOTA_DISK, bytes);
}

void ledger_add(struct ledger *ledger, uid_t uid, const char *digest, uint64_t bytes, bool is_admitted) {
    bool is_known = map_get(&ledger->builds, digest) != NULL;
    struct ledger_build *build = is_known ? NULL : calloc(1, sizeof *build);
    if (build && map_set(&ledger->builds, digest, build)) {
        *build = (struct ledger_build){uid, bytes};
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

/* One that is in no list; NULL: all are. */
static const char *find_swept(const struct ledger *ledger, const struct map *kept) {
    size_t at = 0;
    const char *digest;
    while (map_next(&ledger->builds, &at, &digest, NULL))
        if (!map_get(kept, digest)) return digest;
    return NULL;
}

void ledger_swept(struct ledger *ledger, const char *const *keep) {
    CLEANUP(map_free) struct map kept = MAP_INIT;
    const char *digest;
    char copy[STORE_DIGEST_BYTES];
    map_free(&ledger->refused);
    for (; *keep; keep++)
        if (!map_set(&kept, *keep, ledger)) return; /* another time */
    while ((digest = find_swept(ledger, &kept))) {
        snprintf(copy, sizeof copy, "%s", digest);
        forget(ledger, copy);
    }
}

void ledger_free(struct ledger *ledger) {
    static const char *const none[] = {NULL};
    ledger_swept(ledger, none);
    map_free(&ledger->builds);
}
