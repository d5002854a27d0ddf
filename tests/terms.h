/* Terms for tests: bounds that are wide enough, JSON as terms, and whether two terms are the same. */
#ifndef TESTS_TERMS_H
#define TESTS_TERMS_H

#include "term/term_internal.h"

static const struct term_bounds term_default_bounds = {.max_bytes = 64 << 20, .max_terms = 4 << 20, .max_depth = 512};

/* As =:= says, of any two decoded terms. */
static inline bool term_equal(const struct term *a, const struct term *b) {
    return term_compare(a, b) == 0;
}

/* Strings become binaries, objects maps with binary keys, null the atom nil. */
static inline void term_put_json(struct buf *buf, const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        term_put_map(buf, json_object_size(json));
        for (void *at = json_object_iter((json_t *)json); at; at = json_object_iter_next((json_t *)json, at)) {
            term_put_binary(buf, json_object_iter_key(at), json_object_iter_key_len(at));
            term_put_json(buf, json_object_iter_value(at));
        }
        break;
    case JSON_ARRAY:
        term_put_list(buf, json_array_size(json));
        for (size_t i = 0; i < json_array_size(json); i++) term_put_json(buf, json_array_get(json, i));
        if (json_array_size(json) > 0) term_put_nil(buf);
        break;
    case JSON_STRING: term_put_binary(buf, json_string_value(json), json_string_length(json)); break;
    case JSON_INTEGER: term_put_integer(buf, json_integer_value(json)); break;
    case JSON_REAL: term_put_float(buf, json_real_value(json)); break;
    case JSON_TRUE: term_put_bool(buf, true); break;
    case JSON_FALSE: term_put_bool(buf, false); break;
    case JSON_NULL: term_put_atom(buf, "nil"); break;
    }
}

#endif
