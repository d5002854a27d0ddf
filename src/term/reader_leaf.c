/* Reads terms without elements: integers, floats, atoms, binaries and bit strings. */
#include <math.h>
#include <string.h>

#include "term/reader.h"

int read_small_integer(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)reader;
    *ret = (struct term){.type = TERM_INTEGER, .integer = fixed[0]};
    return 0;
}

int read_integer(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)reader;
    *ret = (struct term){.type = TERM_INTEGER, .integer = (int32_t)load_u32(fixed)};
    return 0;
}

/* A big integer that fits int64_t becomes an ordinary one, so that equal numbers compare equal. */
static bool narrow_big(const uint8_t *digits, size_t size, bool negative, int64_t *ret) {
    if (size > sizeof(uint64_t)) return false;
    uint64_t magnitude = 0;
    for (size_t i = size; i > 0; i--) magnitude = magnitude << 8 | digits[i - 1];
    if (magnitude > (uint64_t)INT64_MAX + negative) return false;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static int read_big(struct reader *reader, size_t size, uint8_t sign, struct term *ret) {
    uint8_t *digits = NULL;
    int result = reader_take(reader, size, &digits);
    if (result < 0) return result;
    if (sign > 1) return reader_malformed(reader, "a sign that is none");
    while (size > 0 && digits[size - 1] == 0) size--;
    int64_t integer;
    if (narrow_big(digits, size, sign == 1, &integer))
        *ret = (struct term){.type = TERM_INTEGER, .integer = integer};
    else
        *ret = (struct term){.type = TERM_BIG, .big = {digits, size, sign == 1}};
    if (ret->type == TERM_BIG) reader->numbers_weight += term_big_weight(size);
    return 0;
}

int read_small_big(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_big(reader, fixed[0], fixed[1], ret);
}

int read_large_big(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_big(reader, load_u32(fixed), fixed[4], ret);
}

static int set_float(struct reader *reader, double number, struct term *ret) {
    if (!isfinite(number)) return reader_malformed(reader, "a number that is not finite");
    *ret = (struct term){.type = TERM_FLOAT, .number = number};
    reader->numbers_weight += FLOAT_WEIGHT;
    return 0;
}

int read_new_float(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    uint64_t bits = load_u64(fixed);
    double number;
    memcpy(&number, &bits, sizeof number);
    return set_float(reader, number, ret);
}

/* "%.20e" in 31 bytes, padded with NULs. strtod alone would also accept spaces, "nan" and hexadecimal. */
int read_old_float(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    char text[OLD_FLOAT_BYTES + 1] = {0};
    memcpy(text, fixed, OLD_FLOAT_BYTES);
    size_t length = strlen(text);
    char *end = text;
    double number = length > 0 && strspn(text, "0123456789+-.eE") == length ? strtod(text, &end) : 0;
    if (end == text || *end) return reader_malformed(reader, "a float that is none");
    return set_float(reader, number, ret);
}

static size_t count_characters(const char *text, size_t length) {
    size_t characters = 0;
    for (size_t i = 0; i < length; i++) characters += ((uint8_t)text[i] & 0xC0) != 0x80;
    return characters;
}

static int set_atom(struct reader *reader, char *text, size_t length, struct term *ret) {
    if (length > ATOM_MAX_CHARACTERS && count_characters(text, length) > ATOM_MAX_CHARACTERS)
        return reader_malformed(reader, "an atom of more than 255 characters");
    text[length] = '\0';
    *ret = (struct term){.type = TERM_ATOM, .atom = {text, length}};
    return 0;
}

static int copy_atom(struct reader *reader, const uint8_t *data, size_t size, struct term *ret) {
    char *text = arena_allocate(reader->arena, size + 1);
    if (!text) return reader_no_memory(reader);
    memcpy(text, data, size);
    return set_atom(reader, text, size, ret);
}

static int read_latin1_atom(struct reader *reader, size_t size, struct term *ret) {
    uint8_t *data = NULL;
    int result = reader_take(reader, size, &data);
    if (result < 0) return result;
    if (utf8_is_ascii(data, size)) return copy_atom(reader, data, size, ret);
    char *text = arena_allocate(reader->arena, 2 * size + 1);
    if (!text) return reader_no_memory(reader);
    size_t length = 0;
    for (size_t i = 0; i < size; i++) length += utf8_encode(data[i], text + length);
    return set_atom(reader, text, length, ret);
}

static int read_utf8_atom(struct reader *reader, size_t size, struct term *ret) {
    uint8_t *data = NULL;
    int result = reader_take(reader, size, &data);
    if (result < 0) return result;
    if (!utf8_valid(data, size)) return reader_malformed(reader, "an atom that is not UTF-8");
    return copy_atom(reader, data, size, ret);
}

int read_atom(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_latin1_atom(reader, load_u16(fixed), ret);
}

int read_small_atom(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_latin1_atom(reader, fixed[0], ret);
}

int read_atom_utf8(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_utf8_atom(reader, load_u16(fixed), ret);
}

int read_small_atom_utf8(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_utf8_atom(reader, fixed[0], ret);
}

static int read_bits(struct reader *reader, size_t size, unsigned last_bits, struct term *ret) {
    uint8_t *data = NULL;
    int result = reader_take(reader, size, &data);
    if (result < 0) return result;
    /* Unused bits are cleared, so that equal bit strings have equal bytes. */
    if (last_bits < 8) data[size - 1] &= (uint8_t)(0xFF << (8 - last_bits));
    *ret = (struct term){.type = last_bits < 8 ? TERM_BITSTRING : TERM_BINARY, .binary = {data, size, last_bits}};
    return 0;
}

int read_binary(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_bits(reader, load_u32(fixed), 8, ret);
}

int read_bit_binary(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    size_t size = load_u32(fixed);
    unsigned last_bits = fixed[4];
    if (last_bits > 8 || (last_bits == 0) != (size == 0))
        return reader_malformed(reader, "a bit string of impossible size");
    return read_bits(reader, size, size == 0 ? 8 : last_bits, ret);
}
