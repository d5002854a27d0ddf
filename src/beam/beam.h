/* beam: reads and validates BEAM files without a VM, and extracts facts: functions, calls, the hash of the loaded code
   and the hash of the interface that other modules are compiled against. Files are not trusted. */
#ifndef BEAM_BEAM_H
#define BEAM_BEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "term/term.h"

enum {
    BEAM_OLDEST_OTP = 20,
    BEAM_NEWEST_OTP = 29,
    BEAM_DIGEST_BYTES = 65, /* SHA-256 as hexadecimal text, with the terminator */
};

struct beam_options {
    unsigned otp;        /* the OTP release whose loader is to accept the file; 0: the newest known */
    size_t max_bytes;    /* of the file, after inflation if it is compressed, and of its inflated literals */
    size_t max_terms;    /* in one literal, or in the attributes */
    bool check_unloaded; /* also decode terms that no loader reads: debug info, documentation and the like */
};

extern const struct beam_options beam_default_options; /* newest, 64 MiB, 1 million, false */

/* UTF-8 inside the file's bytes, not terminated. Valid as long as these bytes and the beam. */
struct beam_text {
    const char *data;
    size_t size;
};

/* An export or a local function. */
struct beam_function {
    struct beam_text name;
    uint32_t atom; /* the name's index in the file */
    uint32_t arity;
    uint32_t label; /* of its first instruction */
};

struct beam_import {
    struct beam_text module;
    struct beam_text function;
    uint32_t arity;
};

/* The code of a closure: a local function whose last parameters are the closed-over values. */
struct beam_lambda {
    struct beam_text name;
    uint32_t atom;
    uint32_t arity; /* including closed-over values */
    uint32_t label;
    uint32_t free_count;
    uint32_t old_unique;
};

struct beam; /* a valid file */

/* Reads and validates everything: the container, every chunk that a loader reads, and the code to the last operand.
   data is not copied and must live as long as the result, whose texts point into it. Errors are E_FORMAT with the place
   (chunk, byte, instruction), E_TOO_LARGE beyond a bound, and E_NO_MEMORY. */
int beam_read(const uint8_t *data, size_t size, const struct beam_options *options, struct beam **ret,
              struct error *reterr);
struct beam *beam_free(struct beam *beam); /* accepts NULL, returns NULL */

static inline void cleanup_beam(struct beam **beam) {
    beam_free(*beam);
}
#define CLEANUP_BEAM CLEANUP(cleanup_beam)

struct beam_text beam_module(const struct beam *beam);
const struct beam_function *beam_exports(const struct beam *beam, size_t *ret_count);
const struct beam_import *beam_imports(const struct beam *beam, size_t *ret_count);
bool beam_has_on_load(const struct beam *beam);
unsigned beam_min_otp(const struct beam *beam); /* the oldest release that supports what the file uses */

/* The module's attributes, and the compiler's information (`version`, `options`, `source`): lists of pairs, decoded on
   each call; NULL if there is none. */
int beam_attributes(const struct beam *beam, struct term_doc **ret, struct error *reterr);
int beam_compile_info(const struct beam *beam, struct term_doc **ret, struct error *reterr);
/* The value of a name in such a list, the first if there are many. An attribute -name(Value) has a list with the value.
   NULL if the name is missing or the list has another shape. */
const struct term *beam_find_value(const struct term *pairs, const char *name);
/* The path of the source as an allocated string; NULL if it is unknown or without memory. */
char *beam_source(const struct beam *beam);

/* Names of modules, sorted and unique, without the module itself. Valid as long as the beam and this struct. */
struct beam_names {
    struct beam_text *items;
    size_t count;
    size_t capacity;
    struct term_doc **kept; /* the terms that names from literals point into */
    size_t kept_count;
};

/* Modules that are called, or referred to as fun m:f/a. */
int beam_runtime_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* The behaviours, in either spelling. */
int beam_behaviours(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* Modules that took part in the compilation as far as the file shows: behaviours, parse transforms, and the structs
   that it builds. Macros leave no trace in their expansion; only the compiler knows their users. */
int beam_compile_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* Other modules that are named: they may be started, applied or asked for at run time, and may be missing. Only Elixir
   modules, since an Erlang module's name is an atom like any other. */
int beam_optional_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
void beam_names_free(struct beam_names *names);

/* ---- sites: where code refers to other modules ---- */

/* What is known of a value statically. */
enum beam_known { BEAM_UNKNOWN, BEAM_ATOM, BEAM_LITERAL, BEAM_START };

struct beam_value {
    enum beam_known known;
    struct beam_text atom;     /* ATOM; START: the module of a tuple {Module, Function, Arguments} */
    struct beam_text function; /* START: its function */
    uint32_t literal;          /* LITERAL: its index */
};

enum beam_site_kind {
    BEAM_SITE_CALL,    /* of an imported function, also as a BIF */
    BEAM_SITE_APPLY,   /* Module:Function(…) where one or both are values */
    BEAM_SITE_LITERAL, /* the first use of a constant term */
    BEAM_SITE_CHILD,   /* the start function of a child specification, in arguments[0] */
};

enum { BEAM_ARGUMENTS_MAX = 8 }; /* of a call that are inspected */

struct beam_site {
    enum beam_site_kind kind;
    struct beam_text function; /* that contains it */
    uint32_t arity;
    struct beam_text file; /* of the source; empty: the module's own */
    uint32_t line;         /* 0: unknown */
    uint32_t import;       /* CALL: its index */
    uint32_t called_arity; /* APPLY */
    bool is_field;         /* APPLY: Elixir's value.field, which is a call only if the value is not a map */
    uint32_t literal;      /* LITERAL: its index */
    /* CALL: its arguments. APPLY: the module and the function. */
    struct beam_value arguments[BEAM_ARGUMENTS_MAX];
};

typedef int beam_site_fn(void *data, const struct beam_site *site, struct error *reterr);

/* Visits every site in the order of the code. A negative result of visit stops it. */
int beam_each_site(const struct beam *beam, beam_site_fn *visit, void *data, struct error *reterr);
/* A constant's external format, for a check before decoding, and its term, decoded on each call. */
void beam_literal_bytes(const struct beam *beam, uint32_t literal, const uint8_t **ret, size_t *ret_size);
int beam_literal(const struct beam *beam, uint32_t literal, struct term_doc **ret, struct error *reterr);

/* The identity of a version: the loaded code, and the lines of its stack traces. Compression, debug info, documentation
   and compiler information don't change it. docs/beam.md defines the exact content. */
int beam_checksum(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr);

/* Changes when something changes that another module was, or could have been, compiled against without running this
   module's code: names, arities and kinds of exports, deprecations, callbacks, struct fields and their defaults, a
   protocol's functions. The bodies of functions and macros, lines and documentation don't change it. */
int beam_interface_hash(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr);

#endif
