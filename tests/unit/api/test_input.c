#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api_internal.h"

static void escapes_are_decoded_and_broken_ones_kept(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},           {"plain", "plain"}, {"a%20b", "a b"}, {"%41%6a", "Aj"}, {"%00", "%00"},
        {"a%00b", "a%00b"}, {"100%", "100%"},   {"%4", "%4"},     {"%zz", "%zz"},   {"%%41", "%A"},
        {"%2541", "%41"},   {"a+b", "a+b"},     {"%c3%A9", "é"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[32];
        strcpy(text, cases[i].from);
        assert_int_equal(input_unescape(NULL, NULL, text), strlen(cases[i].to));
        assert_string_equal(text, cases[i].to);
    }
}

static int merge(const char *body, json_t *params, struct error *reterr) {
    struct buf buf = {.data = (uint8_t *)(uintptr_t)body, .size = strlen(body)};
    return input_merge_body(&buf, params, reterr);
}

static void a_body_adds_its_members(void **state) {
    (void)state;
    json_t *params = json_pack("{s:s}", "id", "a");
    assert_int_equal(merge("", params, NULL), 0);
    assert_int_equal(merge("{\"n\": 1, \"deep\": {\"x\": [null]}}", params, NULL), 0);
    char *text = json_dumps(params, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"deep\":{\"x\":[null]},\"id\":\"a\",\"n\":1}");
    free(text);
    json_decref(params);
}

static void a_bad_body_says_where(void **state) {
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{\"id\": \"b\"}", "id: given twice"},
        {"{\n  \"x\" 1}", "line 2, column 7"},
        {"\"text\"", "not JSON"},
        {"{} trailing", "line 1"},
        {"[]", "not a JSON object"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};
        json_t *params = json_pack("{s:s}", "id", "a");
        assert_true(merge(cases[i].body, params, &error) < 0);
        assert_int_equal(error.code, E_INVALID);
        if (!strstr(error.detail, cases[i].detail)) fail_msg("'%s' is not in '%s'", cases[i].detail, error.detail);
        json_decref(params);
    }
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    char *body = malloc(DEPTH + 1);
    memset(body, '[', DEPTH);
    body[DEPTH] = '\0';
    struct error error = {0};
    json_t *params = json_object();
    assert_true(merge(body, params, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    json_decref(params);
    free(body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_decoded_and_broken_ones_kept),
        cmocka_unit_test(a_body_adds_its_members),
        cmocka_unit_test(a_bad_body_says_where),
        cmocka_unit_test(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
