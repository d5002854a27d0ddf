/* Any bytes as the files of the audit trail: verifying and reading them ends with a verdict, and a log that is opened
   on them goes on. A trail that is whole stays so.

   The input: two files, the head and the write-ahead buffer, each ended by a byte 0x1e. In the first three a line that
   begins with + is made a whole record, or the head of those, since no mutation finds a hash. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/audit_internal.h"
#include "fuzz/harness/fuzz.h"
#include "fuzz/harness/place.h"

enum { PARTS = 4, SEPARATOR = 0x1e, PAGES_MAX = 1000, LINES_MAX = 512 };

struct part {
    const uint8_t *data;
    size_t size;
};

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_audit: %s\n", what);
    abort();
}

static void split(const uint8_t *data, size_t size, struct part ret[PARTS]) {
    for (size_t i = 0; i < PARTS; i++) {
        const uint8_t *end = i + 1 < PARTS && size ? memchr(data, SEPARATOR, size) : NULL;
        ret[i] = (struct part){data, end ? (size_t)(end - data) : size};
        data += ret[i].size + (end != NULL);
        size -= ret[i].size + (end != NULL);
    }
}

static void add_line(const uint8_t *line, size_t size, bool is_whole, struct audit_chain *chain, struct buf *to) {
    CLEANUP_FREE char *members = size > 1 && line[0] == '+' ? strndup((const char *)line + 1, size - 1) : NULL;
    if (members && members[0] && audit_chain_add(chain, members, to, NULL) == 0) return;
    buf_append(to, line, size);
    if (is_whole) buf_append_byte(to, '\n');
}

static void write_file(const char *name, struct part part, struct audit_chain *chain) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int lines = 0; part.size > 0 && lines < LINES_MAX; lines++) {
        const uint8_t *end = memchr(part.data, '\n', part.size);
        size_t length = end ? (size_t)(end - part.data) : part.size;
        add_line(part.data, length, end != NULL, chain, &text);
        part.data += length + (end != NULL);
        part.size -= length + (end != NULL);
    }
    check(!text.failed, "memory");
    place_write(name, text.data, text.size);
}

static void write_head(struct part part, const struct audit_chain *chain) {
    char text[AUDIT_HEAD_BYTES + 1];
    snprintf(text, sizeof text, "%020llu %s\n", (unsigned long long)chain->seq, chain->hash);
    if (part.size > 0 && part.data[0] == '+')
        place_write("audit/head", text, AUDIT_HEAD_BYTES);
    else
        place_write("audit/head", part.data, part.size);
}

static bool verify(void) {
    atomic_bool call_off = false;
    json_t *verdict = NULL;
    struct error error = {0};
    if (audit_verify(place_path(), NULL, &call_off, &verdict, &error) < 0) return false;
    check(verdict != NULL, "no verdict");
    bool is_valid = json_is_true(json_object_get(verdict, "valid"));
    check(is_valid == json_is_null(json_object_get(verdict, "problem")), "a verdict that contradicts itself");
    json_decref(verdict);
    return is_valid;
}

/* Page by page, as a reader takes it. Where numbers repeat, the trail is damaged and a number stands for several. */
static void read_back(size_t limit, bool is_valid) {
    atomic_bool call_off = false;
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    struct audit_filter filter = {.limit = limit, .uid = -1};
    struct audit_cursor cursor = {0};
    size_t count = 0, pages = 0;
    check(audit_seek(place_path(), &filter, &call_off, &cursor, NULL) == 0, "it can't be looked through");
    while (!cursor.is_at_end) {
        check(++pages <= PAGES_MAX, "pages without end");
        check(audit_read_page(place_path(), &filter, &call_off, &cursor, &lines, NULL) == 0, "it can't be read");
        for (size_t at = 0; at < lines.size; at++) count += lines.data[at] == '\n';
        buf_clear(&lines);
    }
    check(count <= limit || !is_valid, "more records than asked for");
}

/* As a daemon does that starts. */
static void go_on(bool was_valid) {
    struct audit_log log;
    struct audit_limits limits = {.file_max_bytes = 64 << 10, .files_kept = 2};
    check(audit_log_open(place_path(), &limits, &log, NULL) == 0, "the log does not open");
    audit_write_ahead_carry_over(&log);
    for (int i = 0; i < 3; i++)
        check(audit_log_add(&log, "\"op\":\"fuzz\"", false, NULL, NULL) == 0, "nothing is added");
    audit_log_seal(&log);
    audit_log_close(&log);
    bool is_valid = verify();
    check(is_valid || !was_valid, "a trail that was whole is not any more");
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct part parts[PARTS];
    struct audit_chain chain;
    char folder[64];
    place_remove("audit");
    snprintf(folder, sizeof folder, "%s/audit", place_path());
    check(mkdir(folder, 0700) == 0, "mkdir");
    split(data, size, parts);
    audit_chain_begin(&chain);
    write_file("audit/00000000000000000001.jsonl", parts[0], &chain);
    if (parts[1].size) write_file("audit/00000000000000000003.jsonl", parts[1], &chain);
    if (parts[2].size) write_head(parts[2], &chain);
    if (parts[3].size) place_write("audit/write-ahead", parts[3].data, parts[3].size);
    bool was_valid = verify();
    read_back(1, was_valid);
    read_back(100, was_valid);
    go_on(was_valid);
}
