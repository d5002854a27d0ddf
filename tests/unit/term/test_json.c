/* Tests the conversion of terms to JSON and back. */
#include "term_test.h"

static void assert_json(const char *bytes, size_t size, const char *expected, bool expected_natural) {
    CLEANUP_TERM struct term_doc *doc = must_decode(bytes, size);
    bool natural = !expected_natural;
    json_t *json = term_to_json(term_root(doc), &natural);
    assert_non_null(json);
    CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(json);
    assert_string_equal(text, expected);
    assert_int_equal(natural, expected_natural);
}

static void test_what_has_a_natural_form(void **state) {
    (void)state;
    assert_json(BYTES("\x83\x61\x07"), "7", true);
    assert_json(BYTES("\x83\x46\x3f\xf8\0\0\0\0\0\0"), "1.5", true);
    assert_json(BYTES("\x83\x77\x03nil"), "null", true);
    assert_json(BYTES("\x83\x77\x04true"), "true", true);
    assert_json(BYTES("\x83\x77\x05"
                      "false"),
                "false", true);
    assert_json(BYTES("\x83\x77\x09undefined"), "\"undefined\"", true);
    assert_json(BYTES("\x83\x77\x0a"
                      "Elixir.A.B"),
                "\"A.B\"", true);
    assert_json(BYTES("\x83\x77\x03"
                      "a\0b"),
                "\"a\\u0000b\"", true);
    assert_json(BYTES("\x83\x6d\0\0\0\x02\xc3\xa9"), "\"é\"", true);
    assert_json(BYTES("\x83\x6d\0\0\0\0"), "\"\"", true);
    assert_json(BYTES("\x83\x6a"), "[]", true);
    assert_json(BYTES("\x83\x6b\0\x02"
                      "hi"),
                "\"hi\"", true);
    assert_json(BYTES("\x83\x6b\0\x02\x01\x02"), "[1,2]", true);
    assert_json(BYTES("\x83\x6b\0\x02\x64\xc8"), "[100,200]", true);
}

static void test_integers_past_doubles_are_strings(void **state) {
    (void)state;
    assert_json(BYTES("\x83\x6e\x07\0\0\0\0\0\0\0\x20"), "9007199254740992", true);
    assert_json(BYTES("\x83\x6e\x07\0\x01\0\0\0\0\0\x20"), "\"9007199254740993\"", true);
    assert_json(BYTES("\x83\x6e\x07\x01\x01\0\0\0\0\0\x20"), "\"-9007199254740993\"", true);
    assert_json(BYTES("\x83\x6e\x09\0\0\0\0\0\0\0\0\0\1"), "\"18446744073709551616\"", true);
}

static void test_maps(void **state) {
    (void)state;
    assert_json(BYTES("\x83\x74\0\0\0\0"), "{}", true);
    assert_json(BYTES("\x83\x74\0\0\0\x02\x77\x01"
                      "a\x61\x01\x6d\0\0\0\x01"
                      "b\x6a"),
                "{\"a\":1,\"b\":[]}", true);
    assert_json(BYTES("\x83\x74\0\0\0\x02\x77\x0a__struct__\x77\x08"
                      "Elixir.P\x77\x01x\x61\x01"),
                "{\"__struct__\":\"P\",\"x\":1}", true);
    assert_json(BYTES("\x83\x74\0\0\0\x01\x77\x01"
                      "a\x68\0"),
                "{\"a\":{\"tuple\":[]}}", false);
    assert_json(BYTES("\x83\x74\0\0\0\x01\x61\x01\x61\x02"), "{\"map\":[[1,2]]}", false);
    /* Two keys that would be one member. */
    assert_json(BYTES("\x83\x74\0\0\0\x02\x77\x01"
                      "a\x61\x01\x6d\0\0\0\x01"
                      "a\x61\x02"),
                "{\"map\":[[\"a\",1],[\"a\",2]]}", false);
    assert_json(BYTES("\x83\x74\0\0\0\x01\x6d\0\0\0\x01\xff\x61\x02"), "{\"map\":[[{\"base64\":\"/w==\"},2]]}", false);
}

static void test_what_has_no_natural_form(void **state) {
    (void)state;
    assert_json(BYTES("\x83\x68\x02\x77\x02ok\x61\x01"), "{\"tuple\":[\"ok\",1]}", false);
    assert_json(BYTES("\x83\x6b\0\0"), "[]", true);
    assert_json(BYTES("\x83\x6c\0\0\0\x01\x68\0\x6a"), "[{\"tuple\":[]}]", false);
    assert_json(BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02"), "\"[1|2]\"", false);
    assert_json(BYTES("\x83\x4d\0\0\0\x01\x03\xa0"), "\"<<5:3>>\"", false);
    assert_json(BYTES("\x83\x58\x77\x01n\0\0\0\x05\0\0\0\x06\0\0\0\x07"), "\"<0.5.6>\"", false);
    assert_json(BYTES("\x83\x71\x77\x05lists\x77\x03map\x61\x02"), "\"fun lists:map/2\"", false);
    assert_json(BYTES("\x83\x43\0\0\0\x02\x01\x77\x08"
                      "Elixir.M\x77\x01r\x77\x01"
                      "a\x77\x01"
                      "b\x61\x01\x6a"),
                "{\"record\":\"M:r\",\"fields\":{\"a\":1,\"b\":[]}}", false);
}

static void test_base64(void **state) {
    (void)state;
    assert_json(BYTES("\x83\x6d\0\0\0\x01\xff"), "{\"base64\":\"/w==\"}", false);
    assert_json(BYTES("\x83\x6d\0\0\0\x02\xff\xfe"), "{\"base64\":\"//4=\"}", false);
    assert_json(BYTES("\x83\x6d\0\0\0\x03\xff\xfe\xfd"), "{\"base64\":\"//79\"}", false);
    assert_json(BYTES("\x83\x6d\0\0\0\x04\xff\0\x10\x83"), "{\"base64\":\"/wAQgw==\"}", false);
}

static void test_json_becomes_terms(void **state) {
    (void)state;
    static const struct {
        const char *json;
        const char *erlang;
    } cases[] = {
        {"null", "nil"},
        {"true", "true"},
        {"false", "false"},
        {"-3", "-3"},
        {"9223372036854775807", "9223372036854775807"},
        {"1.5", "1.5"},
        {"\"x\\u0000\"", "<<120,0>>"},
        {"[]", "[]"},
        {"[1,\"a\"]", "[1,<<\"a\">>]"},
        {"{\"k\":{\"l\":[]}}", "#{<<\"k\">> => #{<<\"l\">> => []}}"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf buf = BUF_INIT, text = BUF_INIT;
        json_t *json = json_loads(cases[i].json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        term_put_version(&buf);
        term_put_json(&buf, json);
        CLEANUP_TERM struct term_doc *doc = must_decode((char *)buf.data, buf.size);
        term_print(&text, term_root(doc), TERM_ERLANG, SIZE_MAX);
        assert_string_equal(buf_string(&text), cases[i].erlang);
        buf_free(&buf);
        buf_free(&text);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_has_a_natural_form),
        cmocka_unit_test(test_integers_past_doubles_are_strings),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_what_has_no_natural_form),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_json_becomes_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
