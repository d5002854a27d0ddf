#include "beam/code.h"

#include <stdlib.h>

enum {
    CODE_HEADER_BYTES = 16,
    CODE_FORMAT = 0,
    LABEL_LEAST_BYTES = 2,
    FUNCTION_LEAST_BYTES = 8, /* label, func_info, label */
    NARROW_VALUES = 16,       /* that an operand of one byte can have */
};

/* Sizes hold by what the code could define at most, so that a header can't make us allocate more than that. */
static int check_header(const struct beam *beam, const struct cursor *cursor) {
    size_t most_labels = beam->code_size / LABEL_LEAST_BYTES;
    if (beam->label_count == 0 || beam->label_count - 1 > most_labels)
        return cursor_fail(cursor, "%u labels in %zu bytes of code", beam->label_count, beam->code_size);
    if (beam->function_count > beam->code_size / FUNCTION_LEAST_BYTES)
        return cursor_fail(cursor, "%u functions in %zu bytes of code", beam->function_count, beam->code_size);
    if (beam->max_opcode > MAX_OPCODE)
        return cursor_fail(cursor, "opcode %u is of a newer OTP than %d", beam->max_opcode, BEAM_NEWEST_OTP);
    return 0;
}

static int read_header(struct beam *beam, struct cursor *cursor) {
    uint32_t size = 0, format = 0;
    int result = cursor_u32(cursor, &size);
    if (result == 0 && (size < CODE_HEADER_BYTES || size > cursor_left(cursor)))
        return cursor_fail(cursor, "a header of %u bytes", size);
    const uint8_t *code = cursor->at + size;
    if (result == 0) result = cursor_u32(cursor, &format);
    if (result == 0 && format != CODE_FORMAT) return cursor_fail(cursor, "instruction format %u", format);
    if (result == 0) result = cursor_u32(cursor, &beam->max_opcode);
    if (result == 0) result = cursor_u32(cursor, &beam->label_count);
    if (result == 0) result = cursor_u32(cursor, &beam->function_count);
    if (result < 0) return result;
    beam->code = code;
    beam->code_size = (size_t)(cursor->end - code);
    result = check_header(beam, cursor);
    cursor->at = code;
    return result;
}

static int allocate(struct beam *beam, struct error *reterr) {
    beam->labels = calloc(beam->label_count, sizeof *beam->labels);
    beam->functions = calloc((size_t)beam->function_count + 1, sizeof *beam->functions);
    return beam->labels && beam->functions ? 0 : beam_no_memory(reterr);
}

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

/* Labels are not among them, since their use is noted. */
static uint16_t certain_tags(const struct value_range *ranges) {
    unsigned tags = 0;
    for (unsigned tag = COMPACT_UNSIGNED; tag < COMPACT_LABEL; tag++)
        if (ranges[tag].start == 0 && ranges[tag].count >= NARROW_VALUES) tags |= 1u << tag;
    return (uint16_t)tags;
}

static void set_ranges(struct code *code) {
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
        code->certain_tags[role] = certain_tags(ranges);
    }
}

static const char *kind_name(uint32_t kind) {
    static const char *const names[] = {"a plain number",   "an integer",   "an atom", "[]",
                                        "an x register",    "a y register", "a label", "no label",
                                        "a float register", "a literal",    "a list",  "an allocation"};
    return names[__builtin_ctz(kind)];
}

/* Jumps stay inside a function; that is judged when all is read. */
static void use_label(struct code *code, enum operand_role role, uint32_t number) {
    struct label *label = &code->beam->labels[number];
    label->used_by = code->instruction;
    if (role == ROLE_FUNCTION) return;
    if (label->first_jump_from == 0) label->first_jump_from = code->function;
    label->latest_jump_from = code->function;
}

static int read_any_operand(struct code *code, enum operand_role role, struct operand *ret) {
    int result = operand_read(code->beam, &code->cursor, ret);
    if (result < 0) return result;
    if (!(ret->kind & role_kinds[role]))
        return cursor_fail(&code->cursor, "%s where it can't be", kind_name(ret->kind));
    uint32_t end = number_end(code->beam, role);
    if (ret->kind == IS_UNSIGNED && end != UINT32_MAX && ret->value >= end)
        return cursor_fail(&code->cursor, "%jd where the most is %jd", ret->value, (intmax_t)end - 1);
    if (ret->kind == IS_LABEL) use_label(code, role, (uint32_t)ret->value);
    return 0;
}

static const uint16_t tag_kinds[2][COMPACT_TAGS] = {
    {IS_UNSIGNED, IS_INTEGER, IS_ATOM, IS_X, IS_Y, IS_LABEL},
    {IS_UNSIGNED, IS_INTEGER, IS_NIL, IS_X, IS_Y, IS_NO_LABEL}, /* for the value 0 */
};

/* Of one or two bytes: one comparison tells whether it fits. Returns where the next one is; NULL when this one is
   longer or wrong, which is for the general function to say. Two bytes can be read. */
static inline const uint8_t *read_short(struct code *code, const uint8_t *at, enum operand_role role,
                                        struct operand *ret) {
    uint32_t head = at[0], tag = head & 7, is_wide = head >> 3 & 1;
    /* One of the two without a branch, which the processor would guess wrong all the time. */
    uint32_t narrow = head >> 4, wide = head >> 5 << 8 | at[1], value = narrow ^ ((narrow ^ wide) & -is_wide);
    const struct value_range *range = &code->ranges[role][tag];
    if ((value - range->start >= range->count) | ((head & 0x18) == 0x18)) return NULL;
    ret->kind = tag_kinds[value == 0][tag];
    ret->is_big = false;
    ret->value = value;
    if (tag == COMPACT_LABEL) use_label(code, role, value);
    return at + 1 + is_wide;
}

static int read_other(struct code *code, enum operand_role role, struct operand *ret) {
    const uint8_t *next = cursor_left(&code->cursor) < 2 ? NULL : read_short(code, code->cursor.at, role, ret);
    if (!next) return read_any_operand(code, role, ret);
    code->cursor.at = next;
    return 0;
}

/* Most operands are a byte that only its tag could make wrong; this is where most of the time goes. */
static inline int read_operands(struct code *code, const uint8_t *roles, size_t count, struct operand *ret) {
    const uint8_t *at = code->cursor.at, *end = code->cursor.end;
    for (size_t i = 0; i < count; i++) {
        if (at < end && code->certain_tags[roles[i]] >> (*at & 0x0f) & 1) {
            ret[i].kind = tag_kinds[0][*at & 7];
            ret[i].is_big = false;
            ret[i].value = *at++ >> 4;
            continue;
        }
        code->cursor.at = at;
        int result = read_other(code, roles[i], &ret[i]);
        if (result < 0) return result;
        at = code->cursor.at;
    }
    code->cursor.at = at;
    return 0;
}

int code_operands(struct code *code, const uint8_t *roles, size_t count, struct operand *ret) {
    return read_operands(code, roles, count, ret);
}

static int read_groups(struct code *code, const struct list_form *form, size_t count) {
    if (count % form->period != 0)
        return cursor_fail(&code->cursor, "a list of %zu elements, which come in %us", count, form->period);
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i += form->period) {
        struct operand group[MAX_LIST_PERIOD];
        result = code_operands(code, form->elements, form->period, group);
        if (result == 0 && form->check) result = form->check(code, group);
    }
    return result;
}

static int read_list(struct code *code, const struct list_form *form, size_t count) {
    return form->read ? form->read(code, count) : read_groups(code, form, count);
}

/* The highest generation met so far spares most instructions the question. */
static int check_generation(struct code *code, uint8_t number) {
    struct beam *beam = code->beam;
    unsigned since = opcodes[number].since;
    if (since == OPCODE_NEVER) return cursor_fail(&code->cursor, "opcode %u is unknown or obsolete", number);
    if (since > beam->options.otp) return cursor_fail(&code->cursor, "opcode %u needs OTP %u", number, since);
    beam->min_otp = since;
    return 0;
}

/* Outside of functions there is nothing but their labels and lines, and a header is followed by the entry label. */
static int check_place(const struct code *code, uint32_t number) {
    bool follows_header = (code->recent & 0xff) == OP_FUNC_INFO;
    if (follows_header && number != OP_LABEL) return cursor_fail(&code->cursor, "a function without an entry label");
    if (code->function == 0 && number != OP_LABEL && number != OP_LINE && number != OP_FUNC_INFO &&
        number != OP_CODE_END)
        return cursor_fail(&code->cursor, "an instruction outside of any function");
    return 0;
}

static inline int read_opcode(struct code *code) {
    const uint8_t *at = code->cursor.at;
    code->start = at;
    code->instruction++;
    if (at == code->cursor.end) return cursor_fail(&code->cursor, "the code has no end");
    uint8_t number = *at;
    if (number > code->beam->max_opcode)
        return cursor_fail(&code->cursor, "opcode %u, the highest announced is %u", number, code->beam->max_opcode);
    int result = opcodes[number].since > code->beam->min_otp ? check_generation(code, number) : 0;
    if (result == 0) result = check_place(code, number);
    if (result < 0) return result;
    code->recent = code->recent << 8 | number;
    code->line_instructions += number == OP_LINE;
    code->opcode = &opcodes[number];
    code->cursor.at = at + 1;
    return 0;
}

static inline int read_instruction(struct code *code) {
    struct operand operands[MAX_OPERANDS];
    int result = read_opcode(code);
    if (result < 0) return result;
    const struct opcode *opcode = code->opcode;
    result = read_operands(code, opcode->operands, opcode->operand_count, operands);
    if (result < 0 || !(opcode->check || opcode->list)) return result;
    if (opcode->list) result = read_list(code, opcode->list, (size_t)operands[opcode->operand_count - 1].value);
    return result == 0 && opcode->check ? opcode->check(code, operands) : result;
}

static const char *instruction_name(const struct code *code) {
    bool is_known = code->start < code->cursor.end && *code->start <= MAX_OPCODE;
    return is_known ? opcodes[*code->start].name : "?";
}

static int check_defined(const struct code *code, uint32_t number) {
    const struct label *label = &code->beam->labels[number];
    const struct code_function *function = function_of(code->beam, number);
    struct error *reterr = code->cursor.reterr;
    if (label->used_by && label->function == 0)
        return error_set(reterr, E_FORMAT, "instruction %u: label %u is not defined", label->used_by, number);
    if (label->first_jump_from &&
        (label->first_jump_from != label->function || label->latest_jump_from != label->function))
        return error_set(reterr, E_FORMAT, "instruction %u: a jump to label %u of another function", label->used_by,
                         number);
    if (label->called_with && !function)
        return error_set(reterr, E_FORMAT, "instruction %u: a call to label %u, where no function begins",
                         label->used_by, number);
    if (label->called_with && label->called_with != function->arity + 1)
        return error_set(reterr, E_FORMAT, "instruction %u: a call with %u arguments of a function with %u",
                         label->used_by, label->called_with - 1u, function->arity);
    return 0;
}

static int check_whole(const struct code *code) {
    const struct beam *beam = code->beam;
    int result = cursor_end(&code->cursor);
    if (result == 0 && code->function != beam->function_count)
        return cursor_fail(&code->cursor, "%u functions, %u are announced", code->function, beam->function_count);
    if (result == 0 && beam->has_lines && code->line_instructions > beam->line_instruction_count)
        return cursor_fail(&code->cursor, "%u line instructions, chunk Line announces %u", code->line_instructions,
                           beam->line_instruction_count);
    for (uint32_t i = 1; result == 0 && i < beam->label_count; i++) {
        result = check_defined(code, i);
        if (result < 0) error_prefix(code->cursor.reterr, "chunk Code");
    }
    return result;
}

int read_code(struct beam *beam, struct error *reterr) {
    struct code code = {.beam = beam, .cursor = chunk_cursor(beam, CHUNK_CODE, reterr)};
    int result = read_header(beam, &code.cursor);
    if (result == 0) result = allocate(beam, reterr);
    set_ranges(&code);
    while (result == 0 && !code.at_end) {
        result = read_instruction(&code);
        if (result < 0) error_prefix(reterr, "instruction %u (%s)", code.instruction, instruction_name(&code));
    }
    return result < 0 ? result : check_whole(&code);
}
