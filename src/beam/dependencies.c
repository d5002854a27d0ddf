#include <stdlib.h>
#include <string.h>

#include "beam/beam_internal.h"

enum { EXPORT_TAG = 113 };

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

static int add_exports_of(struct beam_names *names, const struct term *term, struct error *reterr) {
    int result = 0;
    size_t per_item = term->type == TERM_MAP ? 2 : 1;
    switch (term->type) {
    case TERM_EXPORT: return add_atom(names, term->fun->module, reterr);
    case TERM_LIST: result = add_exports_of(names, term->items.tail, reterr); break;
    case TERM_TUPLE:
    case TERM_MAP: break;
    default: return 0;
    }
    for (size_t i = 0; result == 0 && i < per_item * term->items.count; i++)
        result = add_exports_of(names, &term->items.elements[i], reterr);
    return result;
}

/* Names in a term that was decoded for them need it to live on. */
static int keep_doc(struct beam_names *names, struct term_doc **doc, struct error *reterr) {
    struct term_doc **kept = realloc(names->kept, (names->kept_count + 1) * sizeof *kept);
    if (!kept) return beam_no_memory(reterr);
    names->kept = kept;
    kept[names->kept_count++] = take_ptr(*doc);
    return 0;
}

static int add_literal(const struct beam *beam, struct beam_names *names, const struct chunk *literal,
                       struct error *reterr) {
    struct term_bounds bounds = {
        .max_bytes = literal->size, .max_terms = beam->options.max_terms, .max_depth = TERM_MAX_DEPTH};
    CLEANUP_TERM struct term_doc *doc = NULL;
    size_t count = names->count;
    int result = term_decode(literal->data, literal->size, &bounds, &doc, reterr);
    if (result == 0) result = add_exports_of(names, term_root(doc), reterr);
    return result < 0 || names->count == count ? result : keep_doc(names, &doc, reterr);
}

static int add_runtime(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < beam->import_count; i++)
        result = add_name(names, beam->imports[i].module, reterr);
    for (uint32_t i = 0; result == 0 && i < beam->literal_count; i++)
        if (memchr(beam->literals[i].data, EXPORT_TAG, beam->literals[i].size))
            result = add_literal(beam, names, &beam->literals[i], reterr);
    return result;
}

static int add_behaviours(const struct beam *beam, struct beam_names *names, struct error *reterr) {
    const struct term *attributes = beam_attributes(beam), *pair, *name;
    int result = 0;
    for (size_t i = 0; attributes && (pair = term_at(attributes, i)); i++) {
        const struct term *key = term_at(pair, 0), *values = term_at(pair, 1);
        if (!term_is_atom(key, "behaviour") && !term_is_atom(key, "behavior")) continue;
        for (size_t j = 0; result == 0 && (name = term_at(values, j)); j++) result = add_atom(names, name, reterr);
    }
    return result;
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

static int collect(const struct beam *beam, collect_function *first, collect_function *second, struct beam_names *ret,
                   struct error *reterr) {
    CLEANUP(beam_names_free) struct beam_names names = {0};
    int result = first(beam, &names, reterr);
    if (result == 0 && second) result = second(beam, &names, reterr);
    if (result < 0) return result;
    sort_names(&names, beam_module(beam));
    *ret = names;
    names = (struct beam_names){0};
    return 0;
}

int beam_runtime_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, add_runtime, NULL, ret, reterr);
}

int beam_behaviours(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, add_behaviours, NULL, ret, reterr);
}

int beam_compile_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr) {
    return collect(beam, add_behaviours, add_parse_transforms, ret, reterr);
}
