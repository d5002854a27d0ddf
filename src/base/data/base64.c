/* Base64, written and read. Input that is not exact base64 is refused. */
#include "base/data/base64.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *data, size_t size, struct buf *ret) {
    for (size_t at = 0; at < size; at += 3) {
        size_t left = size - at;
        uint32_t bits =
            (uint32_t)data[at] << 16 | (left > 1 ? (uint32_t)data[at + 1] << 8 : 0) | (left > 2 ? data[at + 2] : 0);
        char quad[] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63], left > 1 ? alphabet[bits >> 6 & 63] : '=',
                       left > 2 ? alphabet[bits & 63] : '='};
        buf_append(ret, quad, sizeof quad);
    }
}

/* Four characters, of which the last `padding` only fill up. */
static bool decode_quad(const char *quad, size_t padding, struct buf *ret) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *digit = i < 4 - padding ? strchr(alphabet, quad[i]) : alphabet;
        if (!digit || !*digit) return false;
        bits = bits << 6 | (uint32_t)(digit - alphabet);
    }
    uint8_t bytes[] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
    buf_append(ret, bytes, 3 - padding);
    return true;
}

bool base64_decode(const char *text, size_t length, struct buf *ret) {
    if (length % 4 != 0) return false;
    for (size_t at = 0; at < length; at += 4) {
        bool is_last = at + 4 == length;
        size_t padding = !is_last || text[at + 3] != '=' ? 0 : text[at + 2] == '=' ? 2 : 1;
        if (!decode_quad(text + at, padding, ret)) return false;
    }
    return !ret->failed;
}
