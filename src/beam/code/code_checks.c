/* Checks of instructions beyond the kinds of their operands. */
#include "beam/code/code.h"

static void begin_body(struct code *code, uint32_t label) {
    struct code_function *function = &code->beam->functions[code->function - 1];
    function->entry = label;
    function->body = (size_t)(code->cursor.at - code->beam->code);
    code->beam->labels[label].entered_with = (uint16_t)(function->arity + 1);
}

/* The label before a function's header belongs to that function, which is not known yet. */
int check_label(struct code *code, const operand_t *operands) {
    const struct beam *beam = code->beam;
    uint64_t value = operand_value(operands[0]);
    if (value == 0 || value >= beam->label_count)
        return cursor_fail(&code->cursor, "label %ju, the last is %u", value, beam->label_count - 1);
    uint32_t number = (uint32_t)value;
    struct label *label = &beam->labels[number];
    if (label->function != 0) return cursor_fail(&code->cursor, "label %u a second time", number);
    label->function = code->function > 0 ? code->function : 1;
    if (code->start == code->header_end) begin_body(code, number);
    code->last_label = number;
    code->last_label_at = code->start;
    code->label_end = code->cursor.at;
    return 0;
}

int check_line(struct code *code, const operand_t *operands) {
    (void)operands;
    code->line_instructions++;
    code->line_at = code->start;
    code->line_end = code->cursor.at;
    return 0;
}

/* At the end it is checked that the label is a function with that arity. */
int check_call(struct code *code, const operand_t *operands) {
    uint64_t arguments = operand_value(operands[0]), number = operand_value(operands[1]);
    struct label_use *use = &code->uses[number];
    if (arguments > MAX_ARITY) return cursor_fail(&code->cursor, "%ju arguments", arguments);
    if (use->called_with != 0 && use->called_with != arguments + 1)
        return cursor_fail(&code->cursor, "a call of label %ju with %ju arguments, others have %u", number, arguments,
                           use->called_with - 1);
    use->called_with = (uint32_t)arguments + 1;
    return 0;
}

static int check_arity(const struct code *code, const struct beam_import *import, uint64_t arguments) {
    if (import->arity == arguments) return 0;
    return cursor_fail(&code->cursor, "%ju arguments for an import of arity %u", arguments, import->arity);
}

int check_call_external(struct code *code, const operand_t *operands) {
    return check_arity(code, &code->beam->imports[operand_value(operands[1])], operand_value(operands[0]));
}

static void end_function(struct code *code, const uint8_t *at) {
    if (code->function > 0) code->beam->functions[code->function - 1].body_end = (size_t)(at - code->beam->code);
}

/* A header has its label before it, with at most a line in between. */
static bool has_label_in_front(const struct code *code) {
    const uint8_t *end = code->start == code->line_end ? code->line_at : code->start;
    return end == code->label_end && code->beam->labels[code->last_label].entered_with == 0;
}

int check_func_info(struct code *code, const operand_t *operands) {
    struct beam *beam = code->beam;
    uint64_t module = operand_value(operands[0]), name = operand_value(operands[1]), arity = operand_value(operands[2]);
    if (!has_label_in_front(code)) return cursor_fail(&code->cursor, "a function's header without a label in front");
    if (module != 1 && !beam_text_equal(beam->atoms[module], beam->atoms[1]))
        return cursor_fail(&code->cursor, "a function of another module, atom %ju", module);
    if (arity > MAX_ARITY) return cursor_fail(&code->cursor, "arity %ju", arity);
    if (code->function == beam->function_count)
        return cursor_fail(&code->cursor, "more functions than the %u announced", beam->function_count);
    if (cursor_left(&code->cursor) > 0 && *code->cursor.at != OP_LABEL)
        return cursor_fail(&code->cursor, "a function without an entry label");
    end_function(code, code->last_label_at);
    beam->functions[code->function++] = (struct code_function){.atom = (uint32_t)name, .arity = (uint32_t)arity};
    beam->labels[code->last_label].function = code->function;
    code->header_end = code->cursor.at;
    return 0;
}

int check_code_end(struct code *code, const operand_t *operands) {
    (void)operands;
    end_function(code, code->start);
    return CODE_ENDS;
}

int check_bif(struct code *code, const operand_t *operands) {
    const struct opcode *opcode = &opcodes[*code->start];
    const struct beam_import *import = &code->beam->imports[operand_value(operands[built_in_place(opcode)])];
    if (!beam_text_is(import->module, "erlang"))
        return cursor_fail(&code->cursor, "a built-in function that is not erlang's");
    return check_arity(code, import, built_in_arity(opcode));
}

int check_on_load(struct code *code, const operand_t *operands) {
    (void)operands;
    if (code->beam->on_load) return cursor_fail(&code->cursor, "on_load a second time");
    if (code->beam->functions[code->function - 1].arity != 0)
        return cursor_fail(&code->cursor, "on_load in a function with parameters");
    code->beam->on_load = true;
    return 0;
}

static int check_string(const struct code *code, uint64_t offset, uint64_t size) {
    size_t available = code->beam->chunks[CHUNK_STRINGS].size;
    if (offset > available || size > available - offset)
        return cursor_fail(&code->cursor, "%ju bytes at %ju of chunk StrT, which has %zu", size, offset, available);
    return 0;
}

int check_put_string(struct code *code, const operand_t *operands) {
    return check_string(code, operand_value(operands[1]), operand_value(operands[0]));
}

int check_match_string(struct code *code, const operand_t *operands) {
    return check_string(code, operand_value(operands[3]), (operand_value(operands[2]) + 7) / 8);
}

/* A closure gets as many values as its code closes over. */
int check_make_fun(struct code *code, const operand_t *operands) {
    const struct beam_lambda *lambda = &code->beam->lambdas[operand_value(operands[0])];
    uint64_t count = operand_value(operands[2]);
    if (count == lambda->free_count) return 0;
    return cursor_fail(&code->cursor, "%ju values for a lambda that closes over %u", count, lambda->free_count);
}

/* A segment is {kind, number, unit, flags, value, size}. For a string, value and size are a range of chunk StrT. */
int check_binary_segment(struct code *code, const operand_t *operands) {
    bool is_string = beam_text_is(code->beam->atoms[operand_value(operands[0])], "string");
    enum operand_form value = operand_form(operands[4]), size = operand_form(operands[5]);
    if (!is_string) return value == FORM_UNSIGNED ? cursor_fail(&code->cursor, "a segment without a value") : 0;
    if (value != FORM_UNSIGNED || (size != FORM_INTEGER && size != FORM_UNSIGNED))
        return cursor_fail(&code->cursor, "a string segment without a place in chunk StrT");
    return check_string(code, operand_value(operands[4]), operand_value(operands[5]));
}
