/* Reading code: instructions, their operands and the checks of both. */
#ifndef BEAM_CODE_CODE_H
#define BEAM_CODE_CODE_H

#include "beam/code/compact.h"

enum { MAX_OPERANDS = 8, MAX_OPCODE = 191, MAX_LIST_PERIOD = 6 };

/* What an operand may be, one bit each. */
enum operand_kind {
    IS_UNSIGNED = 1 << 0,
    IS_INTEGER = 1 << 1,
    IS_ATOM = 1 << 2,
    IS_NIL = 1 << 3,
    IS_X = 1 << 4,
    IS_Y = 1 << 5,
    IS_LABEL = 1 << 6,
    IS_NO_LABEL = 1 << 7,
    IS_FLOAT_REGISTER = 1 << 8,
    IS_LITERAL = 1 << 9,
    IS_LIST = 1 << 10,
    IS_ALLOCATION = 1 << 11,
};

/* The role of an operand: its kinds, and what a plain number or a label means there. The letters are the loader's own
   where it has some. */
#define ROLE_LIST(X)                                                                                                   \
    X(NUMBER, IS_UNSIGNED)                                                                                             \
    X(REGISTERS, IS_UNSIGNED) /* a count: live registers, stack slots,                                                 \
                                 parameters */                                                                         \
    X(WORDS, IS_UNSIGNED | IS_ALLOCATION)                                                                              \
    X(IMPORT, IS_UNSIGNED)                                                                                             \
    X(LAMBDA, IS_UNSIGNED)                                                                                             \
    X(LAMBDA_OR_ATOM, IS_UNSIGNED | IS_ATOM)                                                                           \
    X(LINE, IS_UNSIGNED)                                                                                               \
    X(ATOM, IS_ATOM)                                                                                                   \
    X(NUMBER_OR_ATOM, IS_UNSIGNED | IS_ATOM)                                                                           \
    X(JUMP, IS_LABEL)                                                                                                  \
    X(JUMP_OR_ATOM, IS_LABEL | IS_ATOM)                                                                                \
    X(FAILURE, IS_LABEL | IS_NO_LABEL) /* without a label, failure raises an                                           \
                                          exception */                                                                 \
    X(FUNCTION, IS_LABEL)              /* called, not jumped to */                                                     \
    X(SLOT, IS_Y)                                                                                                      \
    X(REGISTER, IS_X | IS_Y)                                                                                           \
    X(SOURCE, IS_X | IS_Y | IS_INTEGER | IS_ATOM | IS_NIL | IS_LITERAL)                                                \
    X(SOURCE_OR_NUMBER, IS_X | IS_Y | IS_INTEGER | IS_ATOM | IS_NIL | IS_LITERAL | IS_UNSIGNED)                        \
    X(CONSTANT, IS_INTEGER | IS_ATOM | IS_NIL | IS_LITERAL)                                                            \
    X(FLOAT, IS_FLOAT_REGISTER)                                                                                        \
    X(SOURCE_OR_FLOAT, IS_X | IS_Y | IS_LITERAL | IS_FLOAT_REGISTER)                                                   \
    X(REGISTER_OR_FLOAT, IS_X | IS_Y | IS_FLOAT_REGISTER)                                                              \
    X(FLAGS, IS_NIL | IS_LITERAL)                                                                                      \
    X(REGISTERS_OR_NIL, IS_UNSIGNED | IS_NIL)                                                                          \
    X(NUMBER_OR_INTEGER, IS_UNSIGNED | IS_INTEGER)                                                                     \
    X(LIST, IS_LIST)

enum operand_role {
#define X(name, kinds) ROLE_##name,
    ROLE_LIST(X)
#undef X
        ROLE_COUNT
};

static const uint16_t role_kinds[ROLE_COUNT] = {
#define X(name, kinds) kinds,
    ROLE_LIST(X)
#undef X
};

/* A value and, in the lowest four bits, its form. An operand of one byte is that byte. */
typedef uint64_t operand_t;

enum operand_form {
    FORM_UNSIGNED = COMPACT_UNSIGNED,
    FORM_INTEGER = COMPACT_INTEGER,
    FORM_ATOM = COMPACT_ATOM, /* 0: [] */
    FORM_X = COMPACT_X,
    FORM_Y = COMPACT_Y,
    FORM_LABEL = COMPACT_LABEL, /* 0: none */
    FORM_BIG = COMPACT_TAGS,    /* an integer that does not fit */
    FORM_FLOAT_REGISTER,
    FORM_LITERAL,
    FORM_LIST, /* its length */
    FORM_ALLOCATION,
};

enum { FORM_BITS = 4 };

static inline operand_t operand_make(enum operand_form form, uint64_t value) {
    return value << FORM_BITS | form;
}

static inline enum operand_form operand_form(operand_t operand) {
    return operand & ((1 << FORM_BITS) - 1);
}

/* Never negative: integers below 0 are in the big form. */
static inline uint64_t operand_value(operand_t operand) {
    return operand >> FORM_BITS;
}

enum { OPCODE_NEVER = UINT8_MAX }; /* no supported loader accepts it */

/* The uses of a label. */
struct label_use {
    uint32_t first_jump_from;  /* the number of the first function that jumps to it; 0: none */
    uint32_t latest_jump_from; /* and of the last */
    uint32_t instruction;      /* the number, from 1, of the last instruction that names it */
    uint32_t called_with;      /* arity + 1 of the calls to it; 0: none */
};

/* Code that is read instruction by instruction. */
struct code {
    struct beam *beam;
    struct label_use *uses; /* of each label; NULL: not recorded */
    struct cursor cursor;
    const uint8_t *start; /* of the present instruction */
    uint32_t instruction; /* its number, from 1 */
    uint32_t function;    /* the number, from 1, of its function */
    uint32_t last_label;
    const uint8_t *last_label_at;
    const uint8_t *label_end; /* where the last label, line and header end */
    const uint8_t *line_at, *line_end;
    const uint8_t *header_end;
    uint32_t line_instructions;
    int failure; /* the error of a function that returned NULL */
};

enum { CODE_ENDS = 1, ALLOCATION_KINDS = 3 };

/* Returns 0, an error, or CODE_ENDS. */
typedef int check_function(struct code *code, const operand_t *operands);

/* A list operand: groups of elements with these roles, or a reader for lists with their own language. */
struct list_form {
    unsigned period;
    uint8_t elements[MAX_LIST_PERIOD]; /* roles */
    check_function *check;             /* of each group */
    const uint8_t *(*read)(struct code *code, const uint8_t *at, size_t count);
};

struct opcode {
    const char *name;
    uint8_t operand_count;
    uint8_t operands[MAX_OPERANDS]; /* roles */
    check_function *check;          /* checks beyond the kinds */
    const struct list_form *list;   /* of the last operand */
    uint8_t since;                  /* the first OTP release that has it, or OPCODE_NEVER */
};

enum {
    OP_LABEL = 1,
    OP_FUNC_INFO = 2,
    OP_CODE_END = 3,
    OP_LINE = 153,
    OP_PUT_MAP_ASSOC = 154,
    OP_PUT_MAP_EXACT = 155,
    OP_MAKE_FUN3 = 171,
};

/* One for each byte, so that no index is out of range. Up to MAX_OPCODE they are ordered by since, except obsolete
   ones. */
extern const struct opcode opcodes[UINT8_MAX + 1];

/* Reads any operand in any form. */
int operand_read(const struct beam *beam, struct cursor *cursor, operand_t *ret);

/* The full reader. Functions take the place in the code and return where they end, or NULL on an error, which is then
   in failure. */
void code_begin(struct code *code, struct beam *beam, struct label_use *uses, struct error *reterr);
const uint8_t *code_operand_any(struct code *code, const uint8_t *at, enum operand_role role, operand_t *ret);
const uint8_t *code_operands_any(struct code *code, const uint8_t *at, const uint8_t *roles, size_t count,
                                 operand_t *ret);
const uint8_t *code_instruction_any(struct code *code, const uint8_t *at);

/* The operand of an instruction that is a built-in function. */
static inline unsigned built_in_place(const struct opcode *opcode) {
    unsigned place = 0;
    while (place < MAX_OPERANDS && opcode->operands[place] != ROLE_IMPORT) place++;
    return place;
}

/* The operands between it and the destination are its parameters. */
static inline unsigned built_in_arity(const struct opcode *opcode) {
    return opcode->operand_count - built_in_place(opcode) - 2u;
}

check_function check_label, check_func_info, check_code_end, check_line, check_call, check_call_external, check_bif,
    check_on_load, check_put_string, check_match_string, check_make_fun, check_binary_segment;
const uint8_t *read_match_commands(struct code *code, const uint8_t *at, size_t count);

#endif
