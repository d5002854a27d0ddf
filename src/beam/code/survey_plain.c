/* Checks a survey byte by byte, for all CPUs. */
#include "beam/code/survey.h"

const uint8_t mark_flags[MARK_COUNT] = {
    [MARK_LABEL] = FLAG_NOTE >> NOTE_DEFINITION,
    [MARK_ENTRY] = FLAG_NOTE >> NOTE_DEFINITION | FLAG_NOTE >> NOTE_JUMP,
    [MARK_JUMP] = FLAG_NOTE >> NOTE_JUMP,
    [MARK_CALL] = FLAG_NOTE >> NOTE_CALL,
    [MARK_EXTERNAL] = FLAG_NOTE >> NOTE_EXTERNAL,
    [MARK_BUILT_IN] = FLAG_NOTE >> NOTE_OTHER,
    [MARK_LAMBDA] = FLAG_NOTE >> NOTE_OTHER,
    [MARK_SPECIAL] = FLAG_NOTE >> NOTE_OTHER | FLAG_OPCODE,
    [MARK_OPCODE] = FLAG_OPCODE,
    [MARK_LINE] = FLAG_LINE,
};

static void store_marks(uint8_t *marks, const step_t *steps, size_t count) {
    for (size_t i = 0; i < count; i++) marks[i] = step_mark(steps[i]);
}

static uint32_t value_at(const uint8_t *code) {
    if (!(code[0] & 0x08)) return code[0] >> 4;
    return code[0] & 0x10 ? (uint32_t)code[1] << 8 | code[2] : (uint32_t)code[0] >> 5 << 8 | code[1];
}

static bool is_within(const struct bounds *bounds, uint8_t mark, uint32_t value) {
    uint32_t highest = (uint32_t)bounds->highest_high[mark] << 8 | bounds->highest_low[mark];
    return value <= highest && (value > 0 || !bounds->is_zero_wrong[mark]);
}

static bool judge_block(struct survey *survey, size_t at, const uint8_t *code) {
    uint64_t words[NOTE_COUNT] = {0};
    bool is_right = true;
    for (size_t i = 0; i < BLOCK; i++) {
        uint8_t mark = survey->marks[at + i], flags = mark_flags[mark];
        uint32_t value = value_at(code + i);
        survey->values[at + i] = (uint16_t)value;
        is_right = is_right && is_within(&survey->bounds, mark, value);
        for (unsigned note = 0; note < NOTE_COUNT; note++)
            words[note] |= (uint64_t)((flags & FLAG_NOTE >> note) != 0) << i;
        survey->line_count += (flags & FLAG_LINE) != 0;
        if (flags & FLAG_OPCODE && code[i] > survey->highest_opcode) survey->highest_opcode = code[i];
    }
    for (unsigned note = 0; note < NOTE_COUNT; note++) survey->words[note][at / BLOCK] = words[note];
    return is_right;
}

static bool judge(struct survey *survey) {
    uint8_t last[BLOCK + LOOKAHEAD];
    bool is_right = true;
    survey->line_count = survey->highest_opcode = 0;
    for (size_t at = 0; at < survey->size; at += BLOCK)
        is_right = judge_block(survey, at, survey_block(survey, at, last)) && is_right;
    return is_right;
}

static size_t gather(const struct survey *survey, enum note note) {
    size_t count = 0;
    for (size_t at = 0; at < survey->size; at += BLOCK)
        for (uint64_t word = survey->words[note][at / BLOCK]; word; word &= word - 1)
            survey->places[count++] = (uint32_t)at + (uint32_t)__builtin_ctzll(word);
    survey->places[count] = (uint32_t)survey->size;
    return count;
}

const struct surveyor plain_surveyor = {store_marks, judge, gather};

const struct surveyor *surveyor_best(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))
        return &avx2_surveyor;
#endif
    return &plain_surveyor;
}
