/* A node's terms as JSON for callers: bounded texts and numbers; everything else becomes null. */
#include <string.h>

#include "code/code_internal.h"

enum {
    TEXT_MAX_BYTES = 4096,
    TEXTS_MAX = 10000,   /* in one list */
    VALUES_MAX = 100000, /* of all objects of a list, each of which may have lists of its own */
};

json_t *answer_text(const struct term *value) {
    CLEANUP_FREE char *text = NULL;
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    if (!value || term_is_atom(value, "nil")) return json_null();
    if (value->type == TERM_PID) {
        term_print(&escaped, value, TERM_ERLANG, 64);
        return json_string(buf_string(&escaped));
    }
    if (!term_to_text(value, TEXT_MAX_BYTES, &text)) return json_null();
    json_t *json = json_string(text);
    if (json) return json;
    escape_text(&escaped, text, strlen(text));
    return json_string(buf_string(&escaped));
}

json_t *answer_number(const struct term *value) {
    uint64_t number;
    return value && term_to_uint64(value, &number) && number < UINT64_C(1) << 53 ? json_integer((json_int_t)number)
                                                                                 : json_null();
}

json_t *answer_flag(const struct term *value) {
    return json_boolean(value && term_is_atom(value, "true"));
}

json_t *answer_module(const struct term *value) {
    json_t *text = answer_text(value);
    if (!json_is_string(text)) return text;
    json_t *name = json_string(term_module_name(json_string_value(text)));
    json_decref(text);
    return name;
}

json_t *answer_texts(const struct term *list) {
    json_t *array = json_array();
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    for (size_t i = 0; i < count && i < TEXTS_MAX; i++) json_array_append_new(array, answer_text(term_at(list, i)));
    return array;
}

json_t *answer_objects(const struct term *list, const struct answer_member *members, size_t max) {
    json_t *array = json_array();
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    for (size_t i = 0, values = 0; i < count && i < max && values < VALUES_MAX; i++) {
        json_t *object = json_object();
        for (const struct answer_member *member = members; member->name; member++) {
            json_t *value = member->read(term_map_get(term_at(list, i), member->name));
            values += 1 + json_array_size(value);
            json_object_set_new(object, member->name, value);
        }
        json_array_append_new(array, object);
    }
    return array;
}
