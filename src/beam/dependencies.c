/* Finds the modules that a BEAM file depends on: at run time, for compilation, and optionally. */
#include <stdlib.h>
#include <string.h>

#include "beam/code/code.h"

#define EXPORT_MARK "q" /* the tag of an external fun */
#define STRUCT_KEY "__struct__"
#define ALIAS_START "Elixir."

void beam_names_free(struct beam_names *names) {
    for (size_t i = 0; i < names->kept_count; i++) term_free(names->kept[i]);
    free(names->kept);
    free(names->items);
    *names = (struct beam_names){0};
}

static int add_name(struct beam_names *names, struct beam_text name, struct error *reterr) {
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 16;
        struct beam_text *items = realloc(names->items, capacity * sizeof *items);
        if (!items) return beam_no_memory(reterr);
        names->items = items;
        names->capacity = capacity;
    }
    names->items[names->count++] = name;
    return 0;
}

static int compare_names(const void *left, const void *right) {
    const struct beam_text *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static void sort_names(struct beam_names *names, struct beam_text own_name) {
    size_t kept = 0;
    if (names->count == 0) return;
    qsort(names->items, names->count, sizeof *names->items, compare_names);
    for (size_t i = 0; i < names->count; i++) {
        bool is_twin = kept > 0 && beam_text_equal(names->items[kept - 1], names->items[i]);
        if (!is_twin && !beam_text_equal(names->items[i], own_name)) names->items[kept++] = names->items[i];
    }
    names->count = kept;
}

static int add_atom(struct beam_names *names, const struct term *term, struct error *reterr) {
    if (!term || term->type != TERM_ATOM) return 0;
    return add_name(names, (struct beam_text){term->atom.text, term->atom.length}, reterr);
}

/* Gets a term without its elements. */
typedef int visit_function(struct beam_names *names, const struct term *term, struct error *reterr);

static int add_export(struct beam_names *names, const struct term *term, struct error *reterr) {
    return term->type == TERM_EXPORT ? add_atom(names, term->fun->module, reterr) : 0;
}

static int add_struct(struct beam_names *names, const struct term *term, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; term->type == TERM_MAP && result == 0 && i < term->items.count; i++)
        if (term_is_atom(&term->items.elements[2 * i], STRUCT_KEY))
            result = add_atom(names, &term->items.elements[2 * i + 1], reterr);
    return result;
}

static bool is_alias(struct beam_text name) {
    return name.size > strlen(ALIAS_START) && memcmp(name.data, ALIAS_START, strlen(ALIAS_START)) == 0;
}

static int add_alias(struct beam_names *names, const struct term *term, struct error *reterr) {
    if (term->type != TERM_ATOM) return 0;
    return is_alias((struct beam_text){term->atom.text, term->atom.length}) ? add_atom(names, term, reterr) : 0;
}

static int visit_term(struct beam_names *names, const struct term *term, visit_function *visit, struct error *reterr) {
    size_t count = term_element_count(term);
    int result = visit(names, term, reterr);
    if (result == 0 && term->type == TERM_LIST) result = visit_term(names, term->items.tail, visit, reterr);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = visit_term(names, &term->items.elements[i], visit, reterr);
    return result;
}

/* Names that point into a decoded term need it to live on. */
static int keep_doc(struct beam_names *names, struct term_doc **doc, struct error *reterr) {
    struct term_doc **kept = realloc(names->kept, (names->kept_count + 1) * sizeof *kept);
    if (!kept) return beam_no_memory(reterr);
    names->kept = kept;
    kept[names->kept_count++] = take_ptr(*doc);
    return 0;
}

static int visit_literal(const struct beam *beam, struct beam_names *names, const struct chunk *literal,
                         visit_function *visit, struct error *reterr) {
    struct term_bounds bounds = {
        .max_bytes = literal->size, .max_terms = beam->options.max_terms, .max_depth = TERM_MAX_DEPTH};
    CLEANUP_TERM struct term_doc *doc = NULL;
    size_t count = names->count;
    int result = term_decode(literal->data, literal->size, &bounds, &doc, reterr);
    if (result == 0) result = visit_term(names, term_root(doc), visit, reterr);
    return result < 0 || names->count == count ? result : keep_doc(names, &doc, reterr);
}

/* Only literals that contain the mark in their bytes are decoded. */
static int visit_literals(const struct beam *beam, struct beam_names *names, const char *mark, visit_function *visit,
                          struct error *reterr) {
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < beam->literal_count; i++)
        if (memmem(beam->literals[i].data, beam->literals[i].size, mark, strlen(mark)))
            result = visit_literal(beam, names, &beam->literals[i], visit, reterr);
    return result;
}

static int add_runtime(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < beam->import_count; i++)
        result = add_name(names, beam->imports[i].module, reterr);
    return result < 0 ? result : visit_literals(beam, names, EXPORT_MARK, add_export, reterr);
}

/* Elixir's module names differ from other atoms by their prefix; Erlang's don't. */
static int add_named(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    int result = 0;
    for (uint32_t i = 1; result == 0 && i < beam->atom_count; i++)
        if (is_alias(beam->atoms[i])) result = add_name(names, beam->atoms[i], reterr);
    return result < 0 ? result : visit_literals(beam, names, ALIAS_START, add_alias, reterr);
}

/* A struct that is built contains its fields and defaults. A constant one is a literal; otherwise the key is in the
   instruction that makes the map. */
static int add_built_struct(const struct beam *beam, struct beam_names *names, struct cursor *cursor, uint64_t count) {
    operand_t pair[2];
    int result = 0;
    for (uint64_t i = 0; result == 0 && i < count; i += 2) {
        result = operand_read(beam, cursor, &pair[0]);
        if (result == 0) result = operand_read(beam, cursor, &pair[1]);
        if (result < 0 || operand_form(pair[0]) != FORM_ATOM || operand_form(pair[1]) != FORM_ATOM) continue;
        if (beam_text_is(beam->atoms[operand_value(pair[0])], STRUCT_KEY) && operand_value(pair[1]) > 0)
            result = add_name(names, beam->atoms[operand_value(pair[1])], cursor->reterr);
    }
    return result;
}

static int visit_instruction(const struct beam *beam, struct beam_names *names, struct cursor *cursor) {
    uint8_t number = *cursor->at++;
    const struct opcode *opcode = &opcodes[number];
    operand_t operand = 0;
    int result = 0;
    for (unsigned i = 0; result == 0 && i < opcode->operand_count; i++) result = operand_read(beam, cursor, &operand);
    if (result < 0 || !opcode->list) return result;
    uint64_t count = operand_value(operand);
    if (number == OP_PUT_MAP_ASSOC || number == OP_PUT_MAP_EXACT) return add_built_struct(beam, names, cursor, count);
    for (uint64_t i = 0; result == 0 && i < count; i++) result = operand_read(beam, cursor, &operand);
    return result;
}

static int add_structs(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    struct cursor cursor = chunk_cursor(beam, CHUNK_CODE, reterr);
    int result = visit_literals(beam, names, STRUCT_KEY, add_struct, reterr);
    cursor.at = beam->code;
    while (result == 0 && cursor_left(&cursor) > 0) result = visit_instruction(beam, names, &cursor);
    return result;
}

static int add_behaviours(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    CLEANUP_TERM struct term_doc *attributes = NULL;
    const struct term *pair, *name;
    int result = beam_attributes(beam, &attributes, reterr);
    if (result < 0 || !attributes) return result;
    for (size_t i = 0; (pair = term_at(term_root(attributes), i)); i++) {
        const struct term *key = term_at(pair, 0), *values = term_at(pair, 1);
        if (!term_is_atom(key, "behaviour") && !term_is_atom(key, "behavior")) continue;
        for (size_t j = 0; result == 0 && (name = term_at(values, j)); j++) result = add_atom(names, name, reterr);
    }
    return result < 0 ? result : keep_doc(names, &attributes, reterr);
}

static int add_parse_transforms(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    CLEANUP_TERM struct term_doc *info = NULL;
    int result = beam_compile_info(beam, &info, reterr);
    if (result < 0 || !info) return result;
    const struct term *options = beam_find_value(term_root(info), "options"), *option;
    for (size_t i = 0; result == 0 && options && (option = term_at(options, i)); i++)
        if (term_is_tagged(option, "parse_transform", 2)) result = add_atom(names, term_at(option, 1), reterr);
    return result < 0 ? result : keep_doc(names, &info, reterr);
}

typedef int collect_function(const struct beam *beam, struct beam_names *names, struct error *reterr);

enum { MAX_COLLECTED = 3 };

static int collect(const struct beam *beam, collect_function *const functions[MAX_COLLECTED], struct beam_names *ret,
                   struct error *reterr) {
    CLEANUP(beam_names_free) struct beam_names names = {0};
    int result = 0;
    for (int i = 0; result == 0 && i < MAX_COLLECTED && functions[i]; i++) result = functions[i](beam, &names, reterr);
    if (result < 0) return result;
    sort_names(&names, beam_module(beam));
    *ret = names;
    names = (struct beam_names){0};
    return 0;
}

int beam_runtime_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, (collect_function *[MAX_COLLECTED]){add_runtime}, ret, reterr);
}

int beam_behaviours(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, (collect_function *[MAX_COLLECTED]){add_behaviours}, ret, reterr);
}

int beam_compile_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, (collect_function *[MAX_COLLECTED]){add_behaviours, add_parse_transforms, add_structs}, ret,
                   reterr);
}

static bool has_name(const struct beam_names *names, struct beam_text name) {
    return names->count > 0 && bsearch(&name, names->items, names->count, sizeof *names->items, compare_names);
}

int beam_optional_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    CLEANUP(beam_names_free) struct beam_names names = {0}, runtime = {0}, compile = {0};
    int result = collect(beam, (collect_function *[MAX_COLLECTED]){add_named}, &names, reterr);
    if (result == 0) result = beam_runtime_dependencies(beam, &runtime, reterr);
    if (result == 0) result = beam_compile_dependencies(beam, &compile, reterr);
    if (result < 0) return result;
    size_t kept = 0;
    for (size_t i = 0; i < names.count; i++)
        if (!has_name(&runtime, names.items[i]) && !has_name(&compile, names.items[i]))
            names.items[kept++] = names.items[i];
    names.count = kept;
    *ret = names;
    names = (struct beam_names){0};
    return 0;
}
