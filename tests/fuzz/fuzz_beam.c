/* Any bytes at all: what is valid is so by the quick and the slow way of reading code, and can be asked everything,
   twice with the same answer; what is refused says where. */
#include <stdlib.h>
#include <string.h>

#include "beam/code/survey.h"
#include "fuzz/harness/fuzz.h"

static const struct beam_options bounds = {
    .otp = BEAM_NEWEST_OTP, .max_bytes = 1 << 20, .max_terms = 1 << 14, .check_unloaded = true};

static void check(bool holds) {
    if (!holds) abort();
}

static void hash(const struct beam *beam) {
    char first[BEAM_DIGEST_BYTES], second[BEAM_DIGEST_BYTES];
    check(beam_checksum(beam, first, NULL) == 0 && beam_checksum(beam, second, NULL) == 0);
    check(strcmp(first, second) == 0);
    check(beam_interface_hash(beam, first, NULL) == 0 && beam_interface_hash(beam, second, NULL) == 0);
    check(strcmp(first, second) == 0);
}

static void collect(const struct beam *beam) {
    int (*const lists[])(const struct beam *, struct beam_names *, struct error *) = {
        beam_runtime_dependencies, beam_compile_dependencies, beam_optional_dependencies, beam_behaviours};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        struct beam_names names = {0};
        check(lists[i](beam, &names, NULL) == 0);
        beam_names_free(&names);
    }
    free(beam_source(beam));
}

static size_t touch(const struct beam *beam) {
    size_t count, sum = beam_module(beam).size;
    const struct beam_function *exports = beam_exports(beam, &count);
    for (size_t i = 0; i < count; i++) sum += exports[i].name.size ? (uint8_t)exports[i].name.data[0] : 0;
    const struct beam_import *imports = beam_imports(beam, &count);
    for (size_t i = 0; i < count; i++) sum += imports[i].function.size + imports[i].module.size;
    return sum;
}

static bool is_same(const struct code_function *a, const struct code_function *b) {
    return a->atom == b->atom && a->arity == b->arity && a->entry == b->entry && a->body == b->body &&
           a->body_end == b->body_end;
}

/* Both ways find the same functions at the same places, and the quick one is as sure of it on any processor. */
static void read_again(struct beam *beam) {
    struct beam quick = *beam;
    quick.functions = calloc((size_t)beam->function_count + 1, sizeof *quick.functions);
    check(quick.functions);
    for (uint32_t i = 0; i < beam->function_count; i++) quick.functions[i] = beam->functions[i];
    check(read_code_quickly(beam, &plain_surveyor, NULL) == read_code_quickly(beam, surveyor_best(), NULL));
    check(read_code_again(beam, NULL) == 0);
    check(quick.on_load == beam->on_load && quick.min_otp == beam->min_otp);
    for (uint32_t i = 0; i < beam->function_count; i++) check(is_same(&quick.functions[i], &beam->functions[i]));
    free(quick.functions);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct error error = {0};
    struct beam *beam = NULL;
    if (beam_read(data, size, &bounds, &beam, &error) < 0) {
        bool is_known = error.code == E_FORMAT || error.code == E_TOO_LARGE || error.code == E_TOO_NEW;
        check(!beam && is_known && error.detail[0] != '\0');
        return;
    }
    check(touch(beam) > 0);
    read_again(beam);
    hash(beam);
    collect(beam);
    beam_free(beam);
}
