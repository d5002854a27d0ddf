/* Tests when the daemon moves to its caller's processor, with processors and times that the test gives. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "api/cpu_affinity.h"

/* How often it moves in so many questions, of which those of its own processor come first after each move. */
static unsigned moves(struct cpu_affinity *affinity, unsigned questions, unsigned stays) {
    unsigned count = 0;
    for (unsigned i = 0, since = 0; i < questions; i++) {
        bool is_due = affinity_is_due(affinity, count > 0 && since++ < stays, 0);
        count += is_due;
        if (is_due) since = 0;
    }
    return count;
}

static void it_moves_when_it_is_apart_again_and_again(void **state) {
    (void)state;
    struct cpu_affinity affinity = {0};
    for (unsigned i = 1; i < AFFINITY_APART_LEAST; i++) assert_false(affinity_is_due(&affinity, false, 0));
    assert_true(affinity_is_due(&affinity, false, 0));
}

static void once_apart_is_no_reason(void **state) {
    (void)state;
    struct cpu_affinity affinity = {0};
    for (unsigned i = 0; i < 1000; i++) assert_false(affinity_is_due(&affinity, i % 2, 0));
}

static void it_moves_again_where_that_was_worth_it(void **state) {
    (void)state;
    enum { TIMES = 10, EACH = AFFINITY_WORTH_IT + AFFINITY_APART_LEAST };
    struct cpu_affinity affinity = {0};
    moves(&affinity, 5 * AFFINITY_APART_LEAST, 0); /* what was in vain before is forgotten by the first that is not */
    unsigned first = moves(&affinity, AFFINITY_APART_MOST, AFFINITY_WORTH_IT);
    assert_true(first > 1);
    assert_int_equal(moves(&affinity, TIMES * EACH, AFFINITY_WORTH_IT), TIMES);
}

static void it_gives_up_where_it_is_sent_away_at_once(void **state) {
    (void)state;
    struct cpu_affinity affinity = {0};
    assert_in_range(moves(&affinity, 100000, 0), 10, 40);
    assert_int_equal(affinity.needed, AFFINITY_APART_MOST);
}

static void it_stays_where_it_is_after_a_slow_move(void **state) {
    (void)state;
    struct cpu_affinity affinity = {0};
    affinity_moved(&affinity, 1000, AFFINITY_SLOW_US - 1);
    assert_true(moves(&affinity, 10, 0) > 0);
    affinity_moved(&affinity, 1000, AFFINITY_SLOW_US);
    affinity_forget(&affinity); /* the next caller begins anew */
    assert_int_equal(moves(&affinity, 1000, 0), 0);
    for (unsigned i = 1; i < AFFINITY_APART_LEAST; i++)
        assert_false(affinity_is_due(&affinity, false, 1001 + AFFINITY_PAUSE_MS));
    assert_true(affinity_is_due(&affinity, false, 1001 + AFFINITY_PAUSE_MS));
    affinity_moved(&affinity, 0, 2 * AFFINITY_PAUSE_MS * 1000ULL); /* the pause comes behind it */
    assert_int_equal(affinity.not_before_ms, 3 * AFFINITY_PAUSE_MS);
}

static void it_may_run_where_it_could_before(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) affinity_move_us(processor);
    affinity_move_us(CPU_SETSIZE);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void it_goes_where_it_is_allowed_only(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    unsigned own = affinity_own();
    CPU_ZERO(&one);
    CPU_SET(own, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
        affinity_move_us(processor);
        assert_int_equal(affinity_own(), own);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_moves_when_it_is_apart_again_and_again),
        cmocka_unit_test(once_apart_is_no_reason),
        cmocka_unit_test(it_moves_again_where_that_was_worth_it),
        cmocka_unit_test(it_gives_up_where_it_is_sent_away_at_once),
        cmocka_unit_test(it_stays_where_it_is_after_a_slow_move),
        cmocka_unit_test(it_may_run_where_it_could_before),
        cmocka_unit_test(it_goes_where_it_is_allowed_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
