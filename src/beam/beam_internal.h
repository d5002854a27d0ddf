/* Shared by the files of beam. */
#ifndef BEAM_BEAM_INTERNAL_H
#define BEAM_BEAM_INTERNAL_H

#include <string.h>

#include "beam/beam.h"

/* For functions that are called for each of many entries. Without optimization they stay functions. */
#ifdef __OPTIMIZE__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

enum {
    MAX_CHUNKS = 64,
    MAX_REGISTERS = 1024,
    MAX_ARITY = 255,
    TERM_MAX_DEPTH = 1000,
    DEFLATE_MAX_RATIO = 1040, /* deflate reaches 1,032; a larger ratio is forged */
};

/* All known chunks: name, tag, whether the file needs it, and whether the checksum covers it. */
#define CHUNK_LIST(X)                                                                                                  \
    X(ATOMS, "AtU8", false, true)                                                                                      \
    X(LATIN1_ATOMS, "Atom", false, true)                                                                               \
    X(CODE, "Code", true, true)                                                                                        \
    X(STRINGS, "StrT", false, true)                                                                                    \
    X(IMPORTS, "ImpT", true, true)                                                                                     \
    X(EXPORTS, "ExpT", true, true)                                                                                     \
    X(LAMBDAS, "FunT", false, true)                                                                                    \
    X(LITERALS, "LitT", false, true)                                                                                   \
    X(META, "Meta", false, true)                                                                                       \
    X(RECORDS, "Recs", false, true)                                                                                    \
    X(DEBUG_TABLE, "DbgB", false, true)                                                                                \
    X(ATTRIBUTES, "Attr", false, true)                                                                                 \
    X(TYPES, "Type", false, true)                                                                                      \
    X(LINES, "Line", false, true)                                                                                      \
    X(LOCALS, "LocT", false, false)                                                                                    \
    X(COMPILE_INFO, "CInf", false, false)                                                                              \
    X(DEBUG_INFO, "Dbgi", false, false)                                                                                \
    X(ABSTRACT_CODE, "Abst", false, false)                                                                             \
    X(DOCUMENTATION, "Docs", false, false)                                                                             \
    X(ELIXIR_CHECKER, "ExCk", false, false)                                                                            \
    X(ELIXIR_OLD_DOCS, "ExDc", false, false)                                                                           \
    X(ELIXIR_PARAMETERS, "ExDp", false, false)

enum chunk_kind {
#define X(name, tag, required, loaded) CHUNK_##name,
    CHUNK_LIST(X)
#undef X
        CHUNK_COUNT
};

struct chunk {
    const uint8_t *data; /* NULL: the file has none */
    size_t size;
};

struct chunk_form {
    char tag[5];
    bool required;
    bool loaded; /* part of what beam_checksum covers */
};

extern const struct chunk_form chunk_forms[CHUNK_COUNT];

/* A function of the code. */
struct code_function {
    uint32_t atom;
    uint32_t arity;
    uint32_t entry;  /* label */
    size_t body;     /* offset after the entry label, from the beginning of the code */
    size_t body_end; /* offset of the next function's first label, or of the end */
};

struct label {
    uint32_t function;     /* the number, from 1, of its function; 0: not defined */
    uint16_t entered_with; /* arity + 1 of the function that begins there; 0: none */
};

struct beam {
    struct beam_options options;
    uint8_t *inflated; /* the file, if it was compressed */
    struct chunk chunks[CHUNK_COUNT];

    char *latin1_text;       /* names of an old atom table, converted */
    struct beam_text *atoms; /* indexes from 1; 0 is [] */
    uint32_t atom_count;     /* including the unused first */
    struct beam_import *imports;
    uint32_t import_count;
    struct beam_function *exports;
    uint32_t export_count;
    struct beam_function *locals;
    uint32_t local_count;
    struct beam_lambda *lambdas;
    uint32_t lambda_count;

    uint8_t *literal_bytes; /* inflated, if they were compressed */
    struct chunk *literals; /* each one's external format */
    uint32_t literal_count;

    bool has_types; /* of a known version */
    uint32_t type_count;
    bool has_lines;
    const uint8_t *line_entries; /* of chunk Line, like the names after them */
    const uint8_t *line_names;
    uint32_t line_name_count;
    uint32_t line_count;             /* entries of the table; 0 means "unknown" and is always allowed */
    uint32_t line_instruction_count; /* according to the table */

    const uint8_t *code;
    size_t code_size;
    uint32_t max_opcode;
    struct label *labels;
    uint32_t label_count; /* including the unused first */
    struct code_function *functions;
    uint32_t function_count;
    bool on_load;
    unsigned min_otp;
};

/* A file or chunk that is read from front to back. It is not trusted. */
struct cursor {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const char *chunk; /* for the error's text */
    struct error *reterr;
};

static inline size_t cursor_left(const struct cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

static inline uint32_t load_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Errors with the place: "chunk ImpT, byte 12: …". */
int cursor_fail(const struct cursor *cursor, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define cursor_fail(...) error_negative(cursor_fail(__VA_ARGS__))
/* What a later release may have brought. */
int cursor_too_new(const struct cursor *cursor, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define cursor_too_new(...) error_negative(cursor_too_new(__VA_ARGS__))
int cursor_short(const struct cursor *cursor, size_t size); /* fails: size bytes are not left */
#define cursor_short(...) error_negative(cursor_short(__VA_ARGS__))

static inline int cursor_skip(struct cursor *cursor, size_t size) {
    if (size > cursor_left(cursor)) return cursor_short(cursor, size);
    cursor->at += size;
    return 0;
}

static inline int cursor_u16(struct cursor *cursor, uint16_t *ret) {
    if (cursor_left(cursor) < 2) return cursor_short(cursor, 2);
    *ret = (uint16_t)(cursor->at[0] << 8 | cursor->at[1]);
    cursor->at += 2;
    return 0;
}

static inline int cursor_u32(struct cursor *cursor, uint32_t *ret) {
    if (cursor_left(cursor) < 4) return cursor_short(cursor, 4);
    *ret = load_u32(cursor->at);
    cursor->at += 4;
    return 0;
}

int cursor_end(const struct cursor *cursor); /* fails if bytes are left */
struct cursor chunk_cursor(const struct beam *beam, enum chunk_kind kind, struct error *reterr);
/* Reads a number of entries of at least entry_bytes each, and checks that these bytes exist. */
int cursor_count(struct cursor *cursor, size_t entry_bytes, uint32_t *ret);

static inline int beam_no_memory(struct error *reterr) {
    return error_set(reterr, E_NO_MEMORY, "no memory to read a BEAM file");
}

bool beam_text_equal(struct beam_text a, struct beam_text b);

static inline bool beam_text_is(struct beam_text text, const char *string) {
    return text.size == strlen(string) && memcmp(text.data, string, text.size) == 0;
}

/* Inflates exactly data to exactly size bytes. window_bits as in zlib. */
int inflate_whole(const uint8_t *data, size_t data_size, int window_bits, size_t size, uint8_t **ret,
                  struct error *reterr);

/* Whether the bytes are certainly one valid term within the bound; otherwise it has to be decoded. Up to readable_size
   bytes, some behind the term, may be read. */
bool term_is_plain(const uint8_t *data, size_t size, size_t readable_size, size_t max_terms);
bool term_is_plain_pairs(const uint8_t *data, size_t size, size_t max_terms); /* a list with atom keys */

/* Decodes the term of a chunk, which must exist. */
int decode_chunk(const struct beam *beam, enum chunk_kind kind, struct term_doc **ret, struct error *reterr);

/* The parts of reading a file, in the order of their dependencies. */
int read_container(struct beam *beam, const uint8_t *data, size_t size, struct error *reterr);
int read_atoms(struct beam *beam, struct error *reterr);
int read_imports(struct beam *beam, struct error *reterr);
int read_exports(struct beam *beam, struct error *reterr);
int read_locals(struct beam *beam, struct error *reterr);
int read_lambdas(struct beam *beam, struct error *reterr);
int read_literals(struct beam *beam, struct error *reterr);
int read_lines(struct beam *beam, struct error *reterr);
int read_records(struct beam *beam, struct error *reterr);
int read_types(struct beam *beam, struct error *reterr);
int read_terms(struct beam *beam, struct error *reterr);
int read_code(struct beam *beam, struct error *reterr);
int read_code_again(struct beam *beam, struct error *reterr); /* the full reader, which gives the exact error */
int check_tables(struct beam *beam, struct error *reterr);    /* checks that exports and the like are functions of the
                                                                 code */

static inline const struct code_function *function_of(const struct beam *beam, uint32_t label) {
    return label < beam->label_count && beam->labels[label].entered_with
               ? &beam->functions[beam->labels[label].function - 1]
               : NULL;
}

#endif
