#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/limits/busy_wait.h"

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

enum { SPAN_NS = 100000000, BUSY_NS = SPAN_NS, CALM_NS = SPAN_NS / 5 };

static void look(struct lingering *lingering, uint64_t lingered_ns, uint64_t cpu_ns) {
    lingering->total_ns += lingered_ns;
    lingering_judge(lingering, SPAN_NS, cpu_ns);
}

/* Whether it is the lingering that takes the processor shows without. */
static void who_seems_busy_is_looked_at_without(void **state) {
    (void)state;
    struct lingering lingering = {0};
    for (int i = 1; i < LINGERING_LOOKS; i++) {
        look(&lingering, SPAN_NS / 2, BUSY_NS);
        assert_false(lingering.is_held_up);
    }
    look(&lingering, SPAN_NS / 2, CALM_NS); /* a calm one in between takes nothing back */
    assert_false(lingering.is_held_up);
    look(&lingering, SPAN_NS / 2, BUSY_NS);
    assert_true(lingering.is_held_up);
    look(&lingering, SPAN_NS / 2, BUSY_NS); /* it has not been looked at without yet */
    assert_true(lingering.is_held_up);
    look(&lingering, LINGER_NS, CALM_NS); /* what was under way */
    assert_false(lingering.is_held_up);
    look(&lingering, SPAN_NS / 2, BUSY_NS);
    assert_false(lingering.is_held_up);
}

static void who_is_busy_by_itself_lingers_no_more(void **state) {
    (void)state;
    struct lingering lingering = {0};
    look(&lingering, 0, BUSY_NS);
    assert_true(lingering.is_held_up);
    for (int i = 0; i < LINGERING_LOOKS; i++) {
        look(&lingering, LINGER_NS, BUSY_NS);
        assert_true(lingering.is_held_up);
    }
    look(&lingering, 0, CALM_NS);
    assert_false(lingering.is_held_up);
}

static void who_lingers_and_is_calm_goes_on(void **state) {
    (void)state;
    struct lingering lingering = {0};
    for (int i = 0; i < 3 * LINGERING_LOOKS; i++) {
        look(&lingering, SPAN_NS / 4, SPAN_NS / 3);
        assert_false(lingering.is_held_up);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_it_is_asked_again),
        cmocka_unit_test(not_for_longer_than_it_was_told),
        cmocka_unit_test(not_at_all_if_it_was_not_told),
        cmocka_unit_test(each_is_taken_off_once),
        cmocka_unit_test(who_seems_busy_is_looked_at_without),
        cmocka_unit_test(who_is_busy_by_itself_lingers_no_more),
        cmocka_unit_test(who_lingers_and_is_calm_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
