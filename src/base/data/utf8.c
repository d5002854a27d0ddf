/* UTF-8: decoded, encoded, checked and cut. Overlong forms and surrogates are refused. */
#include "base/data/utf8.h"

#include <string.h>

size_t utf8_decode(const uint8_t *data, size_t size, uint32_t *ret_code) {
    if (size == 0) return 0;
    uint8_t first = data[0];
    if (first < 0x80) {
        *ret_code = first;
        return 1;
    }
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || length > size) return 0;
    uint32_t code = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((data[i] & 0xC0) != 0x80) return 0;
        code = code << 6 | (data[i] & 0x3Fu);
    }
    if ((length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10FFFF))) return 0;
    if (code >= 0xD800 && code <= 0xDFFF) return 0;
    *ret_code = code;
    return length;
}

size_t utf8_encode(uint32_t code, char ret[UTF8_MAX_BYTES]) {
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    if (code < 0x80) {
        ret[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        ret[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    ret[0] = (char)(lead[length] | code);
    return length;
}

bool utf8_is_ascii(const uint8_t *data, size_t size) {
    uint64_t all = 0, word;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        all |= word;
    }
    for (; at < size; at++) all |= data[at];
    return (all & 0x8080808080808080) == 0;
}

bool utf8_valid(const uint8_t *data, size_t size) {
    if (utf8_is_ascii(data, size)) return true;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = utf8_decode(data + at, size - at, &code);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

size_t utf8_cut(const void *data, size_t size, size_t limit) {
    if (size <= limit) return size;
    const uint8_t *bytes = data;
    size_t cut = limit;
    /* A continuation byte right behind the cut means that the cut is inside a sequence, if there is one at all. */
    while (cut > 0 && limit - cut < UTF8_MAX_BYTES && (bytes[cut] & 0xC0) == 0x80) cut--;
    return (bytes[cut] & 0xC0) == 0x80 ? limit : cut;
}
