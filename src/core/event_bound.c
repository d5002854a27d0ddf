#include "core/event_bound.h"

#include <string.h>

#include "base/base.h"

enum {
    VALUE_BYTES = 8, /* of a number, or of what stands around a value */
    CONTROL_BYTES = 6,
    DEPTH_MAX = 8,
};

/* ---- how long it is, looking at no more than is needed to tell ---- */

static size_t printed_bytes(unsigned char byte) {
    if (byte < 0x20) return CONTROL_BYTES;
    return byte == '"' || byte == '\\' ? 2 : 1;
}

/* How many bytes of a text are printed in so many; what they take is taken off. */
static size_t fitting(const char *text, size_t size, int64_t *left) {
    size_t at = 0;
    while (at < size && *left >= (int64_t)printed_bytes((unsigned char)text[at]))
        *left -= (int64_t)printed_bytes((unsigned char)text[at++]);
    return at;
}

static bool text_fits(const char *text, size_t size, int64_t *left) {
    return fitting(text, size, left) == size;
}

static bool fits(const json_t *value, unsigned depth, int64_t *left) {
    size_t i, size;
    const char *name;
    json_t *element;
    *left -= VALUE_BYTES;
    if (*left < 0 || depth > DEPTH_MAX) return false;
    if (json_is_string(value)) return text_fits(json_string_value(value), json_string_length(value), left);
    json_array_foreach(value, i, element) if (!fits(element, depth + 1, left)) return false;
    json_object_keylen_foreach((json_t *)(uintptr_t)value, name, size, element) {
        if (!text_fits(name, size, left) || !fits(element, depth + 1, left)) return false;
    }
    return true;
}

/* ---- as much of it as fits ---- */

static json_t *copy_text(const json_t *value, int64_t *left) {
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    int64_t room = *left < EVENT_TEXT_BYTES ? *left : EVENT_TEXT_BYTES, before = room;
    size_t length = utf8_cut(text, size, fitting(text, size, &room));
    *left -= before - room;
    return json_stringn(text, length);
}

static json_t *copy(const json_t *value, unsigned depth, int64_t *left);

static json_t *copy_array(const json_t *array, unsigned depth, int64_t *left) {
    json_t *list = json_array(), *element;
    size_t i;
    json_array_foreach(array, i, element) {
        if (*left <= 0) break;
        json_array_append_new(list, copy(element, depth, left));
    }
    return list;
}

/* Members keep their names as long as there is room for anything: their values may be empty. */
static json_t *copy_object(const json_t *object, unsigned depth, int64_t *left) {
    json_t *result = json_object(), *member;
    const char *name;
    size_t size;
    json_object_keylen_foreach((json_t *)(uintptr_t)object, name, size, member) {
        *left -= (int64_t)size;
        if (*left < -EVENT_TEXT_BYTES) break;
        json_object_setn_new(result, name, size, copy(member, depth, left));
    }
    return result;
}

static json_t *copy(const json_t *value, unsigned depth, int64_t *left) {
    *left -= VALUE_BYTES;
    if (depth > DEPTH_MAX) return json_null();
    if (json_is_string(value)) return copy_text(value, left);
    if (json_is_array(value)) return copy_array(value, depth + 1, left);
    if (json_is_object(value)) return copy_object(value, depth + 1, left);
    return json_incref((json_t *)(uintptr_t)value);
}

json_t *event_bounded(json_t *data) {
    int64_t left = EVENT_DATA_BYTES;
    if (fits(data, 0, &left)) return data;
    left = EVENT_DATA_BYTES;
    json_t *bounded = copy(data, 0, &left);
    json_object_set_new(bounded, "cut", json_true());
    json_decref(data);
    return bounded;
}
