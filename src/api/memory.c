#include "api/api_internal.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MAX = 1000,
    ENTRIES_OF_ONE_MAX = 250, /* so that one user's requests drive no others' out */
    ANSWERS_MAX_BYTES = 16 << 20,
    ANSWERS_OF_ONE_MAX_BYTES = 4 << 20,
    KEPT_MS = 10 * 60 * 1000,
};

void memory_init(struct memory *memory) {
    *memory = (struct memory){.entries = MAP_INIT};
    TAILQ_INIT(&memory->oldest_first);
}

static void forget(struct memory *memory, struct remembered *entry) {
    map_remove(&memory->entries, entry->key);
    TAILQ_REMOVE(&memory->oldest_first, entry, link);
    if (entry->answer) memory->bytes -= entry->answer->size;
    answer_release(entry->answer);
    free(entry->key);
    free(entry);
}

void memory_free(struct memory *memory) {
    while (!TAILQ_EMPTY(&memory->oldest_first)) forget(memory, TAILQ_FIRST(&memory->oldest_first));
    map_free(&memory->entries);
}

/* Forget what is too old, and the oldest of what is too much. Entries whose request still runs stay: somebody holds
   them. */
static void make_room(struct memory *memory, size_t entries_max, uint64_t now_ms) {
    struct remembered *entry = TAILQ_FIRST(&memory->oldest_first);
    while (entry) {
        struct remembered *next = TAILQ_NEXT(entry, link);
        bool crowded = memory->entries.count > entries_max || memory->bytes > ANSWERS_MAX_BYTES;
        if (entry->expires_ms > now_ms && !crowded) return;
        if (entry->answer) forget(memory, entry);
        entry = next;
    }
}

/* The same for what one user has. */
static void make_room_of(struct memory *memory, uid_t uid, size_t entries_max) {
    size_t count = 0, bytes = 0;
    struct remembered *entry, *next;
    TAILQ_FOREACH(entry, &memory->oldest_first, link) {
        if (entry->uid != uid) continue;
        count++;
        bytes += entry->answer ? entry->answer->size : 0;
    }
    for (entry = TAILQ_FIRST(&memory->oldest_first); entry; entry = next) {
        next = TAILQ_NEXT(entry, link);
        if (count <= entries_max && bytes <= ANSWERS_OF_ONE_MAX_BYTES) return;
        if (entry->uid != uid || !entry->answer) continue;
        count--;
        bytes -= entry->answer->size;
        forget(memory, entry);
    }
}

static void cleanup_digest(EVP_MD_CTX **context) {
    EVP_MD_CTX_free(*context);
}

/* Method and path hold no NUL, so their terminators keep the three apart. */
int memory_fingerprint(const char *method, const char *path, const uint8_t *body, size_t size,
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

static struct remembered *new_entry(struct memory *memory, const char *key,
                                    const uint8_t fingerprint[FINGERPRINT_BYTES], uint64_t now_ms) {
    struct remembered *entry = calloc(1, sizeof *entry);
    char *copy = strdup(key);
    if (!entry || !copy || !map_set(&memory->entries, key, entry)) {
        free(entry);
        free(copy);
        return NULL;
    }
    entry->key = copy;
    entry->expires_ms = now_ms + KEPT_MS;
    memcpy(entry->fingerprint, fingerprint, FINGERPRINT_BYTES);
    TAILQ_INIT(&entry->waiters);
    TAILQ_INSERT_TAIL(&memory->oldest_first, entry, link);
    return entry;
}

int memory_recall(struct memory *memory, uid_t uid, const char *key, const uint8_t fingerprint[FINGERPRINT_BYTES],
                  uint64_t now_ms, struct remembered **ret, bool *ret_new, struct error *reterr) {
    make_room(memory, ENTRIES_MAX, now_ms);
    char full_key[IDEMPOTENCY_KEY_MAX_BYTES + 16];
    snprintf(full_key, sizeof full_key, "%u %s", uid, key);
    struct remembered *entry = map_get(&memory->entries, full_key);
    if (entry && memcmp(entry->fingerprint, fingerprint, FINGERPRINT_BYTES) != 0)
        return error_set(reterr, E_CONFLICT, "Idempotency-Key: '%.64s' was used for another request", key);
    bool is_new = !entry;
    if (is_new) {
        make_room_of(memory, uid, ENTRIES_OF_ONE_MAX - 1);
        make_room(memory, ENTRIES_MAX - 1, now_ms);
        entry = new_entry(memory, full_key, fingerprint, now_ms);
        if (entry) entry->uid = uid;
    }
    if (!entry) return error_set(reterr, E_NO_MEMORY, "no memory to remember the answer");
    *ret = entry;
    *ret_new = is_new;
    return 0;
}

/* The request had no effect, or one that a second try may mend. */
static bool worth_another_try(const struct answer *answer) {
    return !answer || answer->status >= 500 || answer->status == MHD_HTTP_TOO_MANY_REQUESTS;
}

void memory_settle(struct memory *memory, struct remembered *entry, struct answer *answer, uint64_t now_ms) {
    if (worth_another_try(answer)) {
        forget(memory, entry);
        return;
    }
    entry->answer = answer_reference(answer);
    memory->bytes += answer->size;
    make_room_of(memory, entry->uid, ENTRIES_OF_ONE_MAX);
    make_room(memory, ENTRIES_MAX, now_ms);
}
