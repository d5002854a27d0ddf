/* beam: BEAM files read and validated without a VM, and what can be learnt from one: its functions, what it calls, the
   hash of what is loaded and the hash of what other modules are compiled against. The file is a stranger's. */
#ifndef BEAM_BEAM_H
#define BEAM_BEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "term/term.h"

enum {
    BEAM_OLDEST_OTP = 20,
    BEAM_NEWEST_OTP = 28,
    BEAM_DIGEST_BYTES = 65, /* SHA-256 as hexadecimal text, with the terminator */
};

struct beam_options {
    unsigned otp;        /* the generation whose loader is to take the file; 0: the newest known */
    size_t max_bytes;    /* of the file, once inflated if it is compressed, and of its inflated literals */
    size_t max_terms;    /* in one literal, or in the attributes */
    bool check_unloaded; /* also decode the terms that no loader reads: debug info, documentation and the like */
};

extern const struct beam_options beam_default_options; /* newest, 64 MiB, 1 million, false */

/* UTF-8 inside the file's bytes, so not terminated; it lives as long as they do and as the beam does. */
struct beam_text {
    const char *data;
    size_t size;
};

/* An export or a local function. */
struct beam_function {
    struct beam_text name;
    uint32_t atom; /* the name's number in the file */
    uint32_t arity;
    uint32_t label; /* of its first instruction */
};

struct beam_import {
    struct beam_text module;
    struct beam_text function;
    uint32_t arity;
};

/* A closure's code: a local function whose last parameters are what it closes over. */
struct beam_lambda {
    struct beam_text name;
    uint32_t atom;
    uint32_t arity; /* with what it closes over */
    uint32_t label;
    uint32_t free_count;
    uint32_t old_unique;
};

struct beam; /* a valid file */

/* Read and validate all of it: the container, every chunk that a loader reads, and the code to the last operand. data
   is not copied and must live as long as the result, whose texts point into it. Errors are E_FORMAT with the place
   (chunk, byte, instruction), E_TOO_LARGE past a bound, and E_NO_MEMORY. */
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
unsigned beam_min_otp(const struct beam *beam); /* the oldest generation that knows what the file uses */

/* The module's attributes, and what the compiler noted (`version`, `options`, `source`): lists of pairs, decoded anew;
   NULL when there is none. */
int beam_attributes(const struct beam *beam, struct term_doc **ret, struct error *reterr);
int beam_compile_info(const struct beam *beam, struct term_doc **ret, struct error *reterr);
/* What such a list has for a name, the first if many; of an attribute -name(Value) that is a list with the value. NULL
   when it has nothing or is no such list. */
const struct term *beam_find_value(const struct term *pairs, const char *name);
/* The path of the source as an allocated string; NULL when it is not told (or memory is exhausted). */
char *beam_source(const struct beam *beam);

/* Names of modules, sorted, each once, without the module itself. They live as long as the beam and this do. */
struct beam_names {
    struct beam_text *items;
    size_t count;
    size_t capacity;
    struct term_doc **kept; /* what names that come from literals point into */
    size_t kept_count;
};

/* Called, or referred to as fun m:f/a. */
int beam_runtime_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* Its behaviours, by either spelling. */
int beam_behaviours(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* What had a hand in compiling it and can be told from the file: behaviours, parse transforms, and the structs that it
   builds. Macros leave no trace in what they expand to; who used them only the compiler can tell. */
int beam_compile_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
/* Neither of these, but named: what it may start, apply or ask for at runtime, and can do without. Only of Elixir's
   modules, for an Erlang module's name is an atom like any other. */
int beam_optional_dependencies(const struct beam *beam, struct beam_names *ret, struct error *reterr);
void beam_names_free(struct beam_names *names);

/* ---- sites: where code reaches beyond its own module ---- */

/* What is known of a value without running anything. */
enum beam_known { BEAM_UNKNOWN, BEAM_ATOM, BEAM_LITERAL, BEAM_START };

struct beam_value {
    enum beam_known known;
    struct beam_text atom;     /* ATOM; START: the module of a tuple {Module, Function, Arguments} */
    struct beam_text function; /* START: its function */
    uint32_t literal;          /* LITERAL: its number */
};

enum beam_site_kind {
    BEAM_SITE_CALL,    /* of an imported function, as a BIF too */
    BEAM_SITE_APPLY,   /* Module:Function(…) of which one or both are values */
    BEAM_SITE_LITERAL, /* the first use of a constant term */
    BEAM_SITE_CHILD,   /* what a child's specification says to start with, told by arguments[0] */
};

enum { BEAM_ARGUMENTS_MAX = 8 }; /* of a call that are looked at */

struct beam_site {
    enum beam_site_kind kind;
    struct beam_text function; /* that it is in */
    uint32_t arity;
    struct beam_text file; /* of the source; empty: the module's own */
    uint32_t line;         /* 0: not told */
    uint32_t import;       /* CALL: which one */
    uint32_t called_arity; /* APPLY */
    bool is_field;         /* APPLY: Elixir's value.field, which is a call only of what turns out to be no map */
    uint32_t literal;      /* LITERAL: its number */
    /* CALL: what it gets. APPLY: the module and the function. */
    struct beam_value arguments[BEAM_ARGUMENTS_MAX];
};

typedef int beam_site_fn(void *data, const struct beam_site *site, struct error *reterr);

/* Every site in the order of the code. A negative answer of visit ends it. */
int beam_each_site(const struct beam *beam, beam_site_fn *visit, void *data, struct error *reterr);
/* A constant's external format, for looking before decoding it, and its term, decoded anew. */
void beam_literal_bytes(const struct beam *beam, uint32_t literal, const uint8_t **ret, size_t *ret_size);
int beam_literal(const struct beam *beam, uint32_t literal, struct term_doc **ret, struct error *reterr);

/* The identity of a version: what is loaded, and the lines that its stack traces show. It does not change with
   compression of the file, debug info, documentation or the compiler's notes. docs/beam.md has the exact content. */
int beam_checksum(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr);

/* Changes when something changes that another module was, or could have been, compiled against without running this
   one's code: names, arities and kinds of what it exports, deprecations, callbacks, struct fields and their defaults,
   a protocol's functions. It does not change with the body of a function or macro, lines or documentation. */
int beam_interface_hash(const struct beam *beam, char ret[BEAM_DIGEST_BYTES], struct error *reterr);

#endif
