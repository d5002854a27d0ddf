/* Reads operands of instructions in all their forms. */
#include "beam/code/code.h"

enum extended_tag {
    EXTENDED_FLOAT, /* obsolete: floats have long been literals */
    EXTENDED_LIST,
    EXTENDED_FLOAT_REGISTER,
    EXTENDED_ALLOCATION,
    EXTENDED_LITERAL,
    EXTENDED_TYPED_REGISTER,
};

enum { ALLOCATION_MAX = 1 << 24 };

static int read_bounded(struct cursor *cursor, const char *what, uint64_t count, uint64_t *ret) {
    uint64_t value = 0;
    int result = compact_read_unsigned(cursor, what, &value);
    if (result < 0) return result;
    if (value >= count) return cursor_fail(cursor, "%s %ju, there are %ju", what, value, count);
    *ret = value;
    return 0;
}

/* Each element takes at least a byte, so a list longer than the bytes left is forged. */
static int read_list(struct cursor *cursor, operand_t *ret) {
    uint64_t count;
    int result = compact_read_unsigned(cursor, "a list's length", &count);
    if (result < 0) return result;
    if (count > cursor_left(cursor)) return cursor_fail(cursor, "a list of %ju elements goes past the end", count);
    *ret = operand_make(FORM_LIST, count);
    return 0;
}

/* An allocation list: words, floats and funs, each with a kind and a number. */
static int read_allocation(struct cursor *cursor, operand_t *ret) {
    uint64_t count = 0, kind = 0, number = 0;
    uint64_t total = 0;
    int result = read_bounded(cursor, "a number of allocations", ALLOCATION_KINDS + 1, &count);
    for (uint64_t i = 0; result == 0 && i < count; i++) {
        result = read_bounded(cursor, "an allocation's kind", ALLOCATION_KINDS, &kind);
        if (result == 0) result = read_bounded(cursor, "an allocation's size", ALLOCATION_MAX, &number);
        total += number;
    }
    if (result == 0) *ret = operand_make(FORM_ALLOCATION, total);
    return result;
}

static int read_register(struct cursor *cursor, const struct compact *compact, operand_t *ret) {
    if (compact->value >= MAX_REGISTERS) return cursor_fail(cursor, "register %jd", compact->value);
    *ret = operand_make((enum operand_form)compact->tag, (uint64_t)compact->value);
    return 0;
}

/* The type's index is not checked if the table is missing or of an unknown version, as in the loader. */
static int read_typed_register(const struct beam *beam, struct cursor *cursor, operand_t *ret) {
    struct compact compact;
    uint64_t type = 0;
    int result = compact_read(cursor, &compact);
    if (result < 0) return result;
    if (compact.tag != COMPACT_X && compact.tag != COMPACT_Y)
        return cursor_fail(cursor, "a type of something that is no register");
    result = read_register(cursor, &compact, ret);
    return result < 0 ? result : read_bounded(cursor, "type", beam->has_types ? beam->type_count : UINT32_MAX, &type);
}

static int read_extended(const struct beam *beam, struct cursor *cursor, int64_t tag, operand_t *ret) {
    uint64_t index = 0;
    int result;
    switch (tag) {
    case EXTENDED_LIST: return read_list(cursor, ret);
    case EXTENDED_ALLOCATION: return read_allocation(cursor, ret);
    case EXTENDED_TYPED_REGISTER: return read_typed_register(beam, cursor, ret);
    case EXTENDED_FLOAT_REGISTER:
        result = read_bounded(cursor, "float register", MAX_REGISTERS, &index);
        if (result == 0) *ret = operand_make(FORM_FLOAT_REGISTER, index);
        return result;
    case EXTENDED_LITERAL:
        result = read_bounded(cursor, "literal", beam->literal_count, &index);
        if (result == 0) *ret = operand_make(FORM_LITERAL, index);
        return result;
    default: return cursor_too_new(cursor, "extended operand %jd is unknown", tag);
    }
}

/* Small integers fit into an operand; the values of others are not needed. */
static operand_t make_integer(const struct compact *compact) {
    bool fits = !compact->is_big && compact->value >= 0 && compact->value < INT64_MAX >> FORM_BITS;
    return fits ? operand_make(FORM_INTEGER, (uint64_t)compact->value) : operand_make(FORM_BIG, 0);
}

static int check_value(const struct beam *beam, const struct cursor *cursor, const struct compact *compact) {
    int64_t value = compact->value;
    if (compact->tag == COMPACT_ATOM && value >= beam->atom_count)
        return cursor_fail(cursor, "atom %jd, there are %u", value, beam->atom_count - 1);
    if (compact->tag == COMPACT_LABEL && value >= beam->label_count)
        return cursor_fail(cursor, "label %jd, the last is %u", value, beam->label_count - 1);
    if (value > INT64_MAX >> FORM_BITS) return cursor_fail(cursor, "a number past 2^59");
    return 0;
}

int operand_read(const struct beam *beam, struct cursor *cursor, operand_t *ret) {
    struct compact compact;
    int result = compact_read(cursor, &compact);
    if (result < 0) return result;
    switch (compact.tag) {
    case COMPACT_INTEGER: *ret = make_integer(&compact); return 0;
    case COMPACT_X:
    case COMPACT_Y: return read_register(cursor, &compact, ret);
    case COMPACT_EXTENDED: return read_extended(beam, cursor, compact.value, ret);
    case COMPACT_UNSIGNED:
    case COMPACT_ATOM:
    case COMPACT_LABEL:
        result = check_value(beam, cursor, &compact);
        if (result == 0) *ret = operand_make((enum operand_form)compact.tag, (uint64_t)compact.value);
        return result;
    case COMPACT_CHARACTER: break;
    }
    return cursor_fail(cursor, "an operand of an unknown kind");
}
