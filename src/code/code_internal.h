/* Shared by the files of code. */
#ifndef CODE_CODE_INTERNAL_H
#define CODE_CODE_INTERNAL_H

#include <limits.h>

#include "code/code.h"

enum { CODE_FILE_MAX_BYTES = 64 << 20 }; /* of one file of a build */

/* ---- beams.c ---- */

int beam_path(const struct beam_store *beams, const char *name, char ret[PATH_MAX], struct error *reterr);

/* ---- answer_json.c: a node's terms as JSON; a term may be NULL ---- */

json_t *answer_text(const struct term *value);
json_t *answer_number(const struct term *value);
json_t *answer_flag(const struct term *value);
json_t *answer_module(const struct term *value);
json_t *answer_texts(const struct term *list);

struct answer_member {
    const char *name;
    json_t *(*read)(const struct term *value);
};

/* A list of maps becomes a list of objects with these members. The last member's name is NULL. */
json_t *answer_objects(const struct term *list, const struct answer_member *members, size_t max);

#endif
