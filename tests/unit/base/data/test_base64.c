/* Tests base64 in both directions, and text that is not base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static const struct {
    const char *bytes, *text;
} pairs[] = {{"", ""},        {"f", "Zg=="},          {"fo", "Zm8="},
             {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfd", "//79"}};

static void test_there_and_back(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT, bytes = BUF_INIT;
        base64_encode((const uint8_t *)pairs[i].bytes, strlen(pairs[i].bytes), &text);
        assert_string_equal(buf_string(&text), pairs[i].text);
        assert_true(base64_decode(pairs[i].text, strlen(pairs[i].text), &bytes));
        assert_string_equal(buf_string(&bytes), pairs[i].bytes);
    }
}

static void test_what_is_none(void **state) {
    static const char *const texts[] = {"Z", "Zg=", "Zg==Zg==", "Z===", "=m9v", "Zm9 ", "Zm\n=", "Zm9\0"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT;
        assert_false(base64_decode(texts[i], i + 1 == ARRAY_SIZE(texts) ? 4 : strlen(texts[i]), &bytes));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_what_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
