/* A look at a term without building it. Literals are mostly atoms, numbers, text, tuples and lists, which can be judged
   in passing; term_decode judges the others. */
#include "beam/beam_internal.h"

enum { VERSION_BYTE = 131, PLAIN_MAX_DEPTH = 64 };

enum plain_tag {
    TAG_FLOAT = 70,
    TAG_SMALL_INTEGER = 97,
    TAG_INTEGER = 98,
    TAG_ATOM = 100,
    TAG_SMALL_TUPLE = 104,
    TAG_LARGE_TUPLE = 105,
    TAG_NIL = 106,
    TAG_STRING = 107,
    TAG_LIST = 108,
    TAG_BINARY = 109,
    TAG_SMALL_ATOM = 115,
    TAG_ATOM_UTF8 = 118,
    TAG_SMALL_ATOM_UTF8 = 119,
};

/* What follows a tag: bytes of a size or of a value, and how what they announce is to be read. */
enum plain_rest {
    REST_NOT_PLAIN,
    REST_NOTHING,
    REST_FLOAT,
    REST_BYTES,
    REST_CHARACTERS,
    REST_ATOM,
    REST_TERMS,
    REST_LIST
};

static const struct {
    uint8_t rest;
    uint8_t fixed_bytes;
} tags[256] = {
    [TAG_FLOAT] = {REST_FLOAT, 8},       [TAG_SMALL_INTEGER] = {REST_NOTHING, 1},
    [TAG_INTEGER] = {REST_NOTHING, 4},   [TAG_NIL] = {REST_NOTHING, 0},
    [TAG_BINARY] = {REST_BYTES, 4},      [TAG_STRING] = {REST_CHARACTERS, 2},
    [TAG_ATOM] = {REST_ATOM, 2},         [TAG_SMALL_ATOM] = {REST_ATOM, 1},
    [TAG_ATOM_UTF8] = {REST_ATOM, 2},    [TAG_SMALL_ATOM_UTF8] = {REST_ATOM, 1},
    [TAG_SMALL_TUPLE] = {REST_TERMS, 1}, [TAG_LARGE_TUPLE] = {REST_TERMS, 4},
    [TAG_LIST] = {REST_LIST, 4},
};

struct scan {
    const uint8_t *at;
    const uint8_t *end;
    size_t terms_left;
};

static bool take(struct scan *scan, size_t size) {
    if (size > (size_t)(scan->end - scan->at)) return false;
    scan->at += size;
    return true;
}

static bool take_terms(struct scan *scan, size_t count) {
    if (count > scan->terms_left) return false;
    scan->terms_left -= count;
    return true;
}

static bool take_atom(struct scan *scan, size_t size) {
    const uint8_t *text = scan->at;
    uint8_t all = 0;
    if (size > 255 || !take(scan, size)) return false;
    for (size_t i = 0; i < size; i++) all |= text[i];
    return all < 0x80;
}

static bool is_finite(const uint8_t *bytes) {
    return (bytes[0] & 0x7f) != 0x7f || (bytes[1] & 0xf0) != 0xf0;
}

static size_t load(const uint8_t *bytes, size_t count) {
    size_t value = 0;
    for (size_t i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

static bool scan_term(struct scan *scan, unsigned depth);

static bool scan_terms(struct scan *scan, size_t count, unsigned depth) {
    if (depth == 0 || !take_terms(scan, count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!scan_term(scan, depth - 1)) return false;
    return true;
}

static bool scan_term(struct scan *scan, unsigned depth) {
    if (scan->at == scan->end) return false;
    uint8_t tag = *scan->at++;
    const uint8_t *fixed = scan->at;
    size_t fixed_bytes = tags[tag].fixed_bytes;
    if (!take(scan, fixed_bytes)) return false;
    size_t size = load(fixed, fixed_bytes);
    switch (tags[tag].rest) {
    case REST_NOTHING: return true;
    case REST_FLOAT: return is_finite(fixed);
    case REST_BYTES: return take(scan, size);
    case REST_CHARACTERS: return take_terms(scan, size) && take(scan, size);
    case REST_ATOM: return take_atom(scan, size);
    case REST_TERMS: return scan_terms(scan, size, depth);
    case REST_LIST: return scan_terms(scan, size + 1, depth);
    default: return false;
    }
}

bool term_is_plain(const uint8_t *data, size_t size, size_t max_terms) {
    if (size == 0 || data[0] != VERSION_BYTE || max_terms == 0) return false;
    struct scan scan = {.at = data + 1, .end = data + size, .terms_left = max_terms - 1};
    return scan_term(&scan, PLAIN_MAX_DEPTH) && scan.at == scan.end;
}
