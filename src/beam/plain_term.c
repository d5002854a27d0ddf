/* Checks terms without building them. Most literals are atoms, numbers, text, tuples, lists and maps with atom keys,
   which can be checked in one pass; term_decode checks the others. */
#include <string.h>

#include "beam/beam_internal.h"

enum {
    VERSION_BYTE = 131,
    MAX_CONTAINERS = TERM_MAX_DEPTH - 1, /* so that no term can be too deep */
    MAX_MAP_DEPTH = 16,
    MAX_KEYS = 32,
    FLOAT_BYTES = 9, /* no tag has more bytes besides those its number counts */
    SHORT_ATOM_BYTES = 16,
    LOOK_AHEAD_BYTES = FLOAT_BYTES + SHORT_ATOM_BYTES,
};

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
    TAG_SMALL_BIG = 110,
    TAG_SMALL_ATOM = 115,
    TAG_MAP = 116,
    TAG_ATOM_UTF8 = 118,
    TAG_SMALL_ATOM_UTF8 = 119,
};

enum form_check { CHECK_NONE, CHECK_FLOAT, CHECK_SIGN, CHECK_MAP };

/* What follows a tag: a number and its meaning. Masks instead of branches, since the next tag can't be predicted. */
static const struct form {
    uint8_t size;  /* with the tag, without the bytes that the number counts; 0: not plain */
    uint8_t shift; /* moves the number to the low end of 32 bits */
    uint8_t check; /* further conditions */
    uint8_t tail;  /* terms inside, besides those that the number counts */
    uint8_t is_container;
    uint32_t text;       /* all ones: the number counts bytes that follow, */
    uint32_t terms;      /* or terms, */
    uint32_t characters; /* or bytes that are terms each, */
    uint32_t atom;       /* or bytes of a name */
} forms[256] = {
#define WIDTH(bytes) .shift = 32 - 8 * (bytes)
#define ALL UINT32_MAX
    [TAG_NIL] = {.size = 1, WIDTH(0)},
    [TAG_SMALL_INTEGER] = {.size = 2, WIDTH(0)},
    [TAG_INTEGER] = {.size = 5, WIDTH(0)},
    [TAG_FLOAT] = {.size = FLOAT_BYTES, WIDTH(0), .check = CHECK_FLOAT},
    [TAG_SMALL_BIG] = {.size = 3, WIDTH(1), .check = CHECK_SIGN, .text = ALL},
    [TAG_BINARY] = {.size = 5, WIDTH(4), .text = ALL},
    [TAG_STRING] = {.size = 3, WIDTH(2), .text = ALL, .characters = ALL},
    [TAG_ATOM] = {.size = 3, WIDTH(2), .text = ALL, .atom = ALL},
    [TAG_SMALL_ATOM] = {.size = 2, WIDTH(1), .text = ALL, .atom = ALL},
    [TAG_ATOM_UTF8] = {.size = 3, WIDTH(2), .text = ALL, .atom = ALL},
    [TAG_SMALL_ATOM_UTF8] = {.size = 2, WIDTH(1), .text = ALL, .atom = ALL},
    [TAG_SMALL_TUPLE] = {.size = 2, WIDTH(1), .terms = ALL, .is_container = 1},
    [TAG_LARGE_TUPLE] = {.size = 5, WIDTH(4), .terms = ALL, .is_container = 1},
    [TAG_LIST] = {.size = 5, WIDTH(4), .terms = ALL, .tail = 1, .is_container = 1},
    [TAG_MAP] = {.size = 5, WIDTH(4), .check = CHECK_MAP, .is_container = 1},
#undef ALL
#undef WIDTH
};

struct scan {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *readable_end; /* no byte behind it may be read */
    uint64_t terms_left;
    uint64_t containers_left;
    unsigned map_depth;
};

static inline uint64_t load_word(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* For short names no branch depends on the length. */
static inline bool is_name(const uint8_t *text, uint64_t size) {
    static const uint8_t beyond_ascii[2 * SHORT_ATOM_BYTES] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                                               0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    if (size > SHORT_ATOM_BYTES) return size <= 255 && utf8_is_ascii(text, size);
    const uint8_t *mask = beyond_ascii + SHORT_ATOM_BYTES - size;
    return ((load_word(text) & load_word(mask)) | (load_word(text + 8) & load_word(mask + 8))) == 0;
}

static bool is_finite(const uint8_t *bytes) {
    return (bytes[0] & 0x7f) != 0x7f || (bytes[1] & 0xf0) != 0xf0;
}

/* Near the end, a copy padded with zeros is used. */
static inline const uint8_t *look_ahead(const struct scan *scan, uint8_t copy[LOOK_AHEAD_BYTES]) {
    size_t left = (size_t)(scan->readable_end - scan->at);
    if (left >= LOOK_AHEAD_BYTES) return scan->at;
    memset(copy, 0, LOOK_AHEAD_BYTES);
    memcpy(copy, scan->at, left);
    return copy;
}

static bool scan_terms(struct scan *scan, uint64_t pending);

static bool is_new_key(const struct beam_text *keys, size_t count) {
    const struct beam_text *key = &keys[count];
    for (size_t i = 0; i < count; i++)
        if (keys[i].size == key->size && memcmp(keys[i].data, key->data, key->size) == 0) return false;
    return true;
}

/* Reads a key, which must be an atom, up to the end of its name. */
static bool scan_key(struct scan *scan, struct beam_text *ret) {
    uint8_t copy[LOOK_AHEAD_BYTES];
    const uint8_t *start = scan->at, *look = look_ahead(scan, copy);
    const struct form *form = &forms[look[0]];
    if (!form->atom || !scan_terms(scan, 1)) return false;
    *ret = (struct beam_text){(const char *)start + form->size, (size_t)(scan->at - start) - form->size};
    return true;
}

/* Keys must be unique, which is easy to check for small maps with atom keys. */
static bool scan_map(struct scan *scan, uint64_t pairs) {
    struct beam_text keys[MAX_KEYS];
    if (pairs > MAX_KEYS || 2 * pairs > scan->terms_left || scan->map_depth == MAX_MAP_DEPTH) return false;
    scan->terms_left -= 2 * pairs;
    scan->map_depth++;
    for (size_t i = 0; i < pairs; i++)
        if (!scan_key(scan, &keys[i]) || !is_new_key(keys, i) || !scan_terms(scan, 1)) return false;
    scan->map_depth--;
    return true;
}

static bool scan_terms(struct scan *scan, uint64_t pending) {
    uint8_t copy[LOOK_AHEAD_BYTES];
    for (; pending > 0; pending--) {
        const uint8_t *look = look_ahead(scan, copy);
        const struct form *form = &forms[look[0]];
        uint64_t number = (uint64_t)load_u32(look + 1) >> form->shift, left = (uint64_t)(scan->end - scan->at);
        uint64_t size = form->size + (number & form->text), inside = (number & form->terms) + form->tail;
        uint64_t counted = inside + (number & form->characters), name_size = number & form->atom;
        if (form->size == 0 || size > left || counted > scan->terms_left) return false;
        if (form->is_container > scan->containers_left) return false;
        if (!is_name(name_size > SHORT_ATOM_BYTES ? scan->at + form->size : look + form->size, name_size)) return false;
        scan->at += size;
        scan->terms_left -= counted;
        scan->containers_left -= form->is_container;
        pending += inside;
        if (form->check == CHECK_FLOAT && !is_finite(look + 1)) return false;
        if (form->check == CHECK_SIGN && look[2] > 1) return false;
        if (form->check == CHECK_MAP && !scan_map(scan, number)) return false;
    }
    return true;
}

static bool scan_pair(struct scan *scan) {
    struct beam_text key;
    if (scan->end - scan->at < 2 || scan->at[0] != TAG_SMALL_TUPLE || scan->at[1] != 2) return false;
    scan->at += 2;
    scan->containers_left = MAX_CONTAINERS - 2; /* none of which is inside another pair */
    return scan_key(scan, &key) && scan_terms(scan, 1);
}

static bool scan_pairs(struct scan *scan) {
    uint8_t copy[LOOK_AHEAD_BYTES];
    const uint8_t *look = look_ahead(scan, copy);
    uint64_t count = load_u32(look + 1), inside = 3 * count + 1;
    if (look[0] == TAG_NIL) return ++scan->at == scan->end;
    if (look[0] != TAG_LIST || inside > scan->terms_left) return false;
    scan->at += forms[TAG_LIST].size;
    scan->terms_left -= inside;
    for (uint64_t i = 0; i < count; i++)
        if (!scan_pair(scan)) return false;
    return scan->at < scan->end && *scan->at++ == TAG_NIL && scan->at == scan->end;
}

static bool begin_scan(struct scan *scan, const uint8_t *data, size_t size, size_t readable_size, size_t max_terms) {
    if (size < 2 || data[0] != VERSION_BYTE || max_terms == 0) return false;
    *scan = (struct scan){.at = data + 1,
                          .end = data + size,
                          .readable_end = data + readable_size,
                          .terms_left = max_terms - 1,
                          .containers_left = MAX_CONTAINERS};
    return true;
}

bool term_is_plain(const uint8_t *data, size_t size, size_t readable_size, size_t max_terms) {
    struct scan scan;
    return begin_scan(&scan, data, size, readable_size, max_terms) && scan_terms(&scan, 1) && scan.at == scan.end;
}

bool term_is_plain_pairs(const uint8_t *data, size_t size, size_t max_terms) {
    struct scan scan;
    return begin_scan(&scan, data, size, size, max_terms) && scan_pairs(&scan);
}
