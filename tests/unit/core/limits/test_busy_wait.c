/* Tests the account of busy-waits: how much CPU time of a node is taken off, and when a busy node stops busy-waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/limits/busy_wait.h"

enum { BUSY_WAIT_NS = BUSY_WAIT_US * 1000, LATER_NS = 1000000 };

static void until_it_is_asked_again(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    busy_wait_begin(&busy_wait, LATER_NS);
    busy_wait_end(&busy_wait, LATER_NS + BUSY_WAIT_NS / 3);
    assert_int_equal(busy_wait.total_ns, BUSY_WAIT_NS / 3);
    busy_wait_begin(&busy_wait, 2 * LATER_NS);
    busy_wait_end(&busy_wait, 2 * LATER_NS + BUSY_WAIT_NS / 3);
    assert_int_equal(busy_wait.total_ns, BUSY_WAIT_NS / 3 * 2);
}

static void not_for_longer_than_it_was_told(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    busy_wait_begin(&busy_wait, LATER_NS);
    busy_wait_end(&busy_wait, 100 * LATER_NS);
    assert_int_equal(busy_wait.total_ns, BUSY_WAIT_NS);
}

static void not_at_all_if_it_was_not_told(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    busy_wait_end(&busy_wait, LATER_NS);
    busy_wait_begin(&busy_wait, 2 * LATER_NS);
    busy_wait_end(&busy_wait, 2 * LATER_NS + 1);
    busy_wait_end(&busy_wait, 3 * LATER_NS);
    assert_int_equal(busy_wait.total_ns, 1);
}

static void each_is_taken_off_once(void **state) {
    (void)state;
    struct busy_wait busy_wait = {.total_ns = 300};
    uint64_t counted_ns = 100;
    assert_int_equal(busy_wait_own_ns(&busy_wait, 1000, &counted_ns), 800);
    assert_int_equal(busy_wait_own_ns(&busy_wait, 1000, &counted_ns), 1000);
    busy_wait.total_ns += 5000;
    assert_int_equal(busy_wait_own_ns(&busy_wait, 1000, &counted_ns), 0);
    assert_int_equal(busy_wait_own_ns(&busy_wait, 1000, &counted_ns), 1000);
}

enum { SPAN_NS = 100000000, BUSY_NS = SPAN_NS, CALM_NS = SPAN_NS / 5 };

static void look(struct busy_wait *busy_wait, uint64_t waited_ns, uint64_t cpu_ns) {
    busy_wait->total_ns += waited_ns;
    busy_wait_judge(busy_wait, SPAN_NS, cpu_ns);
}

/* Only a look without busy-waiting shows whether the node itself uses the processor. */
static void who_seems_busy_is_looked_at_without(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    for (int i = 1; i < BUSY_WAIT_LOOKS; i++) {
        look(&busy_wait, SPAN_NS / 2, BUSY_NS);
        assert_false(busy_wait.is_held_up);
    }
    look(&busy_wait, SPAN_NS / 2, CALM_NS); /* a calm one in between takes nothing back */
    assert_false(busy_wait.is_held_up);
    look(&busy_wait, SPAN_NS / 2, BUSY_NS);
    assert_true(busy_wait.is_held_up);
    look(&busy_wait, SPAN_NS / 2, BUSY_NS); /* it has not been looked at without yet */
    assert_true(busy_wait.is_held_up);
    look(&busy_wait, BUSY_WAIT_NS, CALM_NS); /* what was under way */
    assert_false(busy_wait.is_held_up);
    look(&busy_wait, SPAN_NS / 2, BUSY_NS);
    assert_false(busy_wait.is_held_up);
}

static void a_busy_node_busy_waits_no_more(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    look(&busy_wait, 0, BUSY_NS);
    assert_true(busy_wait.is_held_up);
    for (int i = 0; i < BUSY_WAIT_LOOKS; i++) {
        look(&busy_wait, BUSY_WAIT_NS, BUSY_NS);
        assert_true(busy_wait.is_held_up);
    }
    look(&busy_wait, 0, CALM_NS);
    assert_false(busy_wait.is_held_up);
}

static void a_calm_node_busy_waits_on(void **state) {
    (void)state;
    struct busy_wait busy_wait = {0};
    for (int i = 0; i < 3 * BUSY_WAIT_LOOKS; i++) {
        look(&busy_wait, SPAN_NS / 4, SPAN_NS / 3);
        assert_false(busy_wait.is_held_up);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_it_is_asked_again),
        cmocka_unit_test(not_for_longer_than_it_was_told),
        cmocka_unit_test(not_at_all_if_it_was_not_told),
        cmocka_unit_test(each_is_taken_off_once),
        cmocka_unit_test(who_seems_busy_is_looked_at_without),
        cmocka_unit_test(a_busy_node_busy_waits_no_more),
        cmocka_unit_test(a_calm_node_busy_waits_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
