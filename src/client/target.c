/* Makes the target and the body of an HTTP request from an operation's row and its parameters. */
#include <string.h>

#include "client/client_internal.h"

void target_free(struct target *target) {
    buf_free(&target->path);
    buf_free(&target->body);
}

void percent_encode(struct buf *buf, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (strchr(plain, *at))
            buf_append_byte(buf, *at);
        else
            buf_printf(buf, "%%%02X", *at);
    }
}

/* A value as a query or a path carries it: text as it is, all else as JSON. */
static void append_value(struct buf *buf, const json_t *value) {
    if (json_is_string(value)) {
        percent_encode(buf, json_string_value(value));
        return;
    }
    CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        percent_encode(buf, text);
    else
        buf->failed = true;
}

static void append_path(struct buf *buf, const struct op *op, const json_t *params) {
    for (const char *at = op->path; *at;) {
        if (*at != ':') {
            buf_append_byte(buf, (uint8_t)*at++);
            continue;
        }
        size_t size = strcspn(at, "/");
        append_value(buf, json_object_getn(params, at + 1, size - 1));
        at += size;
    }
}

static void append_query(struct buf *buf, const struct op *op, const json_t *params, const char *cursor) {
    char separator = '?';
    for (size_t i = 0; i < op->param_count; i++) {
        const json_t *value = json_object_get(params, op->params[i].name);
        if (!value || (op->params[i].flags & OP_IN_PATH)) continue;
        buf_printf(buf, "%c%s=", separator, op->params[i].name);
        append_value(buf, value);
        separator = '&';
    }
    if (!cursor) return;
    buf_printf(buf, "%ccursor=", separator);
    percent_encode(buf, cursor);
}

static int append_chunk(const char *text, size_t size, void *data) {
    buf_append(data, text, size);
    return 0;
}

static int append_body(struct buf *buf, const struct op *op, const json_t *params) {
    json_t *body = json_copy((json_t *)(uintptr_t)params);
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_IN_PATH) json_object_del(body, op->params[i].name);
    int result = json_dump_callback(body, append_chunk, buf, JSON_COMPACT);
    json_decref(body);
    return result;
}

static struct target take_target(struct target *from) {
    struct target taken = *from;
    *from = (struct target){BUF_INIT, BUF_INIT};
    return taken;
}

int target_build(const struct op *op, const json_t *params, const char *cursor, struct target *ret,
                 struct error *reterr) {
    CLEANUP(target_free) struct target target = {BUF_INIT, BUF_INIT};
    append_path(&target.path, op, params);
    if (strcmp(op->method, "POST") == 0)
        target.body.failed = append_body(&target.body, op, params) < 0 || target.body.failed;
    else
        append_query(&target.path, op, params, cursor);
    if (target.path.failed || target.body.failed) return error_set(reterr, E_NO_MEMORY, "no memory for a request");
    *ret = take_target(&target);
    return 0;
}
