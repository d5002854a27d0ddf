/* What a node says, written as JSON with texts for binaries. */
#ifndef TEST_SAID_H
#define TEST_SAID_H

#include "terms.h"

static inline struct term_doc *say(const char *json) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    struct term_doc *doc = NULL;
    json_t *value = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    term_put_version(&bytes);
    term_put_json(&bytes, value);
    json_decref(value);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    return doc;
}

#endif
