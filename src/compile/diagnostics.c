/* What compilers say, for people: a stranger's text, bounded and made harmless. */
#include <string.h>

#include "compile/compile_internal.h"

enum { DIAGNOSTIC_BYTES = 600 }; /* of one without texts: an object of five members */

bool text_at(const struct term *map, const char *key, char **ret) {
    const struct term *value = term_map_get(map, key);
    return value && !term_is_atom(value, "nil") && term_to_string(value, ret);
}

/* Text of a stranger: cut to a bound, and what is not UTF-8 escaped. */
static json_t *text_json(const char *text) {
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    size_t length = utf8_cut(text, strlen(text), TEXT_MAX_BYTES);
    json_t *value = json_stringn(text, length);
    if (value) return value;
    escape_text(&escaped, text, length);
    return json_string(buf_string(&escaped));
}

static void set_text(json_t *object, const char *name, const struct term *map, const char *key) {
    CLEANUP_FREE char *text = NULL;
    json_object_set_new(object, name, text_at(map, key, &text) ? text_json(text) : json_null());
}

static json_t *diagnostic_to_json(const struct term *diagnostic) {
    json_t *object = json_object();
    static const char *const texts[] = {"file", "message", "kind"};
    static const char *const numbers[] = {"line", "column"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) set_text(object, texts[i], diagnostic, texts[i]);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const struct term *value = term_map_get(diagnostic, numbers[i]);
        int64_t number;
        bool known = value && term_to_int64(value, &number) && number > 0;
        json_object_set_new(object, numbers[i], known ? json_integer(number) : json_null());
    }
    return object;
}

static size_t diagnostic_bytes(json_t *diagnostic) {
    size_t bytes = DIAGNOSTIC_BYTES;
    const char *name;
    json_t *value;
    json_object_foreach(diagnostic, name, value) bytes += json_string_length(value); /* 0 of what is no text */
    return bytes;
}

json_t *diagnostics_to_json(const struct term *list, const struct diagnostics_budget *budget, size_t *ret_left_out) {
    json_t *array = json_array();
    struct diagnostics_budget left = *budget;
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    while (left.count > 0 && json_array_size(array) < count) {
        json_t *diagnostic = diagnostic_to_json(&list->items.elements[json_array_size(array)]);
        if (budget_take_diagnostic(&left, diagnostic_bytes(diagnostic)))
            json_array_append_new(array, diagnostic);
        else
            json_decref(diagnostic);
    }
    *ret_left_out = count - json_array_size(array);
    return array;
}

size_t diagnostics_join(json_t *all, const json_t *more) {
    struct diagnostics_budget left = whole_diagnostics_budget;
    size_t i, count = json_array_size(more), before = json_array_size(all);
    json_t *diagnostic;
    json_array_foreach(all, i, diagnostic) budget_take_diagnostic(&left, diagnostic_bytes(diagnostic));
    for (i = 0; i < count; i++) {
        diagnostic = json_array_get(more, i);
        if (!budget_take_diagnostic(&left, diagnostic_bytes(diagnostic))) break;
        json_array_append(all, diagnostic);
    }
    return count - (json_array_size(all) - before);
}

size_t diagnostics_cut(json_t *list, struct diagnostics_budget *budget) {
    struct diagnostics_budget left = *budget;
    size_t kept = 0, count = json_array_size(list);
    while (kept < count && budget_take_diagnostic(&left, diagnostic_bytes(json_array_get(list, kept)))) {
        *budget = left;
        kept++;
    }
    while (json_array_size(list) > kept) json_array_remove(list, json_array_size(list) - 1);
    return count - kept;
}
