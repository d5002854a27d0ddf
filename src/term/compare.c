/* A total order of terms that agrees with =:=, for the keys of maps. */
#include <stdlib.h>
#include <string.h>

#include "term/term_internal.h"

static int compare_u64(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_bytes(const void *a, size_t a_size, const void *b, size_t b_size) {
    if (a_size != b_size) return compare_u64(a_size, b_size);
    return a_size ? memcmp(a, b, a_size) : 0;
}

static int compare_integers(const struct term *a, const struct term *b) {
    return (a->integer > b->integer) - (a->integer < b->integer);
}

static int compare_bigs(const struct term *a, const struct term *b) {
    if (a->big.negative != b->big.negative) return a->big.negative ? -1 : 1;
    return compare_bytes(a->big.digits, a->big.size, b->big.digits, b->big.size);
}

/* Compares bits: 0.0 and -0.0 are different keys since OTP 27. */
static int compare_floats(const struct term *a, const struct term *b) {
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    return memcmp(&a->number, &b->number, sizeof a->number);
}

static int compare_atoms(const struct term *a, const struct term *b) {
    return compare_bytes(a->atom.text, a->atom.length, b->atom.text, b->atom.length);
}

static int compare_binaries(const struct term *a, const struct term *b) {
    if (a->binary.last_bits != b->binary.last_bits) return compare_u64(a->binary.last_bits, b->binary.last_bits);
    return compare_bytes(a->binary.data, a->binary.size, b->binary.data, b->binary.size);
}

static int compare_nils(const struct term *a, const struct term *b) {
    (void)a;
    (void)b;
    return 0;
}

static int compare_tuples(const struct term *a, const struct term *b) {
    if (a->items.count != b->items.count) return compare_u64(a->items.count, b->items.count);
    for (size_t i = 0; i < a->items.count; i++) {
        int order = term_compare(&a->items.elements[i], &b->items.elements[i]);
        if (order) return order;
    }
    return 0;
}

static int compare_lists(const struct term *a, const struct term *b) {
    int order = compare_tuples(a, b);
    return order ? order : term_compare(a->items.tail, b->items.tail);
}

static int compare_maps(const struct term *a, const struct term *b) {
    if (a->items.count != b->items.count) return compare_u64(a->items.count, b->items.count);
    for (size_t i = 0; i < a->items.count; i++) {
        const struct term *a_pair = &a->items.elements[2 * (size_t)a->items.sorted[i]];
        const struct term *b_pair = &b->items.elements[2 * (size_t)b->items.sorted[i]];
        int order = term_compare(a_pair, b_pair);
        if (order == 0) order = term_compare(a_pair + 1, b_pair + 1);
        if (order) return order;
    }
    return 0;
}

static int compare_records(const struct term *a, const struct term *b) {
    if (a->items.is_exported != b->items.is_exported) return a->items.is_exported ? 1 : -1;
    if (a->items.count != b->items.count) return compare_u64(a->items.count, b->items.count);
    for (size_t i = 0; i < term_element_count(a); i++) {
        int order = term_compare(&a->items.elements[i], &b->items.elements[i]);
        if (order) return order;
    }
    return 0;
}

static int compare_identifiers(const struct term *a, const struct term *b) {
    const struct term_identifier *x = a->identifier, *y = b->identifier;
    int order = compare_u64(x->id, y->id);
    if (order == 0) order = compare_u64(x->serial, y->serial);
    if (order == 0) order = compare_u64(x->creation, y->creation);
    if (order == 0)
        order =
            compare_bytes(x->words, x->word_count * sizeof x->words[0], y->words, y->word_count * sizeof y->words[0]);
    return order ? order : compare_atoms(x->node, y->node);
}

static int compare_funs(const struct term *a, const struct term *b) {
    return compare_bytes(a->fun->raw, a->fun->raw_size, b->fun->raw, b->fun->raw_size);
}

static int compare_exports(const struct term *a, const struct term *b) {
    int order = compare_u64(a->fun->arity, b->fun->arity);
    if (order == 0) order = compare_atoms(a->fun->function, b->fun->function);
    return order ? order : compare_atoms(a->fun->module, b->fun->module);
}

int term_compare(const struct term *a, const struct term *b) {
    static int (*const comparers[])(const struct term *, const struct term *) = {
        [TERM_INTEGER] = compare_integers,
        [TERM_BIG] = compare_bigs,
        [TERM_FLOAT] = compare_floats,
        [TERM_ATOM] = compare_atoms,
        [TERM_BINARY] = compare_binaries,
        [TERM_BITSTRING] = compare_binaries,
        [TERM_NIL] = compare_nils,
        [TERM_LIST] = compare_lists,
        [TERM_TUPLE] = compare_tuples,
        [TERM_MAP] = compare_maps,
        [TERM_PID] = compare_identifiers,
        [TERM_PORT] = compare_identifiers,
        [TERM_REFERENCE] = compare_identifiers,
        [TERM_FUN] = compare_funs,
        [TERM_EXPORT] = compare_exports,
        [TERM_RECORD] = compare_records,
    };
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return comparers[a->type](a, b);
}

static int compare_pairs(const void *a, const void *b, void *elements) {
    const struct term *pairs = elements;
    return term_compare(&pairs[2 * (size_t) * (const uint32_t *)a], &pairs[2 * (size_t) * (const uint32_t *)b]);
}

void term_sort_pairs(const struct term *elements, size_t pairs, uint32_t *sorted) {
    for (size_t i = 0; i < pairs; i++) sorted[i] = (uint32_t)i;
    qsort_r(sorted, pairs, sizeof *sorted, compare_pairs, (void *)elements);
}
