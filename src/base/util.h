/* Ownership helpers and small string functions. */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/utf8.h"
#include "base/error.h"

#define CLEANUP(function) __attribute__((cleanup(function)))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Variables marked so are released when they go out of scope; take_ptr and take_fd hand the value over instead. */
#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_FD CLEANUP(cleanup_fd)

/* Of a variable of any pointer type, which may be looked at as another only by copying it. */
static inline void cleanup_free(void *variable) {
    void *owned;
    memcpy(&owned, variable, sizeof owned);
    free(owned);
}

/* Close and return -1, so that `fd = fd_close(fd)` leaves nothing behind. errno is kept. */
int fd_close(int fd);

static inline void cleanup_fd(int *fd) {
    fd_close(*fd);
}

static inline int take_fd(int *fd) {
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define take_ptr(pointer)                                                                                              \
    ({                                                                                                                 \
        __typeof__(pointer) *taken_from_ = &(pointer);                                                                 \
        __typeof__(pointer) taken_ = *taken_from_;                                                                     \
        *taken_from_ = NULL;                                                                                           \
        taken_;                                                                                                        \
    })

/* A zeroed object of a fixed, small size, on the loop's thread. Without memory the daemon aborts: the launcher starts
   it again within milliseconds and nothing is lost, which is better than an operation that is half done. What a
   stranger can size is allocated with calloc and fails with an error. */
#define new_or_abort(type) ((type *)zeroed_or_abort(1, sizeof(type)))
void *zeroed_or_abort(size_t count, size_t size) __attribute__((returns_nonnull));

bool string_equal(const char *a, const char *b); /* NULL equals only NULL */
bool string_starts(const char *string, const char *prefix);
bool string_ends(const char *string, const char *suffix);

/* Cuts the white space at both ends, the end in place. */
char *string_trim(char *text);

/* Like snprintf, but fails with E_INVALID instead of cutting the text. */
int string_format(char *ret, size_t size, struct error *reterr, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* An allocated "format"; NULL without memory. */
char *string_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whole decimal numbers only: no sign, no space, no overflow. */
bool parse_u64(const char *text, uint64_t *ret);

/* "64M", "1G", "512K", "1000": bytes, powers of 1024. "5s", "250ms", "1h", "2m", "1d": milliseconds. */
bool parse_size(const char *text, uint64_t *ret_bytes);
bool parse_duration(const char *text, uint64_t *ret_ms);
bool parse_percent(const char *text, uint64_t *ret_percent); /* 50% or 50 */

/* The other way round, with the largest unit that leaves a whole number. */
enum { QUANTITY_BYTES = 32 };
void count_to_text(uint64_t count, char ret[QUANTITY_BYTES]);
void size_to_text(uint64_t bytes, char ret[QUANTITY_BYTES]);
void duration_to_text(uint64_t duration_ms, char ret[QUANTITY_BYTES]);
void percent_to_text(uint64_t percent, char ret[QUANTITY_BYTES]);

/* 2 × size hexadecimal digits and a terminator into ret. */
void hex_encode(const uint8_t *data, size_t size, char *ret);

/* Text from a stranger, fit for a log line or a terminal: control characters, quotes and broken UTF-8 as escapes. */
struct buf;
void escape_text(struct buf *buf, const char *text, size_t size);

#endif
