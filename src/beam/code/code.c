/* The full reader of code: it checks instruction by instruction and gives exact errors. */
#include "beam/code/code.h"

#include <stdlib.h>
#include <string.h>

#include "beam/code/survey.h"

enum {
    CODE_HEADER_BYTES = 16,
    CODE_FORMAT = 0,
    LABEL_LEAST_BYTES = 2,
    FUNCTION_LEAST_BYTES = 8, /* label, func_info, label */
};

/* Sizes are bounded by what the code could define, so that a header can't cause larger allocations. */
static int check_header(const struct beam *beam, const struct cursor *cursor) {
    size_t most_labels = beam->code_size / LABEL_LEAST_BYTES;
    if (beam->label_count == 0 || beam->label_count - 1 > most_labels)
        return cursor_fail(cursor, "%u labels in %zu bytes of code", beam->label_count, beam->code_size);
    if (beam->function_count > beam->code_size / FUNCTION_LEAST_BYTES)
        return cursor_fail(cursor, "%u functions in %zu bytes of code", beam->function_count, beam->code_size);
    if (beam->max_opcode > MAX_OPCODE)
        return cursor_too_new(cursor, "opcode %u is of a newer OTP than %d", beam->max_opcode, BEAM_NEWEST_OTP);
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
    beam->labels = malloc(beam->label_count * sizeof *beam->labels);
    beam->functions = malloc(((size_t)beam->function_count + 1) * sizeof *beam->functions);
    return beam->labels && beam->functions ? 0 : beam_no_memory(reterr);
}

/* The place is stored for checks that can fail. */
static const uint8_t *judge(struct code *code, const uint8_t *at, check_function *check, const operand_t *operands) {
    code->cursor.at = at;
    code->failure = check(code, operands);
    return code->failure == 0 ? at : NULL;
}

static const uint8_t *read_list(struct code *code, const uint8_t *at, const struct list_form *form, size_t count) {
    operand_t group[MAX_LIST_PERIOD];
    if (form->read) return form->read(code, at, count);
    for (; at && count >= form->period; count -= form->period) {
        at = code_operands_any(code, at, form->elements, form->period, group);
        if (at && form->check) at = judge(code, at, form->check, group);
    }
    if (!at || count == 0) return at;
    code->cursor.at = at;
    code->failure = cursor_fail(&code->cursor, "a list whose elements do not come in %us", form->period);
    return NULL;
}

/* Outside functions there are only their labels and lines. */
static int check_opcode(struct code *code, uint8_t number) {
    struct beam *beam = code->beam;
    const struct cursor *cursor = &code->cursor;
    if (number > beam->max_opcode)
        return cursor_fail(cursor, "opcode %u, the highest announced is %u", number, beam->max_opcode);
    unsigned since = opcodes[number].since;
    if (since == OPCODE_NEVER) return cursor_fail(cursor, "opcode %u is unknown or obsolete", number);
    if (since > beam->options.otp) return cursor_fail(cursor, "opcode %u needs OTP %u", number, since);
    bool is_around = number == OP_LABEL || number == OP_LINE || number == OP_FUNC_INFO || number == OP_CODE_END;
    if (code->function == 0 && !is_around) return cursor_fail(cursor, "an instruction outside of any function");
    if (since > beam->min_otp) beam->min_otp = since;
    return 0;
}

const uint8_t *code_instruction_any(struct code *code, const uint8_t *at) {
    operand_t operands[MAX_OPERANDS];
    code->start = code->cursor.at = at;
    code->failure =
        at >= code->cursor.end ? cursor_fail(&code->cursor, "the code has no end") : check_opcode(code, *at);
    if (code->failure < 0) return NULL;
    const struct opcode *opcode = &opcodes[*at];
    at = code_operands_any(code, at + 1, opcode->operands, opcode->operand_count, operands);
    /* What has a list has its length as the last operand. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
    if (at && opcode->list) at = read_list(code, at, opcode->list, operand_value(operands[opcode->operand_count - 1]));
    return at && opcode->check ? judge(code, at, opcode->check, operands) : at;
}

static const char *instruction_name(const struct code *code) {
    bool is_known = code->start < code->cursor.end && *code->start <= MAX_OPCODE;
    return is_known ? opcodes[*code->start].name : "?";
}

static int check_use(const struct code *code, uint32_t number) {
    const struct label *label = &code->beam->labels[number];
    const struct label_use *use = &code->uses[number];
    const struct code_function *function = function_of(code->beam, number);
    struct error *reterr = code->cursor.reterr;
    if (use->instruction && label->function == 0)
        return error_set(reterr, E_FORMAT, "instruction %u: label %u is not defined", use->instruction, number);
    if (use->first_jump_from && (use->first_jump_from != label->function || use->latest_jump_from != label->function))
        return error_set(reterr, E_FORMAT, "instruction %u: a jump to label %u of another function", use->instruction,
                         number);
    if (use->called_with && !function)
        return error_set(reterr, E_FORMAT, "instruction %u: a call to label %u, where no function begins",
                         use->instruction, number);
    if (use->called_with && use->called_with != function->arity + 1)
        return error_set(reterr, E_FORMAT, "instruction %u: a call with %u arguments of a function with %u",
                         use->instruction, use->called_with - 1, function->arity);
    return 0;
}

static int check_counts(const struct code *code) {
    const struct beam *beam = code->beam;
    int result = cursor_end(&code->cursor);
    if (result < 0) return result;
    if (code->function != beam->function_count)
        return cursor_fail(&code->cursor, "%u functions, %u are announced", code->function, beam->function_count);
    if (beam->has_lines && code->line_instructions > beam->line_instruction_count)
        return cursor_fail(&code->cursor, "%u line instructions, chunk Line announces %u", code->line_instructions,
                           beam->line_instruction_count);
    return 0;
}

static int check_labels(const struct code *code) {
    int result = 0;
    for (uint32_t i = 1; result == 0 && i < code->beam->label_count; i++) result = check_use(code, i);
    return result < 0 ? error_prefix(code->cursor.reterr, "chunk Code") : 0;
}

static int read_slowly(struct code *code) {
    const uint8_t *at = code->cursor.at;
    for (code->instruction = 1; at; code->instruction++) {
        at = code_instruction_any(code, at);
        if (code->failure < 0)
            return error_prefix(code->cursor.reterr, "instruction %u (%s)", code->instruction, instruction_name(code));
    }
    int result = check_counts(code);
    return result < 0 ? result : check_labels(code);
}

void code_begin(struct code *code, struct beam *beam, struct label_use *uses, struct error *reterr) {
    memset(beam->labels, 0, beam->label_count * sizeof *beam->labels);
    beam->on_load = false;
    *code = (struct code){.beam = beam, .uses = uses, .cursor = chunk_cursor(beam, CHUNK_CODE, reterr)};
    code->cursor.at = beam->code;
}

int read_code_again(struct beam *beam, struct error *reterr) {
    CLEANUP_FREE struct label_use *uses = calloc(beam->label_count, sizeof *uses);
    struct code code;
    if (!uses) return beam_no_memory(reterr);
    code_begin(&code, beam, uses, reterr);
    return read_slowly(&code);
}

int read_code(struct beam *beam, struct error *reterr) {
    struct cursor cursor = chunk_cursor(beam, CHUNK_CODE, reterr);
    int result = read_header(beam, &cursor);
    if (result == 0) result = allocate(beam, reterr);
    if (result == 0) result = read_code_quickly(beam, surveyor_best(), reterr);
    return result == CODE_UNSURE ? read_code_again(beam, reterr) : result;
}
