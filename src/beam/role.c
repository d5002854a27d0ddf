/* What an operand may be in its place: the general way, and the tables that spare most operands the general way. */
#include "beam/code.h"

enum { NARROW_VALUES = 16 }; /* that an operand of one byte can have */

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

/* The roles that take a kind. */
static inline uint32_t takers_of(uint32_t kind) {
#define X(name, kinds) | ((kinds)&kind ? 1u << ROLE_##name : 0)
    return 0 ROLE_LIST(X);
#undef X
}

static inline void set_short_takers(struct code *code, uint32_t tag, uint32_t zero_kind, uint32_t other_kind,
                                    uint32_t end) {
    uint32_t others = takers_of(other_kind);
    code->tag_ends[tag] = end;
    code->long_takers[tag] = others;
    code->takers[tag] = takers_of(zero_kind);
    for (uint32_t value = 1; value < NARROW_VALUES && value < end; value++) code->takers[value << 4 | tag] = others;
}

/* The value 0 of an atom's tag is [], of a label's none: other kinds than the rest. */
void code_set_takers(struct code *code) {
    const struct beam *beam = code->beam;
    set_short_takers(code, COMPACT_UNSIGNED, IS_UNSIGNED, IS_UNSIGNED, UINT32_MAX);
    set_short_takers(code, COMPACT_INTEGER, IS_INTEGER, IS_INTEGER, UINT32_MAX);
    set_short_takers(code, COMPACT_X, IS_X, IS_X, MAX_REGISTERS);
    set_short_takers(code, COMPACT_Y, IS_Y, IS_Y, MAX_REGISTERS);
    set_short_takers(code, COMPACT_ATOM, IS_NIL, IS_ATOM, beam->atom_count);
    set_short_takers(code, COMPACT_LABEL, IS_NO_LABEL, IS_LABEL, beam->label_count);
    for (enum operand_role role = 0; role < ROLE_COUNT; role++) {
        uint32_t end = code->number_ends[role] = number_end(beam, role);
        for (uint32_t value = end; value < NARROW_VALUES; value++) code->takers[value << 4] &= ~(1u << role);
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
    if (kind == IS_LABEL) {
        code_use_label(code, role, (uint32_t)value);
        code->labels[value].used_by = code->instruction;
    }
    *ret = operand;
    return 0;
}

const uint8_t *code_operand_any(struct code *code, const uint8_t *at, enum operand_role role, operand_t *ret) {
    code->cursor.at = at;
    code->failure = read_any(code, role, ret);
    return code->failure < 0 ? NULL : code->cursor.at;
}

const uint8_t *code_operands_any(struct code *code, const uint8_t *at, const uint8_t *roles, size_t count,
                                 operand_t *ret) {
    for (size_t i = 0; at && i < count; i++) at = code_operand_any(code, at, roles[i], &ret[i]);
    return at;
}
