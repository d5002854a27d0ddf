/* Reading one instruction whose operands have short forms, as nearly all have. Whatever is different, be it longer or
   wrong, is left to code_instruction_any. */
#ifndef BEAM_INSTRUCTION_H
#define BEAM_INSTRUCTION_H

#include "beam/code.h"

enum {
    SHORT_OPERAND_BYTES = 9, /* an integer of eight */
    SHORT_ALLOCATION_BYTES = 14,
    SHORT_INSTRUCTION_BYTES = 1 + MAX_OPERANDS * SHORT_OPERAND_BYTES + SHORT_ALLOCATION_BYTES,
    HEAD_WIDE = 1 << 3,
    HEAD_LONG = 3 << 3,
    HEAD_LIST = 1 << 4 | COMPACT_EXTENDED,
    HEAD_ALLOCATION = 3 << 4 | COMPACT_EXTENDED,
    HEAD_LITERAL = 4 << 4 | COMPACT_EXTENDED,
    HEAD_TYPED_REGISTER = 5 << 4 | COMPACT_EXTENDED,
};

ALWAYS_INLINE uint32_t wide_value(const uint8_t *at) {
    return (uint32_t)at[0] >> 5 << 8 | at[1];
}

/* A plain number of one or two bytes. */
ALWAYS_INLINE const uint8_t *read_number(const uint8_t *at, uint32_t *ret) {
    bool is_narrow = (at[0] & 0x0f) == COMPACT_UNSIGNED;
    if (!is_narrow && (at[0] & 0x1f) != (COMPACT_UNSIGNED | HEAD_WIDE)) return NULL;
    *ret = is_narrow ? at[0] >> 4 : wide_value(at);
    return is_narrow ? at + 1 : at + 2;
}

/* The tag that all operands of a role have; COMPACT_TAGS when there are several. */
ALWAYS_INLINE uint32_t only_tag(enum operand_role role) {
    switch (role_kinds[role]) {
    case IS_UNSIGNED: return COMPACT_UNSIGNED;
    case IS_ATOM: return COMPACT_ATOM;
    case IS_LABEL: return COMPACT_LABEL;
    default: return COMPACT_TAGS;
    }
}

/* 0 in more bytes than it needs is left to the others, for it may be of another kind than the rest. */
ALWAYS_INLINE const uint8_t *take_value(struct code *code, const uint8_t *end, enum operand_role role, uint32_t tag,
                                        uint32_t value, operand_t *ret) {
    bool is_number = role_kinds[role] & IS_UNSIGNED && tag == COMPACT_UNSIGNED;
    uint32_t values = is_number ? code->number_ends[role] : code->tag_ends[tag];
    if (value - 1 >= values - 1) return NULL;
    if (role_kinds[role] & IS_LABEL && tag == COMPACT_LABEL) code_use_label(code, role, value);
    *ret = operand_make((enum operand_form)tag, value);
    return end;
}

ALWAYS_INLINE bool takes(const struct code *code, enum operand_role role, uint32_t head) {
    return code->takers[head] >> role & 1;
}

/* Words, floats and funs: how many of these follow, and kind and number of each. */
static inline const uint8_t *read_allocation(const uint8_t *at, operand_t *ret) {
    uint32_t count = 0, kind = 0, number = 0;
    uint64_t total = 0;
    at = read_number(at + 1, &count);
    if (count > ALLOCATION_KINDS) return NULL;
    for (; at && count > 0; count--) {
        at = read_number(at, &kind);
        if (at) at = kind < ALLOCATION_KINDS ? read_number(at, &number) : NULL;
        total += number;
    }
    *ret = operand_make(FORM_ALLOCATION, total);
    return at;
}

/* Of a length, in the upper bits of its first byte, that is not followed by one of its own; nobody needs its value. */
static inline const uint8_t *read_long_integer(const uint8_t *at, operand_t *ret) {
    uint32_t size = (uint32_t)at[0] >> 5;
    *ret = operand_make(FORM_BIG, 0);
    return size < 7 ? at + 3 + size : NULL;
}

/* Indexes of 16 bits, integers, literals, registers with a type, allocations. */
static __attribute__((noinline)) const uint8_t *read_longer(struct code *code, const uint8_t *at,
                                                            enum operand_role role, operand_t *ret) {
    const struct beam *beam = code->beam;
    uint32_t head = at[0], tag = head & 7, index = 0;
    if (head == HEAD_LITERAL && role_kinds[role] & IS_LITERAL) {
        at = read_number(at + 1, &index);
        *ret = operand_make(FORM_LITERAL, index);
        return at && index < beam->literal_count ? at : NULL;
    }
    if (head == HEAD_TYPED_REGISTER && takes(code, role, at[1]) && takes(code, ROLE_REGISTER, at[1])) {
        *ret = at[1];
        at = read_number(at + 2, &index);
        return at && (!beam->has_types || index < beam->type_count) ? at : NULL;
    }
    if (head == HEAD_ALLOCATION && role_kinds[role] & IS_ALLOCATION) return read_allocation(at, ret);
    if (!(head & HEAD_WIDE) || !(code->long_takers[tag] >> role & 1)) return NULL;
    if ((head & HEAD_LONG) == HEAD_WIDE) return take_value(code, at + 2, role, tag, wide_value(at), ret);
    if (tag == COMPACT_INTEGER) return read_long_integer(at, ret);
    return head >> 5 ? NULL : take_value(code, at + 3, role, tag, (uint32_t)at[1] << 8 | at[2], ret);
}

ALWAYS_INLINE const uint8_t *read_wide(struct code *code, const uint8_t *at, enum operand_role role, operand_t *ret) {
    uint32_t head = at[0], tag = only_tag(role);
    bool is_wide = tag == COMPACT_TAGS ? (head & 0x18) == HEAD_WIDE && code->long_takers[head & 7] >> role & 1
                                       : (head & 0x1f) == (tag | HEAD_WIDE);
    if (!is_wide) return read_longer(code, at, role, ret);
    return take_value(code, at + 2, role, tag == COMPACT_TAGS ? head & 7 : tag, wide_value(at), ret);
}

ALWAYS_INLINE const uint8_t *read_length(const uint8_t *at, operand_t *ret) {
    uint32_t count = 0;
    if (at[0] != HEAD_LIST) return NULL;
    at = read_number(at + 1, &count);
    *ret = operand_make(FORM_LIST, count);
    return at;
}

/* Registers and the like are hardly ever longer than a byte: no place for that in each copy. */
ALWAYS_INLINE bool is_narrow_role(enum operand_role role) {
    return role == ROLE_REGISTERS || role == ROLE_SLOT || role == ROLE_REGISTER;
}

ALWAYS_INLINE const uint8_t *read_operand(struct code *code, const uint8_t *at, enum operand_role role,
                                          operand_t *ret) {
    uint32_t head = at[0];
    if (role == ROLE_LIST) return read_length(at, ret);
    if ((role == ROLE_JUMP || role == ROLE_FUNCTION) && (head & 0x1f) == (COMPACT_LABEL | HEAD_WIDE))
        return take_value(code, at + 2, role, COMPACT_LABEL, wide_value(at), ret);
    if (takes(code, role, head)) {
        if (role_kinds[role] & IS_LABEL && (head & 7) == COMPACT_LABEL) code_use_label(code, role, head >> 4);
        *ret = head;
        return at + 1;
    }
    return is_narrow_role(role) ? read_longer(code, at, role, ret) : read_wide(code, at, role, ret);
}

ALWAYS_INLINE const uint8_t *read_operands(struct code *code, const uint8_t *at, const uint8_t *roles, unsigned count,
                                           operand_t *ret) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; i++) {
        at = read_operand(code, at, roles[i], &ret[i]);
        if (!at) return NULL;
    }
    return at;
}

ALWAYS_INLINE const uint8_t *read_elements(struct code *code, const uint8_t *at, const struct list_form *form,
                                           uint64_t count) {
    operand_t group[MAX_LIST_PERIOD];
    for (; count >= form->period; count -= form->period) {
        const uint8_t *next = NULL;
        if (code->readable_end - at >= SHORT_INSTRUCTION_BYTES)
            next = read_operands(code, at, form->elements, form->period, group);
        if (!next && at < code->cursor.end) next = code_operands_any(code, at, form->elements, form->period, group);
        if (!next) return NULL;
        at = next;
    }
    return count == 0 ? at : NULL;
}

ALWAYS_INLINE const uint8_t *end_instruction(struct code *code, const uint8_t *start, const uint8_t *at,
                                             const struct opcode *opcode, const operand_t *operands) {
    if (!at) return code_instruction_any(code, start);
    if (!opcode->check) return at;
    code->start = start;
    code->cursor.at = at;
    code->failure = opcode->check(code, operands);
    return code->failure == 0 ? at : NULL;
}

/* For opcodes that the compiler knows. A list's groups are not checked here: what has such lists is uncommon. */
ALWAYS_INLINE const uint8_t *read_instruction(struct code *code, const uint8_t *start, const struct opcode *opcode) {
    operand_t operands[MAX_OPERANDS];
    const uint8_t *at = read_operands(code, start + 1, opcode->operands, opcode->operand_count, operands);
    if (at && opcode->list) /* its length is the last operand. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        at = read_elements(code, at, opcode->list, operand_value(operands[opcode->operand_count - 1]));
    return end_instruction(code, start, at, opcode, operands);
}

static __attribute__((noinline)) const uint8_t *read_uncommon(struct code *code, const uint8_t *start,
                                                              const struct opcode *opcode) {
    operand_t operands[MAX_OPERANDS];
    const struct list_form *list = opcode->list;
    bool is_plain = opcode->since != OPCODE_NEVER && !(list && (list->read || list->check));
    const uint8_t *at = is_plain ? start + 1 : NULL;
    for (unsigned i = 0; at && i < opcode->operand_count; i++)
        at = read_operand(code, at, opcode->operands[i], &operands[i]);
    if (at && list) at = read_elements(code, at, list, operand_value(operands[opcode->operand_count - 1]));
    return end_instruction(code, start, at, opcode, operands);
}

#endif
