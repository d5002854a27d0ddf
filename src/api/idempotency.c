/* Idempotency keys: a request with a key that was seen before gets the earlier answer instead of running again.
   Entries are bounded in number, bytes and time. */
#include "api/api_internal.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MAX = 1000,
    ANSWERS_MAX_BYTES = 16 << 20,
    KEPT_MS = 10 * 60 * 1000,
};

void idempotency_init(struct idempotency *answered) {
    *answered = (struct idempotency){.entries = MAP_INIT};
    TAILQ_INIT(&answered->oldest_first);
}

static size_t body_bytes(const struct idempotency *answered, const struct remembered *entry) {
    return entry->answer && entry->answer != answered->note ? entry->answer->size : 0;
}

static void forget(struct idempotency *answered, struct remembered *entry) {
    map_remove(&answered->entries, entry->key);
    TAILQ_REMOVE(&answered->oldest_first, entry, link);
    answered->bytes -= body_bytes(answered, entry);
    answer_release(entry->answer);
    free(entry->key);
    free(entry);
}

void idempotency_free(struct idempotency *answered) {
    while (!TAILQ_EMPTY(&answered->oldest_first)) forget(answered, TAILQ_FIRST(&answered->oldest_first));
    map_free(&answered->entries);
    answer_release(answered->note);
}

/* ---- room: a forgotten key means that a request is carried out twice, so no user's keys drive out another's ---- */

/* Entries whose request still runs stay: the exchange that runs it holds them. */
static void forget_old(struct idempotency *answered, uint64_t now_ms) {
    struct remembered *entry = TAILQ_FIRST(&answered->oldest_first), *next;
    for (; entry && entry->expires_ms <= now_ms; entry = next) {
        next = TAILQ_NEXT(entry, link);
        if (entry->answer) forget(answered, entry);
    }
}

static struct remembered *oldest_answered(const struct idempotency *answered, uid_t principal) {
    struct remembered *entry;
    TAILQ_FOREACH(entry, &answered->oldest_first, link) {
        if (entry->principal == principal && entry->answer) return entry;
    }
    return NULL;
}

static size_t count_of(const struct idempotency *answered, uid_t principal) {
    size_t count = 0;
    const struct remembered *entry;
    TAILQ_FOREACH(entry, &answered->oldest_first, link) count += entry->principal == principal;
    return count;
}

/* A user that has its share gives up its own oldest key for the new one. */
static int make_room(struct idempotency *answered, uid_t principal, bool is_bound, struct error *reterr) {
    struct share share = {
        .all = ENTRIES_MAX, .used = answered->entries.count + 1, .own = count_of(answered, principal) + 1};
    struct remembered *oldest = share_is_fair(&share, is_bound) ? NULL : oldest_answered(answered, principal);
    if (oldest) forget(answered, oldest);
    if (oldest || share_is_fair(&share, is_bound)) return 0;
    return error_set(reterr, E_LIMIT, "%zu requests with an Idempotency-Key are remembered, %d of them of this user",
                     answered->entries.count, (int)share.own - 1);
}

static struct share share_of_bytes(const struct idempotency *answered, uid_t principal) {
    struct share share = {.all = ANSWERS_MAX_BYTES, .used = answered->bytes};
    const struct remembered *entry;
    TAILQ_FOREACH(entry, &answered->oldest_first, link) {
        if (entry->principal == principal) share.own += body_bytes(answered, entry);
    }
    return share;
}

/* The key stays, and the note says what became of its request. */
static void drop_body(struct idempotency *answered, struct remembered *entry, struct share *share) {
    size_t size = body_bytes(answered, entry);
    answered->bytes -= size;
    share->used -= size;
    share->own -= size;
    answer_release(entry->answer);
    entry->answer = answer_reference(answered->note);
}

static bool has_note(struct idempotency *answered) {
    struct error error;
    error_set(&error, E_DISCARDED, "the request was carried out when it came first; its answer is not kept any more");
    if (!answered->note) answered->note = answer_problem(&error, NULL, NULL);
    return answered->note;
}

/* Of one user, the oldest first, until what it has is its share. */
static void drop_bodies(struct idempotency *answered, uid_t principal, bool is_bound) {
    struct remembered *entry;
    struct share share = share_of_bytes(answered, principal);
    TAILQ_FOREACH(entry, &answered->oldest_first, link) {
        if (share_is_fair(&share, is_bound)) return;
        if (entry->principal == principal && body_bytes(answered, entry) > 0 && has_note(answered))
            drop_body(answered, entry, &share);
    }
}

/* ---- remembering ---- */

static void cleanup_digest(EVP_MD_CTX **context) {
    EVP_MD_CTX_free(*context);
}

/* Method and path hold no NUL, so their terminators keep the three apart. */
int idempotency_fingerprint(const char *method, const char *path, const uint8_t *body, size_t size,
                            uint8_t ret[FINGERPRINT_BYTES], struct error *reterr) {
    CLEANUP(cleanup_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(context, method, strlen(method) + 1) != 1 ||
        EVP_DigestUpdate(context, path, strlen(path) + 1) != 1 || EVP_DigestUpdate(context, body, size) != 1 ||
        EVP_DigestFinal_ex(context, digest, NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory to tell requests apart");
    memcpy(ret, digest, FINGERPRINT_BYTES);
    return 0;
}

static struct remembered *new_entry(struct idempotency *answered, const char *key,
                                    const uint8_t fingerprint[FINGERPRINT_BYTES], uint64_t now_ms) {
    struct remembered *entry = calloc(1, sizeof *entry);
    char *copy = strdup(key);
    if (!entry || !copy || !map_set(&answered->entries, key, entry)) {
        free(entry);
        free(copy);
        return NULL;
    }
    entry->key = copy;
    entry->expires_ms = now_ms + KEPT_MS;
    memcpy(entry->fingerprint, fingerprint, FINGERPRINT_BYTES);
    TAILQ_INIT(&entry->waiters);
    TAILQ_INSERT_TAIL(&answered->oldest_first, entry, link);
    return entry;
}

static int add_entry(struct idempotency *answered, const struct idempotency_user *user, const char *key,
                     const uint8_t fingerprint[FINGERPRINT_BYTES], uint64_t now_ms, struct remembered **ret,
                     struct error *reterr) {
    int result = make_room(answered, user->principal, user->is_bound, reterr);
    if (result < 0) return result;
    struct remembered *entry = new_entry(answered, key, fingerprint, now_ms);
    if (!entry) return error_set(reterr, E_NO_MEMORY, "no memory to remember the answer");
    entry->principal = user->principal;
    entry->is_bound = user->is_bound;
    *ret = entry;
    return 0;
}

int idempotency_recall(struct idempotency *answered, const struct idempotency_user *user, const char *key,
                       const uint8_t fingerprint[FINGERPRINT_BYTES], uint64_t now_ms, struct remembered **ret,
                       bool *ret_new, struct error *reterr) {
    char full_key[IDEMPOTENCY_KEY_MAX_BYTES + 16];
    forget_old(answered, now_ms);
    snprintf(full_key, sizeof full_key, "%u %s", user->uid, key);
    struct remembered *entry = map_get(&answered->entries, full_key);
    if (entry && memcmp(entry->fingerprint, fingerprint, FINGERPRINT_BYTES) != 0)
        return error_set(reterr, E_CONFLICT, "Idempotency-Key: '%.64s' was used for another request", key);
    bool is_new = !entry;
    int result = is_new ? add_entry(answered, user, full_key, fingerprint, now_ms, &entry, reterr) : 0;
    if (result < 0) return result;
    *ret = entry;
    *ret_new = is_new;
    return 0;
}

/* The request had no effect, or one that a second try may mend. */
static bool worth_another_try(const struct answer *answer) {
    return !answer || answer->status >= 500 || answer->status == MHD_HTTP_TOO_MANY_REQUESTS;
}

void idempotency_settle(struct idempotency *answered, struct remembered *entry, struct answer *answer) {
    if (worth_another_try(answer)) {
        forget(answered, entry);
        return;
    }
    entry->answer = answer_reference(answer);
    answered->bytes += answer->size;
    drop_bodies(answered, entry->principal, entry->is_bound);
}
