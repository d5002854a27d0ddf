/* Checks an operand against its role. */
#include "beam/code/code.h"

/* The number of values that a plain number may have in a role. Without a line table the loader does not check lines. */
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

/* Jumps must stay inside a function, which is checked at the end. */
static void use_label(const struct code *code, enum operand_role role, struct label_use *use) {
    use->instruction = code->instruction;
    if (role == ROLE_FUNCTION) return;
    if (use->first_jump_from == 0) use->first_jump_from = code->function;
    use->latest_jump_from = code->function;
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
    if (kind == IS_LABEL && code->uses) use_label(code, role, &code->uses[value]);
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
