/* Reads the container of a BEAM file: compression, the IFF header, and the chunks. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "beam/beam_internal.h"

enum {
    GZIP_WINDOW_BITS = 15 + 16,
    GZIP_LEAST_BYTES = 18, /* header and trailer */
    FORM_HEADER_BYTES = 12,
};

const struct chunk_form chunk_forms[CHUNK_COUNT] = {
#define X(name, tag, required, loaded) {tag, required, loaded},
    CHUNK_LIST(X)
#undef X
};

static int check_inflated(const z_stream *stream, int result, size_t size, struct error *reterr) {
    if (result == Z_MEM_ERROR) return beam_no_memory(reterr);
    if (result != Z_STREAM_END || stream->avail_in > 0 || stream->avail_out > 0)
        return error_set(reterr, E_FORMAT, "compressed data does not inflate to the %zu bytes it announces", size);
    return 0;
}

int inflate_whole(const uint8_t *data, size_t data_size, int window_bits, size_t size, uint8_t **ret,
                  struct error *reterr) {
    if (size / DEFLATE_MAX_RATIO > data_size || data_size > UINT32_MAX || size > UINT32_MAX)
        return error_set(reterr, E_FORMAT, "compressed data announces %zu bytes in %zu", size, data_size);
    CLEANUP_FREE uint8_t *out = malloc(size ? size : 1);
    if (!out) return beam_no_memory(reterr);
    z_stream stream = {
        .next_in = (uint8_t *)data, .avail_in = (uInt)data_size, .next_out = out, .avail_out = (uInt)size};
    if (inflateInit2(&stream, window_bits) != Z_OK) return beam_no_memory(reterr);
    int result = check_inflated(&stream, inflate(&stream, Z_FINISH), size, reterr);
    inflateEnd(&stream);
    if (result == 0) *ret = take_ptr(out);
    return result;
}

static bool is_compressed(const uint8_t *data, size_t size) {
    return size >= GZIP_LEAST_BYTES && data[0] == 0x1f && data[1] == 0x8b;
}

static int inflate_file(struct beam *beam, struct cursor *file, struct error *reterr) {
    const uint8_t *trailer = file->end - 4;
    size_t size = (size_t)trailer[3] << 24 | (size_t)trailer[2] << 16 | (size_t)trailer[1] << 8 | trailer[0];
    if (size > beam->options.max_bytes)
        return error_set(reterr, E_TOO_LARGE, "compressed file of %zu bytes, %zu are allowed", size,
                         beam->options.max_bytes);
    int result = inflate_whole(file->start, cursor_left(file), GZIP_WINDOW_BITS, size, &beam->inflated, reterr);
    if (result < 0) return result;
    *file = (struct cursor){
        .start = beam->inflated,
        .at = beam->inflated,
        .end = beam->inflated + size,
        .chunk = "inflated file",
        .reterr = reterr,
    };
    return 0;
}

static int read_form(struct cursor *file) {
    if (cursor_left(file) < FORM_HEADER_BYTES || memcmp(file->at, "FOR1", 4) != 0)
        return cursor_fail(file, "not a BEAM file: FOR1 is missing");
    file->at += 4;
    uint32_t size = load_u32(file->at);
    if (size != cursor_left(file) - 4)
        return cursor_fail(file, "the form announces %u bytes, there are %zu", size, cursor_left(file) - 4);
    file->at += 4;
    if (memcmp(file->at, "BEAM", 4) != 0) return cursor_fail(file, "not a BEAM file: the form is of another type");
    file->at += 4;
    return 0;
}

static enum chunk_kind chunk_kind(const uint8_t *tag) {
    enum chunk_kind kind = 0;
    while (kind < CHUNK_COUNT && memcmp(chunk_forms[kind].tag, tag, 4) != 0) kind++;
    return kind;
}

/* Tags are text, so that errors can show them. */
static int read_tag(struct cursor *file, const uint8_t **ret) {
    const uint8_t *tag = file->at;
    int result = cursor_skip(file, 4);
    if (result < 0) return result;
    for (int i = 0; i < 4; i++)
        if (tag[i] < ' ' || tag[i] > '~') {
            file->at = tag;
            return cursor_fail(file, "a chunk's name is no text");
        }
    *ret = tag;
    return 0;
}

/* Chunks are padded to whole words with zeros. */
static int skip_padding(struct cursor *file, const uint8_t *tag, size_t size) {
    for (size_t padding = -size & 3; padding > 0; padding--) {
        if (cursor_left(file) == 0) return cursor_fail(file, "the padding of chunk %.4s is missing", tag);
        if (*file->at != 0) return cursor_fail(file, "the padding of chunk %.4s is not zero", tag);
        file->at++;
    }
    return 0;
}

static int read_chunk(struct beam *beam, struct cursor *file, const uint8_t **ret_tag) {
    const uint8_t *tag = NULL;
    uint32_t size = 0;
    int result = read_tag(file, &tag);
    if (result == 0) result = cursor_u32(file, &size);
    if (result < 0) return result;
    if (size > cursor_left(file))
        return cursor_fail(file, "chunk %.4s ends %zu bytes past the file", tag, size - cursor_left(file));
    struct chunk chunk = {.data = file->at, .size = size};
    enum chunk_kind kind = chunk_kind(tag);
    if (kind < CHUNK_COUNT) beam->chunks[kind] = chunk;
    file->at += size;
    *ret_tag = tag;
    return skip_padding(file, tag, size);
}

static int read_chunks(struct beam *beam, struct cursor *file) {
    const uint8_t *tags[MAX_CHUNKS];
    for (size_t count = 0; cursor_left(file) > 0; count++) {
        if (count == MAX_CHUNKS) return cursor_fail(file, "more than %d chunks", MAX_CHUNKS);
        int result = read_chunk(beam, file, &tags[count]);
        if (result < 0) return result;
        for (size_t i = 0; i < count; i++)
            if (memcmp(tags[i], tags[count], 4) == 0) return cursor_fail(file, "chunk %.4s a second time", tags[i]);
    }
    return 0;
}

static int check_presence(const struct beam *beam, struct error *reterr) {
    for (enum chunk_kind kind = 0; kind < CHUNK_COUNT; kind++)
        if (chunk_forms[kind].required && !beam->chunks[kind].data)
            return error_set(reterr, E_FORMAT, "chunk %s is missing", chunk_forms[kind].tag);
    bool utf8 = beam->chunks[CHUNK_ATOMS].data, latin1 = beam->chunks[CHUNK_LATIN1_ATOMS].data;
    if (!utf8 && !latin1) return error_set(reterr, E_FORMAT, "chunk AtU8 is missing");
    if (utf8 && latin1) return error_set(reterr, E_FORMAT, "chunks AtU8 and Atom, which exclude each other");
    return 0;
}

int read_container(struct beam *beam, const uint8_t *data, size_t size, struct error *reterr) {
    if (size > beam->options.max_bytes)
        return error_set(reterr, E_TOO_LARGE, "file of %zu bytes, %zu are allowed", size, beam->options.max_bytes);
    struct cursor file = {.start = data, .at = data, .end = data + size, .chunk = "file", .reterr = reterr};
    int result = is_compressed(data, size) ? inflate_file(beam, &file, reterr) : 0;
    if (result == 0) result = read_form(&file);
    if (result == 0) result = read_chunks(beam, &file);
    if (result == 0) result = check_presence(beam, reterr);
    return result;
}
