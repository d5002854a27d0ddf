/* Bytes as text that any transport carries (RFC 4648, with padding). */
#ifndef BASE_DATA_BASE64_H
#define BASE_DATA_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"

void base64_encode(const uint8_t *data, size_t size, struct buf *ret); /* appends */
bool base64_decode(const char *text, size_t length,
                   struct buf *ret); /* appends; false when it is none, or without memory */

#endif
