#include "beam/code.h"

#include <stdlib.h>

enum {
    CODE_HEADER_BYTES = 16,
    CODE_FORMAT = 0,
    LABEL_LEAST_BYTES = 2,
    FUNCTION_LEAST_BYTES = 8, /* label, func_info, label */
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

/* Jumps stay inside a function, so each label has at most one function that jumps to it. */
static int use_label(struct code *code, uint32_t accepted, uint32_t number) {
    struct label *label = &code->beam->labels[number];
    if (label->used_by == 0) label->used_by = code->instruction;
    if (accepted & MEANS_FUNCTION) return 0;
    if (label->jumped_from != 0 && label->jumped_from != code->function)
        return cursor_fail(&code->cursor, "a jump to label %u out of two functions", number);
    label->jumped_from = code->function;
    return 0;
}

static int check_index(const struct code *code, const char *what, int64_t value, uint32_t count) {
    return value < count ? 0 : cursor_fail(&code->cursor, "%s %jd, there are %u", what, value, count);
}

static int check_meaning(struct code *code, uint32_t accepted, int64_t value) {
    const struct beam *beam = code->beam;
    if (accepted & MEANS_REGISTERS) return check_index(code, "a number of registers", value, MAX_REGISTERS + 1);
    if (accepted & MEANS_IMPORT) return check_index(code, "import", value, beam->import_count);
    if (accepted & MEANS_LAMBDA) return check_index(code, "lambda", value, beam->lambda_count);
    if (accepted & MEANS_LINE && beam->has_lines) return check_index(code, "line", value, beam->line_count + 1);
    return 0;
}

static const char *kind_name(uint32_t kind) {
    static const char *const names[] = {"a plain number",   "an integer",   "an atom", "[]",
                                        "an x register",    "a y register", "a label", "no label",
                                        "a float register", "a literal",    "a list",  "an allocation"};
    return names[__builtin_ctz(kind)];
}

int code_operand(struct code *code, uint32_t accepted, struct operand *ret) {
    int result = operand_read(code->beam, &code->cursor, ret);
    if (result < 0) return result;
    if (!(ret->kind & accepted)) return cursor_fail(&code->cursor, "%s where it can't be", kind_name(ret->kind));
    if (ret->kind == IS_LABEL) return use_label(code, accepted, (uint32_t)ret->value);
    if (ret->kind == IS_UNSIGNED) return check_meaning(code, accepted, ret->value);
    return 0;
}

static int read_groups(struct code *code, const struct list_form *form, size_t count) {
    if (count % form->period != 0)
        return cursor_fail(&code->cursor, "a list of %zu elements, which come in %us", count, form->period);
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i += form->period) {
        struct operand group[MAX_LIST_PERIOD];
        for (unsigned j = 0; result == 0 && j < form->period; j++)
            result = code_operand(code, form->elements[j], &group[j]);
        if (result == 0 && form->check) result = form->check(code, group);
    }
    return result;
}

static int read_operands(struct code *code, struct operand *ret) {
    const struct opcode *opcode = code->opcode;
    int result = 0;
    for (unsigned i = 0; result == 0 && i < opcode->operand_count; i++)
        result = code_operand(code, opcode->operands[i], &ret[i]);
    if (result < 0 || !opcode->list) return result;
    size_t count = (size_t)ret[opcode->operand_count - 1].value;
    return opcode->list->read ? opcode->list->read(code, count) : read_groups(code, opcode->list, count);
}

static int find_opcode(struct code *code) {
    struct beam *beam = code->beam;
    if (cursor_left(&code->cursor) == 0) return cursor_fail(&code->cursor, "the code has no end");
    uint8_t number = *code->cursor.at;
    if (number > MAX_OPCODE || !opcodes[number].name) return cursor_fail(&code->cursor, "opcode %u is unknown", number);
    if (number > beam->max_opcode)
        return cursor_fail(&code->cursor, "opcode %u, the highest announced is %u", number, beam->max_opcode);
    const struct opcode *opcode = &opcodes[number];
    if (opcode->is_obsolete) return cursor_fail(&code->cursor, "opcode %u is obsolete", number);
    if (opcode->since > beam->options.otp)
        return cursor_fail(&code->cursor, "opcode %u needs OTP %u", number, opcode->since);
    if (opcode->since > beam->min_otp) beam->min_otp = opcode->since;
    code->opcode = opcode;
    code->cursor.at++;
    return 0;
}

/* Around functions there is nothing but their labels and lines, and a header is followed by the entry label. */
static int check_place(const struct code *code) {
    check_function *check = code->opcode->check;
    if (code->entry_is_expected && check != check_label)
        return cursor_fail(&code->cursor, "a function without an entry label");
    if (code->function == 0 && check != check_label && check != check_line && check != check_func_info &&
        check != check_code_end)
        return cursor_fail(&code->cursor, "an instruction outside of any function");
    return 0;
}

static int read_instruction(struct code *code) {
    struct operand operands[MAX_OPERANDS];
    code->instruction++;
    code->instruction_at = (size_t)(code->cursor.at - code->beam->code);
    code->opcode = NULL;
    int result = find_opcode(code);
    if (result == 0) result = check_place(code);
    if (result == 0) result = read_operands(code, operands);
    if (result < 0) return result;
    if (code->opcode->check != check_line && code->opcode->check != check_func_info) code->open_label = 0;
    return code->opcode->check ? code->opcode->check(code, operands) : 0;
}

static int check_defined(const struct code *code, uint32_t number) {
    const struct label *label = &code->beam->labels[number];
    const struct code_function *function = function_of(code->beam, number);
    struct error *reterr = code->cursor.reterr;
    if (label->used_by && label->function == 0)
        return error_set(reterr, E_FORMAT, "instruction %u: label %u is not defined", label->used_by, number);
    if (label->jumped_from && label->jumped_from != label->function)
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
    while (result == 0 && !code.at_end) {
        result = read_instruction(&code);
        if (result < 0)
            error_prefix(reterr, "instruction %u (%s)", code.instruction, code.opcode ? code.opcode->name : "?");
    }
    return result < 0 ? result : check_whole(&code);
}
