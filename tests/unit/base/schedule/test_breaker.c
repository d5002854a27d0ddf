/* Tests the circuit breaker: when repeated failures become a pattern, how long it rests, and when it is forgotten. */
#include "base/base_test.h"

static const struct breaker_policy policy = {.trips = 3, .within_ms = 1000, .rest_ms = 5000};

static bool fail_times(struct breaker *breaker, int times, uint64_t now_ms) {
    bool is_news = false;
    for (int i = 0; i < times; i++) is_news = breaker_failed(breaker, &policy, now_ms);
    return is_news;
}

static void test_so_many_within_a_time_are_news_once(void **state) {
    (void)state;
    struct breaker breaker = {0};
    assert_false(fail_times(&breaker, 2, 100));
    assert_false(breaker_is_open(&breaker, &policy, 100));
    assert_true(fail_times(&breaker, 1, 1099));
    assert_true(breaker_is_open(&breaker, &policy, 1099));
    assert_false(fail_times(&breaker, 5, 1100));
    assert_int_equal(breaker.count, 8);
}

static void test_failures_far_apart_are_none(void **state) {
    (void)state;
    struct breaker breaker = {0};
    for (uint64_t now_ms = 0; now_ms < 100000; now_ms += 500) assert_false(fail_times(&breaker, 1, now_ms));
}

static void test_it_is_left_alone_and_tried_again(void **state) {
    (void)state;
    struct breaker breaker = {0};
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 100), 0);
    assert_true(fail_times(&breaker, 3, 100));
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 100), 5000);
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 5099), 1);
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 5100), 0);
    assert_true(fail_times(&breaker, 1, 5100)); /* still a pattern */
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 5100), 5000);
    assert_int_equal(breaker.count, 4);
}

static void test_success_ends_it(void **state) {
    (void)state;
    struct breaker breaker = {0};
    fail_times(&breaker, 2, 100);
    assert_false(breaker_worked(&breaker)); /* it was none yet */
    assert_false(fail_times(&breaker, 2, 100));
    assert_true(fail_times(&breaker, 1, 100));
    assert_true(breaker_worked(&breaker));
    assert_false(breaker_is_open(&breaker, &policy, 100));
    assert_int_equal(breaker_rest_ms(&breaker, &policy, 100), 0);
    assert_false(breaker_worked(&breaker));
}

static void test_it_is_forgotten_in_time(void **state) {
    (void)state;
    struct breaker breaker = {0};
    fail_times(&breaker, 3, 100);
    assert_true(breaker_is_open(&breaker, &policy, 6099));
    assert_false(breaker_is_open(&breaker, &policy, 6100));
    assert_false(fail_times(&breaker, 2, 6100));
    assert_true(fail_times(&breaker, 1, 6100));
}

static void test_what_never_trips(void **state) {
    (void)state;
    static const struct breaker_policy never = {.trips = 0, .within_ms = 1000, .rest_ms = 5000};
    struct breaker breaker = {0};
    for (int i = 0; i < 100; i++) assert_false(breaker_failed(&breaker, &never, 1));
    assert_false(breaker_is_open(&breaker, &never, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_within_a_time_are_news_once),
        cmocka_unit_test(test_failures_far_apart_are_none),
        cmocka_unit_test(test_it_is_left_alone_and_tried_again),
        cmocka_unit_test(test_success_ends_it),
        cmocka_unit_test(test_it_is_forgotten_in_time),
        cmocka_unit_test(test_what_never_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
