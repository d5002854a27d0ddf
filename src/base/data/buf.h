/* A growable byte buffer that remembers a failed allocation, so that many appends need only one check at the end. */
#ifndef BASE_DATA_BUF_H
#define BASE_DATA_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t max;  /* 0: no bound but memory */
    bool failed; /* an append did not fit or was not allocated; the content is not to be used */
};

#define BUF_INIT                                                                                                       \
    { 0 }

void buf_free(struct buf *buf);  /* leaves an empty, usable buffer */
void buf_clear(struct buf *buf); /* keeps the memory */
bool buf_reserve(struct buf *buf, size_t more);
void buf_append(struct buf *buf, const void *data, size_t size);
void buf_append_string(struct buf *buf, const char *string);
void buf_append_decimal(struct buf *buf, uint64_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list arguments);
void buf_append_u16(struct buf *buf, uint16_t value); /* big endian, like all of these */
void buf_append_u32(struct buf *buf, uint32_t value);
void buf_append_u64(struct buf *buf, uint64_t value);
void buf_consume(struct buf *buf, size_t size); /* drop bytes from the front */

/* Texts have many of these, one by one. */
static inline void buf_append_byte(struct buf *buf, uint8_t byte) {
    if (!buf->failed && buf->size < buf->capacity && (!buf->max || buf->size < buf->max))
        buf->data[buf->size++] = byte;
    else
        buf_append(buf, &byte, 1);
}

/* The content as a string; terminated, valid until the next append. "" when the buffer failed. */
const char *buf_string(struct buf *buf);
/* Hand over the content as an allocated string; NULL when the buffer failed. The buffer is empty afterwards. */
char *buf_take_string(struct buf *buf);

#endif
