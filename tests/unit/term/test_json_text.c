/* The text of JSON values, compared with the library's. */
#include "term_test.h"

static void assert_alike(json_t *value) {
    assert_non_null(value);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char *expected = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    term_json_write(value, &text);
    assert_string_equal(buf_string(&text), expected);
    free(expected);
    json_decref(value);
}

static void test_text_is_the_librarys(void **state) {
    (void)state;
    static const char *const samples[] = {
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "1e300",
        "-0.0",
        "100.0",
        "\"\"",
        "\"a\\\"b\\\\c/d\"",
        "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"",
        "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\x89\"",
        "{\"b\":[1,[],{}, [null, \"x\"]], \"a\":{\"k\\\"ey\":1.25}, \"\":[]}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        assert_alike(json_loads(samples[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
}

static void test_every_character_is_the_librarys(void **state) {
    (void)state;
    for (int code = 0; code < 0x80; code++) assert_alike(json_stringn((char[]){'a', (char)code, 'b'}, 3));
}

static void test_what_does_not_fit_fails(void **state) {
    (void)state;
    struct buf text = {.max = 4};
    json_t *value = json_string("more than four");
    term_json_write(value, &text);
    assert_true(text.failed);
    json_decref(value);
    buf_free(&text);
    text = (struct buf){0};
    term_json_write(NULL, &text);
    assert_true(text.failed);
    buf_free(&text);
}

/* As printing takes: names are printed too, and a real number takes as long as several integers. */
static void test_weight_is_that_of_printing(void **state) {
    enum { MAX = 100, LONG_NAME = 4000 };
    (void)state;
    char name[LONG_NAME + 1];
    memset(name, 'n', LONG_NAME);
    name[LONG_NAME] = '\0';
    static const struct {
        const char *text;
        size_t count;
        bool is_heavy;
    } samples[] = {{"1", MAX - 1, false}, {"1", MAX, true}, {"1.5", MAX / 2, true}, {"1.5", MAX / 20, false}};
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        json_t *array = json_array();
        for (size_t k = 0; k < samples[i].count; k++)
            json_array_append_new(array, json_loads(samples[i].text, JSON_DECODE_ANY, NULL));
        assert_int_equal(term_json_is_heavy(array, MAX), samples[i].is_heavy);
        json_decref(array);
    }
    json_t *object = json_pack("{s:i}", name, 1);
    assert_true(term_json_is_heavy(object, MAX));
    json_decref(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_the_librarys),
        cmocka_unit_test(test_every_character_is_the_librarys),
        cmocka_unit_test(test_what_does_not_fit_fails),
        cmocka_unit_test(test_weight_is_that_of_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
