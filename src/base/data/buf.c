/* Growing buffers with a bound. A buffer that could not grow stays failed, so that callers check once at the end. */
#include "base/data/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64, DECIMAL_MAX_BYTES = 20 /* of 2^64 - 1 */ };

void buf_free(struct buf *buf) {
    free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_clear(struct buf *buf) {
    buf->size = 0;
    buf->failed = false;
}

static bool grow(struct buf *buf, size_t needed) {
    size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
    while (capacity < needed) capacity *= 2;
    uint8_t *data = realloc(buf->data, capacity);
    if (!data) return false;
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

/* Room for more bytes of content, which count against max, and for a terminator, which does not. */
static bool reserve(struct buf *buf, size_t more, size_t terminator) {
    if (buf->failed) return false;
    bool fits = more <= SIZE_MAX / 4 && buf->size <= SIZE_MAX / 4 && (!buf->max || buf->size + more <= buf->max);
    size_t needed = buf->size + more + terminator;
    if (!fits || (needed > buf->capacity && !grow(buf, needed))) {
        buf->failed = true;
        return false;
    }
    return true;
}

bool buf_reserve(struct buf *buf, size_t more) {
    return reserve(buf, more, 0);
}

void buf_append(struct buf *buf, const void *data, size_t size) {
    if (size == 0 || !buf_reserve(buf, size)) return;
    memcpy(buf->data + buf->size, data, size);
    buf->size += size;
}

void buf_append_string(struct buf *buf, const char *string) {
    buf_append(buf, string, strlen(string));
}

void buf_append_decimal(struct buf *buf, uint64_t value) {
    char text[DECIMAL_MAX_BYTES];
    size_t at = sizeof text;
    do text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    buf_append(buf, text + at, sizeof text - at);
}

void buf_vprintf(struct buf *buf, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    size_t spare = buf->capacity - buf->size;
    int length = vsnprintf(spare ? (char *)buf->data + buf->size : NULL, spare, format, arguments);
    if (length < 0) {
        buf->failed = true;
    } else if (reserve(buf, (size_t)length, 1)) {
        if ((size_t)length >= spare) vsnprintf((char *)buf->data + buf->size, (size_t)length + 1, format, again);
        buf->size += (size_t)length;
    }
    va_end(again);
}

void buf_printf(struct buf *buf, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    buf_vprintf(buf, format, arguments);
    va_end(arguments);
}

void buf_append_u16(struct buf *buf, uint16_t value) {
    uint8_t bytes[] = {(uint8_t)(value >> 8), (uint8_t)value};
    buf_append(buf, bytes, sizeof bytes);
}

void buf_append_u32(struct buf *buf, uint32_t value) {
    uint8_t bytes[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    buf_append(buf, bytes, sizeof bytes);
}

void buf_append_u64(struct buf *buf, uint64_t value) {
    buf_append_u32(buf, (uint32_t)(value >> 32));
    buf_append_u32(buf, (uint32_t)value);
}

void buf_consume(struct buf *buf, size_t size) {
    if (size >= buf->size) {
        buf->size = 0;
        return;
    }
    memmove(buf->data, buf->data + size, buf->size - size);
    buf->size -= size;
}

const char *buf_string(struct buf *buf) {
    if (!reserve(buf, 0, 1)) return "";
    buf->data[buf->size] = '\0';
    return (const char *)buf->data;
}

char *buf_take_string(struct buf *buf) {
    if (!reserve(buf, 0, 1)) {
        buf_free(buf);
        return NULL;
    }
    buf->data[buf->size] = '\0';
    char *string = (char *)buf->data;
    *buf = (struct buf){.max = buf->max};
    return string;
}
