/* Tests error objects and the table of error codes. */
#include "base/base_test.h"

#include <errno.h>

static void test_setting_fills_and_returns_negative(void **state) {
    (void)state;
    struct error error = {0};
    assert_int_equal(error_set(&error, E_NOT_FOUND, "no sandbox '%s'", "a"), -E_NOT_FOUND);
    assert_int_equal(error.code, E_NOT_FOUND);
    assert_string_equal(error.detail, "no sandbox 'a'");
    assert_int_equal(error_set(NULL, E_TIMEOUT, "late"), -E_TIMEOUT);
}

static void test_an_error_may_be_made_from_itself(void **state) {
    (void)state;
    struct error error = {0};
    error_set(&error, E_SYSTEM, "inner");
    error_set(&error, E_NODE, "outer (%s)", error.detail);
    assert_string_equal(error.detail, "outer (inner)");
}

static void test_errno_chooses_the_code(void **state) {
    (void)state;
    static const struct {
        int errno_value;
        enum error_code code;
    } cases[] = {
        {ENOSPC, E_DISK_FULL}, {EDQUOT, E_DISK_FULL}, {ENOMEM, E_NO_MEMORY}, {ETIMEDOUT, E_TIMEOUT}, {EIO, E_SYSTEM}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};
        assert_int_equal(error_errno(&error, cases[i].errno_value, "open '%s'", "f"), -(int)cases[i].code);
        assert_int_equal(error.code, cases[i].code);
        assert_int_equal(strncmp(error.detail, "open 'f': ", 10), 0);
        assert_string_equal(error.detail + 10, strerror(cases[i].errno_value));
    }
    assert_int_equal(error_errno(NULL, EIO, "x"), -E_SYSTEM);
}

static void test_prefixes_come_first(void **state) {
    (void)state;
    struct error error = {0};
    error_set(&error, E_FORMAT, "bad byte");
    assert_int_equal(error_prefix(&error, "file %d", 3), -E_FORMAT);
    assert_string_equal(error.detail, "file 3: bad byte");
    assert_int_equal(error_prefix(NULL, "x"), -E_SYSTEM);
}

/* Whatever is too long is cut, and never in the middle of a character. */
static void assert_cut(const struct error *error) {
    size_t length = strlen(error->detail);
    assert_true(length >= ERROR_DETAIL_BYTES - 4 && length < ERROR_DETAIL_BYTES);
    assert_true(utf8_valid((const uint8_t *)error->detail, length));
}

static void test_long_details_are_cut(void **state) {
    (void)state;
    char text[2000] = "";
    struct error error = {0};
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'x', (size_t)shift);
        for (size_t i = (size_t)shift; i + 4 < sizeof text; i += 4) memcpy(text + i, "😀", 4);
        error_set(&error, E_FORMAT, "%s", text);
        assert_cut(&error);
        error_prefix(&error, "prefix");
        assert_cut(&error);
        error_errno(&error, EIO, "%s", text);
        assert_cut(&error);
        error_set(&error, E_FORMAT, "end");
        error_prefix(&error, "%s", text);
        assert_cut(&error);
    }
}

static void test_every_error_is_described(void **state) {
    (void)state;
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        const struct error_kind *kind = error_kind((enum error_code)code);
        assert_non_null(kind->slug);
        assert_non_null(kind->title);
        assert_non_null(kind->advice);
        assert_true(kind->recovery != RECOVERY_FIX_INPUT ||
                    !kind->may_pass); /* who is to change it need not try again */
        assert_true(kind->http_status >= 400 && kind->http_status < 600);
        assert_true(kind->exit_code >= 1 && kind->exit_code <= 6);
        assert_int_equal(error_code_from_slug(kind->slug), code); /* so slugs are unique */
        assert_non_null(error_category_name(kind->category));
        assert_non_null(error_recovery_name(kind->recovery));
    }
    assert_int_equal(error_code_from_slug("no such"), E_NONE);
    assert_ptr_equal(error_kind(E_COUNT), error_kind(E_SYSTEM));
    assert_string_equal(error_category_name(CATEGORY_SECURITY), "security");
    assert_string_equal(error_recovery_name(RECOVERY_FIX_INPUT), "fix_input");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setting_fills_and_returns_negative),
        cmocka_unit_test(test_an_error_may_be_made_from_itself),
        cmocka_unit_test(test_errno_chooses_the_code),
        cmocka_unit_test(test_prefixes_come_first),
        cmocka_unit_test(test_long_details_are_cut),
        cmocka_unit_test(test_every_error_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
