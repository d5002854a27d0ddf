/* audit: what was done, by whom, and how it ended, in files to which nothing but the next record is ever added. Each
   record is a line of JSON that holds the hash of the one before and its own, so that a change shows. */
#ifndef GUARD_AUDIT_H
#define GUARD_AUDIT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

enum {
    AUDIT_HASH_BYTES = 65, /* SHA-256 as hexadecimal text, with the terminator */
    AUDIT_LINE_MAX_BYTES = 16 << 10,
    AUDIT_FRAME_BYTES = 256,        /* more than all of a line but its members */
    AUDIT_LINE_TAIL_BYTES = 75,     /* of a line, its own hash and its name */
    AUDIT_RESERVE_BYTES = 64 << 10, /* room kept on the disk for how things ended, and for ending them */
    AUDIT_LIST_MAX = 100000,        /* records in one answer */
    AUDIT_PAGE_BYTES = 64 << 10,    /* of records that are read at once, and a line */
};

/* ---- chain.c: records and what joins them (pure) ---- */

/* The last record of a chain; number 0: there is none yet. */
struct audit_chain {
    uint64_t seq;
    char hash[AUDIT_HASH_BYTES];
};

void audit_chain_begin(struct audit_chain *chain);
/* The next record as a line with its end, behind what is in the buffer. members are JSON without the braces. */
int audit_chain_add(struct audit_chain *chain, const char *members, struct buf *line, struct error *reterr);
/* What a line, without its end, says of itself: its number and hash, and the hash before. Fails when it is not exactly
   as audit_chain_add wrote it. */
int audit_line_read(const char *line, size_t size, struct audit_chain *ret, char ret_before[AUDIT_HASH_BYTES],
                    struct error *reterr);

/* The same for a line that was just written, of which no more is to be checked. */
void audit_line_end(const char *line, struct audit_chain *ret);

/* ---- log.c: the files ---- */

struct audit_limits {
    uint64_t file_max_bytes; /* a file that is larger is followed by another */
    uint32_t files_kept;     /* the oldest go, and the trail says so */
};

extern const struct audit_limits audit_default_limits; /* 16 MiB, 64 */

struct audit_log {
    char folder_path[4096];
    int folder, fd, head;
    uint64_t size, reserved_end;
    struct audit_chain chain;
    struct audit_limits limits;
    uint64_t missed; /* records that found no room although what they tell has happened */
    /* What was there when it was opened. */
    bool had_head;
    uint64_t head_seq, files_seq; /* the last record by the head and by the files; 0: none */
};

/* Opens or creates $home/audit. What a killed daemon left unfinished is cut off, and a record says so. Blocking, like
   all of these. */
int audit_log_open(const char *home, const struct audit_limits *limits, struct audit_log *ret, struct error *reterr);
void audit_log_close(struct audit_log *log);
/* urgent: what it tells has happened or must be let happen, so the reserve may be used. Without room nothing is written
   and the error is E_DISK_FULL. *ret_line is the record, to be freed; without its end. */
int audit_log_add(struct audit_log *log, const char *members, bool urgent, char **ret_line, struct error *reterr);
/* Several records that were chained already, which make the chain what it is given as. False: nothing was written, be
   it that there may be no room, or that others are to be told of first. */
bool audit_log_add_chained(struct audit_log *log, const struct buf *lines, const struct audit_chain *chain);
/* How many bytes find place in the present file without the reserve, whatever others write to the disk meanwhile. */
size_t audit_log_room(const struct audit_log *log);
/* Notes which record is the last; after one or several were added. */
void audit_log_seal(struct audit_log *log);
void audit_log_sync(struct audit_log *log);

/* ---- read.c: reading and verifying them ---- */

struct audit_filter {
    uint64_t since;                        /* records after this number */
    size_t limit;                          /* the newest of those that match */
    const char *op, *sandbox_id, *outcome; /* NULL: any */
    int64_t uid;                           /* negative: any */
};

bool audit_matches(const struct audit_filter *filter, json_t *record);

/* Where a reader of the files is. */
struct audit_cursor {
    uint64_t next;         /* the number of the first record that is wanted */
    uint64_t file, offset; /* the file by its first record's number, or any number after the one before it */
    uint64_t seen;         /* the number of the last record that was looked at; 0: none */
    uint64_t skipped;      /* records that went with their files before they were looked at */
    bool is_at_end;        /* of what is there now */
};

/* Where the newest `limit` records begin that match. */
int audit_seek(const char *home, const struct audit_filter *filter, atomic_bool *call_off, struct audit_cursor *ret,
               struct error *reterr);
/* The next records that match as lines with their ends, behind what is in the buffer, until it has AUDIT_PAGE_BYTES or
   the trail ends. A cursor at the end may be used again when there is more. */
int audit_read_page(const char *home, const struct audit_filter *filter, atomic_bool *call_off,
                    struct audit_cursor *cursor, struct buf *lines, struct error *reterr);
/* {valid, records, first_seq, last_seq, files, problem}: problem is null or {file, line, detail}. `known` is a record
   that the caller knows to be in the files, since it wrote it; NULL: it knows of none, and of no service that wrote. */
int audit_verify(const char *home, const struct audit_chain *known, atomic_bool *call_off, json_t **ret,
                 struct error *reterr);

/* ---- audit.c: a thread that writes ---- */

struct audit;

/* On the loop's thread; error NULL: the record is in the files, or will be unless the disk fails: a kill or a full disk
   can't keep it from them. */
typedef void audit_done_fn(void *data, const struct error *error);
/* Every record once it is written, as a line without its end, on the loop's thread; borrowed. */
typedef void audit_record_fn(void *data, const char *line);

int audit_open(uv_loop_t *loop, const char *home, const struct audit_limits *limits, audit_record_fn *record,
               void *data, struct audit **ret, struct error *reterr);
/* After all that is queued is written and every callback was called. */
void audit_close(struct audit *audit, void (*closed)(void *data), void *data);
/* members is what stands between the braces of a JSON object. done may be NULL; it may be called from inside. */
void audit_add(struct audit *audit, const struct buf *members, bool urgent, audit_done_fn *done, void *data);
/* Once all that was added before is written. */
void audit_flush(struct audit *audit, audit_done_fn *done, void *data);
/* The last record that was written and told. */
const struct audit_chain *audit_last(const struct audit *audit);
/* What was wrong with the trail when it was opened; NULL: nothing that shows. has_run: a service has run in this home
   before, so that there must be a trail. */
const char *audit_damage(const struct audit *audit, bool has_run, char *ret, size_t size);

#endif
