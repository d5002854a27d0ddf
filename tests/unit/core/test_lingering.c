#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/lingering.h"

enum { LINGER_NS = LINGER_US * 1000, LATER_NS = 1000000 };

static void until_it_is_asked_again(void **state) {
    (void)state;
    struct lingering lingering = {0};
    lingering_begin(&lingering, LATER_NS);
    lingering_end(&lingering, LATER_NS + LINGER_NS / 3);
    assert_int_equal(lingering.total_ns, LINGER_NS / 3);
    lingering_begin(&lingering, 2 * LATER_NS);
    lingering_end(&lingering, 2 * LATER_NS + LINGER_NS / 3);
    assert_int_equal(lingering.total_ns, LINGER_NS / 3 * 2);
}

static void not_for_longer_than_it_was_told(void **state) {
    (void)state;
    struct lingering lingering = {0};
    lingering_begin(&lingering, LATER_NS);
    lingering_end(&lingering, 100 * LATER_NS);
    assert_int_equal(lingering.total_ns, LINGER_NS);
}

static void not_at_all_if_it_was_not_told(void **state) {
    (void)state;
    struct lingering lingering = {0};
    lingering_end(&lingering, LATER_NS);
    lingering_begin(&lingering, 2 * LATER_NS);
    lingering_end(&lingering, 2 * LATER_NS + 1);
    lingering_end(&lingering, 3 * LATER_NS);
    assert_int_equal(lingering.total_ns, 1);
}

static void each_is_taken_off_once(void **state) {
    (void)state;
    struct lingering lingering = {.total_ns = 300};
    uint64_t counted_ns = 100;
    assert_int_equal(lingering_own_ns(&lingering, 1000, &counted_ns), 800);
    assert_int_equal(lingering_own_ns(&lingering, 1000, &counted_ns), 1000);
    lingering.total_ns += 5000;
    assert_int_equal(lingering_own_ns(&lingering, 1000, &counted_ns), 0);
    assert_int_equal(lingering_own_ns(&lingering, 1000, &counted_ns), 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_it_is_asked_again),
        cmocka_unit_test(not_for_longer_than_it_was_told),
        cmocka_unit_test(not_at_all_if_it_was_not_told),
        cmocka_unit_test(each_is_taken_off_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
