/* Reads the atom table of a BEAM file, in all the forms that compilers have written. */
#include <stdlib.h>

#include "beam/code/compact.h"

enum { ATOM_MAX_CHARACTERS = 255, LONG_ATOM_LENGTHS_OTP = 28 };

static int check_atom(const struct cursor *cursor, const uint8_t *text, size_t size) {
    size_t characters = 0;
    for (size_t at = 0; at < size; characters++) {
        uint32_t code;
        size_t length = utf8_decode(text + at, size - at, &code);
        if (length == 0) return cursor_fail(cursor, "an atom that is not UTF-8");
        at += length;
    }
    if (characters > ATOM_MAX_CHARACTERS) return cursor_fail(cursor, "an atom of %zu characters", characters);
    return 0;
}

/* Lengths are one byte; since OTP 28, which allows names over 255 bytes, they are compact numbers. */
static int read_length(struct cursor *cursor, bool is_long, size_t *ret) {
    uint64_t length = 0;
    int result;
    if (is_long) {
        result = compact_read_unsigned(cursor, "an atom's length", &length);
    } else {
        const uint8_t *byte = cursor->at;
        result = cursor_skip(cursor, 1);
        if (result == 0) length = *byte;
    }
    if (result < 0) return result;
    if (length > cursor_left(cursor)) return cursor_fail(cursor, "an atom of %ju bytes goes past the end", length);
    *ret = (size_t)length;
    return 0;
}

/* A negative count marks long lengths, which older loaders refuse. */
static int read_count(struct beam *beam, struct cursor *cursor, uint32_t *ret, bool *ret_is_long) {
    uint32_t raw = 0;
    int result = cursor_u32(cursor, &raw);
    if (result < 0) return result;
    bool is_long = raw >> 31;
    uint32_t count = is_long ? -raw : raw;
    if (count == 0) return cursor_fail(cursor, "no atom, so no module name");
    if (count > cursor_left(cursor)) return cursor_fail(cursor, "%u atoms in %zu bytes", count, cursor_left(cursor));
    if (is_long && beam->options.otp < LONG_ATOM_LENGTHS_OTP)
        return cursor_fail(cursor, "an atom table that needs OTP %d", LONG_ATOM_LENGTHS_OTP);
    if (is_long) beam->min_otp = LONG_ATOM_LENGTHS_OTP;
    *ret = count;
    *ret_is_long = is_long;
    return 0;
}

static int allocate_atoms(struct beam *beam, uint32_t count, struct error *reterr) {
    beam->atoms = calloc((size_t)count + 1, sizeof *beam->atoms);
    if (!beam->atoms) return beam_no_memory(reterr);
    beam->atom_count = count + 1;
    return 0;
}

/* Reads names that need no check of their own. False if one ends beyond the chunk; the general reader then gives the
   error. */
static bool read_ascii(struct beam *beam, struct cursor *cursor, uint32_t count) {
    const uint8_t *at = cursor->at, *end = cursor->end;
    for (uint32_t i = 1; i <= count; i++) {
        if (at == end || *at >= end - at) return false;
        beam->atoms[i] = (struct beam_text){.data = (const char *)at + 1, .size = *at};
        at += 1 + *at;
    }
    cursor->at = at;
    return true;
}

static int read_utf8(struct beam *beam, struct cursor *cursor) {
    uint32_t count = 0;
    bool is_long = false;
    int result = read_count(beam, cursor, &count, &is_long);
    /* In most tables no byte, text or length, is above ASCII. One check of all is cheaper than one of each. */
    bool all_ascii = utf8_is_ascii(cursor->at, cursor_left(cursor));
    if (result == 0) result = allocate_atoms(beam, count, cursor->reterr);
    if (result == 0 && all_ascii && !is_long && read_ascii(beam, cursor, count)) return cursor_end(cursor);
    for (uint32_t i = 1; result == 0 && i <= count; i++) {
        size_t length;
        result = read_length(cursor, is_long, &length);
        if (result == 0 && (!all_ascii || length > ATOM_MAX_CHARACTERS))
            result = check_atom(cursor, cursor->at, length);
        if (result < 0) break;
        beam->atoms[i] = (struct beam_text){.data = (const char *)cursor->at, .size = length};
        cursor->at += length;
    }
    return result < 0 ? result : cursor_end(cursor);
}

static struct beam_text convert_latin1(const uint8_t *text, size_t size, char *out) {
    size_t length = 0;
    for (size_t i = 0; i < size; i++) length += utf8_encode(text[i], out + length);
    return (struct beam_text){.data = out, .size = length};
}

/* Compilers up to OTP 19 wrote names in Latin-1. Each character takes at most two bytes in UTF-8; utf8_encode may write
   four at the end. */
static int read_latin1(struct beam *beam, struct cursor *cursor) {
    uint32_t count = 0;
    int result = cursor_count(cursor, 1, &count);
    if (result < 0) return result;
    if (count == 0) return cursor_fail(cursor, "no atom, so no module name");
    result = allocate_atoms(beam, count, cursor->reterr);
    if (result < 0) return result;
    beam->latin1_text = malloc(2 * cursor_left(cursor) + UTF8_MAX_BYTES);
    if (!beam->latin1_text) return beam_no_memory(cursor->reterr);
    char *out = beam->latin1_text;
    for (uint32_t i = 1; i <= count; i++) {
        size_t length;
        result = read_length(cursor, false, &length);
        if (result < 0) return result;
        beam->atoms[i] = convert_latin1(cursor->at, length, out);
        out += beam->atoms[i].size;
        cursor->at += length;
    }
    return cursor_end(cursor);
}

int read_atoms(struct beam *beam, struct error *reterr) {
    bool is_utf8 = beam->chunks[CHUNK_ATOMS].data;
    struct cursor cursor = chunk_cursor(beam, is_utf8 ? CHUNK_ATOMS : CHUNK_LATIN1_ATOMS, reterr);
    int result = is_utf8 ? read_utf8(beam, &cursor) : read_latin1(beam, &cursor);
    if (result == 0 && beam->atoms[1].size == 0) return cursor_fail(&cursor, "the module's name is empty");
    return result;
}
