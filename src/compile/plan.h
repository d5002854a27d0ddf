/* plan: which files must be compiled. Pure: from what was compiled, what the project holds now, and nothing else.

   A file is compiled again when it changed itself, or how it is compiled; when a file changed that it read; when the
   interface of a module changed that it was compiled against; and when a module whose code ran in its compilation
   changed, or any that such a module depends on. What is known after one round may make more files stale: rounds go on
   until none is. */
#ifndef COMPILE_PLAN_H
#define COMPILE_PLAN_H

#include "compile/cache/manifest.h"

struct plan {
    struct manifest *manifest;
    const struct tree *tree;      /* what the project holds now */
    uint8_t config[DIGEST_BYTES]; /* of its configuration */
    struct map modules;           /* by name: where each is, a struct place */
    struct place *places;
    struct map headers; /* by name without folder: how many there are, as a number */
    unsigned mark;
};

struct place {
    struct record *record;
    const struct compiled_module *module;
};

/* Find out anew where each module is and which records depend on which; after every change of the manifest's records.
 */
bool plan_link(struct plan *plan); /* false without memory */
void plan_free(struct plan *plan);

/* The digest of all that the record is, or would be, compiled from, as things are now. */
void plan_inputs(struct plan *plan, const struct record *record, uint8_t ret[DIGEST_BYTES]);

/* One application's records that are stale. Returns how many pointers were put into ret, which has room for all. */
size_t plan_stale(struct plan *plan, const char *app, struct record **ret);
/* Of these, those to compile next, which wait for no other of them; how many: they are in front now. */
size_t plan_ready(struct plan *plan, struct record **stale, size_t count);

#endif
