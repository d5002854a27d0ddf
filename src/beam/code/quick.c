/* The quick reader of code: a walk marks the kind of each byte, and then each kind is checked at once. It only reports
   that something is wrong or uncommon; the full reader gives the exact error. */
#include <stdlib.h>
#include <string.h>

#include "beam/code/survey.h"

struct reading {
    struct beam *beam;
    struct code *code; /* for instructions that the full reader has to check too */
    const struct surveyor *surveyor;
    struct survey survey;
};

/* One allocation for all of a survey. */
static void *allocate(struct survey *survey) {
    size_t blocks = survey->size / BLOCK + 2, bytes = blocks * BLOCK;
    uint8_t *memory =
        malloc(NOTE_COUNT * blocks * sizeof(uint64_t) + bytes * (sizeof(uint32_t) + sizeof(uint16_t) + 1));
    if (!memory) return NULL;
    for (unsigned note = 0; note < NOTE_COUNT; note++) survey->words[note] = (uint64_t *)memory + note * blocks;
    survey->places = (uint32_t *)(survey->words[NOTE_COUNT - 1] + blocks);
    survey->values = (uint16_t *)(survey->places + bytes);
    survey->marks = (uint8_t *)(survey->values + bytes);
    memset(survey->marks + survey->size, MARK_NONE, bytes - survey->size);
    return memory;
}

/* Values have 16 bits here; longer ones are left to the full reader. */
static void set_bound(struct bounds *bounds, enum mark mark, uint32_t count, bool is_zero_wrong) {
    uint32_t highest = count == 0 ? 0 : count > UINT16_MAX ? UINT16_MAX : count - 1;
    bounds->highest_low[mark] = (uint8_t)highest;
    bounds->highest_high[mark] = (uint8_t)(highest >> 8);
    bounds->is_zero_wrong[mark] = is_zero_wrong || count == 0 ? UINT8_MAX : 0;
}

/* 0 is no atom and no label, except in the forms without a mark. */
static void set_bounds(const struct beam *beam, struct bounds *bounds) {
    uint32_t line_count = beam->has_lines ? beam->line_count + 1 : UINT32_MAX;
    for (enum mark mark = 0; mark < MARK_COUNT; mark++) set_bound(bounds, mark, UINT32_MAX, false);
    set_bound(bounds, MARK_ATOM, beam->atom_count, true);
    set_bound(bounds, MARK_JUMP, beam->label_count, true);
    set_bound(bounds, MARK_CALL, beam->label_count, true);
    set_bound(bounds, MARK_LABEL, beam->label_count, true);
    set_bound(bounds, MARK_ENTRY, beam->label_count, true);
    set_bound(bounds, MARK_EXTERNAL, beam->import_count, false);
    set_bound(bounds, MARK_BUILT_IN, beam->import_count, false);
    set_bound(bounds, MARK_LAMBDA, beam->lambda_count, false);
    set_bound(bounds, MARK_LITERAL, beam->literal_count, false);
    set_bound(bounds, MARK_TYPE, beam->has_types ? beam->type_count : UINT32_MAX, false);
    set_bound(bounds, MARK_LINE, line_count, false);
    set_bound(bounds, MARK_LOCATION, line_count, false);
    set_bound(bounds, MARK_REGISTER, MAX_REGISTERS, false);
}

static uint32_t behind(const struct survey *survey, uint32_t place) {
    static const uint8_t sizes[] = {1, 2, 1, 3};
    return place + sizes[survey->code[place] >> 3 & 3];
}

/* Each label belongs to the function that was entered last. The label before a header belongs to the function that
   follows. Finds the indexes of entries, one for each function. */
static bool define_labels(const struct reading *reading, size_t count, uint32_t *entries) {
    const struct survey *survey = &reading->survey;
    const uint32_t *places = survey->places;
    uint32_t function = 0, is_twice = 0;
    for (size_t i = 0; i < count; i++) {
        struct label *label = &reading->beam->labels[survey->values[places[i]]];
        entries[function] = (uint32_t)i;
        function += survey->marks[places[i]] == MARK_ENTRY;
        is_twice |= label->function;
        label->function = function + (survey->marks[places[i + 1]] == MARK_ENTRY);
    }
    return !is_twice && function == reading->beam->function_count;
}

/* A header is between the two labels, with at most a line before it. Returns the position of the first label. */
static uint32_t find_function(const struct reading *reading, const uint32_t labels[2], struct code_function *ret) {
    const struct survey *survey = &reading->survey;
    uint32_t header = behind(survey, labels[0]);
    if (survey->code[header] == OP_LINE) header = behind(survey, header + 1);
    uint32_t name = header + 2, arity = behind(survey, name);
    *ret = (struct code_function){.atom = survey->values[name],
                                  .arity = survey->values[arity],
                                  .entry = survey->values[labels[1]],
                                  .body = behind(survey, labels[1])};
    reading->beam->labels[ret->entry].entered_with = (uint16_t)(ret->arity + 1);
    return labels[0] - 1;
}

static bool find_functions(const struct reading *reading, const uint32_t *entries) {
    struct code_function *functions = reading->beam->functions;
    bool is_arity_wrong = false;
    size_t count = reading->beam->function_count;
    for (size_t i = 0; i < count; i++) {
        uint32_t start = find_function(reading, &reading->survey.places[entries[i] - 1], &functions[i]);
        if (i > 0) functions[i - 1].body_end = start;
        is_arity_wrong |= functions[i].arity > MAX_ARITY;
    }
    functions[count - 1].body_end = reading->survey.size - 1;
    return !is_arity_wrong;
}

/* The code must begin with a function, so that nothing is outside functions. */
static bool read_definitions(const struct reading *reading) {
    size_t count = reading->surveyor->gather(&reading->survey, NOTE_DEFINITION);
    uint32_t *places = reading->survey.places, *entries = places + count + 1;
    if (!define_labels(reading, count, entries) || reading->beam->function_count == 0) return false;
    return entries[0] == 1 && places[0] == 1 && find_functions(reading, entries);
}

/* Jumps must stay inside their function. */
static bool check_jumps(const struct reading *reading) {
    const struct survey *survey = &reading->survey;
    size_t count = reading->surveyor->gather(survey, NOTE_JUMP);
    uint32_t function = 0, difference = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = survey->places[i];
        function += survey->marks[place] == MARK_ENTRY;
        difference |= reading->beam->labels[survey->values[place]].function ^ function;
    }
    return difference == 0;
}

static bool is_opcode(const struct survey *survey, uint32_t place) {
    return survey->marks[place] >= MARK_OPCODE;
}

/* The number of arguments is between a call's opcode and its target, in one byte or two. */
static uint32_t arguments_of(const struct survey *survey, uint32_t place, uint32_t *difference) {
    uint32_t at = place - 1 - !is_opcode(survey, place - 2);
    *difference |= !is_opcode(survey, at - 1);
    return survey->values[at];
}

static bool check_calls(const struct reading *reading) {
    const struct survey *survey = &reading->survey;
    size_t count = reading->surveyor->gather(survey, NOTE_CALL);
    uint32_t difference = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = survey->places[i], arguments = arguments_of(survey, place, &difference);
        difference |= reading->beam->labels[survey->values[place]].entered_with ^ (arguments + 1);
    }
    return difference == 0;
}

static bool check_external_calls(const struct reading *reading) {
    const struct survey *survey = &reading->survey;
    size_t count = reading->surveyor->gather(survey, NOTE_EXTERNAL);
    uint32_t difference = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = survey->places[i], arguments = arguments_of(survey, place, &difference);
        difference |= reading->beam->imports[survey->values[place]].arity ^ arguments;
    }
    return difference == 0;
}

static bool is_built_in(const struct reading *reading, uint32_t place) {
    const struct survey *survey = &reading->survey;
    uint32_t start = place;
    while (!is_opcode(survey, start)) start--;
    const struct beam_import *import = &reading->beam->imports[survey->values[place]];
    return import->arity == built_in_arity(&opcodes[survey->code[start]]) && beam_text_is(import->module, "erlang");
}

/* An instruction that makes a fun has its register next, and then the number of closed-over values. */
static bool is_lambda(const struct reading *reading, uint32_t place) {
    const struct survey *survey = &reading->survey;
    if (survey->code[place - 1] != OP_MAKE_FUN3) return true;
    uint32_t list = behind(survey, behind(survey, place));
    return survey->code[list] == HEAD_LIST &&
           survey->values[list + 1] == reading->beam->lambdas[survey->values[place]].free_count;
}

static bool is_special_right(const struct reading *reading, uint32_t place) {
    struct code *code = reading->code;
    while (place >= reading->beam->functions[code->function - 1].body_end) code->function++;
    return code_instruction_any(code, reading->survey.code + place);
}

static bool check_others(const struct reading *reading) {
    const struct survey *survey = &reading->survey;
    size_t count = reading->surveyor->gather(survey, NOTE_OTHER);
    bool is_right = true;
    reading->code->function = 1;
    for (size_t i = 0; is_right && i < count; i++) {
        uint32_t place = survey->places[i];
        switch (survey->marks[place]) {
        case MARK_BUILT_IN: is_right = is_built_in(reading, place); break;
        case MARK_LAMBDA: is_right = is_lambda(reading, place); break;
        default: is_right = is_special_right(reading, place);
        }
    }
    return is_right;
}

/* Opcodes are ordered by the release that introduced them. */
static bool check_opcodes(const struct reading *reading) {
    struct beam *beam = reading->beam;
    uint32_t highest = reading->survey.highest_opcode;
    if (highest > beam->max_opcode || opcodes[highest].since > beam->options.otp) return false;
    if (opcodes[highest].since > beam->min_otp) beam->min_otp = opcodes[highest].since;
    return true;
}

static bool check_line_count(const struct reading *reading) {
    return !reading->beam->has_lines || reading->survey.line_count <= reading->beam->line_instruction_count;
}

static bool read_all(struct reading *reading) {
    struct survey *survey = &reading->survey;
    set_bounds(reading->beam, &survey->bounds);
    return survey_walk(survey, reading->surveyor, reading->beam->label_count) && reading->surveyor->judge(survey) &&
           check_line_count(reading) && read_definitions(reading) && check_jumps(reading) && check_calls(reading) &&
           check_external_calls(reading) && check_others(reading) && check_opcodes(reading);
}

int read_code_quickly(struct beam *beam, const struct surveyor *surveyor, struct error *reterr) {
    struct code code;
    struct reading reading = {
        .beam = beam, .code = &code, .surveyor = surveyor, .survey = {.code = beam->code, .size = beam->code_size}};
    if (beam->code_size > QUICK_MAX_BYTES) return CODE_UNSURE;
    CLEANUP_FREE void *memory = allocate(&reading.survey);
    if (!memory) return beam_no_memory(reterr);
    code_begin(&code, beam, NULL, NULL);
    return read_all(&reading) ? 0 : CODE_UNSURE;
}
