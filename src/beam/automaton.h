/* Code as a language that is read byte by byte: a step for each byte tells what the byte is and what may come next, so
   that reading takes no branches. The steps are made from the tables of opcodes and roles when this is built. */
#ifndef BEAM_AUTOMATON_H
#define BEAM_AUTOMATON_H

#include "beam/code.h"

/* What a byte is: an opcode, or the beginning of a value that something is asked of. All others are nothing. */
enum mark {
    MARK_NONE,
    MARK_ATOM,
    MARK_JUMP,
    MARK_CALL,
    MARK_LABEL,    /* that is defined here */
    MARK_ENTRY,    /* likewise, behind a function's header */
    MARK_EXTERNAL, /* an import that is called */
    MARK_BUILT_IN, /* an import that is a built-in function */
    MARK_LAMBDA,
    MARK_LITERAL,
    MARK_TYPE,
    MARK_LINE,     /* of an instruction that is nothing else */
    MARK_LOCATION, /* likewise, of another instruction */
    MARK_REGISTER, /* or how many; only those of two bytes and more */
    MARK_OPCODE,
    MARK_SPECIAL, /* the opcode of an instruction that the slow way has to look at too */
    MARK_COUNT,
};

_Static_assert(MARK_COUNT == 16, "a mark has four bits, and processors look it up in 16 bytes");
_Static_assert(MARK_SPECIAL == MARK_OPCODE + 1 && MARK_SPECIAL == MARK_COUNT - 1, "opcodes have the last marks");

/* From the highest bits: the row of the next state, the mark of the byte that led there, and which bits of a column
   count in that row. */
typedef uint32_t step_t;

enum {
    STEP_ROW_SHIFT = 16,
    STEP_MARK_SHIFT = 10,
    STEP_MARK_MASK = MARK_COUNT - 1,
    STEP_COLUMN_MASK = (1 << STEP_MARK_SHIFT) - 1,
    MAX_STEPS = 1 << (32 - STEP_ROW_SHIFT),
};

/* In the two lowest bits of a row. */
enum row_kind {
    ROW_PLAIN,
    ROW_ELEMENTS, /* a group of a long list's elements has ended, and the next may begin */
    ROW_STOP,     /* here is a length, of a list or of an integer, that steps can't count */
};

/* What the row of a stop has behind the step to itself. */
enum { STOP_RESUME = 1, STOP_PERIOD };

struct automaton {
    uint16_t columns[256];            /* of each byte */
    step_t between;                   /* where any instruction may come but a function's header, */
    step_t behind_label, behind_line; /* and where that may come too */
    step_t end, wrong;
    uint32_t step_count;
    step_t steps[MAX_STEPS];
};

extern const struct automaton automaton;

static inline uint32_t step_row(step_t step) {
    return step >> STEP_ROW_SHIFT;
}

static inline enum row_kind step_row_kind(step_t step) {
    return step_row(step) & 3;
}

static inline uint8_t step_mark(step_t step) {
    return step >> STEP_MARK_SHIFT & STEP_MARK_MASK;
}

static inline step_t step_next(step_t step, uint8_t byte) {
    return automaton.steps[step_row(step) + (step & automaton.columns[byte])];
}

void automaton_build(struct automaton *ret); /* at build time; aborts where the tables don't fit */

#endif
