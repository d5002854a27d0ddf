/* Chunks that are one term each. */
#include "beam/beam_internal.h"

enum { VERSION_BYTE = 131, UNLOADED_FACTOR = 4 }; /* debug info of a large module has millions of terms */

static int decode(const struct beam *beam, enum chunk_kind kind, struct term_doc **ret, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    struct term_bounds bounds = {
        .max_bytes = beam->options.max_bytes, .max_terms = beam->options.max_terms, .max_depth = TERM_MAX_DEPTH};
    int result = term_decode(chunk->data, chunk->size, &bounds, ret, reterr);
    return result < 0 ? error_prefix(reterr, "chunk %s", chunk_forms[kind].tag) : 0;
}

static bool is_keyword_list(const struct term *term) {
    if (term->type == TERM_NIL) return true;
    if (term->type != TERM_LIST || term->items.tail->type != TERM_NIL) return false;
    for (size_t i = 0; i < term->items.count; i++) {
        const struct term *pair = &term->items.elements[i];
        if (!term_is_tuple(pair, 2) || pair->items.elements[0].type != TERM_ATOM) return false;
    }
    return true;
}

/* A keyword list, as all those are that the loader hands out. An empty chunk is what stripping may leave. */
static int read_keywords(const struct beam *beam, enum chunk_kind kind, struct term_doc **ret, struct error *reterr) {
    CLEANUP_TERM struct term_doc *doc = NULL;
    if (beam->chunks[kind].size == 0) return 0;
    int result = decode(beam, kind, &doc, reterr);
    if (result < 0) return result;
    if (!is_keyword_list(term_root(doc)))
        return error_set(reterr, E_FORMAT, "chunk %s: not a list of pairs", chunk_forms[kind].tag);
    if (ret) *ret = take_ptr(doc);
    return 0;
}

/* No loader reads these, and inflating all debug info would take longer than everything else. Their first byte tells
   that they are terms; the rest is looked at on demand. */
static int check_unloaded(const struct beam *beam, enum chunk_kind kind, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    if (chunk->size == 0) return 0;
    if (chunk->data[0] != VERSION_BYTE)
        return error_set(reterr, E_FORMAT, "chunk %s, byte 0: not a term", chunk_forms[kind].tag);
    CLEANUP_TERM struct term_doc *doc = NULL;
    return beam->options.check_unloaded ? decode(beam, kind, &doc, reterr) : 0;
}

int read_terms(struct beam *beam, struct error *reterr) {
    static const enum chunk_kind unloaded[] = {CHUNK_DEBUG_INFO,     CHUNK_ABSTRACT_CODE,   CHUNK_DOCUMENTATION,
                                               CHUNK_ELIXIR_CHECKER, CHUNK_ELIXIR_OLD_DOCS, CHUNK_ELIXIR_PARAMETERS};
    int result = read_keywords(beam, CHUNK_ATTRIBUTES, &beam->attributes, reterr);
    if (result == 0) result = read_keywords(beam, CHUNK_COMPILE_INFO, &beam->compile_info, reterr);
    if (result == 0) result = read_keywords(beam, CHUNK_META, NULL, reterr);
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(unloaded); i++) result = check_unloaded(beam, unloaded[i], reterr);
    return result;
}
