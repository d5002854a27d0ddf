/* What must hold of an instruction beyond the kinds of its operands. */
#include "beam/code.h"

static void end_function(struct code *code, const uint8_t *at) {
    if (code->function > 0) code->beam->functions[code->function - 1].body_end = (size_t)(at - code->beam->code);
}

static void begin_body(struct code *code, uint32_t label) {
    struct code_function *function = &code->beam->functions[code->function - 1];
    function->entry = label;
    function->body = (size_t)(code->cursor.at - code->beam->code);
    code->beam->labels[label].is_entry = true;
}

/* Opcodes before the present one, from the last back. */
static uint32_t opcode_before(const struct code *code, unsigned distance) {
    return code->recent >> 8 * distance & 0xff;
}

/* The label in front of a function's header belongs to that function, which is not known yet. */
int check_label(struct code *code, const struct operand *operands) {
    const struct beam *beam = code->beam;
    if (operands[0].value == 0 || operands[0].value >= beam->label_count)
        return cursor_fail(&code->cursor, "label %jd, the last is %u", operands[0].value, beam->label_count - 1);
    uint32_t number = (uint32_t)operands[0].value;
    struct label *label = &beam->labels[number];
    if (label->function != 0) return cursor_fail(&code->cursor, "label %u a second time", number);
    label->function = code->function > 0 ? code->function : 1;
    if (opcode_before(code, 1) == OP_FUNC_INFO) begin_body(code, number);
    code->last_label = number;
    code->last_label_at = code->start;
    return 0;
}

/* A header has its label in front, with at most a line between them. */
static bool has_label_in_front(const struct code *code) {
    unsigned distance = opcode_before(code, 1) == OP_LINE ? 2 : 1;
    return opcode_before(code, distance) == OP_LABEL && !code->beam->labels[code->last_label].is_entry;
}

int check_func_info(struct code *code, const struct operand *operands) {
    struct beam *beam = code->beam;
    if (!has_label_in_front(code)) return cursor_fail(&code->cursor, "a function's header without a label in front");
    if (!beam_text_equal(beam->atoms[operands[0].value], beam->atoms[1]))
        return cursor_fail(&code->cursor, "a function of another module, atom %jd", operands[0].value);
    if (operands[2].value > MAX_ARITY) return cursor_fail(&code->cursor, "arity %jd", operands[2].value);
    if (code->function == beam->function_count)
        return cursor_fail(&code->cursor, "more functions than the %u announced", beam->function_count);
    end_function(code, code->last_label_at);
    beam->functions[code->function++] =
        (struct code_function){.atom = (uint32_t)operands[1].value, .arity = (uint32_t)operands[2].value};
    beam->labels[code->last_label].function = code->function;
    return 0;
}

int check_code_end(struct code *code, const struct operand *operands) {
    (void)operands;
    end_function(code, code->start);
    code->at_end = true;
    return 0;
}

/* Whether the label is a function's, of that arity, is known at the end. */
int check_call(struct code *code, const struct operand *operands) {
    struct label *label = &code->beam->labels[operands[1].value];
    if (operands[0].value > MAX_ARITY) return cursor_fail(&code->cursor, "%jd arguments", operands[0].value);
    uint16_t called_with = (uint16_t)(operands[0].value + 1);
    if (label->called_with != 0 && label->called_with != called_with)
        return cursor_fail(&code->cursor, "a call of label %jd with %d arguments, others have %d", operands[1].value,
                           called_with - 1, label->called_with - 1);
    label->called_with = called_with;
    return 0;
}

static int check_arity(const struct code *code, const struct beam_import *import, int64_t arguments) {
    if (import->arity == arguments) return 0;
    return cursor_fail(&code->cursor, "%jd arguments for an import of arity %u", arguments, import->arity);
}

int check_call_external(struct code *code, const struct operand *operands) {
    return check_arity(code, &code->beam->imports[operands[1].value], operands[0].value);
}

/* Between the import and the destination there are as many operands as it has parameters. */
int check_bif(struct code *code, const struct operand *operands) {
    const struct opcode *opcode = code->opcode;
    unsigned place = 0;
    while (opcode->operands[place] != ROLE_IMPORT) place++;
    const struct beam_import *import = &code->beam->imports[operands[place].value];
    if (!beam_text_is(import->module, "erlang"))
        return cursor_fail(&code->cursor, "a built-in function that is not erlang's");
    return check_arity(code, import, opcode->operand_count - place - 2);
}

int check_on_load(struct code *code, const struct operand *operands) {
    (void)operands;
    if (code->beam->on_load) return cursor_fail(&code->cursor, "on_load a second time");
    if (code->beam->functions[code->function - 1].arity != 0)
        return cursor_fail(&code->cursor, "on_load in a function with parameters");
    code->beam->on_load = true;
    return 0;
}

static int check_string(const struct code *code, int64_t offset, int64_t size) {
    size_t available = code->beam->chunks[CHUNK_STRINGS].size;
    if ((uint64_t)offset > available || (uint64_t)size > available - (uint64_t)offset)
        return cursor_fail(&code->cursor, "%jd bytes at %jd of chunk StrT, which has %zu", size, offset, available);
    return 0;
}

int check_put_string(struct code *code, const struct operand *operands) {
    return check_string(code, operands[1].value, operands[0].value);
}

int check_match_string(struct code *code, const struct operand *operands) {
    return check_string(code, operands[3].value, operands[2].value / 8 + (operands[2].value % 8 != 0));
}

/* Closures get as many values as their code closes over. */
int check_make_fun(struct code *code, const struct operand *operands) {
    const struct beam_lambda *lambda = &code->beam->lambdas[operands[0].value];
    if (operands[2].value == lambda->free_count) return 0;
    return cursor_fail(&code->cursor, "%jd values for a lambda that closes over %u", operands[2].value,
                       lambda->free_count);
}

/* A segment is {kind, number, unit, flags, value, size}; of a string, value and size are a place in chunk StrT. */
int check_binary_segment(struct code *code, const struct operand *operands) {
    bool is_string = beam_text_is(code->beam->atoms[operands[0].value], "string");
    if (!is_string) return operands[4].kind == IS_UNSIGNED ? cursor_fail(&code->cursor, "a segment's value") : 0;
    if (operands[4].kind != IS_UNSIGNED || !(operands[5].kind & (IS_INTEGER | IS_UNSIGNED)) || operands[5].is_big ||
        operands[5].value < 0)
        return cursor_fail(&code->cursor, "a string segment without a place in chunk StrT");
    return check_string(code, operands[4].value, operands[5].value);
}
