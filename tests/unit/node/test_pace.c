/* Tests the pace at which a node's bytes are read: bursts, pauses, and the growth of the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "node/node_internal.h"

static void test_a_burst_is_free(void **state) {
    (void)state;
    struct pace pace;
    pace_start(&pace, 1000, 10, 5);
    assert_int_equal(pace_spend(&pace, 1000, 5), 0);
    assert_int_equal(pace_spend(&pace, 1, 5), PACE_PAUSE_MIN_MS);
}

static void test_a_pause_lasts_until_the_budget_has_grown(void **state) {
    (void)state;
    struct pace pace;
    pace_start(&pace, 1000, 10, 0);
    uint64_t pause_ms = pace_spend(&pace, 3000, 0);
    assert_int_equal(pause_ms, 200 + PACE_PAUSE_MIN_MS);
    assert_int_equal(pace_spend(&pace, 100, pause_ms), 0);
    assert_int_equal(pace_spend(&pace, 1, pause_ms), PACE_PAUSE_MIN_MS);
}

static void test_it_grows_to_one_burst_only(void **state) {
    (void)state;
    struct pace pace;
    pace_start(&pace, 1000, 10, 0);
    assert_int_equal(pace_spend(&pace, 500, 0), 0);
    assert_int_equal(pace_spend(&pace, 1000, UINT64_MAX / 2), 0);
    assert_true(pace_spend(&pace, 1, UINT64_MAX / 2) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_is_free),
        cmocka_unit_test(test_a_pause_lasts_until_the_budget_has_grown),
        cmocka_unit_test(test_it_grows_to_one_burst_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
