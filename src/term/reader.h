/* Shared by the files that read terms. */
#ifndef TERM_READER_H
#define TERM_READER_H

#include "term/term_internal.h"

/* Input is hostile. Two counts bound it: every element that a header promises is charged one byte of the input and one
   of the allowed terms at once. So no header can cause allocations beyond the bytes that exist, however headers
   nest. */
struct reader {
    uint8_t *data;
    size_t size;
    size_t at;
    size_t owed; /* promised elements that are not read yet; never more than the bytes left */
    size_t terms_left;
    size_t numbers_weight; /* see term_weight */
    unsigned depth_left;
    struct arena *arena;
    struct error *reterr;
};

/* Reads what follows a tag; fixed are the bytes that every term of the tag has. */
typedef int read_function(struct reader *reader, const uint8_t *fixed, struct term *ret);

read_function read_small_integer, read_integer, read_small_big, read_large_big, read_new_float, read_old_float;
read_function read_atom, read_small_atom, read_atom_utf8, read_small_atom_utf8, read_binary, read_bit_binary;
read_function read_pid, read_new_pid, read_port, read_new_port, read_v4_port;
read_function read_reference, read_new_reference, read_newer_reference, read_fun, read_export;

enum { OLD_FLOAT_BYTES = 31 };

int reader_take(struct reader *reader, size_t size, uint8_t **ret);
int reader_allocate_terms(struct reader *reader, size_t count, struct term **ret);
int reader_elements(struct reader *reader, size_t count, const struct term **ret);
int reader_child(struct reader *reader, struct term *ret);

/* Errors with the offset. */
int reader_malformed(const struct reader *reader, const char *what);
#define reader_malformed(...) error_negative(reader_malformed(__VA_ARGS__))
/* What a later release may have brought. */
int reader_too_new(const struct reader *reader, const char *what);
#define reader_too_new(...) error_negative(reader_too_new(__VA_ARGS__))
int reader_no_memory(const struct reader *reader);
#define reader_no_memory(...) error_negative(reader_no_memory(__VA_ARGS__))

static inline uint16_t load_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t load_u32(const uint8_t *bytes) {
    return (uint32_t)load_u16(bytes) << 16 | load_u16(bytes + 2);
}

static inline uint64_t load_u64(const uint8_t *bytes) {
    return (uint64_t)load_u32(bytes) << 32 | load_u32(bytes + 4);
}

#endif
