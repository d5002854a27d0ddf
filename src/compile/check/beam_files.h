/* BEAM files of a caller's: a single one, or all in a folder and below it. */
#ifndef COMPILE_CHECK_BEAM_FILES_H
#define COMPILE_CHECK_BEAM_FILES_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"

enum {
    BEAM_FILES_MAX = 20000,
    BEAM_FILES_ENTRIES_MAX = 200000, /* looked at to find them */
    BEAM_FILE_MAX_BYTES = 64 << 20,
    BEAM_FILES_TOTAL_MAX_BYTES = 1 << 30,
};

struct beam_source {
    int fd;                /* a folder, or the launcher's stream of files */
    bool is_stream;        /* then a folder is unpacked in scratch first, and that removed again */
    const char *scratch;   /* as store_scratch */
    const char *path;      /* the user's own: of the folder, or of the single file when is_file */
    bool is_file;          /* the folder holds just this file */
    atomic_bool *call_off; /* becomes true when the caller is gone */
    /* Which other files are wanted, by their paths below the folder, and there may be none; NULL: BEAM files. */
    bool (*wants)(const char *path);
    bool (*enters)(const char *name); /* a folder to look into; NULL: all */
};

struct beam_files {
    const struct beam_source *source;
    int folder;
    char **paths; /* below the folder, in their order */
    size_t count;
    atomic_size_t total_bytes;
    struct buf single;       /* the content, when a single file came as a stream */
    char unpacked[PATH_MAX]; /* our own copy of a folder that came so; "" for none */
};

/* Find them; links are not followed. E_INVALID when there is none. beam_files_close follows, also after a failure.
   Blocking, like all of these; for the thread pool. */
int beam_files_open(const struct beam_source *source, struct beam_files *ret, struct error *reterr);
void beam_files_close(struct beam_files *files);

/* Of many threads at once, once each: the path as the user would write it, and what is in it. */
enum { BEAM_FILE_NAME_BYTES = 2 * PATH_MAX };
void beam_files_name(const struct beam_files *files, size_t index, char ret[BEAM_FILE_NAME_BYTES]);
int beam_files_read(struct beam_files *files, size_t index, struct buf *content, struct error *reterr);
/* So much was read, of all that may be; fails also once it was called off. */
int beam_files_count(struct beam_files *files, size_t bytes, struct error *reterr);

#endif
