/* Tests how repeated failures of an operation are recognized, shown, and ended by success. */
#include "core/stage.h"

static int times_until_news(struct patterns *patterns, const char *op, enum error_code code, uint64_t now_ms) {
    for (int i = 1; i <= 100; i++)
        if (patterns_failed(patterns, op, code, now_ms)) return i;
    return 0;
}

static void test_each_error_has_its_own_measure(void **state) {
    (void)state;
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        struct patterns patterns = {0};
        uint32_t trips = error_kind((enum error_code)code)->trips;
        assert_int_equal(times_until_news(&patterns, "create", (enum error_code)code, 1000), trips);
    }
}

static void test_errors_do_not_add_up(void **state) {
    (void)state;
    struct patterns patterns = {0};
    for (int i = 0; i < 4; i++) {
        assert_false(patterns_failed(&patterns, "create", E_SYSTEM, 1));
        assert_false(patterns_failed(&patterns, "create", E_LAUNCHER, 1));
    }
    json_t *none = patterns_to_json(&patterns, 1);
    assert_int_equal(json_array_size(none), 0);
    json_decref(none);
}

static void test_it_is_shown(void **state) {
    (void)state;
    struct patterns patterns = {0};
    times_until_news(&patterns, "create", E_DISK_FULL, 1000);
    json_t *list = patterns_to_json(&patterns, 2000), *pattern = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_object_get(pattern, "code")), "disk_full");
    assert_string_equal(json_string_value(json_object_get(pattern, "op")), "create");
    assert_string_equal(json_string_value(json_object_get(pattern, "recovery")), "retry");
    assert_int_equal(json_integer_value(json_object_get(pattern, "count")), error_kind(E_DISK_FULL)->trips);
    assert_int_equal(json_integer_value(json_object_get(pattern, "since_ms")), 1000);
    assert_int_equal(json_integer_value(json_object_get(pattern, "rest_ms")), PATTERN_REST_MS - 1000);
    json_decref(list);
}

/* Only what failed, once it works. */
static void test_an_operation_that_works_ends_its_own(void **state) {
    (void)state;
    struct patterns patterns = {0};
    times_until_news(&patterns, "create", E_DISK_FULL, 1);
    times_until_news(&patterns, "create", E_SYSTEM, 1);
    times_until_news(&patterns, "eval", E_TIMEOUT, 1);
    assert_int_equal(patterns_worked(&patterns, "list"), E_NONE);
    assert_int_equal(patterns_worked(&patterns, "create"), E_SYSTEM);
    assert_int_equal(patterns_worked(&patterns, "create"), E_DISK_FULL);
    assert_int_equal(patterns_worked(&patterns, "create"), E_NONE);
    json_t *left = patterns_to_json(&patterns, 1);
    assert_int_equal(json_array_size(left), 1);
    json_decref(left);
}

/* A VM that ends again and again is not started again for a while; what else fails has nothing to do with it. */
static void test_what_the_engine_leaves_alone(void **state) {
    (void)state;
    struct patterns patterns = {0};
    times_until_news(&patterns, "eval", E_TIMEOUT, 1);
    assert_int_equal(patterns_rest_ms(&patterns, PATTERN_OWN_END, 1), 0);
    times_until_news(&patterns, PATTERN_OWN_END, E_NODE, 1);
    assert_int_equal(patterns_rest_ms(&patterns, PATTERN_OWN_END, 1), PATTERN_REST_MS);
    assert_int_equal(patterns_rest_ms(&patterns, PATTERN_OWN_END, 1 + PATTERN_REST_MS), 0);
    patterns_worked(&patterns, PATTERN_OWN_END);
    assert_int_equal(patterns_rest_ms(&patterns, PATTERN_OWN_END, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_error_has_its_own_measure),
        cmocka_unit_test(test_errors_do_not_add_up),
        cmocka_unit_test(test_it_is_shown),
        cmocka_unit_test(test_an_operation_that_works_ends_its_own),
        cmocka_unit_test(test_what_the_engine_leaves_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
