/* Tests how large events may be: what fits stays as it is, the rest is cut, and what is printed is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/event_bound.h"

static json_t *text(char byte, size_t size) {
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, byte, size);
    json_t *value = json_stringn(bytes, size);
    free(bytes);
    return value;
}

static size_t printed(const json_t *data) {
    return json_dumpb(data, NULL, 0, JSON_COMPACT);
}

static json_t *diagnostics(size_t count, char byte, size_t size) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:i, s:n}", "file", text(byte, size), "message",
                                              text(byte, size), "kind", "warning", "line", 7, "column"));
    return list;
}

static void what_fits_is_left_alone(void **state) {
    (void)state;
    json_t *data = json_pack("{s:s, s:i, s:o}", "status", "ok", "count", 3, "warnings", diagnostics(20, 'x', 100));
    json_t *bounded = event_bounded(data);
    assert_ptr_equal(bounded, data);
    assert_null(json_object_get(bounded, "cut"));
    json_decref(bounded);
}

static void what_does_not_is_cut(void **state) {
    (void)state;
    static const char bytes[] = {'x', 1, '"', '\\'};
    for (size_t i = 0; i < sizeof bytes; i++) {
        json_t *errors = diagnostics(20, bytes[i], 8192);
        json_t *data = json_pack("{s:s, s:O, s:o, s:i}", "status", "failed", "errors", errors, "warnings",
                                 diagnostics(20, bytes[i], 8192), "count", 40);
        json_t *bounded = event_bounded(data);
        assert_true(json_is_true(json_object_get(bounded, "cut")));
        assert_in_range(printed(bounded), 1024, 2 * EVENT_DATA_BYTES);
        assert_string_equal(json_string_value(json_object_get(bounded, "status")), "failed");
        assert_int_equal(json_integer_value(json_object_get(bounded, "count")), 40);
        const json_t *first = json_array_get(json_object_get(bounded, "errors"), 0);
        assert_in_range(json_string_length(json_object_get(first, "message")), 1, EVENT_TEXT_BYTES);
        assert_int_equal(json_integer_value(json_object_get(first, "line")), 7);
        assert_int_equal(json_string_length(json_object_get(json_array_get(errors, 0), "message")), 8192); /* others' */
        json_decref(errors);
        json_decref(bounded);
    }
}

static void texts_are_cut_between_characters(void **state) {
    (void)state;
    char umlauts[20001];
    for (size_t i = 0; i < 10000; i++) memcpy(umlauts + 2 * i, "ä", 2);
    umlauts[20000] = '\0';
    json_t *bounded = event_bounded(json_pack("{s:s, s:s}", "a", "b", "text", umlauts));
    const char *cut = json_string_value(json_object_get(bounded, "text"));
    assert_non_null(cut);
    assert_int_equal(strlen(cut) % 2, 0);
    assert_in_range(strlen(cut), EVENT_TEXT_BYTES - 2, EVENT_TEXT_BYTES);
    json_decref(bounded);
}

static void wide_and_deep_data_is_bounded_too(void **state) {
    (void)state;
    json_t *wide = json_object(), *deep = json_object(), *names = json_array();
    for (int i = 0; i < 100000; i++) {
        char name[32];
        snprintf(name, sizeof name, "name%d", i);
        json_object_set_new(wide, name, json_integer(i));
        json_array_append_new(names, json_string(name));
    }
    for (int i = 0; i < 1000; i++) deep = json_pack("{s:o}", "in", deep);
    json_t *all[] = {wide, deep, json_pack("{s:o}", "names", names)};
    for (size_t i = 0; i < 3; i++) {
        json_t *bounded = event_bounded(all[i]);
        assert_true(printed(bounded) <= 2 * EVENT_DATA_BYTES);
        json_decref(bounded);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_left_alone),
        cmocka_unit_test(what_does_not_is_cut),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(wide_and_deep_data_is_bounded_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
