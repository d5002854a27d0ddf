/* Shared by the files of code. */
#ifndef CODE_CODE_INTERNAL_H
#define CODE_CODE_INTERNAL_H

#include <limits.h>

#include "code/code.h"

enum { CODE_FILE_MAX_BYTES = 64 << 20 }; /* of one file of a build */

/* ---- beams.c ---- */

int beam_path(const char *home, const char *name, char ret[PATH_MAX], struct error *reterr);

/* ---- told.c: a node's terms as JSON; a term may be NULL ---- */

json_t *told_text(const struct term *value);
json_t *told_number(const struct term *value);
json_t *told_flag(const struct term *value);
json_t *told_module(const struct term *value);
json_t *told_texts(const struct term *list);

struct told_member {
    const char *name;
    json_t *(*read)(const struct term *value);
};

/* A list of maps becomes a list of objects with these members. The last member's name is NULL. */
json_t *told_objects(const struct term *list, const struct told_member *members, size_t max);

#endif
