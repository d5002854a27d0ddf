/* Shared by term's tests. */
#ifndef TERM_TEST_H
#define TERM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "terms.h"

/* A term's bytes: sizeof would count the terminator. */
struct sample {
    const char *name;
    const char *bytes;
    size_t size;
};
#define BYTES(literal) (literal), sizeof(literal) - 1

/* Decode what must decode. An exact copy on the heap makes a read past the end one that a sanitizer sees. */
static inline struct term_doc *must_decode(const char *bytes, size_t size) {
    struct term_doc *doc = NULL;
    struct error error = {0};
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int result = term_decode(copy, size, &term_default_bounds, &doc, &error);
    memset(copy, 0xAA, size); /* the doc must not need it any more */
    free(copy);
    if (result < 0) fail_msg("%s", error.detail);
    return doc;
}

static inline enum error_code decode_error(const char *bytes, size_t size, const struct term_bounds *bounds) {
    struct term_doc *doc = NULL;
    struct error error = {0};
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int result = term_decode(copy, size, bounds ? bounds : &term_default_bounds, &doc, &error);
    free(copy);
    if (result == 0) {
        term_free(doc);
        return E_NONE;
    }
    assert_null(doc);
    assert_int_equal(result, -(int)error.code);
    assert_true(error.detail[0] != '\0');
    return error.code;
}

/* One of every tag that a VM from OTP 23 to 28 sends. */
static const struct sample every_tag[] = {
    {"SMALL_INTEGER", BYTES("\x83\x61\x2a")},
    {"INTEGER", BYTES("\x83\x62\xff\xff\xff\xfe")},
    {"SMALL_BIG", BYTES("\x83\x6e\x09\x01\1\2\3\4\5\6\7\x08\x09")},
    {"LARGE_BIG", BYTES("\x83\x6f\0\0\0\x09\0\1\2\3\4\5\6\7\x08\x09")},
    {"NEW_FLOAT", BYTES("\x83\x46\x3f\xf8\0\0\0\0\0\0")},
    {"FLOAT", BYTES("\x83\x63"
                    "1.50000000000000000000e+00\0\0\0\0\0")},
    {"ATOM", BYTES("\x83\x64\0\x02\xe9"
                   "a")},
    {"SMALL_ATOM", BYTES("\x83\x73\x02ok")},
    {"ATOM_UTF8", BYTES("\x83\x76\0\x03\xc3\xa9"
                        "a")},
    {"SMALL_ATOM_UTF8", BYTES("\x83\x77\x02ok")},
    {"BINARY", BYTES("\x83\x6d\0\0\0\x03xyz")},
    {"BIT_BINARY", BYTES("\x83\x4d\0\0\0\x02\x03\x01\xff")},
    {"NIL", BYTES("\x83\x6a")},
    {"STRING", BYTES("\x83\x6b\0\x03"
                     "abc")},
    {"LIST", BYTES("\x83\x6c\0\0\0\x02\x61\x01\x61\x02\x6a")},
    {"improper LIST", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02")},
    {"SMALL_TUPLE", BYTES("\x83\x68\x02\x61\x01\x6a")},
    {"LARGE_TUPLE", BYTES("\x83\x69\0\0\0\x02\x61\x01\x6a")},
    {"MAP", BYTES("\x83\x74\0\0\0\x02\x61\x01\x6a\x61\x02\x6a")},
    {"PID", BYTES("\x83\x67\x73\x03"
                  "a@b"
                  "\0\0\0\x05\0\0\0\x06\x07")},
    {"NEW_PID", BYTES("\x83\x58\x77\x03"
                      "a@b"
                      "\0\0\0\x05\0\0\0\x06\0\0\0\x07")},
    {"PORT", BYTES("\x83\x66\x73\x03"
                   "a@b"
                   "\0\0\0\x05\x07")},
    {"NEW_PORT", BYTES("\x83\x59\x77\x03"
                       "a@b"
                       "\0\0\0\x05\0\0\0\x07")},
    {"V4_PORT", BYTES("\x83\x78\x77\x03"
                      "a@b"
                      "\0\0\0\x01\0\0\0\x05\0\0\0\x07")},
    {"REFERENCE", BYTES("\x83\x65\x73\x03"
                        "a@b"
                        "\0\0\0\x05\x07")},
    {"NEW_REFERENCE", BYTES("\x83\x72\0\x02\x73\x03"
                            "a@b"
                            "\x07\0\0\0\x01\0\0\0\x02")},
    {"NEWER_REFERENCE", BYTES("\x83\x5a\0\x03\x77\x03"
                              "a@b"
                              "\0\0\0\x07\0\0\0\x01\0\0\0\x02\0\0\0\x03")},
    {"NEW_FUN",
     BYTES("\x83\x70\0\0\0\x36\x02"
           "0123456789abcdef"
           "\0\0\0\x04\0\0\0\x01\x77\x01m\x61\x09\x61\x0a\x58\x77\x01n\0\0\0\x01\0\0\0\x02\0\0\0\x03\x61\x63")},
    {"EXPORT", BYTES("\x83\x71\x77\x01m\x77\x01"
                     "f\x61\x02")},
    /* zlib's stored form of the tuple {1, []} */
    {"COMPRESSED", BYTES("\x83\x50\0\0\0\x05\x78\x01\x01\x05\0\xfa\xff\x68\x02\x61\x01\x6a\x03\xa4\x01\x37")},
    {"RECORD", BYTES("\x83\x43\0\0\0\x02\x01\x77\x01m\x77\x01r\x77\x01"
                     "a\x77\x01"
                     "b\x61\x01\x6a")},
};

#endif
