/* Shared by the files of the audit module. */
#ifndef AUDIT_INTERNAL_H
#define AUDIT_INTERNAL_H

#include <limits.h>

#include "audit/audit.h"

#define AUDIT_FOLDER "audit"
#define AUDIT_HEAD "head" /* the last record's number and hash, so that a removed end of the trail is noticed */
#define AUDIT_WRITE_AHEAD "write-ahead" /* records that are not in the files yet */
#define AUDIT_SUFFIX ".jsonl"
#define AUDIT_DROPPED "dropped" /* a record that names the first remaining record */

enum {
    AUDIT_NAME_BYTES = 40,
    AUDIT_FILES_MAX = 4096,
    AUDIT_WRITE_AHEAD_BYTES = 64 << 10,
    AUDIT_HEAD_BYTES = 20 + 1 + AUDIT_HASH_BYTES - 1 + 1, /* "00000000000000000012 <hash>\n" */
};

/* The files of the trail, oldest first. Each is named by its first record's number. */
struct audit_names {
    char (*names)[AUDIT_NAME_BYTES];
    size_t count;
};

int audit_names_read(int folder, struct audit_names *ret, struct error *reterr);
void audit_names_free(struct audit_names *names);
void audit_name_of(uint64_t seq, char ret[AUDIT_NAME_BYTES]);
uint64_t audit_name_seq(const char *name);

/* False if there is no head, or no valid one. */
bool audit_head_read(int folder, struct audit_chain *ret);
void audit_head_write(int fd, const struct audit_chain *chain);

/* ---- audit_walk.c ---- */

/* Gets one line without its newline. A negative result stops the walk. is_whole: the newline was there. */
typedef int audit_line_fn(void *data, const char *line, size_t size, bool is_whole, struct error *reterr);

struct audit_walk {
    atomic_bool *call_off;
    audit_line_fn *each;
    void *data;
    char name[AUDIT_NAME_BYTES]; /* of the present file */
    uint64_t line;               /* in it, from 1 */
    size_t files;
};

int audit_folder_open(const char *home, char path[PATH_MAX], struct error *reterr);     /* returns a descriptor */
int audit_walk_file(struct audit_walk *walk, const char *folder, struct error *reterr); /* walk->name */
int audit_walk_all(struct audit_walk *walk, int folder, const char *path, struct error *reterr);

/* ---- audit_write_ahead.c: records that survive a kill of the daemon before they are in the files ---- */

struct audit_write_ahead {
    struct audit_write_ahead_page *page; /* NULL: the file system is not suitable, and each record is written to the
                                            files at once */
};

/* Adds the records of a killed daemon to the files, unless they are there. False: not all could be added. */
bool audit_write_ahead_carry_over(struct audit_log *log);
/* Makes a new buffer in place of the old one. */
void audit_write_ahead_open(const struct audit_log *log, struct audit_write_ahead *ret);
void audit_write_ahead_close(struct audit_write_ahead *ahead);
/* False: there is no room. */
bool audit_write_ahead_add(struct audit_write_ahead *ahead, const char *members);
/* Empties the buffer: all its records are in the files, and seq is the last of them. */
void audit_write_ahead_clear(struct audit_write_ahead *ahead, uint64_t seq);

#endif
