/* The result of a walk through code, and how it is checked on this CPU. */
#ifndef BEAM_CODE_SURVEY_H
#define BEAM_CODE_SURVEY_H

#include "beam/code/automaton.h"

/* Places that need a check beyond the bounds of a value. */
enum note {
    NOTE_DEFINITION, /* of a label */
    NOTE_JUMP,       /* or the entry of a function */
    NOTE_CALL,
    NOTE_EXTERNAL,
    NOTE_OTHER,
    NOTE_COUNT,
};

/* Flags of each mark, one bit each: its note, from the highest bit. */
enum { FLAG_NOTE = 0x80, FLAG_LINE = FLAG_NOTE >> NOTE_COUNT, FLAG_OPCODE = 1 };

extern const uint8_t mark_flags[MARK_COUNT];

/* The bounds of values for each mark, in the form that SIMD look-ups need. */
struct bounds {
    uint8_t highest_low[MARK_COUNT], highest_high[MARK_COUNT]; /* two bytes */
    uint8_t is_zero_wrong[MARK_COUNT];                         /* 0xff: yes */
};

enum { BLOCK = 64, LOOKAHEAD = 2 };

struct survey {
    const uint8_t *code;
    size_t size;
    uint8_t *marks;              /* of each byte; one more block behind them has none */
    uint16_t *values;            /* of what begins at each byte */
    uint64_t *words[NOTE_COUNT]; /* a bit for each byte */
    uint32_t *places;            /* found by the last gather; there is room for one per byte */
    struct bounds bounds;
    uint32_t highest_opcode;
    uint32_t line_count;
};

struct surveyor {
    void (*store_marks)(uint8_t *marks, const step_t *steps, size_t count);
    /* Whether all values are within their bounds. Fills values, words, highest_opcode and line_count. */
    bool (*judge)(struct survey *survey);
    /* Returns the number of places with a note. Fills places in order, with the end of the code behind them. */
    size_t (*gather)(const struct survey *survey, enum note note);
};

extern const struct surveyor plain_surveyor;
#ifdef __x86_64__
extern const struct surveyor avx2_surveyor;
#endif
const struct surveyor *surveyor_best(void);

/* The last block is a copy with nothing behind it. */
ALWAYS_INLINE const uint8_t *survey_block(const struct survey *survey, size_t at, uint8_t last[BLOCK + LOOKAHEAD]) {
    size_t left = survey->size - at;
    if (left >= BLOCK + LOOKAHEAD) return survey->code + at;
    __builtin_memset(last, 0, BLOCK + LOOKAHEAD);
    __builtin_memcpy(last, survey->code + at, left);
    return last;
}

/* Marks every byte. Returns whether the bytes can be code, as far as they show. */
bool survey_walk(const struct survey *survey, const struct surveyor *surveyor, uint32_t label_count);

enum {
    CODE_UNSURE = 1,
    QUICK_MAX_BYTES = 4 << 20, /* of code: each takes eight of memory. The largest in OTP and Elixir has a twentieth. */
};

/* Returns 0 if the code is valid, an error without memory, and CODE_UNSURE if the full reader has to decide. */
int read_code_quickly(struct beam *beam, const struct surveyor *surveyor, struct error *reterr);

#endif
