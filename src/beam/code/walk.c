/* Walks through code by the automaton's steps. Each step waits for the one before, so several walks run at once, from
   places where instructions seem to begin. At the end it is checked that each walk reached the beginning of the
   next. */
#include <string.h>

#include "beam/code/survey.h"

enum {
    LANES = 4,
    ROUND = 32, /* marks that are stored at once */
    MOST_AT_ONCE = 3 * ROUND,
    MAX_PARTS = 64,
    LEAST_PART = 96,         /* shorter parts are not divided */
    MOST_SEARCHED = 1 << 16, /* for a place to divide a part at */
    LEAST_SEEN = 4,          /* of instructions at that place */
    LEAST_STOPS = 16,        /* that all walks together may make, */
    BYTES_PER_STOP = 32,     /* and more by size: with more stops the full reader is faster */
};

_Static_assert(LEAST_PART / 2 >= 6, "a beginning is told by up to six bytes in front of it");

/* The part of one walk. The walk may step beyond the end, in a long integer, but marks nothing there: another walk
   does. */
struct part {
    const uint8_t *start, *at, *end;
    step_t first, step; /* that led to start, and to at */
    uint64_t groups;    /* groups of a long list that remain; 0: not in a list */
    unsigned next;      /* the part that follows; 0: none */
    bool is_whole;      /* it can't be divided */
};

struct walk {
    const struct survey *survey;
    const struct surveyor *surveyor;
    uint32_t label_count;
    unsigned part_count;
    size_t stops_left;
    struct part parts[MAX_PARTS];
    step_t steps[LANES][MOST_AT_ONCE]; /* just taken: words are stored faster than single bytes */
};

static const uint8_t *code_end(const struct walk *walk) {
    return walk->survey->code + walk->survey->size;
}

static uint8_t *marks_at(const struct walk *walk, const uint8_t *at) {
    return walk->survey->marks + (at - walk->survey->code);
}

static const uint8_t *earlier(const uint8_t *at, const uint8_t *other) {
    return at < other ? at : other;
}

static void clear_marks(const struct walk *walk, const uint8_t *from, const uint8_t *to) {
    if (from < to) memset(marks_at(walk, from), MARK_NONE, (size_t)(to - from));
}

static bool is_at(step_t step, step_t other) {
    return step_row(step) == step_row(other);
}

static void run_alone(struct walk *walk, const struct part *part, size_t count) {
    step_t step = part->step;
    for (size_t i = 0; i < count; i++) walk->steps[0][i] = step = step_next(step, part->at[i]);
}

static void run_together(struct walk *walk, struct part *const lanes[LANES], size_t count) {
    const uint8_t *at0 = lanes[0]->at, *at1 = lanes[1]->at, *at2 = lanes[2]->at, *at3 = lanes[3]->at;
    step_t step0 = lanes[0]->step, step1 = lanes[1]->step, step2 = lanes[2]->step, step3 = lanes[3]->step;
    for (size_t i = 0; i < count; i++) {
        walk->steps[0][i] = step0 = step_next(step0, at0[i]);
        walk->steps[1][i] = step1 = step_next(step1, at1[i]);
        walk->steps[2][i] = step2 = step_next(step2, at2[i]);
        walk->steps[3][i] = step3 = step_next(step3, at3[i]);
    }
}

/* How many of the steps lead to the end of the list. */
static __attribute__((noinline)) size_t count_groups(struct part *part, const step_t *steps, size_t count) {
    for (size_t i = 0; i < count; i++) {
        part->groups -= step_row_kind(steps[i]) == ROW_ELEMENTS;
        if (part->groups > 0) continue;
        part->step = automaton.between;
        return i + 1;
    }
    return count;
}

/* At a stop there is a length, or an integer with one. */
static __attribute__((noinline)) void resume(struct walk *walk, struct part *part) {
    const step_t *stop = &automaton.steps[step_row(part->step)];
    struct cursor cursor = {.start = part->at, .at = part->at, .end = code_end(walk), .chunk = "code"};
    struct compact length = {0};
    uint64_t period = stop[STOP_PERIOD];
    bool is_right = compact_read(&cursor, &length) == 0 && walk->stops_left > 0;
    walk->stops_left -= is_right;
    part->step = is_right ? stop[STOP_RESUME] : automaton.wrong;
    clear_marks(walk, part->at, earlier(cursor.at, part->end));
    part->at = cursor.at;
    if (period > 0) {
        part->groups = (uint64_t)length.value / period;
        if (part->groups == 0 || (uint64_t)length.value % period != 0) part->step = automaton.wrong;
    } else if (step_row_kind(part->step) == ROW_ELEMENTS && --part->groups == 0) {
        part->step = automaton.between;
    }
}

/* Fixed sizes are stored faster. The excess covers bytes that this part reaches later. */
static void store_marks(const struct walk *walk, const struct part *part, const step_t *steps, size_t count) {
    size_t left = (size_t)(part->end - part->at), rounded = (count + ROUND - 1) / ROUND * ROUND;
    walk->surveyor->store_marks(marks_at(walk, part->at), steps, rounded < left ? rounded : count);
}

/* Keeps those of the steps just taken that led somewhere. */
static void keep(struct walk *walk, struct part *part, const step_t *steps, size_t count) {
    /* There is at least one. NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
    part->step = steps[count - 1];
    if (part->groups > 0) count = count_groups(part, steps, count);
    bool is_stopped = step_row_kind(part->step) == ROW_STOP;
    while (is_stopped && count > 0 && step_row_kind(steps[count - 1]) == ROW_STOP) count--;
    store_marks(walk, part, steps, count);
    part->at += count;
    if (is_stopped) resume(walk, part);
}

static void walk_alone(struct walk *walk, struct part *part) {
    while (part->at < part->end) {
        size_t left = (size_t)(part->end - part->at), count = left < MOST_AT_ONCE ? left : MOST_AT_ONCE;
        run_alone(walk, part, count);
        keep(walk, part, walk->steps[0], count);
    }
}

/* Whether a function's header seems to begin here, after a line or a label. */
static bool is_header(const uint8_t *at) {
    if (at[0] != OP_FUNC_INFO || at[1] != HEAD_FIRST_ATOM) return false;
    return at[-2] == OP_LINE || at[-3] == OP_LINE || at[-2] == OP_LABEL || at[-3] == OP_LABEL;
}

/* Whether a label with a number of two or three bytes seems to be defined here, not after a header. */
static bool is_label(const uint8_t *at, uint32_t label_count) {
    if (at[0] != OP_LABEL || ((at[1] & 0x1f) != HEAD_WIDE && at[1] != HEAD_LONG)) return false;
    uint32_t number = at[1] == HEAD_LONG ? (uint32_t)at[2] << 8 | at[3] : (uint32_t)at[1] >> 5 << 8 | at[2];
    for (int i = 4; i < 7; i++)
        if (at[-i] == OP_FUNC_INFO && at[1 - i] == HEAD_FIRST_ATOM) return false;
    return number < label_count;
}

static const uint8_t *find_beginning(const struct walk *walk, const uint8_t *at, const uint8_t *end) {
    if (end - at > MOST_SEARCHED) end = at + MOST_SEARCHED;
    for (; end - at >= LEAST_SEEN; at++) {
        if (*at > OP_FUNC_INFO) continue; /* most opcodes are above */
        if (is_label(at, walk->label_count) || is_header(at)) return at;
    }
    return NULL;
}

/* Returns the second half of what is left of a part; NULL: it stays whole. */
static struct part *halve(struct walk *walk, struct part *part) {
    const uint8_t *middle = find_beginning(walk, part->at + (part->end - part->at) / 2, part->end);
    part->is_whole = !middle;
    if (!middle) return NULL;
    struct part *half = &walk->parts[walk->part_count];
    step_t first = middle[0] == OP_LABEL ? automaton.between : automaton.behind_label;
    *half = (struct part){
        .start = middle, .at = middle, .end = part->end, .first = first, .step = first, .next = part->next};
    part->end = middle;
    part->next = walk->part_count++;
    return half;
}

static struct part *find_longest(struct part *const *lanes, unsigned count) {
    struct part *longest = NULL;
    ptrdiff_t most = LEAST_PART - 1;
    for (unsigned i = 0; i < count; i++) {
        ptrdiff_t left = lanes[i]->end - lanes[i]->at;
        if (lanes[i]->is_whole || left <= most) continue;
        longest = lanes[i];
        most = left;
    }
    return longest;
}

/* Finished parts are replaced by halves of the others. */
static unsigned fill(struct walk *walk, struct part **lanes, unsigned count) {
    struct part *longest;
    for (unsigned i = count; i-- > 0;)
        if (lanes[i]->at >= lanes[i]->end) lanes[i] = lanes[--count];
    while (count < LANES && walk->part_count < MAX_PARTS && (longest = find_longest(lanes, count))) {
        struct part *half = halve(walk, longest);
        if (half) lanes[count++] = half;
    }
    return count;
}

static size_t least_left(struct part *const *lanes, unsigned count) {
    ptrdiff_t least = MOST_AT_ONCE;
    for (unsigned i = 0; i < count; i++)
        if (lanes[i]->end - lanes[i]->at < least) least = lanes[i]->end - lanes[i]->at;
    return (size_t)least;
}

/* An unused lane repeats the first one's work. */
static void walk_parts(struct walk *walk) {
    struct part *lanes[LANES] = {&walk->parts[0]};
    unsigned count = 1;
    while ((count = fill(walk, lanes, count)) > 1) {
        size_t steps = least_left(lanes, count);
        for (unsigned i = count; i < LANES; i++) lanes[i] = lanes[0];
        run_together(walk, lanes, steps);
        for (unsigned i = 0; i < count; i++) keep(walk, lanes[i], walk->steps[i], steps);
    }
    if (count > 0) walk_alone(walk, lanes[0]);
}

/* Whether a walk reached the beginning of another. What may follow a label may also follow an instruction, except for a
   header. */
static bool leads_to(const struct part *part, const struct part *next) {
    if (part->at != next->start) return false;
    return is_at(part->step, automaton.behind_label) || is_at(part->step, automaton.behind_line) ||
           (is_at(part->step, automaton.between) && is_at(next->first, automaton.between));
}

/* A walk that did not reach the next part goes on through it, from where it ended. */
static bool join(struct walk *walk) {
    struct part part = walk->parts[0];
    for (unsigned i = part.next; i; i = walk->parts[i].next) {
        const struct part *next = &walk->parts[i];
        if (leads_to(&part, next)) {
            part = *next;
            continue;
        }
        part.end = next->end;
        clear_marks(walk, next->start, earlier(part.at, part.end));
        walk_alone(walk, &part);
    }
    return part.at == code_end(walk) && is_at(part.step, automaton.end);
}

bool survey_walk(const struct survey *survey, const struct surveyor *surveyor, uint32_t label_count) {
    struct walk walk; /* mostly for parts that most code does not have */
    walk.survey = survey;
    walk.surveyor = surveyor;
    walk.label_count = label_count;
    walk.part_count = 1;
    walk.stops_left = LEAST_STOPS + survey->size / BYTES_PER_STOP;
    walk.parts[0] = (struct part){.start = survey->code,
                                  .at = survey->code,
                                  .end = code_end(&walk),
                                  .first = automaton.between,
                                  .step = automaton.between};
    walk_parts(&walk);
    return join(&walk);
}
