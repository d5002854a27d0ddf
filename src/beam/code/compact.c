/* Reads compact numbers of all sizes. */
#include "beam/code/compact.h"

enum {
    SHORT_LENGTH_BASE = 2, /* three bits of length: 2 to 8 bytes, or an explicit length follows */
    LENGTH_FOLLOWS = 7,
    LONG_LENGTH_BASE = 9,
};

static int read_length(struct cursor *cursor, unsigned code, size_t *ret) {
    if (code < LENGTH_FOLLOWS) {
        *ret = code + SHORT_LENGTH_BASE;
        return 0;
    }
    /* Lengths don't nest: a short one covers any file's size. */
    if (cursor_left(cursor) >= 1 && (cursor->at[0] & 0x18) == 0x18 && cursor->at[0] >> 5 == LENGTH_FOLLOWS)
        return cursor_fail(cursor, "a length whose own length does not fit");
    uint64_t length;
    int result = compact_read_unsigned(cursor, "length", &length);
    if (result < 0) return result;
    if (length > cursor_left(cursor)) return cursor_fail(cursor, "a number goes past the end");
    *ret = (size_t)length + LONG_LENGTH_BASE;
    return 0;
}

static int64_t load_signed(const uint8_t *bytes, size_t size) {
    uint64_t value = bytes[0] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < size; i++) value = value << 8 | bytes[i];
    return (int64_t)value;
}

/* The loader refuses integers with more leading bytes than needed. */
static bool is_padded(const uint8_t *bytes) {
    return (bytes[0] == 0 && bytes[1] == 0) || (bytes[0] == 0xff && bytes[1] == 0xff);
}

static int read_integer(struct cursor *cursor, const uint8_t *bytes, size_t size, struct compact *ret) {
    bool is_big = size > sizeof ret->value;
    if (is_big && is_padded(bytes)) return cursor_fail(cursor, "an integer with needless leading bytes");
    *ret = (struct compact){.tag = COMPACT_INTEGER, .is_big = is_big, .value = is_big ? 0 : load_signed(bytes, size)};
    return 0;
}

/* Only integers may be negative. Leading zeros are allowed. */
static int read_index(struct cursor *cursor, enum compact_tag tag, const uint8_t *bytes, size_t size,
                      struct compact *ret) {
    uint64_t value = 0;
    if (size > sizeof value) return cursor_fail(cursor, "an index of %zu bytes", size);
    for (size_t i = 0; i < size; i++) value = value << 8 | bytes[i];
    if (value > INT64_MAX) return cursor_fail(cursor, "an index past 2^63");
    *ret = (struct compact){.tag = tag, .value = (int64_t)value};
    return 0;
}

int compact_read_long(struct cursor *cursor, struct compact *ret) {
    if (cursor_left(cursor) == 0) return cursor_fail(cursor, "unexpected end");
    uint8_t head = *cursor->at;
    if ((head & 0x18) != 0x18) return cursor_fail(cursor, "unexpected end");
    cursor->at++;
    size_t size = 0;
    int result = read_length(cursor, head >> 5, &size);
    if (result < 0) return result;
    const uint8_t *bytes = cursor->at;
    result = cursor_skip(cursor, size);
    if (result < 0) return result;
    enum compact_tag tag = head & 7;
    return tag == COMPACT_INTEGER ? read_integer(cursor, bytes, size, ret) : read_index(cursor, tag, bytes, size, ret);
}

int compact_read_unsigned(struct cursor *cursor, const char *what, uint64_t *ret) {
    struct compact value;
    int result = compact_read(cursor, &value);
    if (result < 0) return result;
    if (value.tag != COMPACT_UNSIGNED) return cursor_fail(cursor, "%s that is no plain number", what);
    *ret = (uint64_t)value.value;
    return 0;
}
