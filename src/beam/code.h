/* Reading code: instructions, their operands and what is known of them. */
#ifndef BEAM_CODE_H
#define BEAM_CODE_H

#include "beam/compact.h"

enum { MAX_OPERANDS = 8, MAX_OPCODE = 184, MAX_LIST_PERIOD = 6 };

/* What an operand is, one bit each, so that a row of the table can say which it takes. */
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

/* What a number or label means in its place: more than its kind tells. */
enum operand_meaning {
    MEANS_FUNCTION = 1 << 16, /* a label that is called, not jumped to */
    MEANS_IMPORT = 1 << 17,
    MEANS_LAMBDA = 1 << 18,
    MEANS_LINE = 1 << 19,
    MEANS_REGISTERS = 1 << 20, /* a number of registers or parameters */
};

struct operand {
    uint32_t kind;
    bool is_big;   /* an integer beyond value */
    int64_t value; /* number, register, index, or a list's length */
};

struct code {
    struct beam *beam;
    struct cursor cursor;
    uint32_t instruction; /* the number, from 1, of the present one */
    uint32_t function;    /* the number, from 1, of the function that it is in */
    uint32_t open_label;  /* the last label, as long as nothing but a line follows it; 0: none */
    size_t open_label_at; /* its offset */
    bool open_label_has_line;
    bool entry_is_expected; /* a function's header has been read */
    bool at_end;
    uint32_t line_instructions;
    size_t instruction_at;
    const struct opcode *opcode;
};

typedef int check_function(struct code *code, const struct operand *operands);

/* A list operand: so many elements again and again, or, for instructions with a language of their own, a reader. */
struct list_form {
    unsigned period;
    uint32_t elements[MAX_LIST_PERIOD];
    check_function *check; /* of each group */
    int (*read)(struct code *code, size_t count);
};

struct opcode {
    const char *name; /* NULL: there is none of that number */
    unsigned operand_count;
    uint32_t operands[MAX_OPERANDS];
    check_function *check;        /* what the kinds don't say */
    const struct list_form *list; /* of the last operand */
    uint8_t since;                /* the first OTP generation that has it */
    bool is_obsolete;             /* older than any loader here */
};

extern const struct opcode opcodes[MAX_OPCODE + 1];

int operand_read(const struct beam *beam, struct cursor *cursor, struct operand *ret);
/* The same, and that it is one of those accepted. */
int code_operand(struct code *code, uint32_t accepted, struct operand *ret);

check_function check_label, check_func_info, check_code_end, check_call, check_call_external, check_bif, check_line;
check_function check_on_load, check_put_string, check_match_string, check_make_fun, check_binary_segment;
int read_match_commands(struct code *code, size_t count);

#endif
