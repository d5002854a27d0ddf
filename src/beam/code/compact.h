/* The compact numbers of code, lines and long atoms: a tag in three bits and a value in as few bytes as it needs. */
#ifndef BEAM_CODE_COMPACT_H
#define BEAM_CODE_COMPACT_H

#include "beam/beam_internal.h"

enum compact_tag {
    COMPACT_UNSIGNED,
    COMPACT_INTEGER,
    COMPACT_ATOM,
    COMPACT_X,
    COMPACT_Y,
    COMPACT_LABEL,
    COMPACT_CHARACTER, /* obsolete: recent compilers don't write it */
    COMPACT_EXTENDED,
};

enum { COMPACT_TAGS = 8 };

/* The bits above the tag of a first byte: the value is in the upper four, or in the upper three and the next byte, or
   the upper three are a length. */
enum {
    HEAD_WIDE = 1 << 3,
    HEAD_LONG = 3 << 3,
    HEAD_FIRST_ATOM = 1 << 4 | COMPACT_ATOM,
    HEAD_LIST = 1 << 4 | COMPACT_EXTENDED,
    HEAD_FLOAT_REGISTER = 2 << 4 | COMPACT_EXTENDED,
    HEAD_ALLOCATION = 3 << 4 | COMPACT_EXTENDED,
    HEAD_LITERAL = 4 << 4 | COMPACT_EXTENDED,
    HEAD_TYPED_REGISTER = 5 << 4 | COMPACT_EXTENDED,
};

struct compact {
    enum compact_tag tag;
    bool is_big;   /* an integer that does not fit value */
    int64_t value; /* negative only for integers */
};

int compact_read_long(struct cursor *cursor, struct compact *ret);

/* Nearly all take one byte, and most others two. */
static inline int compact_read(struct cursor *cursor, struct compact *ret) {
    size_t left = cursor_left(cursor);
    const uint8_t *at = cursor->at;
    if (left >= 1 && !(at[0] & 0x08)) {
        *ret = (struct compact){.tag = at[0] & 7, .value = at[0] >> 4};
        cursor->at = at + 1;
        return 0;
    }
    if (left >= 2 && !(at[0] & 0x10)) {
        *ret = (struct compact){.tag = at[0] & 7, .value = (at[0] >> 5) << 8 | at[1]};
        cursor->at = at + 2;
        return 0;
    }
    return compact_read_long(cursor, ret);
}

/* Reads a value of a tag that must be unsigned. */
int compact_read_unsigned(struct cursor *cursor, const char *what, uint64_t *ret);

#endif
