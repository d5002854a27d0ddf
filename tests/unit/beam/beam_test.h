/* BEAM files made by hand, part by part, and files read from the fixtures. */
#ifndef BEAM_TEST_H
#define BEAM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "beam/beam.h"

#define CLEANUP_BUF CLEANUP(buf_free)

struct part {
    const char *tag; /* NULL ends a list */
    const char *bytes;
    size_t size;
};

#define BYTES(literal) (literal), sizeof(literal) - 1

/* A module m with one exported function f/0, and something in every table. The code is made by code_part. */
#define ATOMS                                                                                                          \
    "\0\0\0\x06\x01m\x01"                                                                                              \
    "f\x06"                                                                                                            \
    "erlang\x04self\x01+\x01g"
#define CODE_HEADER "\0\0\0\x10\0\0\0\0\0\0\0\xbf\0\0\0\x04\0\0\0\x01"
#define FUNCTION_START "\x01\x10\x02\x12\x22\x00\x01\x20"
#define FUNCTION_END "\x13\x03"

static const struct part minimal_parts[] = {
    {"AtU8", BYTES(ATOMS)},
    {"Code", BYTES(CODE_HEADER FUNCTION_START FUNCTION_END)},
    {"StrT", BYTES("abcdef")},
    {"ImpT",
     BYTES("\0\0\0\x03\0\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0\x02\0\0\0\x01\0\0\0\x06\0\0\0\x03")},
    {"ExpT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x02")},
    {"FunT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0")},
    {"LitT", BYTES("\0\0\0\0\0\0\0\x02\0\0\0\x03\x83\x61\x07\0\0\0\x02\x83\x6a")},
    {"Attr", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x03vsn\x6c\0\0\0\x01\x61\x05\x6a\x6a")},
    {"Type", BYTES("\0\0\0\x03\0\0\0\x01\x0f\xff")},
    {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x51")},
    {"LocT", BYTES("\0\0\0\0")},
    {NULL, NULL, 0},
};

static inline void append_part(struct buf *out, const struct part *part) {
    buf_append(out, part->tag, 4);
    buf_append_u32(out, (uint32_t)part->size);
    buf_append(out, part->bytes, part->size);
    while (out->size % 4 != 0) buf_append_byte(out, 0);
}

/* The parts in their order; replacement stands for the one of its tag, or comes last; without bytes it is left out. */
static inline void build(struct buf *out, const struct part *parts, const struct part *replacement) {
    bool is_replaced = !replacement;
    buf_append_string(out, "FOR1....BEAM");
    for (; parts->tag; parts++) {
        bool is_this = replacement && strcmp(parts->tag, replacement->tag) == 0;
        const struct part *part = is_this ? replacement : parts;
        if (part->bytes) append_part(out, part);
        is_replaced = is_replaced || is_this;
    }
    if (!is_replaced) append_part(out, replacement);
    for (unsigned i = 0; i < 4; i++) out->data[4 + i] = (uint8_t)((out->size - 8) >> (24 - 8 * i));
    assert_false(out->failed);
}

/* Exactly as large as it is, so that a sanitizer sees a read past the end. */
static inline int read_exactly(const void *data, size_t size, const struct beam_options *options, struct beam **ret,
                               uint8_t **ret_copy, struct error *error) {
    uint8_t *copy = calloc(1, size ? size : 1);
    if (size > 0) memcpy(copy, data, size);
    *ret_copy = copy;
    return beam_read(copy, size, options, ret, error);
}

/* NULL when the file is valid, else the error's text, which lives in error. */
static inline const char *complaint(const void *data, size_t size, const struct beam_options *options,
                                    struct error *error) {
    CLEANUP_FREE uint8_t *copy = NULL;
    CLEANUP_BEAM struct beam *beam = NULL;
    *error = (struct error){0};
    if (read_exactly(data, size, options, &beam, &copy, error) == 0) return NULL;
    assert_null(beam);
    return error->detail;
}

/* A file with one part replaced is refused with a text that holds what is expected; NULL: it is valid. */
static inline void expect_of(const struct part *parts, const char *name, const struct part *replacement,
                             const char *expected) {
    CLEANUP_BUF struct buf file = BUF_INIT;
    struct error error;
    build(&file, parts, replacement);
    const char *text = complaint(file.data, file.size, &beam_default_options, &error);
    if (!expected && text) fail_msg("%s: refused: %s", name, text);
    if (expected && !text) fail_msg("%s: accepted", name);
    if (expected && !strstr(text, expected)) fail_msg("%s: \"%s\" does not say \"%s\"", name, text, expected);
}

static inline void expect(const char *name, const struct part *replacement, const char *expected) {
    expect_of(minimal_parts, name, replacement, expected);
}

static inline void load_fixture(struct buf *out, const char *name) {
    char path[512], block[4096];
    snprintf(path, sizeof path, "%s/%s.beam", FIXTURES, name);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("%s is missing", path);
    for (ssize_t size; (size = read(fd, block, sizeof block)) > 0;) buf_append(out, block, (size_t)size);
    assert_true(out->size > 0);
}

static inline bool text_is(struct beam_text text, const char *expected) {
    return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

#endif
