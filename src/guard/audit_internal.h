/* Between the files of the audit trail. */
#ifndef GUARD_AUDIT_INTERNAL_H
#define GUARD_AUDIT_INTERNAL_H

#include <limits.h>

#include "guard/audit.h"

#define AUDIT_FOLDER "audit"
#define AUDIT_HEAD "head"   /* the last record's number and hash: the end of the trail can't go unnoticed either */
#define AUDIT_SLATE "slate" /* records that are not in the files yet */
#define AUDIT_SUFFIX ".jsonl"
#define AUDIT_DROPPED "dropped" /* a record that says which is the first one from now on */

enum {
    AUDIT_NAME_BYTES = 40,
    AUDIT_FILES_MAX = 4096,
    AUDIT_SLATE_BYTES = 64 << 10,
    AUDIT_HEAD_BYTES = 20 + 1 + AUDIT_HASH_BYTES - 1 + 1, /* "00000000000000000012 <hash>\n" */
};

/* The files of the trail, oldest first: each is named by its first record's number. */
struct audit_names {
    char (*names)[AUDIT_NAME_BYTES];
    size_t count;
};

int audit_names_read(int folder, struct audit_names *ret, struct error *reterr);
void audit_names_free(struct audit_names *names);
void audit_name_of(uint64_t seq, char ret[AUDIT_NAME_BYTES]);
uint64_t audit_name_seq(const char *name);

/* False when there is none, or none that is whole. */
bool audit_head_read(int folder, struct audit_chain *ret);
void audit_head_write(int fd, const struct audit_chain *chain);

/* ---- walk.c ---- */

/* One line without its end; a negative answer ends it. is_whole: the end was there. */
typedef int audit_line_fn(void *data, const char *line, size_t size, bool is_whole, struct error *reterr);

struct audit_walk {
    atomic_bool *call_off;
    audit_line_fn *each;
    void *data;
    char name[AUDIT_NAME_BYTES]; /* of the present file */
    uint64_t line;               /* in it, from 1 */
    size_t files;
};

int audit_folder_open(const char *home, char path[PATH_MAX], struct error *reterr);     /* the descriptor */
int audit_walk_file(struct audit_walk *walk, const char *folder, struct error *reterr); /* the one that is named */
int audit_walk_all(struct audit_walk *walk, int folder, const char *path, struct error *reterr);

/* ---- slate.c: what a killed daemon doesn't lose although it is not in the files yet ---- */

struct audit_slate {
    struct audit_slate_page *page; /* NULL: this file system has none, and everything is written to the files at once */
};

/* What a killed daemon left goes to the files, unless it is there. False: not all of it could. */
bool audit_slate_carry_over(struct audit_log *log);
/* A new one in place of the old. */
void audit_slate_open(const struct audit_log *log, struct audit_slate *ret);
void audit_slate_close(struct audit_slate *slate);
/* False: there is no room. */
bool audit_slate_add(struct audit_slate *slate, const char *members);
/* All that was added is in the files, of which this is the last record. */
void audit_slate_wipe(struct audit_slate *slate, uint64_t seq);

#endif
