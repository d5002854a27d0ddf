/* Any bytes at all: what decodes must print, become JSON, and come back the same after being written again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "terms.h"

enum { TEXT_MAX_BYTES = 4096 };

static const struct term_bounds bounds = {.max_bytes = 1 << 16, .max_terms = 1 << 14, .max_depth = 64};

static void check(bool holds) {
    if (!holds) abort();
}

static void print_in(const struct term *term, enum term_language language) {
    struct buf text = BUF_INIT;
    term_print(&text, term, language, TEXT_MAX_BYTES);
    check(!text.failed && text.size > 0 && text.size <= TEXT_MAX_BYTES + strlen("…"));
    check(utf8_valid(text.data, text.size));
    buf_free(&text);
}

static void convert_to_json_and_back(const struct term *term) {
    struct buf written = BUF_INIT;
    struct term_doc *doc = NULL;
    bool natural;
    json_t *json = term_to_json(term, &natural);
    check(json != NULL);
    term_put_version(&written);
    term_put_json(&written, json);
    check(!written.failed);
    check(term_decode(written.data, written.size, &term_default_bounds, &doc, NULL) == 0);
    term_free(doc);
    buf_free(&written);
    json_decref(json);
}

static void write_and_read(const struct term *term) {
    struct buf first = BUF_INIT, second = BUF_INIT;
    struct term_doc *doc = NULL;
    term_put_version(&first);
    check(term_put(&first, term, NULL) == 0);
    check(term_decode(first.data, first.size, &term_default_bounds, &doc, NULL) == 0);
    check(term_equal(term, term_root(doc)));
    term_put_version(&second);
    check(term_put(&second, term_root(doc), NULL) == 0);
    check(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    term_free(doc);
    buf_free(&first);
    buf_free(&second);
}

static void copy_string(const struct term *term) {
    char *string = NULL;
    if (term_to_string(term, &string)) free(string);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct error error = {0};
    struct term_doc *doc = NULL;
    if (term_decode(data, size, &bounds, &doc, &error) < 0) {
        check(doc == NULL && error.detail[0] != '\0');
        check(error.code == E_FORMAT || error.code == E_TOO_LARGE || error.code == E_TOO_NEW);
        return;
    }
    print_in(term_root(doc), TERM_ERLANG);
    print_in(term_root(doc), TERM_ELIXIR);
    convert_to_json_and_back(term_root(doc));
    write_and_read(term_root(doc));
    copy_string(term_root(doc));
    term_free(doc);
}
