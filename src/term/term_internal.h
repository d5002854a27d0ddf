/* Shared by the files of term. */
#ifndef TERM_TERM_INTERNAL_H
#define TERM_TERM_INTERNAL_H

#include "term/term.h"

enum tag {
    TAG_RECORD = 67,
    TAG_NEW_FLOAT = 70,
    TAG_BIT_BINARY = 77,
    TAG_COMPRESSED = 80,
    TAG_NEW_PID = 88,
    TAG_NEW_PORT = 89,
    TAG_NEWER_REFERENCE = 90,
    TAG_SMALL_INTEGER = 97,
    TAG_INTEGER = 98,
    TAG_FLOAT = 99,
    TAG_ATOM = 100,
    TAG_REFERENCE = 101,
    TAG_PORT = 102,
    TAG_PID = 103,
    TAG_SMALL_TUPLE = 104,
    TAG_LARGE_TUPLE = 105,
    TAG_NIL = 106,
    TAG_STRING = 107,
    TAG_LIST = 108,
    TAG_BINARY = 109,
    TAG_SMALL_BIG = 110,
    TAG_LARGE_BIG = 111,
    TAG_NEW_FUN = 112,
    TAG_EXPORT = 113,
    TAG_NEW_REFERENCE = 114,
    TAG_SMALL_ATOM = 115,
    TAG_MAP = 116,
    TAG_ATOM_UTF8 = 118,
    TAG_SMALL_ATOM_UTF8 = 119,
    TAG_V4_PORT = 120,
    TAG_VERSION = 131,
};

enum { ATOM_MAX_CHARACTERS = 255, REFERENCE_MAX_WORDS = 5 };

/* Memory that is freed at once. */
struct arena {
    struct arena_chunk *chunks;
    size_t used; /* of the newest chunk */
};

void *arena_allocate(struct arena *arena, size_t size); /* aligned for any object; NULL without memory */
void arena_free(struct arena *arena);

struct term_amount {
    size_t terms, weight; /* see term_count and term_weight */
};

/* Reads the one term that fills data. The result points into data, which must live as long. Bytes of data may be
   changed in place, but not their meaning. */
int term_read(uint8_t *data, size_t size, const struct term_bounds *bounds, struct arena *arena, struct term *ret,
              struct term_amount *ret_amount, struct error *reterr);

/* Reads the elements of a small tuple before the one with that index, and returns where that one begins. */
int term_read_until(uint8_t *data, size_t size, const struct term_bounds *bounds, struct arena *arena, size_t index,
                    size_t *ret, struct error *reterr);

/* A total order that agrees with =:= but not with Erlang's term order. */
int term_compare(const struct term *a, const struct term *b);
/* Fills sorted, which has room for every pair, with the map's pairs in the order of their keys. */
void term_sort_pairs(const struct term *elements, size_t pairs, uint32_t *sorted);

/* The shortest text that reads back as the same number, as the VM writes it. */
enum { FLOAT_TEXT_BYTES = 40 };
void term_format_float(double value, char ret[FLOAT_TEXT_BYTES]);
/* In decimal up to DECIMAL_MAX_BYTES of digits, else in base 16 with the language's prefix. Stops soon after buf has
   grown beyond end. */
enum { DECIMAL_MAX_BYTES = 1280 };
void term_append_big(struct buf *buf, const struct term *big, const char *hex_prefix, size_t end);

/* How many plain terms take as long to print. Decimal digits take the square of a number's length. */
enum { FLOAT_WEIGHT = 64, BIG_WEIGHT_BYTES = 32 };
static inline size_t term_big_weight(size_t size) {
    size_t parts = size / BIG_WEIGHT_BYTES;
    return size <= DECIMAL_MAX_BYTES ? parts * parts : parts;
}

/* The state of printing. */
struct printer {
    struct buf *out;
    size_t end;          /* where the output is cut */
    bool plain_integers; /* Elixir: print lists of characters as lists */
};

bool printer_is_full(const struct printer *printer);
void print_text(struct printer *printer, const char *text);
void print_bytes(struct printer *printer, const void *data, size_t size);
void print_code_point(struct printer *printer, uint32_t code);
void print_number(struct printer *printer, int64_t number);
void print_big(struct printer *printer, const struct term *big, const char *hex_prefix);
void print_float(struct printer *printer, double number);
/* "<0.1.0>": the numbers of a pid, port or reference, after the language's word for it. */
void print_identifier(struct printer *printer, const char *name, const struct term *term);
/* "1,2,3:4": each byte, and the bits of an incomplete last byte, with the language's separator and size. */
void print_bits(struct printer *printer, const struct term *term, const char *separator, const char *size_open,
                const char *size_close);
void print_erlang(struct printer *printer, const struct term *term);
void print_elixir(struct printer *printer, const struct term *term);

/* An atom as Elixir writes it: alone, as a keyword key, and as a function's name after a dot. */
enum elixir_atom_place { ELIXIR_LITERAL, ELIXIR_KEY, ELIXIR_CALL };
void print_elixir_atom(struct printer *printer, const struct term *atom, enum elixir_atom_place place);
/* Text between quotes, with Elixir's escapes. */
void print_elixir_escaped(struct printer *printer, const uint8_t *data, size_t size, char quote);

/* Characters that both languages print, and control characters that both escape as \n and the like. */
bool is_visible(uint32_t code);
bool is_named_control(uint32_t code);
/* Whether data is UTF-8 and the predicate accepts each character. */
bool bytes_are_text(const uint8_t *data, size_t size, bool (*takes)(uint32_t code));
/* Whether the list is proper and the predicate accepts each integer. */
bool list_is_text(const struct term *list, bool (*takes)(uint32_t code));
bool is_elixir_charlist_character(uint32_t code);

#endif
