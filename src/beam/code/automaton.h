/* Code as a language that is read byte by byte. A step for each byte gives the kind of the byte and the next state, so
   that reading takes no branches. The steps are made from the tables of opcodes and roles at build time. */
#ifndef BEAM_CODE_AUTOMATON_H
#define BEAM_CODE_AUTOMATON_H

#include "beam/code/code.h"

/* The kind of a byte: an opcode, or the beginning of a value that is checked. All others have no mark. */
enum mark {
    MARK_NONE,
    MARK_ATOM,
    MARK_JUMP,
    MARK_CALL,
    MARK_LABEL,    /* a definition */
    MARK_ENTRY,    /* a definition behind a function's header */
    MARK_EXTERNAL, /* an import that is called */
    MARK_BUILT_IN, /* an import that is a built-in function */
    MARK_LAMBDA,
    MARK_LITERAL,
    MARK_TYPE,
    MARK_LINE,     /* of a line instruction */
    MARK_LOCATION, /* of another instruction with a location */
    MARK_REGISTER, /* or a count; only those of two bytes and more */
    MARK_OPCODE,
    MARK_SPECIAL, /* the opcode of an instruction that the full reader has to check too */
    MARK_COUNT,
};

_Static_assert(MARK_COUNT == 16, "a mark has four bits, and processors look it up in 16 bytes");
_Static_assert(MARK_SPECIAL == MARK_OPCODE + 1 && MARK_SPECIAL == MARK_COUNT - 1, "opcodes have the last marks");

/* From the highest bits: the row of the next state, the mark of the byte that led there, and the bits of a column that
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
    ROW_STOP,     /* a length of a list or an integer that steps can't count */
};

/* Positions in the row of a stop, after the step to itself. */
enum { STOP_RESUME = 1, STOP_PERIOD };

struct automaton {
    uint16_t columns[256];            /* of each byte */
    step_t between;                   /* any instruction may follow except a function's header */
    step_t behind_label, behind_line; /* a header may follow too */
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

void automaton_build(struct automaton *ret); /* at build time; aborts if the tables don't fit */

#endif
