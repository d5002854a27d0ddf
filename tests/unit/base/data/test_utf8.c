/* Tests the UTF-8 functions on every character, on invalid bytes, and at the places where text is cut. */
#include "base/base_test.h"

static void test_every_character_comes_back(void **state) {
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        char text[UTF8_MAX_BYTES];
        uint32_t decoded = 0;
        size_t length = utf8_encode(code, text);
        if (surrogate != (length == 0)) fail_msg("U+%04X", code);
        if (surrogate) continue;
        if (utf8_decode((uint8_t *)text, length, &decoded) != length || decoded != code) fail_msg("U+%04X", code);
        if (utf8_decode((uint8_t *)text, length - 1, &decoded) != 0) fail_msg("U+%04X cut", code);
    }
    char text[UTF8_MAX_BYTES];
    assert_int_equal(utf8_encode(0x110000, text), 0);
}

static bool valid(const char *text) {
    return utf8_valid((const uint8_t *)text, strlen(text));
}

static void test_what_is_not_utf8_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\x80",         "\xC3",         "\xC3(",        "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",
        "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF",         "ok \xE2\x82",  "\xF0\x9F\x98",
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (valid(bad[i])) fail_msg("%zu", i);
    assert_true(valid(""));
    assert_true(valid("a é € 😀"));
}

/* A byte beyond ASCII shows wherever it stands, and nothing behind the end does. */
static void test_ascii_is_told_apart(void **state) {
    (void)state;
    uint8_t text[24];
    for (size_t size = 0; size < sizeof text; size++) {
        memset(text, 'a', sizeof text);
        text[size] = 0x80;
        assert_true(utf8_is_ascii(text, size));
        for (size_t at = 0; at < size; at++) {
            text[at] = 0x80;
            assert_false(utf8_is_ascii(text, size));
            text[at] = 0x7f;
        }
    }
}

static void test_cuts_fall_between_characters(void **state) {
    (void)state;
    static const char text[] = "a€b"; /* 1, 3 and 1 bytes */
    static const size_t expected[] = {0, 1, 1, 1, 4, 5, 5};
    for (size_t limit = 0; limit < ARRAY_SIZE(expected); limit++)
        assert_int_equal(utf8_cut(text, strlen(text), limit), expected[limit]);
    /* Bytes that are no text are cut where asked. */
    assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80\x80\x80", 7, 6), 6);
    assert_int_equal(utf8_cut("", 0, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_comes_back),
        cmocka_unit_test(test_what_is_not_utf8_is_refused),
        cmocka_unit_test(test_ascii_is_told_apart),
        cmocka_unit_test(test_cuts_fall_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
