#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guard/audit_internal.h"

enum { FILE_MAX_BYTES = 256 << 20 };

/* ---- going through the lines ---- */

/* One line without its end; a negative answer ends it. is_whole: the end was there. */
typedef int line_fn(void *data, const char *line, size_t size, bool is_whole, struct error *reterr);

struct walk {
    atomic_bool *call_off;
    line_fn *each;
    void *data;
    char name[AUDIT_NAME_BYTES]; /* of the present file */
    uint64_t line;               /* in it, from 1 */
    size_t files;
};

static int walk_lines(struct walk *walk, const char *text, size_t size, struct error *reterr) {
    const char *end = text + size;
    int result = 0;
    walk->line = 0;
    while (result == 0 && text && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((newline ? newline : end) - text);
        walk->line++;
        result = walk->each(walk->data, text, length, newline != NULL, reterr);
        text += length + 1;
    }
    return result;
}

static int walk_file(struct walk *walk, const char *folder, struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FREE uint8_t *text = NULL;
    size_t size = 0;
    if (atomic_load(walk->call_off)) return error_set(reterr, E_SHUTDOWN, "it was called off");
    int result = string_format(path, sizeof path, reterr, "%s/%s", folder, walk->name);
    if (result == 0) result = file_load(path, FILE_MAX_BYTES, &text, &size, reterr);
    return result < 0 ? result : walk_lines(walk, (const char *)text, size, reterr);
}

static int open_folder(const char *home, char path[PATH_MAX], struct error *reterr) {
    int result = string_format(path, PATH_MAX, reterr, "%s/" AUDIT_FOLDER, home);
    if (result < 0) return result;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(reterr, errno, "opening %s", path) : fd;
}

static int walk_all(struct walk *walk, int folder, const char *path, struct error *reterr) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    int result = audit_names_read(folder, &names, reterr);
    for (size_t i = 0; result == 0 && i < names.count; i++) {
        memcpy(walk->name, names.names[i], sizeof walk->name);
        walk->files++;
        result = walk_file(walk, path, reterr);
    }
    return result;
}

/* ---- reading ---- */

static bool text_matches(const char *wanted, json_t *record, const char *name) {
    return !wanted || string_equal(wanted, json_string_value(json_object_get(record, name)));
}

bool audit_matches(const struct audit_filter *filter, json_t *record) {
    json_t *uid = json_object_get(record, "uid");
    if ((uint64_t)json_integer_value(json_object_get(record, "seq")) <= filter->since) return false;
    if (filter->uid >= 0 && (!json_is_integer(uid) || json_integer_value(uid) != filter->uid)) return false;
    return text_matches(filter->op, record, "op") && text_matches(filter->sandbox_id, record, "sandbox_id") &&
           text_matches(filter->outcome, record, "outcome");
}

struct reading {
    const struct audit_filter *filter;
    json_t *records;
};

/* The newest are kept. Cut only now and then: it copies what stays. */
static int keep_newest(struct reading *reading, size_t limit, struct error *reterr) {
    size_t count = json_array_size(reading->records);
    json_t *newest = json_array();
    for (size_t i = count > limit ? count - limit : 0; newest && i < count; i++)
        json_array_append(newest, json_array_get(reading->records, i));
    if (!newest) return error_set(reterr, E_NO_MEMORY, "no memory for the audit trail");
    json_decref(reading->records);
    reading->records = newest;
    return 0;
}

/* What is no JSON is for verifying to tell. */
static int take_record(void *data, const char *line, size_t size, bool is_whole, struct error *reterr) {
    struct reading *reading = data;
    json_t *record = is_whole ? json_loadb(line, size, 0, NULL) : NULL;
    bool is_wanted = json_is_object(record) && audit_matches(reading->filter, record);
    if (is_wanted && json_array_append(reading->records, record) < 0) {
        json_decref(record);
        return error_set(reterr, E_NO_MEMORY, "no memory for the audit trail");
    }
    json_decref(record);
    size_t limit = reading->filter->limit;
    return json_array_size(reading->records) > 2 * limit + 1 ? keep_newest(reading, limit, reterr) : 0;
}

int audit_read(const char *home, const struct audit_filter *filter, atomic_bool *call_off, json_t **ret,
               struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FD int folder = open_folder(home, path, reterr);
    if (folder < 0) return folder;
    struct reading reading = {.filter = filter, .records = json_array()};
    struct walk walk = {.call_off = call_off, .each = take_record, .data = &reading};
    int result = walk_all(&walk, folder, path, reterr);
    if (result == 0) result = keep_newest(&reading, filter->limit, reterr);
    if (result < 0)
        json_decref(reading.records);
    else
        *ret = reading.records;
    return result;
}

/* ---- verifying ---- */

struct verifying {
    struct audit_chain chain, head;
    bool has_head;
    uint64_t records, first_seq;
    char first_before[AUDIT_HASH_BYTES]; /* what the first record says of the one before it */
    /* What the trail says is its first record, since older files went; 0: it says nothing. */
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
    if (!is_whole) return 0; /* it is being written, or missing: the head tells */
    int result = audit_line_read(line, size, &told, before, reterr);
    if (result == 0) result = check_follows(verifying, &told, before, reterr);
    if (result == 0 && verifying->has_head && told.seq == verifying->head.seq &&
        strcmp(told.hash, verifying->head.hash) != 0)
        result = error_set(reterr, E_FORMAT, "record %" PRIu64 " is not the one that was written last", told.seq);
    if (result < 0) return result;
    if (verifying->records++ == 0) {
        verifying->first_seq = told.seq;
        memcpy(verifying->first_before, before, sizeof before);
    }
    verifying->chain = told;
    note_dropped(verifying, line, size);
    return 0;
}

/* The trail begins with record 1, or where it says itself that it begins. */
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
    if (!verifying->has_head)
        return verifying->records == 0 ? 0
                                       : error_set(reterr, E_FORMAT, "the file that tells the last record is damaged");
    if (verifying->chain.seq >= verifying->head.seq) return 0;
    return error_set(reterr, E_FORMAT, "record %" PRIu64 " was written last, and the trail ends with %" PRIu64,
                     verifying->head.seq, verifying->chain.seq);
}

static json_t *verdict(const struct verifying *verifying, const struct walk *walk, json_t *problem) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:o}", "valid", json_is_null(problem), "records",
                     (json_int_t)verifying->records, "first_seq", (json_int_t)verifying->first_seq, "last_seq",
                     (json_int_t)verifying->chain.seq, "files", (json_int_t)walk->files, "problem", problem);
}

int audit_verify(const char *home, atomic_bool *call_off, json_t **ret, struct error *reterr) {
    char path[PATH_MAX];
    struct error found = {0};
    struct verifying verifying = {0};
    struct walk walk = {.call_off = call_off, .each = check_line, .data = &verifying};
    CLEANUP_FD int folder = open_folder(home, path, reterr);
    if (folder < 0) return folder;
    verifying.has_head = audit_head_read(folder, &verifying.head); /* first: what is written meanwhile comes after it */
    int result = walk_all(&walk, folder, path, &found);
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
