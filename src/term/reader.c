/* Reads the external term format: the dispatch by tag, and composite terms. */
#include <string.h>

#include "term/reader.h"

static const struct term nil = {.type = TERM_NIL};

int reader_take(struct reader *reader, size_t size, uint8_t **ret) {
    if (size > reader->size - reader->at - reader->owed) return reader_malformed(reader, "unexpected end");
    *ret = reader->data + reader->at;
    reader->at += size;
    return 0;
}

static int count_terms(struct reader *reader, size_t count) {
    if (count > reader->terms_left)
        return error_set(reader->reterr, E_TOO_LARGE, "too many terms at byte %zu of a term", reader->at + 1);
    reader->terms_left -= count;
    return 0;
}

static int promise(struct reader *reader, size_t count) {
    if (count > reader->size - reader->at - reader->owed) return reader_malformed(reader, "more elements than bytes");
    int result = count_terms(reader, count);
    if (result == 0) reader->owed += count;
    return result;
}

int reader_allocate_terms(struct reader *reader, size_t count, struct term **ret) {
    struct term *terms = arena_allocate(reader->arena, count * sizeof *terms);
    if (!terms) return reader_no_memory(reader);
    *ret = terms;
    return 0;
}

static int read_promised(struct reader *reader, struct term *ret);

int reader_elements(struct reader *reader, size_t count, const struct term **ret) {
    struct term *elements = NULL;
    int result = promise(reader, count);
    if (result == 0 && count > 0) result = reader_allocate_terms(reader, count, &elements);
    for (size_t i = 0; result == 0 && i < count; i++) result = read_promised(reader, &elements[i]);
    if (result == 0) *ret = elements;
    return result;
}

int reader_child(struct reader *reader, struct term *ret) {
    int result = promise(reader, 1);
    return result < 0 ? result : read_promised(reader, ret);
}

static int read_nil(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)reader;
    (void)fixed;
    *ret = nil;
    return 0;
}

static int read_string(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    size_t count = load_u16(fixed);
    uint8_t *bytes = NULL;
    struct term *elements = NULL;
    int result = reader_take(reader, count, &bytes);
    if (result == 0) result = count_terms(reader, count);
    if (result == 0 && count == 0) return read_nil(reader, fixed, ret);
    if (result == 0) result = reader_allocate_terms(reader, count, &elements);
    if (result < 0) return result;
    for (size_t i = 0; i < count; i++) elements[i] = (struct term){.type = TERM_INTEGER, .integer = bytes[i]};
    *ret = (struct term){.type = TERM_LIST, .items = {.elements = elements, .count = count, .tail = &nil}};
    return 0;
}

/* [a | [b]] is [a, b]. No VM sends it in two parts. The copy is charged to the sender's bound on terms. */
static int join_lists(struct reader *reader, const struct term *head, size_t count, const struct term *rest,
                      struct term *ret) {
    struct term *elements = NULL;
    size_t total = count + rest->items.count;
    int result = count_terms(reader, total);
    if (result == 0) result = reader_allocate_terms(reader, total, &elements);
    if (result < 0) return result;
    memcpy(elements, head, count * sizeof *elements);
    memcpy(elements + count, rest->items.elements, rest->items.count * sizeof *elements);
    *ret = (struct term){.type = TERM_LIST, .items = {.elements = elements, .count = total, .tail = rest->items.tail}};
    return 0;
}

static int read_list(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    size_t count = load_u32(fixed);
    const struct term *elements;
    struct term tail;
    int result = reader_elements(reader, count, &elements);
    if (result >= 0) result = reader_child(reader, &tail);
    if (result < 0) return result;
    if (count == 0) {
        *ret = tail;
        return 0;
    }
    if (tail.type == TERM_LIST) return join_lists(reader, elements, count, &tail, ret);
    const struct term *kept_tail = &nil;
    if (tail.type != TERM_NIL) {
        struct term *copy = NULL;
        result = reader_allocate_terms(reader, 1, &copy);
        if (result < 0) return result;
        *copy = tail;
        kept_tail = copy;
    }
    *ret = (struct term){.type = TERM_LIST, .items = {.elements = elements, .count = count, .tail = kept_tail}};
    return 0;
}

static int read_tuple(struct reader *reader, size_t arity, struct term *ret) {
    const struct term *elements;
    int result = reader_elements(reader, arity, &elements);
    if (result == 0) *ret = (struct term){.type = TERM_TUPLE, .items = {.elements = elements, .count = arity}};
    return result;
}

static int read_small_tuple(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_tuple(reader, fixed[0], ret);
}

static int read_large_tuple(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_tuple(reader, load_u32(fixed), ret);
}

/* Sorting makes duplicate keys adjacent, and lets maps be compared without searching. */
static int sort_map(struct reader *reader, const struct term *elements, size_t pairs, const uint32_t **ret) {
    uint32_t *sorted = arena_allocate(reader->arena, pairs * sizeof *sorted);
    if (!sorted) return reader_no_memory(reader);
    term_sort_pairs(elements, pairs, sorted);
    for (size_t i = 1; i < pairs; i++)
        if (term_compare(&elements[2 * (size_t)sorted[i - 1]], &elements[2 * (size_t)sorted[i]]) == 0)
            return reader_malformed(reader, "a map with one key twice");
    *ret = sorted;
    return 0;
}

static int read_map(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    size_t pairs = load_u32(fixed);
    const struct term *elements;
    const uint32_t *sorted = NULL;
    int result = reader_elements(reader, 2 * pairs, &elements);
    if (result == 0 && pairs > 0) result = sort_map(reader, elements, pairs, &sorted);
    if (result == 0)
        *ret = (struct term){.type = TERM_MAP, .items = {.elements = elements, .count = pairs, .sorted = sorted}};
    return result;
}

static bool are_atoms(const struct term *terms, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (terms[i].type != TERM_ATOM) return false;
    return true;
}

static int read_record(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    size_t fields = load_u32(fixed);
    uint8_t flags = fixed[4];
    const struct term *elements = NULL;
    if (flags > 1) return reader_too_new(reader, "a native record with unknown flags");
    int result = reader_elements(reader, RECORD_FIELDS + 2 * fields, &elements);
    if (result < 0) return result;
    if (!elements || !are_atoms(elements, RECORD_FIELDS + fields))
        return reader_malformed(reader, "a record's name that is none");
    *ret =
        (struct term){.type = TERM_RECORD, .items = {.elements = elements, .count = fields, .is_exported = flags == 1}};
    return 0;
}

static const struct {
    read_function *read;
    uint8_t fixed_bytes; /* after the tag */
} tags[256] = {
    [TAG_SMALL_INTEGER] = {read_small_integer, 1},
    [TAG_INTEGER] = {read_integer, 4},
    [TAG_SMALL_BIG] = {read_small_big, 2},
    [TAG_LARGE_BIG] = {read_large_big, 5},
    [TAG_NEW_FLOAT] = {read_new_float, 8},
    [TAG_FLOAT] = {read_old_float, OLD_FLOAT_BYTES},
    [TAG_ATOM] = {read_atom, 2},
    [TAG_SMALL_ATOM] = {read_small_atom, 1},
    [TAG_ATOM_UTF8] = {read_atom_utf8, 2},
    [TAG_SMALL_ATOM_UTF8] = {read_small_atom_utf8, 1},
    [TAG_BINARY] = {read_binary, 4},
    [TAG_BIT_BINARY] = {read_bit_binary, 5},
    [TAG_NIL] = {read_nil, 0},
    [TAG_STRING] = {read_string, 2},
    [TAG_LIST] = {read_list, 4},
    [TAG_SMALL_TUPLE] = {read_small_tuple, 1},
    [TAG_LARGE_TUPLE] = {read_large_tuple, 4},
    [TAG_MAP] = {read_map, 4},
    [TAG_PID] = {read_pid, 0},
    [TAG_NEW_PID] = {read_new_pid, 0},
    [TAG_PORT] = {read_port, 0},
    [TAG_NEW_PORT] = {read_new_port, 0},
    [TAG_V4_PORT] = {read_v4_port, 0},
    [TAG_REFERENCE] = {read_reference, 0},
    [TAG_NEW_REFERENCE] = {read_new_reference, 2},
    [TAG_NEWER_REFERENCE] = {read_newer_reference, 2},
    [TAG_NEW_FUN] = {read_fun, 29},
    [TAG_EXPORT] = {read_export, 0},
    [TAG_RECORD] = {read_record, 5},
};

static int read_tagged(struct reader *reader, struct term *ret) {
    uint8_t *tag = NULL, *fixed = NULL;
    int result = reader_take(reader, 1, &tag);
    if (result < 0) return result;
    if (!tags[*tag].read) {
        reader->at--;
        if (*tag == TAG_COMPRESSED) return reader_malformed(reader, "a compressed part");
        return reader_too_new(reader, "an unknown tag");
    }
    result = reader_take(reader, tags[*tag].fixed_bytes, &fixed);
    return result < 0 ? result : tags[*tag].read(reader, fixed, ret);
}

static int read_promised(struct reader *reader, struct term *ret) {
    if (reader->depth_left == 0)
        return error_set(reader->reterr, E_TOO_LARGE, "too deep at byte %zu of a term", reader->at + 1);
    reader->owed--;
    reader->depth_left--;
    int result = read_tagged(reader, ret);
    reader->depth_left++;
    return result;
}

static struct reader begin(uint8_t *data, size_t size, const struct term_bounds *bounds, struct arena *arena,
                           struct error *reterr) {
    return (struct reader){
        .data = data,
        .size = size,
        .terms_left = bounds->max_terms,
        .depth_left = bounds->max_depth < TERM_DEPTH_LIMIT ? bounds->max_depth : TERM_DEPTH_LIMIT,
        .arena = arena,
        .reterr = reterr,
    };
}

int term_read(uint8_t *data, size_t size, const struct term_bounds *bounds, struct arena *arena, struct term *ret,
              struct term_amount *ret_amount, struct error *reterr) {
    struct reader reader = begin(data, size, bounds, arena, reterr);
    struct term root;
    int result = reader_child(&reader, &root);
    if (result < 0) return result;
    if (reader.at != size) return reader_malformed(&reader, "trailing bytes");
    *ret = root;
    ret_amount->terms = bounds->max_terms - reader.terms_left;
    ret_amount->weight = ret_amount->terms + reader.numbers_weight;
    return 0;
}

int term_read_until(uint8_t *data, size_t size, const struct term_bounds *bounds, struct arena *arena, size_t index,
                    size_t *ret, struct error *reterr) {
    struct reader reader = begin(data, size, bounds, arena, reterr);
    uint8_t *tag = NULL, *arity = NULL;
    struct term skipped;
    int result = reader_take(&reader, 1, &tag);
    if (result == 0 && *tag != TAG_SMALL_TUPLE) return reader_malformed(&reader, "no tuple");
    if (result == 0) result = reader_take(&reader, 1, &arity);
    if (result == 0 && *arity <= index) return reader_malformed(&reader, "too small a tuple");
    for (size_t i = 0; result == 0 && i < index; i++) result = reader_child(&reader, &skipped);
    if (result == 0) *ret = reader.at;
    return result;
}

/* The functions that the macros of these names wrap. */
#undef reader_malformed
#undef reader_too_new
#undef reader_no_memory

/* Offsets include the version byte, which is not part of data. */
int reader_malformed(const struct reader *reader, const char *what) {
    return error_set(reader->reterr, E_FORMAT, "%s at byte %zu of a term", what, reader->at + 1);
}

int reader_too_new(const struct reader *reader, const char *what) {
    return error_set(reader->reterr, E_TOO_NEW, "%s (%u) at byte %zu of a term", what, reader->data[reader->at],
                     reader->at + 1);
}

int reader_no_memory(const struct reader *reader) {
    return error_set(reader->reterr, E_NO_MEMORY, "no memory for a term of %zu bytes", reader->size);
}
