/* Tests how floats and big integers are printed. */
#include "term_test.h"

#include <math.h>

#include "term/term_internal.h"

static void test_floats_are_shortest(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.001, "0.001"},
        {0.0001, "0.0001"},
        {0.00001, "1.0e-5"},
        {123456.789, "123456.789"},
        {100000.0, "1.0e5"},
        {12345.0, "12345.0"},
        {9007199254740991.0, "9007199254740991.0"},
        {9007199254740992.0, "9.007199254740992e15"},
        {1e22, "1.0e22"},
        {1.7976931348623157e308, "1.7976931348623157e308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {5e-324, "5.0e-324"},
        {0x1p-44, "5.684341886080802e-14"}, /* the nearest of 16 digits does not read back, the one above does */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[FLOAT_TEXT_BYTES];
        term_format_float(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_every_power_of_two_reads_back(void **state) {
    (void)state;
    for (int exponent = -1074; exponent <= 1023; exponent++) {
        char text[FLOAT_TEXT_BYTES];
        double value = ldexp(1.0, exponent);
        term_format_float(value, text);
        assert_true(strtod(text, NULL) == value);
    }
}

static char *format_big(const uint8_t *digits, size_t size, bool negative, size_t end) {
    struct term big = {.type = TERM_BIG, .big = {digits, size, negative}};
    struct buf text = BUF_INIT;
    term_append_big(&text, &big, "16#", end);
    char *string = buf_take_string(&text);
    assert_non_null(string);
    return string;
}

static void test_bigs_are_decimal(void **state) {
    (void)state;
    static const uint8_t two_to_64[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
    CLEANUP_FREE char *positive = format_big(two_to_64, sizeof two_to_64, false, SIZE_MAX);
    CLEANUP_FREE char *negative = format_big(two_to_64, sizeof two_to_64, true, SIZE_MAX);
    assert_string_equal(positive, "18446744073709551616");
    assert_string_equal(negative, "-18446744073709551616");
    /* 10^18 has nothing but zeros in its lower limbs. */
    static const uint8_t zeros[] = {0x00, 0x00, 0x64, 0xA7, 0xB3, 0xB6, 0xE0, 0x0D};
    CLEANUP_FREE char *round = format_big(zeros, sizeof zeros, false, SIZE_MAX);
    assert_string_equal(round, "1000000000000000000");
}

static void test_the_largest_decimal_fits(void **state) {
    (void)state;
    uint8_t digits[DECIMAL_MAX_BYTES];
    memset(digits, 0xFF, sizeof digits);
    CLEANUP_FREE char *text = format_big(digits, sizeof digits, false, SIZE_MAX);
    assert_int_equal(strlen(text), 3083); /* 2^10240 - 1 */
    assert_memory_equal(text, "35249", 5);
}

static void test_larger_ones_are_hexadecimal_and_bounded(void **state) {
    (void)state;
    uint8_t digits[DECIMAL_MAX_BYTES + 1] = {0x23};
    digits[DECIMAL_MAX_BYTES] = 0x01;
    CLEANUP_FREE char *text = format_big(digits, sizeof digits, true, SIZE_MAX);
    assert_int_equal(strlen(text), strlen("-16#1") + 2 * DECIMAL_MAX_BYTES);
    assert_memory_equal(text, "-16#100", 7);
    assert_string_equal(text + strlen(text) - 3, "023");
    CLEANUP_FREE char *cut = format_big(digits, sizeof digits, true, 10);
    assert_true(strlen(cut) > 10 && strlen(cut) < 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_are_shortest),
        cmocka_unit_test(test_every_power_of_two_reads_back),
        cmocka_unit_test(test_bigs_are_decimal),
        cmocka_unit_test(test_the_largest_decimal_fits),
        cmocka_unit_test(test_larger_ones_are_hexadecimal_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
