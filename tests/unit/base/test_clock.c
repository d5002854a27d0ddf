/* Tests dates against the C library's, the wall clock and the monotonic clock, and the pauses between attempts. */
#include "base/base_test.h"

#include <time.h>

static void assert_time(int64_t wall_ms, const char *expected) {
    char text[RFC3339_BYTES];
    clock_rfc3339(wall_ms, text);
    assert_string_equal(text, expected);
}

static void test_times_are_rfc3339(void **state) {
    (void)state;
    assert_time(0, "1970-01-01T00:00:00.000Z");
    assert_time(1, "1970-01-01T00:00:00.001Z");
    assert_time(1794776700123, "2026-11-15T21:05:00.123Z");
    assert_time(951782400000, "2000-02-29T00:00:00.000Z");
    assert_time(-1, "1969-12-31T23:59:59.999Z");
    assert_time(-1000, "1969-12-31T23:59:59.000Z");
    assert_time(253402300799999, "9999-12-31T23:59:59.999Z");
    assert_time(-62135596800000, "0001-01-01T00:00:00.000Z");
}

/* Every day of the 400 years after which all is as before, beside the C library. */
static void test_days_are_the_librarys(void **state) {
    (void)state;
    for (time_t day = 0; day < 146097; day++) {
        char expected[RFC3339_BYTES];
        time_t seconds = day * 86400 + day % 86400;
        struct tm utc;
        gmtime_r(&seconds, &utc);
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000Z", &utc);
        assert_time((int64_t)seconds * 1000, expected);
    }
}

static void assert_near(int64_t found_ms, int64_t expected_ms) {
    assert_true(found_ms - expected_ms > -60000 && found_ms - expected_ms < 60000);
}

static void test_the_wall_clock_can_be_stepped_and_no_other(void **state) {
    (void)state;
    static _Atomic int64_t step_ms;
    int64_t wall_ms = clock_wall_ms();
    uint64_t monotonic_ms = clock_monotonic_ms(), boot_ms = clock_boot_ms();
    clock_step_wall(&step_ms);
    assert_near(clock_wall_ms(), wall_ms);
    step_ms = INT64_C(10) * 365 * 86400000;
    assert_near(clock_wall_ms(), wall_ms + step_ms);
    step_ms = -step_ms;
    assert_near(clock_wall_ms(), wall_ms + step_ms);
    assert_near((int64_t)clock_monotonic_ms(), (int64_t)monotonic_ms);
    assert_near((int64_t)clock_boot_ms(), (int64_t)boot_ms);
    clock_step_wall(NULL);
    assert_near(clock_wall_ms(), wall_ms);
    assert_false(clock_step_wall_by_file("/nowhere"));
}

static void test_the_monotonic_clock_never_goes_back(void **state) {
    (void)state;
    uint64_t last_us = clock_monotonic_us();
    for (int i = 0; i < 1000; i++) {
        uint64_t now_us = clock_monotonic_us();
        assert_true(now_us >= last_us);
        last_us = now_us;
    }
    uint64_t before_ms = clock_monotonic_us() / 1000, ms = clock_monotonic_ms(), after_ms = clock_monotonic_us() / 1000;
    assert_true(before_ms <= ms && ms <= after_ms);
}

static void test_the_wall_clock_is_in_this_century(void **state) {
    (void)state;
    assert_true(clock_wall_ms() > 1577836800000 && clock_wall_ms() < 4102444800000);
}

static void test_attempts_grow_further_apart(void **state) {
    (void)state;
    assert_int_equal(backoff_ms(100, 1000, 0), 100);
    assert_int_equal(backoff_ms(100, 1000, 3), 800);
    assert_int_equal(backoff_ms(100, 1000, 4), 1000);
    assert_int_equal(backoff_ms(100, 1000, UINT32_MAX), 1000);
    assert_int_equal(backoff_ms(100, 50, 0), 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_rfc3339),
        cmocka_unit_test(test_days_are_the_librarys),
        cmocka_unit_test(test_the_wall_clock_can_be_stepped_and_no_other),
        cmocka_unit_test(test_the_monotonic_clock_never_goes_back),
        cmocka_unit_test(test_the_wall_clock_is_in_this_century),
        cmocka_unit_test(test_attempts_grow_further_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
