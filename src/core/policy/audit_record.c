/* What a record of the audit trail says of an operation, as the members of a JSON object. Each operation has two, so
   they are written as text, without a tree of values in between. */
#include "core/policy/audit_record.h"

#include <string.h>

#include "term/term.h"

enum {
    TEXT_MAX_BYTES = 128, /* of one parameter */
    LIST_MAX = 16,        /* of one parameter's values */
    PARAMS_MAX_BYTES = 8 << 10,
};

static void put_cut_text(struct buf *to, const char *text, size_t size) {
    static const char cut_mark[] = "…";
    char cut[TEXT_MAX_BYTES + sizeof cut_mark];
    size_t kept = TEXT_MAX_BYTES;
    if (size <= TEXT_MAX_BYTES) {
        term_json_write_text(text, size, to);
        return;
    }
    while (kept > 0 && ((uint8_t)text[kept] & 0xc0) == 0x80) kept--; /* between two characters */
    memcpy(cut, text, kept);
    memcpy(cut + kept, cut_mark, sizeof cut_mark - 1);
    term_json_write_text(cut, kept + sizeof cut_mark - 1, to);
}

static void put_name(struct buf *to, const char *name) {
    bool is_first = to->size == 0 || to->data[to->size - 1] == '{';
    if (!is_first) buf_append_byte(to, ',');
    put_cut_text(to, name, strlen(name));
    buf_append_byte(to, ':');
}

static void put_text(struct buf *to, const char *name, const char *text) {
    put_name(to, name);
    if (text)
        term_json_write_text(text, strlen(text), to);
    else
        buf_append_string(to, "null");
}

static void put_number(struct buf *to, const char *name, uint64_t number) {
    put_name(to, name);
    term_json_write_integer((json_int_t)number, to);
}

/* ---- parameters ---- */

/* What is deeper than a list of values no operation takes: it was refused, and may hold anything. */
static void put_cut_value(struct buf *to, const json_t *value) {
    if (json_is_string(value))
        put_cut_text(to, json_string_value(value), json_string_length(value));
    else if (json_is_object(value) || json_is_array(value))
        buf_append_string(to, "null");
    else
        term_json_write(value, to);
}

/* Of an environment only the names: the values may be secrets. */
static void put_names(struct buf *to, json_t *object) {
    size_t count = 0;
    const char *name;
    json_t *value;
    buf_append_byte(to, '[');
    json_object_foreach(object, name, value) {
        if (count == LIST_MAX) break;
        if (count++ > 0) buf_append_byte(to, ',');
        put_cut_text(to, name, strlen(name));
    }
    buf_append_byte(to, ']');
}

static void put_values(struct buf *to, const json_t *array) {
    size_t count = json_array_size(array);
    buf_append_byte(to, '[');
    for (size_t i = 0; i < count && i < LIST_MAX; i++) {
        if (i > 0) buf_append_byte(to, ',');
        put_cut_value(to, json_array_get(array, i));
    }
    buf_append_byte(to, ']');
}

static void put_param(struct buf *to, json_t *value) {
    if (json_is_object(value))
        put_names(to, value);
    else if (json_is_array(value))
        put_values(to, value);
    else
        put_cut_value(to, value);
}

void audit_record_params(struct buf *to, json_t *params) {
    const char *name;
    json_t *value;
    put_name(to, "params");
    size_t begun = to->size;
    buf_append_byte(to, '{');
    json_object_foreach(params, name, value) {
        if (to->size - begun > PARAMS_MAX_BYTES) break;
        put_name(to, name);
        put_param(to, value);
    }
    buf_append_byte(to, '}');
    if (to->failed || to->size - begun <= PARAMS_MAX_BYTES) return;
    to->size = begun;
    buf_append_string(to, "null");
}

/* ---- the rest ---- */

static const char *origin_of(const struct caller *caller) {
    if (caller->is_service) return "service";
    if (caller->peer_fd >= 0) return "unix";
    return caller->grant ? "watch" : "tcp"; /* what is saved in a watched project is its owner's doing */
}

static void put_sandbox(struct buf *to, const json_t *params) {
    const json_t *id = json_object_get(params, "id");
    if (!id) id = json_object_get(params, "sandbox_id");
    put_name(to, "sandbox_id");
    if (json_is_string(id))
        put_cut_value(to, id);
    else
        buf_append_string(to, "null");
}

void audit_record_begin(struct buf *to, const char *op, const struct request *request, const char *phase) {
    const struct caller *caller = &request->caller;
    char now[RFC3339_BYTES];
    clock_rfc3339(clock_wall_ms(), now);
    buf_reserve(to, AUDIT_RECORD_BYTES);
    put_text(to, "time", now);
    put_text(to, "phase", phase);
    put_text(to, "op", op);
    put_sandbox(to, request->params);
    put_number(to, "uid", caller->uid);
    put_number(to, "pid", (uint64_t)caller->pid);
    put_text(to, "from", origin_of(caller));
    put_text(to, "correlation_id", request->correlation_id);
}

void audit_record_outcome(struct buf *to, const struct error *error, uint64_t duration_ms) {
    put_text(to, "outcome", error ? error_kind(error->code)->slug : "ok");
    put_number(to, "duration_ms", duration_ms);
}
