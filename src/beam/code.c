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

/* Nearly all operands are one or two bytes, and one comparison tells whether those fit. */
static inline const uint8_t *read_operand(struct code *code, const uint8_t *at, enum operand_role role,
                                          operand_t *ret) {
    if (code->cursor.end - at < 2) return code_operand_any(code, at, role, ret);
    uint32_t head = at[0], tag = head & 7, is_wide = head & 0x08;
    if (is_wide && head & 0x10) return code_operand_any(code, at, role, ret);
    uint32_t value = is_wide ? head >> 5 << 8 | at[1] : head >> 4;
    const struct value_range *range = &code->ranges[role][tag];
    if (value - range->start >= range->count) return code_operand_any(code, at, role, ret);
    if (tag == COMPACT_LABEL) code_use_label(code, role, value);
    *ret = operand_make((enum operand_form)tag, value);
    return is_wide ? at + 2 : at + 1;
}

static inline const uint8_t *read_operands(struct code *code, const uint8_t *at, const uint8_t *roles, size_t count,
                                           operand_t *ret) {
    for (size_t i = 0; at && i < count; i++) at = read_operand(code, at, roles[i], &ret[i]);
    return at;
}

const uint8_t *code_operands(struct code *code, const uint8_t *at, const uint8_t *roles, size_t count, operand_t *ret) {
    return read_operands(code, at, roles, count, ret);
}

/* Places are told to those that can fail. */
static const uint8_t *judge(struct code *code, const uint8_t *at, check_function *check, const operand_t *operands) {
    code->cursor.at = at;
    code->failure = check(code, operands);
    return code->failure < 0 ? NULL : at;
}

static const uint8_t *read_list(struct code *code, const uint8_t *at, const struct list_form *form, size_t count) {
    operand_t group[MAX_LIST_PERIOD];
    if (form->read) return form->read(code, at, count);
    for (; at && count >= form->period; count -= form->period) {
        at = read_operands(code, at, form->elements, form->period, group);
        if (at && form->check) at = judge(code, at, form->check, group);
    }
    if (!at || count == 0) return at;
    code->cursor.at = at;
    code->failure = cursor_fail(&code->cursor, "a list whose elements do not come in %us", form->period);
    return NULL;
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
    bool is_around = number == OP_LABEL || number == OP_LINE || number == OP_FUNC_INFO || number == OP_CODE_END;
    if (code->function == 0 && !is_around) return cursor_fail(&code->cursor, "an instruction outside of any function");
    if ((code->recent & 0xff) == OP_FUNC_INFO && number != OP_LABEL)
        return cursor_fail(&code->cursor, "a function without an entry label");
    return 0;
}

static int check_opcode(struct code *code, uint8_t number) {
    if (number > code->beam->max_opcode)
        return cursor_fail(&code->cursor, "opcode %u, the highest announced is %u", number, code->beam->max_opcode);
    int result = opcodes[number].since > code->beam->min_otp ? check_generation(code, number) : 0;
    return result < 0 ? result : check_place(code, number);
}

static inline const uint8_t *read_instruction(struct code *code, const uint8_t *at) {
    operand_t operands[MAX_OPERANDS];
    code->start = code->cursor.at = at;
    code->instruction++;
    code->failure =
        at == code->cursor.end ? cursor_fail(&code->cursor, "the code has no end") : check_opcode(code, *at);
    if (code->failure < 0) return NULL;
    const struct opcode *opcode = &opcodes[*at];
    code->recent = code->recent << 8 | *at;
    code->line_instructions += *at == OP_LINE;
    at = read_operands(code, at + 1, opcode->operands, opcode->operand_count, operands);
    /* What has a list has its length as the last operand. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
    if (at && opcode->list) at = read_list(code, at, opcode->list, operand_value(operands[opcode->operand_count - 1]));
    return at && opcode->check ? judge(code, at, opcode->check, operands) : at;
}

static int read_instructions(struct code *code) {
    const uint8_t *at = code->cursor.at;
    while (at && !code->at_end) at = read_instruction(code, at);
    return code->failure;
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
    if (result < 0) return result;
    code_set_ranges(&code);
    result = read_instructions(&code);
    if (result < 0) return error_prefix(reterr, "instruction %u (%s)", code.instruction, instruction_name(&code));
    return check_whole(&code);
}
