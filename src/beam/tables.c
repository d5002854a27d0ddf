/* Imports, exports, local functions and lambdas: tables of 32-bit numbers. */
#include <stdlib.h>

#include "beam/beam_internal.h"

enum { IMPORT_BYTES = 12, FUNCTION_BYTES = 12, LAMBDA_BYTES = 24 };

ALWAYS_INLINE int read_atom(const struct beam *beam, struct cursor *cursor, uint32_t *ret) {
    uint32_t atom = 0;
    int result = cursor_u32(cursor, &atom);
    if (result < 0) return result;
    if (atom == 0 || atom >= beam->atom_count)
        return cursor_fail(cursor, "atom %u, there are %u", atom, beam->atom_count - 1);
    *ret = atom;
    return 0;
}

ALWAYS_INLINE int read_arity(struct cursor *cursor, uint32_t *ret) {
    uint32_t arity = 0;
    int result = cursor_u32(cursor, &arity);
    if (result < 0) return result;
    if (arity > MAX_ARITY) return cursor_fail(cursor, "arity %u", arity);
    *ret = arity;
    return 0;
}

ALWAYS_INLINE int read_import(const struct beam *beam, struct cursor *cursor, struct beam_import *ret) {
    uint32_t module = 0, function = 0, arity = 0;
    int result = read_atom(beam, cursor, &module);
    if (result == 0) result = read_atom(beam, cursor, &function);
    if (result == 0) result = read_arity(cursor, &arity);
    if (result == 0)
        *ret = (struct beam_import){.module = beam->atoms[module], .function = beam->atoms[function], .arity = arity};
    return result;
}

int read_imports(struct beam *beam, struct error *reterr) {
    struct cursor cursor = chunk_cursor(beam, CHUNK_IMPORTS, reterr);
    uint32_t count = 0;
    int result = cursor_count(&cursor, IMPORT_BYTES, &count);
    if (result < 0) return result;
    beam->imports = calloc((size_t)count + 1, sizeof *beam->imports);
    if (!beam->imports) return beam_no_memory(reterr);
    beam->import_count = count;
    for (uint32_t i = 0; result == 0 && i < count; i++) result = read_import(beam, &cursor, &beam->imports[i]);
    return result < 0 ? result : cursor_end(&cursor);
}

ALWAYS_INLINE int read_function(const struct beam *beam, struct cursor *cursor, struct beam_function *ret) {
    uint32_t atom = 0, arity = 0, label = 0;
    int result = read_atom(beam, cursor, &atom);
    if (result == 0) result = read_arity(cursor, &arity);
    if (result == 0) result = cursor_u32(cursor, &label);
    if (result == 0)
        *ret = (struct beam_function){.name = beam->atoms[atom], .atom = atom, .arity = arity, .label = label};
    return result;
}

static int read_functions(const struct beam *beam, enum chunk_kind kind, struct beam_function **ret,
                          uint32_t *ret_count, struct error *reterr) {
    struct cursor cursor = chunk_cursor(beam, kind, reterr);
    uint32_t count = 0;
    int result = cursor_count(&cursor, FUNCTION_BYTES, &count);
    if (result < 0) return result;
    CLEANUP_FREE struct beam_function *functions = calloc((size_t)count + 1, sizeof *functions);
    if (!functions) return beam_no_memory(reterr);
    for (uint32_t i = 0; result == 0 && i < count; i++) result = read_function(beam, &cursor, &functions[i]);
    if (result == 0) result = cursor_end(&cursor);
    if (result < 0) return result;
    *ret = take_ptr(functions);
    *ret_count = count;
    return 0;
}

int read_exports(struct beam *beam, struct error *reterr) {
    return read_functions(beam, CHUNK_EXPORTS, &beam->exports, &beam->export_count, reterr);
}

int read_locals(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_LOCALS].data) return 0;
    return read_functions(beam, CHUNK_LOCALS, &beam->locals, &beam->local_count, reterr);
}

ALWAYS_INLINE int read_lambda(const struct beam *beam, struct cursor *cursor, uint32_t number,
                              struct beam_lambda *ret) {
    struct beam_function function;
    uint32_t index = 0, free_count = 0, old_unique = 0;
    int result = read_function(beam, cursor, &function);
    if (result == 0) result = cursor_u32(cursor, &index);
    if (result == 0 && index != number) return cursor_fail(cursor, "lambda %u has index %u", number, index);
    if (result == 0) result = cursor_u32(cursor, &free_count);
    if (result == 0 && free_count > function.arity)
        return cursor_fail(cursor, "lambda %u closes over %u values and has arity %u", number, free_count,
                           function.arity);
    if (result == 0) result = cursor_u32(cursor, &old_unique);
    if (result == 0)
        *ret = (struct beam_lambda){.name = function.name,
                                    .atom = function.atom,
                                    .arity = function.arity,
                                    .label = function.label,
                                    .free_count = free_count,
                                    .old_unique = old_unique};
    return result;
}

int read_lambdas(struct beam *beam, struct error *reterr) {
    if (!beam->chunks[CHUNK_LAMBDAS].data) return 0;
    struct cursor cursor = chunk_cursor(beam, CHUNK_LAMBDAS, reterr);
    uint32_t count = 0;
    int result = cursor_count(&cursor, LAMBDA_BYTES, &count);
    if (result < 0) return result;
    beam->lambdas = calloc((size_t)count + 1, sizeof *beam->lambdas);
    if (!beam->lambdas) return beam_no_memory(reterr);
    beam->lambda_count = count;
    for (uint32_t i = 0; result == 0 && i < count; i++) result = read_lambda(beam, &cursor, i, &beam->lambdas[i]);
    return result < 0 ? result : cursor_end(&cursor);
}

ALWAYS_INLINE int check_function(const struct beam *beam, enum chunk_kind kind, uint32_t number,
                                 const struct beam_function *function, struct error *reterr) {
    const struct code_function *code = function_of(beam, function->label);
    if (!code)
        return error_set(reterr, E_FORMAT, "chunk %s, entry %u: label %u is no function's first", chunk_forms[kind].tag,
                         number, function->label);
    bool has_name = code->atom == function->atom || beam_text_equal(beam->atoms[code->atom], function->name);
    if (code->arity != function->arity || !has_name)
        return error_set(reterr, E_FORMAT, "chunk %s, entry %u: the function at label %u has another name or arity",
                         chunk_forms[kind].tag, number, function->label);
    return 0;
}

int check_tables(struct beam *beam, struct error *reterr) {
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < beam->export_count; i++)
        result = check_function(beam, CHUNK_EXPORTS, i, &beam->exports[i], reterr);
    for (uint32_t i = 0; result == 0 && i < beam->local_count; i++)
        result = check_function(beam, CHUNK_LOCALS, i, &beam->locals[i], reterr);
    for (uint32_t i = 0; result == 0 && i < beam->lambda_count; i++) {
        const struct beam_lambda *lambda = &beam->lambdas[i];
        struct beam_function function = {
            .name = lambda->name, .atom = lambda->atom, .arity = lambda->arity, .label = lambda->label};
        result = check_function(beam, CHUNK_LAMBDAS, i, &function, reterr);
    }
    return result;
}
