/* Reads the audit trail page by page: it finds where the newest wanted records begin, then returns them as the reader
   takes them. Runs on the thread pool. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit_internal.h"

enum { CHUNK_BYTES = 256 << 10 }; /* read of a file for one page; more than several of the longest lines */

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

/* The number of a wanted record; 0: it is not wanted or not JSON, which audit_verify reports. */
static uint64_t wanted_seq(const struct audit_filter *filter, const char *line, size_t size, uint64_t *ret_seq) {
    json_t *record = json_loadb(line, size, 0, NULL);
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    bool is_wanted = json_is_object(record) && audit_matches(filter, record);
    json_decref(record);
    if (seq > 0) *ret_seq = seq;
    return is_wanted ? seq : 0;
}

/* ---- finding the beginning ---- */

/* The numbers of the wanted records of one file, in order. */
struct wanted {
    const struct audit_filter *filter;
    struct buf seqs; /* of uint64_t */
};

static int note_wanted(void *data, const char *line, size_t size, bool is_whole, struct error *reterr) {
    struct wanted *wanted = data;
    uint64_t any = 0, seq = is_whole ? wanted_seq(wanted->filter, line, size, &any) : 0;
    if (seq > 0) buf_append(&wanted->seqs, &seq, sizeof seq);
    return wanted->seqs.failed ? error_set(reterr, E_NO_MEMORY, "no memory for the audit trail") : 0;
}

/* Begins with the newest file, since most readers want its records. */
static int seek(struct audit_walk *walk, const struct audit_names *names, const char *path, struct audit_cursor *cursor,
                struct error *reterr) {
    struct wanted *wanted = walk->data;
    size_t missing = wanted->filter->limit;
    int result = 0;
    for (size_t i = names->count; result == 0 && i > 0 && missing > 0; i--) {
        buf_clear(&wanted->seqs);
        memcpy(walk->name, names->names[i - 1], sizeof walk->name);
        result = audit_walk_file(walk, path, reterr);
        if (result == -E_NOT_FOUND) result = 0; /* rotation removed the file meanwhile */
        size_t count = wanted->seqs.size / sizeof(uint64_t);
        size_t taken = count < missing ? count : missing;
        cursor->file = audit_name_seq(walk->name);
        if (taken > 0)
            memcpy(&cursor->next, wanted->seqs.data + (count - taken) * sizeof(uint64_t), sizeof cursor->next);
        missing -= taken;
        if (audit_name_seq(walk->name) <= wanted->filter->since) break; /* no earlier record is wanted */
    }
    return result;
}

int audit_seek(const char *home, const struct audit_filter *filter, atomic_bool *call_off, struct audit_cursor *ret,
               struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP(audit_names_free) struct audit_names names = {0};
    CLEANUP_FD int folder = audit_folder_open(home, path, reterr);
    if (folder < 0) return folder;
    struct wanted wanted = {.filter = filter, .seqs = BUF_INIT};
    struct audit_walk walk = {.call_off = call_off, .each = note_wanted, .data = &wanted};
    struct audit_cursor cursor = {.next = filter->since + 1};
    int result = audit_names_read(folder, &names, reterr);
    if (result == 0) result = seek(&walk, &names, path, &cursor, reterr);
    buf_free(&wanted.seqs);
    if (result == 0) *ret = cursor;
    return result;
}

/* ---- reading pages ---- */

/* Opens the file of the cursor, or the first one after it. Fails with E_NOT_FOUND if there is none. */
static int open_current(int folder, struct audit_cursor *cursor, bool *ret_is_last, struct error *reterr) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    int result = audit_names_read(folder, &names, reterr);
    if (result < 0) return result;
    size_t at = 0;
    while (at < names.count && audit_name_seq(names.names[at]) < cursor->file) at++;
    *ret_is_last = at + 1 >= names.count;
    if (at == names.count) return error_set(reterr, E_NOT_FOUND, "there is no more");
    uint64_t first = audit_name_seq(names.names[at]);
    if (first != cursor->file) {
        /* Rotation removed files that were not read yet. */
        if (cursor->seen > 0 && first > cursor->seen + 1) cursor->skipped += first - cursor->seen - 1;
        cursor->file = first;
        cursor->offset = 0;
    }
    int fd = openat(folder, names.names[at], O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd < 0 ? error_errno(reterr, errno, "opening %s", names.names[at]) : fd;
}

static void take_lines(const struct audit_filter *filter, struct audit_cursor *cursor, const char *text, size_t size,
                       struct buf *lines) {
    const char *newline;
    while (size > 0 && lines->size < AUDIT_PAGE_BYTES && (newline = memchr(text, '\n', size))) {
        size_t length = (size_t)(newline - text);
        uint64_t seq = wanted_seq(filter, text, length, &cursor->seen);
        if (seq >= cursor->next) buf_append(lines, text, length + 1);
        cursor->offset += length + 1;
        text = newline + 1;
        size -= length + 1;
    }
}

/* Returns 1 if anything was read. 0: the file ends here, or with a line that is being written. */
static int read_chunk(int fd, const struct audit_filter *filter, struct audit_cursor *cursor, struct buf *lines,
                      struct error *reterr) {
    CLEANUP_FREE char *chunk = malloc(CHUNK_BYTES);
    if (!chunk) return error_set(reterr, E_NO_MEMORY, "no memory for the audit trail");
    ssize_t size = pread(fd, chunk, CHUNK_BYTES, (off_t)cursor->offset);
    if (size < 0) return error_errno(reterr, errno, "reading the audit trail");
    uint64_t before = cursor->offset;
    take_lines(filter, cursor, chunk, (size_t)size, lines);
    if (lines->failed) return error_set(reterr, E_NO_MEMORY, "no memory for the audit trail");
    if (cursor->offset == before && size == CHUNK_BYTES) cursor->offset += CHUNK_BYTES; /* no line of ours is so long */
    return cursor->offset > before;
}

int audit_read_page(const char *home, const struct audit_filter *filter, atomic_bool *call_off,
                    struct audit_cursor *cursor, struct buf *lines, struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FD int folder = audit_folder_open(home, path, reterr);
    if (folder < 0) return folder;
    cursor->is_at_end = false;
    while (!cursor->is_at_end && lines->size < AUDIT_PAGE_BYTES) {
        bool is_last = true;
        if (atomic_load(call_off)) return error_set(reterr, E_SHUTDOWN, "it was called off");
        CLEANUP_FD int fd = open_current(folder, cursor, &is_last, reterr);
        if (fd < 0 && !(fd == -E_NOT_FOUND)) return fd;
        int result = fd < 0 ? 0 : read_chunk(fd, filter, cursor, lines, reterr);
        if (result < 0) return result;
        if (result == 0 && (is_last || cursor->file == UINT64_MAX)) {
            cursor->is_at_end = true;
        } else if (result == 0) {
            cursor->file++; /* the next file, whatever its name */
            cursor->offset = 0;
        }
    }
    return 0;
}
