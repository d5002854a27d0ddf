/* Writes and reads the frames of direct.h. Pure: the sockets are the callers'. */
#include "ops/direct.h"

#include <string.h>

enum {
    LENGTH_AT = DIRECT_SIZE_BYTES + DIRECT_PROCESSOR_BYTES,
    NAME_AT = LENGTH_AT + 1,
    STATUS_BYTES = 2,
    BODY_AT = DIRECT_SIZE_BYTES + STATUS_BYTES,
};

bool direct_takes(const struct op *op) {
    return op->path && op->shape == OP_OBJECT && op->start != OP_LOCAL;
}

static size_t load(const uint8_t *bytes, size_t count) {
    size_t value = 0;
    for (size_t i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

bool direct_is_whole(const uint8_t *bytes, size_t size, size_t *ret_size) {
    *ret_size = size < DIRECT_SIZE_BYTES ? 0 : DIRECT_SIZE_BYTES + load(bytes, DIRECT_SIZE_BYTES);
    return *ret_size > 0 && size >= *ret_size;
}

/* ---- writing ---- */

static size_t begin_frame(struct buf *buf) {
    buf_append_u32(buf, 0);
    return buf->size;
}

static void end_frame(struct buf *buf, size_t begun) {
    size_t size = buf->size - begun;
    if (size > UINT32_MAX) buf->failed = true;
    if (buf->failed) return;
    for (size_t i = 1; i <= DIRECT_SIZE_BYTES; i++, size >>= 8) buf->data[begun - i] = (uint8_t)size;
}

static int append(const char *text, size_t size, void *buf) {
    buf_append(buf, text, size);
    return 0;
}

void direct_put_question(struct buf *buf, const struct direct_question *question) {
    size_t begun = begin_frame(buf);
    size_t length = strlen(question->op->name);
    buf_append_u16(buf, (uint16_t)question->processor);
    buf_append_byte(buf, (uint8_t)length);
    buf_append(buf, question->op->name, length);
    if (json_dump_callback(question->params, append, buf, JSON_COMPACT) < 0) buf->failed = true;
    end_frame(buf, begun);
}

void direct_put_answer(struct buf *buf, unsigned status, const void *body, size_t size) {
    size_t begun = begin_frame(buf);
    buf_append_u16(buf, (uint16_t)status);
    buf_append(buf, body, size);
    end_frame(buf, begun);
}

/* ---- reading ---- */

int direct_split_question(const uint8_t *frame, size_t size, struct direct_text *ret, struct error *reterr) {
    char name[DIRECT_NAME_MAX_BYTES + 1];
    size_t length = size > LENGTH_AT ? frame[LENGTH_AT] : 0;
    if (length == 0 || size < NAME_AT + length || memchr(frame + NAME_AT, '\0', length))
        return error_set(reterr, E_FORMAT, "a question without the name of an operation");
    memcpy(name, frame + NAME_AT, length);
    name[length] = '\0';
    const struct op *op = ops_find(name);
    if (!op || !direct_takes(op))
        return error_set(reterr, E_NOT_FOUND, "there is no operation '%.64s' that can be asked for directly", name);
    *ret = (struct direct_text){.op = op,
                                .params = frame + NAME_AT + length,
                                .size = size - NAME_AT - length,
                                .processor = (unsigned)load(frame + DIRECT_SIZE_BYTES, DIRECT_PROCESSOR_BYTES)};
    return 0;
}

int direct_read_answer(const uint8_t *frame, size_t size, unsigned *ret_status, const char **ret_body,
                       size_t *ret_body_size, struct error *reterr) {
    if (size < BODY_AT) return error_set(reterr, E_FORMAT, "an answer without a status");
    *ret_status = (unsigned)load(frame + DIRECT_SIZE_BYTES, STATUS_BYTES);
    *ret_body = (const char *)frame + BODY_AT;
    *ret_body_size = size - BODY_AT;
    return 0;
}
