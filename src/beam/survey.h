/* What a walk through code finds, and how it is looked at on this processor. */
#ifndef BEAM_SURVEY_H
#define BEAM_SURVEY_H

#include "beam/automaton.h"

/* Places that more is asked of than that a value is within its bounds. */
enum note {
    NOTE_DEFINITION, /* of a label */
    NOTE_JUMP,       /* or where a function is entered */
    NOTE_CALL,
    NOTE_EXTERNAL,
    NOTE_OTHER,
    NOTE_COUNT,
};

/* What is to be known of each mark, a bit each: its note, from the highest. */
enum { FLAG_NOTE = 0x80, FLAG_LINE = FLAG_NOTE >> NOTE_COUNT, FLAG_OPCODE = 1 };

extern const uint8_t mark_flags[MARK_COUNT];

/* What values may be, for each mark, as a processor looks it up. */
struct bounds {
    uint8_t highest_low[MARK_COUNT], highest_high[MARK_COUNT]; /* two bytes */
    uint8_t is_zero_wrong[MARK_COUNT];                         /* 0xff: yes */
};

enum { BLOCK = 64, LOOKAHEAD = 2 };

struct survey {
    const uint8_t *code;
    size_t size;
    uint8_t *marks;              /* of each byte, and of another block behind them, which are none */
    uint16_t *values;            /* of what begins at each byte */
    uint64_t *words[NOTE_COUNT]; /* a bit for each byte */
    uint32_t *places;            /* of those that were gathered last; there is room for as many as there are bytes */
    struct bounds bounds;
    uint32_t highest_opcode;
    uint32_t line_count;
};

struct surveyor {
    void (*store_marks)(uint8_t *marks, const step_t *steps, size_t count);
    /* Whether all values are within their bounds. Finds values, words, highest_opcode and line_count. */
    bool (*judge)(struct survey *survey);
    /* How many there are. Finds places, in their order, with the code's end behind them. */
    size_t (*gather)(const struct survey *survey, enum note note);
};

extern const struct surveyor plain_surveyor;
#ifdef __x86_64__
extern const struct surveyor avx2_surveyor;
#endif
const struct surveyor *surveyor_best(void);

/* The last block is a copy, with nothing behind it. */
ALWAYS_INLINE const uint8_t *survey_block(const struct survey *survey, size_t at, uint8_t last[BLOCK + LOOKAHEAD]) {
    size_t left = survey->size - at;
    if (left >= BLOCK + LOOKAHEAD) return survey->code + at;
    __builtin_memset(last, 0, BLOCK + LOOKAHEAD);
    __builtin_memcpy(last, survey->code + at, left);
    return last;
}

/* Marks every byte. Returns whether it is code as far as that can be known from bytes alone. */
bool survey_walk(const struct survey *survey, const struct surveyor *surveyor, uint32_t label_count);

enum {
    CODE_UNSURE = 1,
    QUICK_MAX_BYTES =
        4 << 20, /* of code: each takes eight of memory. The largest of OTP's and Elixir's has a twentieth. */
};

/* Returns 0 if the code is valid, an error if there is no memory, and CODE_UNSURE for the slow way to find out. */
int read_code_quickly(struct beam *beam, const struct surveyor *surveyor, struct error *reterr);

#endif
