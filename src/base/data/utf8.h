/* UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef BASE_DATA_UTF8_H
#define BASE_DATA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_MAX_BYTES = 4 };

/* The length of the valid sequence at the start of data, and its code point; 0 when there is none. */
size_t utf8_decode(const uint8_t *data, size_t size, uint32_t *ret_code);
/* The length of what was written, without a terminator; 0 when code is no character. */
size_t utf8_encode(uint32_t code, char ret[UTF8_MAX_BYTES]);
bool utf8_valid(const uint8_t *data, size_t size);
bool utf8_is_ascii(const uint8_t *data, size_t size);
/* The longest prefix of at most limit bytes that does not end inside a sequence. */
size_t utf8_cut(const void *data, size_t size, size_t limit);

#endif
