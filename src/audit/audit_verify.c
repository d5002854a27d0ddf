/* Verifies the audit trail: each record is unchanged and follows the one before it, from the first that is kept to the
   last. Runs on the thread pool. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "audit/audit_internal.h"

struct verifying {
    struct audit_chain chain, head;
    bool has_head;
    const struct audit_chain *known; /* NULL: the caller knows of none */
    uint64_t records, first_seq;
    char first_before[AUDIT_HASH_BYTES]; /* the hash before the first record */
    /* The first record according to the trail itself, since older files were removed; 0: none. */
    uint64_t dropped_seq;
    char dropped_before[AUDIT_HASH_BYTES];
};

static void note_dropped(struct verifying *verifying, const char *line, size_t size) {
    json_t *record =
        memmem(line, size, "\"" AUDIT_DROPPED "\"", strlen(AUDIT_DROPPED) + 2) ? json_loadb(line, size, 0, NULL) : NULL;
    const char *before = json_string_value(json_object_get(record, "first_prev"));
    bool is_it = string_equal(json_string_value(json_object_get(record, "op")), "audit") &&
                 string_equal(json_string_value(json_object_get(record, "event")), AUDIT_DROPPED);
    if (is_it && before && strlen(before) == AUDIT_HASH_BYTES - 1) {
        verifying->dropped_seq = (uint64_t)json_integer_value(json_object_get(record, "first_seq"));
        memcpy(verifying->dropped_before, before, AUDIT_HASH_BYTES);
    }
    json_decref(record);
}

static int check_follows(const struct verifying *verifying, const struct audit_chain *told, const char *before,
                         struct error *reterr) {
    uint64_t expected = verifying->chain.seq + 1;
    if (verifying->records == 0) return 0;
    if (told->seq != expected)
        return error_set(reterr, E_FORMAT,
                         "record %" PRIu64 " where %" PRIu64 " belongs: records were removed or moved", told->seq,
                         expected);
    if (strcmp(before, verifying->chain.hash) != 0)
        return error_set(reterr, E_FORMAT, "record %" PRIu64 " does not follow the one before it", told->seq);
    return 0;
}

static int check_line(void *data, const char *line, size_t size, bool is_whole, struct error *reterr) {
    struct verifying *verifying = data;
    struct audit_chain told;
    char before[AUDIT_HASH_BYTES];
    if (!is_whole) return 0; /* it is being written, or missing, which the head shows */
    int result = audit_line_read(line, size, &told, before, reterr);
    if (result == 0) result = check_follows(verifying, &told, before, reterr);
    if (result == 0 && verifying->has_head && told.seq == verifying->head.seq &&
        strcmp(told.hash, verifying->head.hash) != 0)
        result = error_set(reterr, E_FORMAT, "record %" PRIu64 " is not the one that was written last", told.seq);
    if (result == 0 && verifying->known && told.seq == verifying->known->seq &&
        strcmp(told.hash, verifying->known->hash) != 0)
        result = error_set(reterr, E_FORMAT, "record %" PRIu64 " is not the one that the service wrote", told.seq);
    if (result < 0) return result;
    if (verifying->records++ == 0) {
        verifying->first_seq = told.seq;
        memcpy(verifying->first_before, before, sizeof before);
    }
    verifying->chain = told;
    note_dropped(verifying, line, size);
    return 0;
}

/* The trail begins with record 1, or with the record that it names as its first. */
static int check_start(const struct verifying *verifying, struct error *reterr) {
    struct audit_chain nothing;
    audit_chain_begin(&nothing);
    if (verifying->records == 0) return 0;
    bool is_whole = verifying->first_seq == 1 && strcmp(verifying->first_before, nothing.hash) == 0;
    bool is_told = verifying->first_seq == verifying->dropped_seq &&
                   strcmp(verifying->first_before, verifying->dropped_before) == 0;
    if (is_whole || is_told) return 0;
    return error_set(reterr, E_FORMAT, "the trail begins with record %" PRIu64 ": those before it were removed",
                     verifying->first_seq);
}

static int check_end(const struct verifying *verifying, struct error *reterr) {
    if (verifying->known && verifying->chain.seq < verifying->known->seq)
        return error_set(reterr, E_FORMAT, "the service wrote record %" PRIu64 ", and the trail ends with %" PRIu64,
                         verifying->known->seq, verifying->chain.seq);
    if (verifying->known && !verifying->has_head)
        return error_set(reterr, E_FORMAT, "the file that tells the last record is missing or damaged");
    if (!verifying->has_head)
        return verifying->records == 0 ? 0
                                       : error_set(reterr, E_FORMAT, "the file that tells the last record is damaged");
    if (verifying->chain.seq >= verifying->head.seq) return 0;
    return error_set(reterr, E_FORMAT, "record %" PRIu64 " was written last, and the trail ends with %" PRIu64,
                     verifying->head.seq, verifying->chain.seq);
}

static json_t *verdict(const struct verifying *verifying, const struct audit_walk *walk, json_t *problem) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:o}", "valid", json_is_null(problem), "records",
                     (json_int_t)verifying->records, "first_seq", (json_int_t)verifying->first_seq, "last_seq",
                     (json_int_t)verifying->chain.seq, "files", (json_int_t)walk->files, "problem", problem);
}

int audit_verify(const char *home, const struct audit_chain *known, atomic_bool *call_off, json_t **ret,
                 struct error *reterr) {
    char path[PATH_MAX];
    struct error found = {0};
    struct verifying verifying = {.known = known};
    struct audit_walk walk = {.call_off = call_off, .each = check_line, .data = &verifying};
    CLEANUP_FD int folder = audit_folder_open(home, path, reterr);
    if (folder < 0) return folder;
    verifying.has_head = audit_head_read(folder, &verifying.head); /* read first: records written meanwhile come after
                                                                      it */
    int result = audit_walk_all(&walk, folder, path, &found);
    if (result < 0 && found.code != E_FORMAT) {
        *reterr = found;
        return result;
    }
    bool is_in_line = result < 0;
    if (result == 0) result = check_start(&verifying, &found);
    if (result == 0) result = check_end(&verifying, &found);
    json_t *problem = result == 0 ? json_null()
                                  : json_pack("{s:s?, s:I, s:s}", "file", is_in_line ? walk.name : NULL, "line",
                                              (json_int_t)(is_in_line ? walk.line : 0), "detail", found.detail);
    *ret = verdict(&verifying, &walk, problem);
    return 0;
}
