/* audit: the trail of operations, with their callers and outcomes. Records are only ever appended to its files. Each is
   a line of JSON with the hash of the record before and its own, so that a change shows. */
#ifndef AUDIT_H
#define AUDIT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

enum {
    AUDIT_HASH_BYTES = 65, /* SHA-256 as hexadecimal text, with the terminator */
    AUDIT_LINE_MAX_BYTES = 16 << 10,
    AUDIT_FRAME_BYTES = 256,        /* more than a line has besides its members */
    AUDIT_LINE_TAIL_BYTES = 75,     /* the hash at a line's end, with its name */
    AUDIT_RESERVE_BYTES = 64 << 10, /* disk space kept for outcomes, and for operations that end something */
    AUDIT_LIST_MAX = 100000,        /* records in one answer */
    AUDIT_PAGE_BYTES = 64 << 10,    /* of records that one read returns, besides its last line */
};

/* ---- audit_chain.c: records and the hashes that link them (pure) ---- */

/* The last record of a chain; seq 0 means that there is none yet. */
struct audit_chain {
    uint64_t seq;
    char hash[AUDIT_HASH_BYTES];
};

void audit_chain_begin(struct audit_chain *chain);
/* Appends the next record to the buffer, as a line with its newline. members is JSON without the braces. */
int audit_chain_add(struct audit_chain *chain, const char *members, struct buf *line, struct error *reterr);
/* Reads a line without its newline: its number and hash, and the hash of the record before. Fails unless the line is
   exactly as audit_chain_add wrote it. */
int audit_line_read(const char *line, size_t size, struct audit_chain *ret, char ret_before[AUDIT_HASH_BYTES],
                    struct error *reterr);

/* The same for a line that was just written, without checks. */
void audit_line_end(const char *line, struct audit_chain *ret);

/* ---- audit_log.c: the files ---- */

struct audit_limits {
    uint64_t file_max_bytes; /* a larger file is followed by another */
    uint32_t files_kept;     /* older files are removed, and a record says so */
};

extern const struct audit_limits audit_default_limits; /* 16 MiB, 64 */

struct audit_log {
    char folder_path[4096];
    int folder, fd, head;
    uint64_t size, reserved_end;
    struct audit_chain chain;
    struct audit_limits limits;
    uint64_t missed; /* records of things that happened for which there was no room */
    /* The state when the log was opened. */
    bool had_head;
    uint64_t head_seq, files_seq; /* the last record in the head and in the files; 0: none */
};

/* Opens or creates $home/audit. An unfinished line of a killed daemon is cut off, and a record says so. All functions
   of this file block. */
int audit_log_open(const char *home, const struct audit_limits *limits, struct audit_log *ret, struct error *reterr);
void audit_log_close(struct audit_log *log);
/* urgent: the operation has happened or must not be prevented, so the reserve may be used. Without room nothing is
   written and the error is E_DISK_FULL. *ret_line is the record without its newline; the caller frees it. */
int audit_log_add(struct audit_log *log, const char *members, bool urgent, char **ret_line, struct error *reterr);
/* Writes several records that are chained already, and makes `chain` the log's. False: nothing was written, because
   there may be no room or because missed records have to be reported first. */
bool audit_log_add_chained(struct audit_log *log, const struct buf *lines, const struct audit_chain *chain);
/* How many bytes fit into the present file without the reserve, whatever else is written to the disk meanwhile. */
size_t audit_log_room(const struct audit_log *log);
/* Writes the number of the last record to the head. Call it after adding one or several. */
void audit_log_seal(struct audit_log *log);
void audit_log_sync(struct audit_log *log);

/* ---- audit_read.c, audit_verify.c: reading and verifying ---- */

struct audit_filter {
    uint64_t since;                        /* records after this number */
    size_t limit;                          /* the newest of those that match */
    const char *op, *sandbox_id, *outcome; /* NULL: any */
    int64_t uid;                           /* negative: any */
};

bool audit_matches(const struct audit_filter *filter, json_t *record);

/* The position of a reader in the files. */
struct audit_cursor {
    uint64_t next;         /* the number of the first wanted record */
    uint64_t file, offset; /* the file by its first record's number, or any number above the file before it */
    uint64_t seen;         /* the number of the last record that was read; 0: none */
    uint64_t skipped;      /* records that were removed with their files before they were read */
    bool is_at_end;        /* of the files as they are now */
};

/* Finds the position of the newest `limit` records that match. */
int audit_seek(const char *home, const struct audit_filter *filter, atomic_bool *call_off, struct audit_cursor *ret,
               struct error *reterr);
/* Appends the next matching records to the buffer, as lines with their newlines, until it has AUDIT_PAGE_BYTES or the
   trail ends. A cursor at the end can be used again when there are more records. */
int audit_read_page(const char *home, const struct audit_filter *filter, atomic_bool *call_off,
                    struct audit_cursor *cursor, struct buf *lines, struct error *reterr);
/* Returns {valid, records, first_seq, last_seq, files, problem}; problem is null or {file, line, detail}. `known` is a
   record that the caller has written itself, so it must be in the files; NULL if the caller knows of none. */
int audit_verify(const char *home, const struct audit_chain *known, atomic_bool *call_off, json_t **ret,
                 struct error *reterr);

/* ---- audit_writer.c: adding records without blocking the loop ---- */

struct audit;

/* Runs on the loop's thread. error is NULL if the record is in the files, or will be unless the disk fails: neither a
   kill nor a full disk can prevent it. */
typedef void audit_done_fn(void *data, const struct error *error);
/* Gets every record after it was written, as a line without its newline, on the loop's thread. The line is borrowed. */
typedef void audit_record_fn(void *data, const char *line);

int audit_open(uv_loop_t *loop, const char *home, const struct audit_limits *limits, audit_record_fn *record,
               void *data, struct audit **ret, struct error *reterr);
/* Calls `closed` after everything queued is written and every callback was called. */
void audit_close(struct audit *audit, void (*closed)(void *data), void *data);
/* members is JSON without the braces. done may be NULL, and may be called before this returns. */
void audit_add(struct audit *audit, const struct buf *members, bool urgent, audit_done_fn *done, void *data);
/* Calls `done` once everything added before is written. */
void audit_flush(struct audit *audit, audit_done_fn *done, void *data);
/* The last record that was written and passed to the record callback. */
const struct audit_chain *audit_last(const struct audit *audit);
/* Describes damage that was found when the trail was opened; NULL: none was found. has_run: a service has run in this
   home before, so a trail must exist. */
const char *audit_damage(const struct audit *audit, bool has_run, char *ret, size_t size);

#endif
