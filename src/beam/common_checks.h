/* What must hold of the instructions that come most, to be compiled into the reader of each. */
#ifndef BEAM_COMMON_CHECKS_H
#define BEAM_COMMON_CHECKS_H

#include "beam/code.h"

static inline void begin_body(struct code *code, uint32_t label) {
    struct code_function *function = &code->beam->functions[code->function - 1];
    function->entry = label;
    function->body = (size_t)(code->cursor.at - code->beam->code);
    code->beam->labels[label].entered_with = (uint16_t)(function->arity + 1);
}

/* The label in front of a function's header belongs to that function, which is not known yet. */
ALWAYS_INLINE int check_label(struct code *code, const operand_t *operands) {
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

ALWAYS_INLINE int check_line(struct code *code, const operand_t *operands) {
    (void)operands;
    code->line_instructions++;
    code->line_at = code->start;
    code->line_end = code->cursor.at;
    return 0;
}

/* Whether the label is a function's, of that arity, is known at the end. */
ALWAYS_INLINE int check_call(struct code *code, const operand_t *operands) {
    uint64_t arguments = operand_value(operands[0]), number = operand_value(operands[1]);
    struct label *label = &code->beam->labels[number];
    if (arguments > MAX_ARITY) return cursor_fail(&code->cursor, "%ju arguments", arguments);
    uint16_t called_with = (uint16_t)(arguments + 1);
    if (label->called_with != 0 && label->called_with != called_with)
        return cursor_fail(&code->cursor, "a call of label %ju with %ju arguments, others have %d", number, arguments,
                           label->called_with - 1);
    label->called_with = called_with;
    return 0;
}

static inline int check_arity(const struct code *code, const struct beam_import *import, uint64_t arguments) {
    if (import->arity == arguments) return 0;
    return cursor_fail(&code->cursor, "%ju arguments for an import of arity %u", arguments, import->arity);
}

ALWAYS_INLINE int check_call_external(struct code *code, const operand_t *operands) {
    return check_arity(code, &code->beam->imports[operand_value(operands[1])], operand_value(operands[0]));
}

#endif
