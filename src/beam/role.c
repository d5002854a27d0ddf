/* What an operand may be in its place: the general way, and the tables that spare most operands the general way. */
#include "beam/code.h"

static const uint32_t role_kinds[ROLE_COUNT] = {
#define X(name, kinds) kinds,
    ROLE_LIST(X)
#undef X
};

/* How many values a plain number may have in a role. Without a table of lines the loader doesn't look at them. */
static uint32_t number_end(const struct beam *beam, enum operand_role role) {
    switch (role) {
    case ROLE_REGISTERS:
    case ROLE_REGISTERS_OR_NIL: return MAX_REGISTERS + 1;
    case ROLE_IMPORT: return beam->import_count;
    case ROLE_LAMBDA:
    case ROLE_LAMBDA_OR_ATOM: return beam->lambda_count;
    case ROLE_LINE: return beam->has_lines ? beam->line_count + 1 : UINT32_MAX;
    default: return UINT32_MAX;
    }
}

/* The value 0 of an atom's tag is [], of a label's none: other kinds than the rest. */
static struct value_range split_range(uint32_t kinds, uint32_t zero_kind, uint32_t other_kind, uint32_t end) {
    uint32_t start = kinds & zero_kind ? 0 : 1;
    return (struct value_range){.start = start, .count = (kinds & other_kind ? end : 1) - start};
}

static struct value_range whole_range(bool is_accepted, uint32_t end) {
    return (struct value_range){.count = is_accepted ? end : 0};
}

void code_set_ranges(struct code *code) {
    const struct beam *beam = code->beam;
    for (enum operand_role role = 0; role < ROLE_COUNT; role++) {
        struct value_range *ranges = code->ranges[role];
        uint32_t kinds = role_kinds[role];
        ranges[COMPACT_UNSIGNED] = whole_range(kinds & IS_UNSIGNED, number_end(beam, role));
        ranges[COMPACT_INTEGER] = whole_range(kinds & IS_INTEGER, UINT32_MAX);
        ranges[COMPACT_X] = whole_range(kinds & IS_X, MAX_REGISTERS);
        ranges[COMPACT_Y] = whole_range(kinds & IS_Y, MAX_REGISTERS);
        ranges[COMPACT_ATOM] = split_range(kinds, IS_NIL, IS_ATOM, beam->atom_count);
        ranges[COMPACT_LABEL] = split_range(kinds, IS_NO_LABEL, IS_LABEL, beam->label_count);
    }
}

static uint32_t kind_of(operand_t operand) {
    static const uint16_t kinds[] = {
        [FORM_UNSIGNED] = IS_UNSIGNED,
        [FORM_INTEGER] = IS_INTEGER,
        [FORM_BIG] = IS_INTEGER,
        [FORM_ATOM] = IS_ATOM,
        [FORM_X] = IS_X,
        [FORM_Y] = IS_Y,
        [FORM_LABEL] = IS_LABEL,
        [FORM_LITERAL] = IS_LITERAL,
        [FORM_FLOAT_REGISTER] = IS_FLOAT_REGISTER,
        [FORM_LIST] = IS_LIST,
        [FORM_ALLOCATION] = IS_ALLOCATION,
    };
    if (operand == operand_make(FORM_ATOM, 0)) return IS_NIL;
    if (operand == operand_make(FORM_LABEL, 0)) return IS_NO_LABEL;
    return kinds[operand_form(operand)];
}

static const char *kind_name(uint32_t kind) {
    static const char *const names[] = {"a plain number",   "an integer",   "an atom", "[]",
                                        "an x register",    "a y register", "a label", "no label",
                                        "a float register", "a literal",    "a list",  "an allocation"};
    return names[__builtin_ctz(kind)];
}

static int read_any(struct code *code, enum operand_role role, operand_t *ret) {
    operand_t operand;
    int result = operand_read(code->beam, &code->cursor, &operand);
    if (result < 0) return result;
    uint32_t kind = kind_of(operand), end = number_end(code->beam, role);
    uint64_t value = operand_value(operand);
    if (!(kind & role_kinds[role])) return cursor_fail(&code->cursor, "%s where it can't be", kind_name(kind));
    if (kind == IS_UNSIGNED && end != UINT32_MAX && value >= end)
        return cursor_fail(&code->cursor, "number %ju, it must be below %u", value, end);
    if (kind == IS_LABEL) code_use_label(code, role, (uint32_t)value);
    *ret = operand;
    return 0;
}

const uint8_t *code_operand_any(struct code *code, const uint8_t *at, enum operand_role role, operand_t *ret) {
    code->cursor.at = at;
    code->failure = read_any(code, role, ret);
    return code->failure < 0 ? NULL : code->cursor.at;
}
