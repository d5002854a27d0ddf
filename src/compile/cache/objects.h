/* objects: what single files compiled to, kept for later compilations of the same file from the same inputs.

   An entry is found by a digest of the project's scope, the file, its content and how it is compiled; in it are the
   outcomes of the last few such compilations, each with the digest of everything else that went into it. The scope
   names whose project it is and which folder: what one project's macros made never reaches another. */
#ifndef COMPILE_CACHE_OBJECTS_H
#define COMPILE_CACHE_OBJECTS_H

#include <limits.h>

#include "compile/plan.h"

struct objects {
    const char *home; /* borrowed */
    char folder[PATH_MAX];
    uint64_t max_bytes;
    _Atomic uint64_t written_bytes; /* since the last sweep */
};

int objects_open(struct objects *objects, const char *home, uint64_t max_bytes, struct error *reterr);

/* All blocking, for the thread pool; several threads may call them at once. */

/* Whether the record's output was found, and is now the record's. */
bool objects_find(struct objects *objects, const char *scope, struct plan *plan, struct record *record);
/* Keep the record's output. Best effort: without it, the file is just compiled again. */
void objects_keep(struct objects *objects, const char *scope, const struct record *record);
/* Once enough was written: forget what was not used for the longest time, until the rest fits. */
void objects_sweep(struct objects *objects);

#endif
