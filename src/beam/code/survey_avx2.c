/* Checks a survey with AVX2, 32 bytes at once. */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "beam/code/survey.h"

#define AVX2 __attribute__((target("avx2,bmi,popcnt")))

enum { WIDTH = 32, FREQUENT_AT_ONCE = 6, OTHERS_AT_ONCE = 2 };

struct tables {
    __m256i highest_low, highest_high, is_zero_wrong, flags;
};

struct values {
    __m256i low, high;
};

struct sums {
    __m256i wrong, opcodes;
};

AVX2 ALWAYS_INLINE __m256i load(const void *bytes) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

AVX2 ALWAYS_INLINE __m256i all(int byte) {
    return _mm256_set1_epi8((char)byte);
}

AVX2 ALWAYS_INLINE __m256i load_table(const uint8_t bytes[MARK_COUNT]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

/* Eight marks at their positions in the steps. */
AVX2 ALWAYS_INLINE __m256i load_marks(const step_t *steps) {
    return _mm256_and_si256(load(steps), _mm256_set1_epi32(STEP_MARK_MASK << STEP_MARK_SHIFT));
}

/* Packing works on halves of its input, whose order has to be restored. */
AVX2 ALWAYS_INLINE void store_some(uint8_t *marks, const step_t *steps) {
    __m256i first = _mm256_packs_epi32(load_marks(steps), load_marks(steps + 8));
    __m256i second = _mm256_packs_epi32(load_marks(steps + 16), load_marks(steps + 24));
    __m256i bytes =
        _mm256_packus_epi16(_mm256_srli_epi16(first, STEP_MARK_SHIFT), _mm256_srli_epi16(second, STEP_MARK_SHIFT));
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)marks, _mm256_permutevar8x32_epi32(bytes, order));
}

/* Behind the last mark there are marks of other parts, and behind the last step nothing. */
AVX2 static __attribute__((noinline)) void store_last(uint8_t *marks, const step_t *steps, size_t count) {
    step_t last_steps[WIDTH] = {0};
    uint8_t last[WIDTH];
    memcpy(last_steps, steps, count * sizeof *steps);
    store_some(last, last_steps);
    memcpy(marks, last, count);
}

AVX2 static void store_marks(uint8_t *marks, const step_t *steps, size_t count) {
    size_t at = 0;
    for (; at + WIDTH <= count; at += WIDTH) store_some(marks + at, steps + at);
    if (at < count) store_last(marks + at, steps + at, count - at);
}

AVX2 ALWAYS_INLINE struct values values_at(const uint8_t *code) {
    __m256i first = load(code), second = load(code + 1), third = load(code + 2);
    __m256i is_narrow = _mm256_cmpeq_epi8(_mm256_and_si256(first, all(0x08)), _mm256_setzero_si256());
    __m256i is_long = _mm256_cmpeq_epi8(_mm256_and_si256(first, all(0x18)), all(0x18));
    __m256i narrow = _mm256_and_si256(_mm256_srli_epi16(first, 4), all(0x0f));
    __m256i wide_high = _mm256_and_si256(_mm256_srli_epi16(first, 5), all(0x07));
    __m256i low = _mm256_blendv_epi8(_mm256_blendv_epi8(second, narrow, is_narrow), third, is_long);
    __m256i high = _mm256_blendv_epi8(_mm256_andnot_si256(is_narrow, wide_high), second, is_long);
    return (struct values){low, high};
}

AVX2 ALWAYS_INLINE void store_values(uint16_t *out, struct values values) {
    __m256i even = _mm256_unpacklo_epi8(values.low, values.high), odd = _mm256_unpackhi_epi8(values.low, values.high);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(out + WIDTH / 2), _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Any bit that is not 0 is an error. */
AVX2 ALWAYS_INLINE __m256i find_wrong(const struct tables *tables, __m256i marks, struct values values) {
    __m256i highest_low = _mm256_shuffle_epi8(tables->highest_low, marks);
    __m256i highest_high = _mm256_shuffle_epi8(tables->highest_high, marks);
    __m256i is_zero_wrong = _mm256_shuffle_epi8(tables->is_zero_wrong, marks);
    __m256i is_same = _mm256_cmpeq_epi8(values.high, highest_high);
    __m256i above = _mm256_or_si256(_mm256_subs_epu8(values.high, highest_high),
                                    _mm256_and_si256(is_same, _mm256_subs_epu8(values.low, highest_low)));
    __m256i is_zero = _mm256_cmpeq_epi8(_mm256_or_si256(values.low, values.high), _mm256_setzero_si256());
    return _mm256_or_si256(above, _mm256_and_si256(is_zero, is_zero_wrong));
}

/* Returns the flags of the marks. */
AVX2 ALWAYS_INLINE __m256i judge_some(const struct survey *survey, size_t at, const uint8_t *code,
                                      const struct tables *tables, struct sums *sums) {
    __m256i marks = load(survey->marks + at), flags = _mm256_shuffle_epi8(tables->flags, marks);
    __m256i is_opcode = _mm256_cmpeq_epi8(_mm256_and_si256(flags, all(FLAG_OPCODE)), all(FLAG_OPCODE));
    struct values values = values_at(code);
    store_values(survey->values + at, values);
    sums->wrong = _mm256_or_si256(sums->wrong, find_wrong(tables, marks, values));
    sums->opcodes = _mm256_max_epu8(sums->opcodes, _mm256_and_si256(is_opcode, load(code)));
    return flags;
}

/* One bit for each byte: the flag at this distance below the highest. */
AVX2 ALWAYS_INLINE uint64_t word_of(__m256i first, __m256i second, int flag) {
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(first, flag));
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(second, flag)) << 32 | low;
}

AVX2 ALWAYS_INLINE uint32_t highest_of(__m256i bytes) {
    uint8_t each[WIDTH];
    uint32_t highest = 0;
    _mm256_storeu_si256((__m256i *)each, bytes);
    for (unsigned i = 0; i < WIDTH; i++) highest = each[i] > highest ? each[i] : highest;
    return highest;
}

AVX2 static bool judge(struct survey *survey) {
    const struct bounds *bounds = &survey->bounds;
    struct tables tables = {load_table(bounds->highest_low), load_table(bounds->highest_high),
                            load_table(bounds->is_zero_wrong), load_table(mark_flags)};
    struct sums sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    uint8_t last[BLOCK + LOOKAHEAD];
    uint32_t line_count = 0;
    for (size_t at = 0; at < survey->size; at += BLOCK) {
        const uint8_t *code = survey_block(survey, at, last);
        __m256i first = judge_some(survey, at, code, &tables, &sums);
        __m256i second = judge_some(survey, at + WIDTH, code + WIDTH, &tables, &sums);
#pragma GCC unroll 5
        for (int note = 0; note < NOTE_COUNT; note++) survey->words[note][at / BLOCK] = word_of(first, second, note);
        line_count += (uint32_t)_mm_popcnt_u64(word_of(first, second, NOTE_COUNT));
    }
    survey->line_count = line_count;
    survey->highest_opcode = highest_of(sums.opcodes);
    return _mm256_testz_si256(sums.wrong, sums.wrong);
}

/* The number of bits in a word can't be predicted. So some places are stored whether they exist or not, and the excess
   is dropped. */
AVX2 ALWAYS_INLINE size_t gather_some(const struct survey *survey, enum note note, unsigned at_once) {
    const uint64_t *words = survey->words[note];
    uint32_t *places = survey->places;
    size_t count = 0;
    for (size_t at = 0; at < survey->size; at += BLOCK) {
        uint64_t word = words[at / BLOCK];
        size_t next = count + (size_t)_mm_popcnt_u64(word);
        do {
#pragma GCC unroll 6
            for (unsigned i = 0; i < at_once; i++, word = _blsr_u64(word))
                places[count++] = (uint32_t)(at + _tzcnt_u64(word));
        } while (word);
        count = next;
    }
    places[count] = (uint32_t)survey->size;
    return count;
}

AVX2 static size_t gather(const struct survey *survey, enum note note) {
    bool is_frequent = note == NOTE_DEFINITION || note == NOTE_JUMP;
    return is_frequent ? gather_some(survey, note, FREQUENT_AT_ONCE) : gather_some(survey, note, OTHERS_AT_ONCE);
}

const struct surveyor avx2_surveyor = {store_marks, judge, gather};
#endif
