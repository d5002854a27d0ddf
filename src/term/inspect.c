/* Accessors for decoded terms that check the shape before they return anything. */
#include <string.h>

#include "term/term_internal.h"

static bool is_text(const struct term *term, const char *text) {
    size_t length = strlen(text);
    if (term->type == TERM_ATOM) return term->atom.length == length && memcmp(term->atom.text, text, length) == 0;
    if (term->type != TERM_BINARY || term->binary.size != length) return false;
    return length == 0 || memcmp(term->binary.data, text, length) == 0;
}

bool term_is_atom(const struct term *term, const char *text) {
    return term && term->type == TERM_ATOM && is_text(term, text);
}

bool term_is_tuple(const struct term *term, size_t arity) {
    return term && term->type == TERM_TUPLE && term->items.count == arity;
}

bool term_is_tagged(const struct term *term, const char *tag, size_t arity) {
    return arity > 0 && term_is_tuple(term, arity) && term_is_atom(&term->items.elements[0], tag);
}

const struct term *term_at(const struct term *tuple_or_list, size_t index) {
    if (!tuple_or_list || (tuple_or_list->type != TERM_TUPLE && tuple_or_list->type != TERM_LIST)) return NULL;
    return index < tuple_or_list->items.count ? &tuple_or_list->items.elements[index] : NULL;
}

enum { FEW_PAIRS = 32 }; /* a linear search is faster up to this many pairs */

static const struct term *search(const struct term *map, const struct term *key) {
    size_t low = 0, high = map->items.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct term *pair = &map->items.elements[2 * (size_t)map->items.sorted[middle]];
        int order = term_compare(pair, key);
        if (order == 0) return pair + 1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* A sender may have sent a million keys, of which a dozen are looked up. */
static const struct term *search_text(const struct term *map, const char *text) {
    size_t length = strlen(text);
    const struct term atom = {.type = TERM_ATOM, .atom = {text, length}};
    const struct term binary = {.type = TERM_BINARY, .binary = {(const uint8_t *)text, length, 8}};
    const struct term *value = search(map, &atom);
    return value ? value : search(map, &binary);
}

const struct term *term_map_get(const struct term *map, const char *atom_or_binary_key) {
    if (!map || map->type != TERM_MAP) return NULL;
    if (map->items.count > FEW_PAIRS) return search_text(map, atom_or_binary_key);
    for (size_t i = 0; i < map->items.count; i++)
        if (is_text(&map->items.elements[2 * i], atom_or_binary_key)) return &map->items.elements[2 * i + 1];
    return NULL;
}

bool term_to_int64(const struct term *term, int64_t *ret) {
    if (!term || term->type != TERM_INTEGER) return false;
    *ret = term->integer;
    return true;
}

bool term_to_uint64(const struct term *term, uint64_t *ret) {
    if (!term) return false;
    if (term->type == TERM_INTEGER && term->integer >= 0) {
        *ret = (uint64_t)term->integer;
        return true;
    }
    if (term->type != TERM_BIG || term->big.negative || term->big.size > sizeof *ret) return false;
    uint64_t value = 0;
    for (size_t i = term->big.size; i > 0; i--) value = value << 8 | term->big.digits[i - 1];
    *ret = value;
    return true;
}

size_t term_element_count(const struct term *term) {
    switch (term->type) {
    case TERM_LIST:
    case TERM_TUPLE: return term->items.count;
    case TERM_MAP: return 2 * term->items.count;
    case TERM_RECORD: return RECORD_FIELDS + 2 * term->items.count;
    default: return 0;
    }
}

bool list_is_text(const struct term *list, bool (*takes)(uint32_t code)) {
    if (list->type != TERM_LIST || list->items.tail->type != TERM_NIL) return false;
    for (size_t i = 0; i < list->items.count; i++) {
        const struct term *element = &list->items.elements[i];
        if (element->type != TERM_INTEGER || element->integer < 0 || element->integer > 0x10FFFF) return false;
        if (!takes((uint32_t)element->integer)) return false;
    }
    return true;
}

static bool is_character(uint32_t code) {
    return code > 0 && (code < 0xD800 || code > 0xDFFF);
}

static bool copy_bytes(const void *data, size_t size, char **ret) {
    if (size > 0 && memchr(data, '\0', size)) return false;
    char *copy = malloc(size + 1);
    if (!copy) return false;
    if (size > 0) memcpy(copy, data, size);
    copy[size] = '\0';
    *ret = copy;
    return true;
}

static bool copy_characters(const struct term *list, char **ret) {
    if (!list_is_text(list, is_character)) return false;
    char *copy = malloc(UTF8_MAX_BYTES * list->items.count + 1);
    if (!copy) return false;
    size_t length = 0;
    for (size_t i = 0; i < list->items.count; i++)
        length += utf8_encode((uint32_t)list->items.elements[i].integer, copy + length);
    copy[length] = '\0';
    *ret = copy;
    return true;
}

bool term_to_string(const struct term *term, char **ret) {
    if (!term) return false;
    switch (term->type) {
    case TERM_BINARY: return copy_bytes(term->binary.data, term->binary.size, ret);
    case TERM_ATOM: return copy_bytes(term->atom.text, term->atom.length, ret);
    case TERM_NIL: return copy_bytes(NULL, 0, ret);
    case TERM_LIST: return copy_characters(term, ret);
    default: return false;
    }
}
bool term_to_text(const struct term *term, size_t max_bytes, char **ret) {
    char *text = NULL;
    if (!term) return false;
    struct term part = *term;
    if (part.type == TERM_BINARY) part.binary.size = utf8_cut(part.binary.data, part.binary.size, max_bytes);
    if (part.type == TERM_LIST && part.items.count > max_bytes) part.items.count = max_bytes;
    if (!term_to_string(&part, &text)) return false;
    text[utf8_cut(text, strlen(text), max_bytes)] = '\0';
    *ret = text;
    return true;
}
