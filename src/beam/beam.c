/* Reading and validating a BEAM file as a whole, and the accessors of the result. */
#include "beam/beam_internal.h"

#include <stdlib.h>
#include <string.h>

const struct beam_options beam_default_options = {
    .otp = BEAM_NEWEST_OTP,
    .max_bytes = 64 << 20,
    .max_terms = 1 << 20,
};

static int read_all(struct beam *beam, const uint8_t *data, size_t size, struct error *reterr) {
    int (*const parts[])(struct beam *, struct error *) = {
        read_atoms, read_imports, read_exports, read_locals, read_lambdas, read_literals,
        read_lines, read_types,   read_records, read_terms,  read_code,    check_tables,
    };
    int result = read_container(beam, data, size, reterr);
    for (size_t i = 0; result == 0 && i < ARRAY_SIZE(parts); i++) result = parts[i](beam, reterr);
    return result;
}

int beam_read(const uint8_t *data, size_t size, const struct beam_options *options, struct beam **ret,
              struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = calloc(1, sizeof *beam);
    if (!beam) return beam_no_memory(reterr);
    beam->options = *options;
    if (beam->options.otp == 0) beam->options.otp = BEAM_NEWEST_OTP;
    beam->min_otp = BEAM_OLDEST_OTP;
    int result = read_all(beam, data, size, reterr);
    if (result == 0) *ret = take_ptr(beam);
    return result;
}

struct beam *beam_free(struct beam *beam) {
    if (!beam) return NULL;
    void *const parts[] = {beam->inflated, beam->latin1_text, beam->atoms,        beam->imports,
                           beam->exports,  beam->locals,      beam->lambdas,      beam->literals,
                           beam->labels,   beam->functions,   beam->literal_bytes};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) free(parts[i]);
    free(beam);
    return NULL;
}

struct beam_text beam_module(const struct beam *beam) {
    return beam->atoms[1];
}

const struct beam_function *beam_exports(const struct beam *beam, size_t *ret_count) {
    *ret_count = beam->export_count;
    return beam->exports;
}

const struct beam_import *beam_imports(const struct beam *beam, size_t *ret_count) {
    *ret_count = beam->import_count;
    return beam->imports;
}

bool beam_has_on_load(const struct beam *beam) {
    return beam->on_load;
}

unsigned beam_min_otp(const struct beam *beam) {
    return beam->min_otp;
}

const struct term *beam_find_value(const struct term *pairs, const char *name) {
    const struct term *pair;
    for (size_t i = 0; pairs && (pair = term_at(pairs, i)); i++)
        if (term_is_atom(term_at(pair, 0), name)) return term_at(pair, 1);
    return NULL;
}

/* Stripping may leave an empty chunk. */
static int decode_pairs(const struct beam *beam, enum chunk_kind kind, struct term_doc **ret, struct error *reterr) {
    if (beam->chunks[kind].size > 0) return decode_chunk(beam, kind, ret, reterr);
    *ret = NULL;
    return 0;
}

int beam_attributes(const struct beam *beam, struct term_doc **ret, struct error *reterr) {
    return decode_pairs(beam, CHUNK_ATTRIBUTES, ret, reterr);
}

int beam_compile_info(const struct beam *beam, struct term_doc **ret, struct error *reterr) {
    return decode_pairs(beam, CHUNK_COMPILE_INFO, ret, reterr);
}

char *beam_source(const struct beam *beam) {
    CLEANUP_TERM struct term_doc *info = NULL;
    char *path = NULL;
    if (beam_compile_info(beam, &info, NULL) < 0 || !info) return NULL;
    const struct term *source = beam_find_value(term_root(info), "source");
    return source && term_to_string(source, &path) ? path : NULL;
}
