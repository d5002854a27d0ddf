/* Chunks that consist of one term each. */
#include "beam/beam_internal.h"

enum { VERSION_BYTE = 131, UNLOADED_FACTOR = 4 }; /* debug info of a large module has millions of terms */

static struct term_bounds bounds_of(const struct beam *beam, enum chunk_kind kind) {
    size_t factor = kind == CHUNK_ATTRIBUTES || kind == CHUNK_META ? 1 : UNLOADED_FACTOR;
    return (struct term_bounds){.max_bytes = beam->options.max_bytes,
                                .max_terms = factor * beam->options.max_terms,
                                .max_depth = TERM_MAX_DEPTH};
}

int decode_chunk(const struct beam *beam, enum chunk_kind kind, struct term_doc **ret, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    struct term_bounds bounds = bounds_of(beam, kind);
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

/* The loader returns attributes as a keyword list. Stripping may leave an empty chunk. */
static int check_attributes(const struct beam *beam, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[CHUNK_ATTRIBUTES];
    if (chunk->size == 0 || term_is_plain_pairs(chunk->data, chunk->size, beam->options.max_terms)) return 0;
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = decode_chunk(beam, CHUNK_ATTRIBUTES, &doc, reterr);
    if (result < 0) return result;
    return is_keyword_list(term_root(doc)) ? 0 : error_set(reterr, E_FORMAT, "chunk Attr: not a list of pairs");
}

static int check_term(const struct beam *beam, enum chunk_kind kind, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    if (chunk->size == 0 || term_is_plain(chunk->data, chunk->size, chunk->size, beam->options.max_terms)) return 0;
    CLEANUP_TERM struct term_doc *doc = NULL;
    return decode_chunk(beam, kind, &doc, reterr);
}

/* No loader reads these chunks, and inflating all debug info would take longer than everything else. The first byte
   shows that they are terms; the rest is checked on demand. */
static int check_unloaded(const struct beam *beam, enum chunk_kind kind, struct error *reterr) {
    const struct chunk *chunk = &beam->chunks[kind];
    if (chunk->size == 0) return 0;
    if (chunk->data[0] != VERSION_BYTE)
        return error_set(reterr, E_FORMAT, "chunk %s, byte 0: not a term", chunk_forms[kind].tag);
    return beam->options.check_unloaded ? check_term(beam, kind, reterr) : 0;
}

int read_terms(struct beam *beam, struct error *reterr) {
    static const enum chunk_kind used[] = {CHUNK_COMPILE_INFO, CHUNK_META, CHUNK_ELIXIR_CHECKER};
    static const enum chunk_kind unloaded[] = {CHUNK_DEBUG_INFO, CHUNK_ABSTRACT_CODE, CHUNK_DOCUMENTATION,
                                               CHUNK_ELIXIR_OLD_DOCS, CHUNK_ELIXIR_PARAMETERS};
    int result = check_attributes(beam, reterr);
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(used); i++) result = check_term(beam, used[i], reterr);
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(unloaded); i++) result = check_unloaded(beam, unloaded[i], reterr);
    return result;
}
