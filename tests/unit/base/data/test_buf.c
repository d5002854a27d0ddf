/* Tests growable buffers: their content, their bounds, and failures that stay until the buffer is taken. */
#include "base/base_test.h"

static void test_appends_in_order(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    buf_append(&buf, "ab", 2);
    buf_append(&buf, NULL, 0);
    buf_append_byte(&buf, 'c');
    buf_append_string(&buf, "de");
    buf_printf(&buf, "%d-%s", 7, "x");
    assert_string_equal(buf_string(&buf), "abcde7-x");
    assert_int_equal(buf.size, 8);
    buf_free(&buf);
    assert_null(buf.data);
}

static void test_numbers_are_big_endian(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    buf_append_u16(&buf, 0x0102);
    buf_append_u32(&buf, 0x03040506);
    buf_append_u64(&buf, 0x0708090a0b0c0d0e);
    assert_int_equal(buf.size, 14);
    for (uint8_t i = 0; i < 14; i++) assert_int_equal(buf.data[i], i + 1);
    buf_free(&buf);
}

static void test_grows_past_its_first_memory(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    for (int i = 0; i < 10000; i++) buf_append_byte(&buf, (uint8_t)i);
    assert_false(buf.failed);
    assert_int_equal(buf.size, 10000);
    for (int i = 0; i < 10000; i++) assert_int_equal(buf.data[i], (uint8_t)i);
    buf_free(&buf);
}

static void test_max_is_exact(void **state) {
    (void)state;
    struct buf buf = {.max = 100};
    for (int i = 0; i < 100; i++) buf_append_byte(&buf, 'x');
    assert_false(buf.failed);
    assert_int_equal(strlen(buf_string(&buf)), 100); /* the terminator is no content */
    buf_append_byte(&buf, 'x');
    assert_true(buf.failed);
    assert_int_equal(buf.size, 100);
    assert_string_equal(buf_string(&buf), "");
    buf_free(&buf);
    assert_int_equal(buf.max, 100);
    assert_false(buf.failed);
}

static void test_decimals_are_those_of_printf(void **state) {
    (void)state;
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 1234567890, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        CLEANUP(buf_free) struct buf appended = BUF_INIT;
        CLEANUP(buf_free) struct buf printed = BUF_INIT;
        buf_append_decimal(&appended, numbers[i]);
        buf_printf(&printed, "%llu", (unsigned long long)numbers[i]);
        assert_string_equal(buf_string(&appended), buf_string(&printed));
    }
}

static void test_max_holds_for_printf(void **state) {
    (void)state;
    struct buf buf = {.max = 3};
    buf_printf(&buf, "%s", "abc");
    assert_false(buf.failed);
    assert_string_equal(buf_string(&buf), "abc");
    buf_printf(&buf, "%s", "d");
    assert_true(buf.failed);
    buf_free(&buf);
}

static void test_a_failure_stays(void **state) {
    (void)state;
    struct buf buf = {.max = 4};
    buf_append_string(&buf, "too long");
    buf_append_string(&buf, "ok");
    assert_true(buf.failed);
    assert_int_equal(buf.size, 0);
    assert_null(buf_take_string(&buf));
    buf_append_string(&buf, "more"); /* taking made it new */
    assert_string_equal(buf_string(&buf), "more");
    buf_clear(&buf);
    assert_int_equal(buf.size, 0);
    buf_free(&buf);
}

static void test_absurd_sizes_fail(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    assert_false(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_clear(&buf);
    assert_true(buf_reserve(&buf, 10));
    assert_true(buf.capacity >= 10);
    buf_free(&buf);
}

static void test_consuming_drops_the_front(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    buf_append_string(&buf, "abcdef");
    buf_consume(&buf, 0);
    buf_consume(&buf, 2);
    assert_string_equal(buf_string(&buf), "cdef");
    buf_consume(&buf, 4);
    assert_int_equal(buf.size, 0);
    buf_consume(&buf, 9);
    assert_int_equal(buf.size, 0);
    buf_free(&buf);
}

static void test_strings_are_handed_over(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    assert_string_equal(buf_string(&buf), "");
    CLEANUP_FREE char *empty = buf_take_string(&buf);
    assert_string_equal(empty, "");
    buf_append_string(&buf, "text");
    CLEANUP_FREE char *text = buf_take_string(&buf);
    assert_string_equal(text, "text");
    assert_null(buf.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_in_order),
        cmocka_unit_test(test_numbers_are_big_endian),
        cmocka_unit_test(test_grows_past_its_first_memory),
        cmocka_unit_test(test_max_is_exact),
        cmocka_unit_test(test_decimals_are_those_of_printf),
        cmocka_unit_test(test_max_holds_for_printf),
        cmocka_unit_test(test_a_failure_stays),
        cmocka_unit_test(test_absurd_sizes_fail),
        cmocka_unit_test(test_consuming_drops_the_front),
        cmocka_unit_test(test_strings_are_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
