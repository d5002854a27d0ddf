/* term: Erlang's external term format. It is read with bounds from hostile senders and written for a VM. Terms are also
   printed as text and JSON. */
#ifndef TERM_TERM_H
#define TERM_TERM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum term_type {
    TERM_INTEGER, /* fits int64_t */
    TERM_BIG,
    TERM_FLOAT,
    TERM_ATOM,
    TERM_BINARY,
    TERM_BITSTRING, /* the last byte is incomplete */
    TERM_NIL,
    TERM_LIST, /* at least one element; tail is NIL for proper lists */
    TERM_TUPLE,
    TERM_MAP,
    TERM_PID,
    TERM_PORT,
    TERM_REFERENCE,
    TERM_FUN,    /* a closure */
    TERM_EXPORT, /* fun m:f/a */
    TERM_RECORD, /* a native record of OTP 29 */
};

struct term;

/* A pid, port or reference. */
struct term_identifier {
    const struct term *node; /* an atom */
    uint64_t id;             /* pid, port */
    uint32_t serial;         /* pid */
    uint32_t creation;
    uint32_t words[5]; /* reference, most significant last, as on the wire */
    unsigned word_count;
};

/* A closure or an export. */
struct term_fun {
    const struct term *module;
    const struct term *function; /* exports only */
    uint32_t arity;
    uint32_t index; /* closures only, like all that follow */
    uint32_t old_index;
    uint32_t old_unique;
    const uint8_t *raw; /* the closure as it was sent; it can only be forwarded so */
    size_t raw_size;
};

/* 32 bytes: the sender decides how many are allocated, so rare members are behind a pointer. */
struct term {
    enum term_type type;
    union {
        int64_t integer;
        double number;
        struct {
            const uint8_t *digits; /* little endian, the last one not zero */
            size_t size;
            bool negative;
        } big;
        struct {
            const char *text; /* UTF-8, terminated; may contain NUL before length */
            size_t length;
        } atom;
        struct {
            const uint8_t *data;
            size_t size;
            unsigned last_bits; /* 1–7 for a bit string, 8 otherwise; unused bits are zero */
        } binary;
        struct {
            /* Tuple and list elements; keys and values of a map alternate; a record's module, name, the names of all
               fields, the values of all fields. */
            const struct term *elements;
            size_t count; /* pairs, for a map; fields, for a record */
            union {
                const struct term *tail; /* lists only, never a list itself */
                const uint32_t *sorted;  /* maps only: the pairs sorted by key, for comparing */
                bool is_exported;        /* records only */
            };
        } items;
        const struct term_identifier *identifier;
        const struct term_fun *fun;
    };
};

/* Bounds on allocation and recursion. */
struct term_bounds {
    size_t max_bytes; /* of the input, and of a compressed term after inflation */
    size_t max_terms;
    unsigned max_depth; /* at most TERM_DEPTH_LIMIT applies */
};

enum { TERM_DEPTH_LIMIT = 1024 }; /* reading, printing and comparing recurse this deep on the C stack */

struct term_doc; /* a decoded term with the memory it lives in */

/* Decodes exactly one term that fills data (version byte 131 first). The document copies what it needs. Errors are
   E_FORMAT (with the byte offset), E_TOO_LARGE beyond a bound, E_NO_MEMORY, and E_TOO_NEW for a tag that a later
   release of OTP may have brought. */
int term_decode(const uint8_t *data, size_t size, const struct term_bounds *bounds, struct term_doc **ret,
                struct error *reterr);
const struct term *term_root(const struct term_doc *doc);
size_t term_count(const struct term_doc *doc); /* as counted for max_terms */
/* As many plain terms take about as long to print: a float takes as long as dozens, a large integer as thousands. */
size_t term_weight(const struct term_doc *doc);
size_t term_bytes(const struct term_doc *doc);    /* of memory, about */
struct term_doc *term_free(struct term_doc *doc); /* accepts NULL, returns NULL */

static inline void cleanup_term(struct term_doc **doc) {
    term_free(*doc);
}
#define CLEANUP_TERM CLEANUP(cleanup_term)

/* Where the element of a tuple that fills data begins, whatever it is. The elements before it must be terms within the
   bounds. */
int term_find_element(const uint8_t *data, size_t size, const struct term_bounds *bounds, size_t index, size_t *ret,
                      struct error *reterr);

/* Accessors: each returns false or NULL if the term has another shape. */
bool term_is_atom(const struct term *term, const char *text);
bool term_is_tuple(const struct term *term, size_t arity);                   /* arity elements */
bool term_is_tagged(const struct term *term, const char *tag, size_t arity); /* a tuple of arity with atom tag first */
const struct term *term_at(const struct term *tuple_or_list, size_t index);  /* 0-based; NULL when out of range */
/* How many terms items.elements has; 0 for a term without elements. */
size_t term_element_count(const struct term *term);
enum { RECORD_MODULE, RECORD_NAME, RECORD_FIELDS }; /* the places in a record's elements */
const struct term *term_map_get(const struct term *map, const char *atom_or_binary_key);
bool term_to_int64(const struct term *term, int64_t *ret);
bool term_to_uint64(const struct term *term, uint64_t *ret);
/* Returns a terminated copy of a binary, atom or list of characters. False if it is none of these, contains a NUL, or
   without memory. The bytes of a binary are copied as they are, UTF-8 or not. */
bool term_to_string(const struct term *term, char **ret);
/* The same for the beginning: as many whole characters as fit into max_bytes. The rest is not checked. */
bool term_to_text(const struct term *term, size_t max_bytes, char **ret);

/* Writing. A message begins with term_put_version; composite headers are followed by their elements. Values that the
   format can't hold (an atom over 255 characters, a binary over 4 GiB) mark the buffer as failed. */
void term_put_version(struct buf *buf);
void term_put_integer(struct buf *buf, int64_t value);
void term_put_uint64(struct buf *buf, uint64_t value);
void term_put_float(struct buf *buf, double value);
void term_put_atom(struct buf *buf, const char *text); /* at most 255 characters */
void term_put_bool(struct buf *buf, bool value);
void term_put_binary(struct buf *buf, const void *data, size_t size);
void term_put_string(struct buf *buf, const char *text); /* as a binary */
void term_put_tuple(struct buf *buf, size_t arity);
void term_put_list(struct buf *buf, size_t count); /* followed by the elements and, when count > 0, term_put_nil */
void term_put_nil(struct buf *buf);
void term_put_map(struct buf *buf, size_t pairs);
int term_put(struct buf *buf, const struct term *term,
             struct error *reterr); /* any decoded term, without version byte */

/* Writing a map whose keys are atoms, pair by pair; term_map_end fills in their count. The map may grow while its
   buffer is moved elsewhere: set `buf` then. */
struct term_map {
    struct buf *buf;
    size_t at; /* where the map begins in it */
    uint32_t pairs;
};
struct term_map term_map_begin(struct buf *buf);
struct buf *term_map_key(struct term_map *map, const char *key); /* its value is to be put next, into the result */
void term_map_text(struct term_map *map, const char *key, const char *text);               /* NULL: the atom nil */
void term_map_bytes(struct term_map *map, const char *key, const void *data, size_t size); /* NULL: the atom nil */
void term_map_atom(struct term_map *map, const char *key, const char *text);
void term_map_number(struct term_map *map, const char *key, uint64_t value);
void term_map_bool(struct term_map *map, const char *key, bool value);
void term_map_end(const struct term_map *map);

/* Prints the term as the language's shell does, on one line, with Unicode. Longer text is cut to max_bytes and ends
   with "…". Every pid is shown as <0.…>, as in its own node. Integers over 10,240 bits are printed in base 16, since
   decimal takes quadratic time. */
enum term_language { TERM_ERLANG, TERM_ELIXIR };
void term_print(struct buf *buf, const struct term *term, enum term_language language, size_t max_bytes);

/* Returns JSON as a new reference; NULL without memory. *ret_natural tells whether every part has a natural form
   (integers, floats, text, lists, maps with text keys, booleans, nil), for eval's `result`. A list is text if all of it
   is printable ASCII. */
json_t *term_to_json(const struct term *term, bool *ret_natural);
/* Writes JSON as json_dumps does: without spaces, members in their order. */
void term_json_write(const json_t *value, struct buf *to);
void term_json_write_text(const char *text, size_t size, struct buf *to);
void term_json_write_integer(json_int_t value, struct buf *to);
/* Whether it has more values than that; 32 bytes of text count as one. */
bool term_json_is_heavy(const json_t *value, int64_t values_max);

/* A module's name as its language writes it: "Elixir.Counter" → Counter, "counter" stays. term_module_atom does the
   reverse: "Counter" → "Elixir.Counter". */
const char *term_module_name(const char *atom_text);
void term_module_atom(const char *written, struct buf *ret);

#endif
