/* Code by itself, whatever it is, read in every way there is: by the slow one, and by the quick one as each processor
   has it. What the slow way refuses none may take, and what they take they must find the same in. */
#ifndef TESTS_CODE_WAYS_H
#define TESTS_CODE_WAYS_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "beam/code/survey.h"

/* What there is for code to name. */
enum {
    WAYS_ATOMS = 7,   /* with [] */
    WAYS_IMPORTS = 5, /* erlang:'+' with as many parameters as its number says */
    WAYS_LAMBDAS = 1, /* without free values */
    WAYS_LITERALS = 2,
    WAYS_TYPES = 1,
    WAYS_LINES = 1,
    WAYS_ERLANG = 3, /* an atom */
};

struct ways_result {
    bool is_valid, is_quick;
    const char *disagreement; /* NULL: there is none */
};

struct ways_finding {
    int result;
    bool on_load;
    struct label *labels;
    struct code_function *functions;
};

static inline void ways_free(struct ways_finding *finding) {
    free(finding->labels);
    free(finding->functions);
}

static inline bool ways_same(const struct beam *beam, const struct ways_finding *a, const struct ways_finding *b) {
    bool is_same = a->on_load == b->on_load;
    for (uint32_t i = 0; i < beam->label_count; i++)
        is_same &=
            a->labels[i].function == b->labels[i].function && a->labels[i].entered_with == b->labels[i].entered_with;
    for (uint32_t i = 0; i < beam->function_count; i++) {
        const struct code_function *one = &a->functions[i], *other = &b->functions[i];
        is_same &= one->atom == other->atom && one->arity == other->arity && one->entry == other->entry &&
                   one->body == other->body && one->body_end == other->body_end;
    }
    return is_same;
}

/* NULL: the slow way. */
static inline struct ways_finding ways_read(struct beam *beam, const struct surveyor *surveyor) {
    struct ways_finding ret = {.labels = calloc(beam->label_count, sizeof *ret.labels),
                               .functions = calloc((size_t)beam->function_count + 1, sizeof *ret.functions)};
    struct error error;
    if (!ret.labels || !ret.functions) abort();
    beam->labels = ret.labels;
    beam->functions = ret.functions;
    ret.result = surveyor ? read_code_quickly(beam, surveyor, &error) : read_code_again(beam, &error);
    ret.on_load = beam->on_load;
    return ret;
}

static inline const char *ways_compare(const struct beam *beam, const struct ways_finding *slow,
                                       const struct ways_finding *quick) {
    if (quick->result < 0) return "the quick way fails";
    if (quick->result == CODE_UNSURE) return NULL;
    if (slow->result < 0) return "the quick way takes what the slow one refuses";
    return ways_same(beam, slow, quick) ? NULL : "the quick way finds something else than the slow one";
}

/* The code is to end where its memory does. There are labels from 1 to label_count - 1. */
static inline struct ways_result ways_try(const uint8_t *code, size_t size, uint32_t label_count,
                                          uint32_t function_count) {
    static const char *const names[WAYS_ATOMS] = {"", "m", "f", "erlang", "self", "+", "g"};
    struct beam_text atoms[WAYS_ATOMS];
    struct beam_import imports[WAYS_IMPORTS];
    struct chunk literals[WAYS_LITERALS] = {0};
    for (size_t i = 0; i < WAYS_ATOMS; i++) atoms[i] = (struct beam_text){names[i], strlen(names[i])};
    for (uint32_t i = 0; i < WAYS_IMPORTS; i++) imports[i] = (struct beam_import){atoms[WAYS_ERLANG], atoms[5], i};
    struct beam_lambda lambdas[WAYS_LAMBDAS] = {{.name = atoms[2], .atom = 2, .free_count = 0}};
    struct beam beam = {
        .options = {.otp = BEAM_NEWEST_OTP},
        .atoms = atoms,
        .atom_count = WAYS_ATOMS,
        .imports = imports,
        .import_count = WAYS_IMPORTS,
        .lambdas = lambdas,
        .lambda_count = WAYS_LAMBDAS,
        .literals = literals,
        .literal_count = WAYS_LITERALS,
        .has_types = true,
        .type_count = WAYS_TYPES,
        .has_lines = true,
        .line_count = WAYS_LINES,
        .line_instruction_count = UINT32_MAX,
        .code = code,
        .code_size = size,
        .max_opcode = MAX_OPCODE,
        .label_count = label_count,
        .function_count = function_count,
    };
    beam.chunks[CHUNK_CODE] = (struct chunk){code, size};
    struct ways_finding slow = ways_read(&beam, NULL), plain = ways_read(&beam, &plain_surveyor),
                        best = ways_read(&beam, surveyor_best());
    struct ways_result ret = {.is_valid = slow.result == 0, .is_quick = plain.result == 0};
    ret.disagreement = ways_compare(&beam, &slow, &plain);
    if (!ret.disagreement) ret.disagreement = ways_compare(&beam, &slow, &best);
    if (!ret.disagreement && plain.result != best.result) ret.disagreement = "processors differ";
    ways_free(&slow);
    ways_free(&plain);
    ways_free(&best);
    return ret;
}

#endif
