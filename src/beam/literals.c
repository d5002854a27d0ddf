/* Reads the literals of a BEAM file: constants in the external term format. */
#include <stdlib.h>

#include "beam/beam_internal.h"

enum { ZLIB_WINDOW_BITS = 15, PLAIN_LITERALS_OTP = 28, LITERAL_LEAST_BYTES = 6, COMPRESSED_TERM = 80 };

/* Since OTP 28 a size of 0 means uncompressed literals, since the whole file may be compressed. */
static int open_literals(struct beam *beam, struct cursor *cursor) {
    uint32_t size = 0;
    int result = cursor_u32(cursor, &size);
    if (result < 0) return result;
    if (size == 0) {
        if (beam->options.otp < PLAIN_LITERALS_OTP)
            return cursor_fail(cursor, "literals that need OTP %d", PLAIN_LITERALS_OTP);
        beam->min_otp = PLAIN_LITERALS_OTP;
        return 0;
    }
    if (size > beam->options.max_bytes)
        return error_set(cursor->reterr, E_TOO_LARGE, "chunk LitT: literals of %u bytes, %zu are allowed", size,
                         beam->options.max_bytes);
    result =
        inflate_whole(cursor->at, cursor_left(cursor), ZLIB_WINDOW_BITS, size, &beam->literal_bytes, cursor->reterr);
    if (result < 0) return error_prefix(cursor->reterr, "chunk LitT, byte 4");
    *cursor = (struct cursor){
        .start = beam->literal_bytes,
        .at = beam->literal_bytes,
        .end = beam->literal_bytes + size,
        .chunk = "inflated chunk LitT",
        .reterr = cursor->reterr,
    };
    return 0;
}

static int check_literal(const struct beam *beam, const struct cursor *cursor, const struct chunk *literal) {
    size_t readable_size = literal->size + cursor_left(cursor);
    if (term_is_plain(literal->data, literal->size, readable_size, beam->options.max_terms)) return 0;
    struct term_bounds bounds = {
        .max_bytes = literal->size, .max_terms = beam->options.max_terms, .max_depth = TERM_MAX_DEPTH};
    /* A term inside a compressed chunk is never compressed itself; the loader refuses it. */
    if (literal->size > 1 && literal->data[1] == COMPRESSED_TERM)
        return cursor_fail(cursor, "a literal that is compressed by itself");
    CLEANUP_TERM struct term_doc *doc = NULL;
    return term_decode(literal->data, literal->size, &bounds, &doc, cursor->reterr);
}

static int read_literal(const struct beam *beam, struct cursor *cursor, struct chunk *ret) {
    uint32_t size = 0;
    int result = cursor_u32(cursor, &size);
    struct chunk literal = {.data = cursor->at, .size = size};
    if (result == 0) result = cursor_skip(cursor, size);
    if (result == 0) result = check_literal(beam, cursor, &literal);
    if (result == 0) *ret = literal;
    return result;
}

int read_literals(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_LITERALS].data) return 0;
    struct cursor cursor = chunk_cursor(beam, CHUNK_LITERALS, reterr);
    uint32_t count = 0;
    int result = open_literals(beam, &cursor);
    if (result == 0) result = cursor_count(&cursor, LITERAL_LEAST_BYTES, &count);
    if (result < 0) return result;
    beam->literals = calloc((size_t)count + 1, sizeof *beam->literals);
    if (!beam->literals) return beam_no_memory(reterr);
    beam->literal_count = count;
    for (uint32_t i = 0; i < count; i++) {
        size_t at = (size_t)(cursor.at - cursor.start);
        result = read_literal(beam, &cursor, &beam->literals[i]);
        if (result < 0) return error_prefix(reterr, "literal %u at byte %zu of chunk LitT", i, at);
    }
    return cursor_end(&cursor);
}
