/* Decoding of a term into a document that owns its memory, including compressed terms. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "term/term_internal.h"

enum {
    COMPRESSED_HEADER_BYTES = 6, /* version, tag, inflated size */
    DEFLATE_MAX_RATIO = 1040,    /* deflate reaches 1,032; a larger ratio is forged */
};

struct term_doc {
    uint8_t *bytes; /* binaries and numbers point into it */
    size_t size;
    struct arena arena;
    struct term root;
    struct term_amount amount;
};

/* Exactly size bytes must result from exactly all of data. Anything else contradicts the header. */
static int inflate_exactly(const uint8_t *data, size_t data_size, uint8_t *out, size_t size, struct error *reterr) {
    z_stream stream = {
        .next_in = (uint8_t *)data, .avail_in = (uInt)data_size, .next_out = out, .avail_out = (uInt)size};
    if (inflateInit(&stream) != Z_OK) return error_set(reterr, E_NO_MEMORY, "no memory to inflate a term");
    int result = inflate(&stream, Z_FINISH);
    bool exact = result == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
    inflateEnd(&stream);
    if (result == Z_MEM_ERROR) return error_set(reterr, E_NO_MEMORY, "no memory to inflate a term");
    if (!exact) return error_set(reterr, E_FORMAT, "compressed term at byte 1 does not inflate to %zu bytes", size);
    return 0;
}

static int fill_inflated(struct term_doc *doc, const uint8_t *data, size_t size, size_t max_bytes,
                         struct error *reterr) {
    if (size < COMPRESSED_HEADER_BYTES) return error_set(reterr, E_FORMAT, "compressed term ends at byte %zu", size);
    size_t packed_size = size - COMPRESSED_HEADER_BYTES;
    doc->size = (size_t)data[2] << 24 | (size_t)data[3] << 16 | (size_t)data[4] << 8 | data[5];
    if (doc->size > max_bytes)
        return error_set(reterr, E_TOO_LARGE, "compressed term of %zu bytes, %zu are allowed", doc->size, max_bytes);
    if (doc->size / DEFLATE_MAX_RATIO > packed_size)
        return error_set(reterr, E_FORMAT, "compressed term at byte 1 announces %zu bytes in %zu", doc->size,
                         packed_size);
    doc->bytes = malloc(doc->size ? doc->size : 1);
    if (!doc->bytes) return error_set(reterr, E_NO_MEMORY, "no memory for a term of %zu bytes", doc->size);
    return inflate_exactly(data + COMPRESSED_HEADER_BYTES, packed_size, doc->bytes, doc->size, reterr);
}

static int fill_copied(struct term_doc *doc, const uint8_t *data, size_t size, struct error *reterr) {
    doc->size = size - 1;
    doc->bytes = malloc(size);
    if (!doc->bytes) return error_set(reterr, E_NO_MEMORY, "no memory for a term of %zu bytes", size);
    memcpy(doc->bytes, data + 1, doc->size);
    return 0;
}

static int fill(struct term_doc *doc, const uint8_t *data, size_t size, size_t max_bytes, struct error *reterr) {
    if (size > max_bytes || size > UINT32_MAX)
        return error_set(reterr, E_TOO_LARGE, "term of %zu bytes, %zu are allowed", size, max_bytes);
    if (size == 0 || data[0] != TAG_VERSION) return error_set(reterr, E_FORMAT, "no version at byte 0 of a term");
    if (size > 1 && data[1] == TAG_COMPRESSED) return fill_inflated(doc, data, size, max_bytes, reterr);
    return fill_copied(doc, data, size, reterr);
}

int term_decode(const uint8_t *data, size_t size, const struct term_bounds *bounds, struct term_doc **ret,
                struct error *reterr) {
    CLEANUP_TERM struct term_doc *doc = calloc(1, sizeof *doc);
    if (!doc) return error_set(reterr, E_NO_MEMORY, "no memory for a term");
    int result = fill(doc, data, size, bounds->max_bytes, reterr);
    if (result < 0) return result;
    result = term_read(doc->bytes, doc->size, bounds, &doc->arena, &doc->root, &doc->amount, reterr);
    if (result < 0) return result;
    *ret = take_ptr(doc);
    return 0;
}

int term_find_element(const uint8_t *data, size_t size, const struct term_bounds *bounds, size_t index, size_t *ret,
                      struct error *reterr) {
    size_t at;
    CLEANUP_TERM struct term_doc *doc = calloc(1, sizeof *doc);
    if (!doc) return error_set(reterr, E_NO_MEMORY, "no memory for a term");
    if (size > 1 && data[1] == TAG_COMPRESSED) return error_set(reterr, E_FORMAT, "compressed term at byte 1");
    int result = fill(doc, data, size, bounds->max_bytes, reterr);
    if (result == 0) result = term_read_until(doc->bytes, doc->size, bounds, &doc->arena, index, &at, reterr);
    if (result < 0) return result;
    *ret = at + 1; /* the version byte */
    return 0;
}

const struct term *term_root(const struct term_doc *doc) {
    return &doc->root;
}

size_t term_count(const struct term_doc *doc) {
    return doc->amount.terms;
}

size_t term_weight(const struct term_doc *doc) {
    return doc->amount.weight;
}

size_t term_bytes(const struct term_doc *doc) {
    return doc->size + doc->amount.terms * sizeof(struct term);
}

struct term_doc *term_free(struct term_doc *doc) {
    if (doc) {
        arena_free(&doc->arena);
        free(doc->bytes);
        free(doc);
    }
    return NULL;
}
