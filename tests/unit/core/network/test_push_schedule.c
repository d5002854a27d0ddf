/* Tests when limits and names are pushed to the launcher: rate, back-off, and independent subjects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/network/launcher_push.h"

static void what_is_due_is_sent_at_once_and_once(void **state) {
    struct push_schedule pushes = {0};
    (void)state;
    assert_false(push_schedule_is_due(&pushes));
    assert_false(push_schedule_begin(&pushes, PUSH_LIMITS, 1000));
    push_schedule_want(&pushes, PUSH_LIMITS);
    push_schedule_want(&pushes, PUSH_NAMES);
    assert_true(push_schedule_is_due(&pushes));
    assert_int_equal(push_schedule_next_ms(&pushes), 0);
    assert_true(push_schedule_begin(&pushes, PUSH_LIMITS, 1000));
    assert_true(push_schedule_begin(&pushes, PUSH_NAMES, 1000));
    assert_false(push_schedule_begin(&pushes, PUSH_LIMITS, 1000));
    push_schedule_answered(&pushes, PUSH_LIMITS, false, 1001);
    push_schedule_answered(&pushes, PUSH_NAMES, false, 1002);
    assert_true(push_schedule_next_ms(&pushes) == UINT64_MAX);
    assert_false(push_schedule_begin(&pushes, PUSH_LIMITS, 5000));
}

/* However often a push is wanted. */
static void it_is_told_a_few_times_a_second_at_most(void **state) {
    struct push_schedule pushes = {0};
    unsigned sent = 0;
    (void)state;
    for (uint64_t now_ms = 1000; now_ms < 2000; now_ms++) {
        push_schedule_want(&pushes, PUSH_LIMITS);
        if (!push_schedule_begin(&pushes, PUSH_LIMITS, now_ms)) continue;
        push_schedule_want(&pushes, PUSH_LIMITS); /* while it is on its way */
        assert_true(push_schedule_next_ms(&pushes) == UINT64_MAX);
        push_schedule_answered(&pushes, PUSH_LIMITS, false, now_ms);
        sent++;
    }
    assert_int_equal(sent, 1000 / PUSH_EVERY_MS);
    assert_true(push_schedule_next_ms(&pushes) <= 2000 + PUSH_EVERY_MS);
}

static void what_failed_is_told_again_later_each_time(void **state) {
    struct push_schedule pushes = {0};
    uint64_t now_ms = 1000, pause_ms = 0;
    (void)state;
    push_schedule_want(&pushes, PUSH_NAMES);
    assert_true(push_schedule_begin(&pushes, PUSH_NAMES, now_ms));
    push_schedule_answered(&pushes, PUSH_NAMES, true, now_ms);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t next_ms = push_schedule_next_ms(&pushes);
        assert_true(next_ms - now_ms > pause_ms || next_ms - now_ms == PUSH_AGAIN_MAX_MS);
        pause_ms = next_ms - now_ms;
        assert_false(push_schedule_begin(&pushes, PUSH_NAMES, next_ms - 1));
        now_ms = next_ms;
        assert_true(push_schedule_begin(&pushes, PUSH_NAMES, now_ms));
        push_schedule_answered(&pushes, PUSH_NAMES, true, now_ms);
    }
    assert_int_equal(pause_ms, PUSH_AGAIN_MAX_MS);
    now_ms = push_schedule_next_ms(&pushes);
    assert_true(push_schedule_begin(&pushes, PUSH_NAMES, now_ms));
    push_schedule_answered(&pushes, PUSH_NAMES, false, now_ms);
    push_schedule_want(&pushes, PUSH_NAMES);
    assert_int_equal(push_schedule_next_ms(&pushes), now_ms + PUSH_EVERY_MS); /* all is well again */
}

/* Names that can't be told are no reason to let a throttled node run on. */
static void one_that_fails_does_not_hold_up_the_other(void **state) {
    struct push_schedule pushes = {0};
    uint64_t now_ms = 1000;
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        push_schedule_want(&pushes, PUSH_NAMES);
        now_ms = push_schedule_next_ms(&pushes) > now_ms ? push_schedule_next_ms(&pushes) : now_ms;
        assert_true(push_schedule_begin(&pushes, PUSH_NAMES, now_ms));
        push_schedule_answered(&pushes, PUSH_NAMES, true, now_ms);
    }
    push_schedule_want(&pushes, PUSH_LIMITS);
    assert_true(push_schedule_begin(&pushes, PUSH_LIMITS, now_ms));
    push_schedule_answered(&pushes, PUSH_LIMITS, false, now_ms);
    push_schedule_want(&pushes, PUSH_LIMITS);
    assert_int_equal(push_schedule_next_ms(&pushes), now_ms + PUSH_EVERY_MS);
    assert_false(push_schedule_begin(&pushes, PUSH_NAMES, now_ms + PUSH_AGAIN_MAX_MS - 1)); /* nor is it told sooner */
    assert_true(push_schedule_begin(&pushes, PUSH_NAMES, now_ms + PUSH_AGAIN_MAX_MS));
}

static void what_is_put_off_waits_and_nothing_else_does(void **state) {
    struct push_schedule pushes = {0};
    (void)state;
    push_schedule_want(&pushes, PUSH_LIMITS);
    push_schedule_want(&pushes, PUSH_NAMES);
    push_schedule_put_off(&pushes, PUSH_LIMITS, 1000);
    push_schedule_put_off(&pushes, PUSH_LIMITS, 1001); /* not further */
    assert_false(push_schedule_begin(&pushes, PUSH_LIMITS, 1000));
    assert_true(push_schedule_begin(&pushes, PUSH_NAMES, 1000));
    assert_int_equal(push_schedule_next_ms(&pushes), 1000 + PUSH_EVERY_MS);
    assert_true(push_schedule_begin(&pushes, PUSH_LIMITS, 1000 + PUSH_EVERY_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_due_is_sent_at_once_and_once),
        cmocka_unit_test(it_is_told_a_few_times_a_second_at_most),
        cmocka_unit_test(what_failed_is_told_again_later_each_time),
        cmocka_unit_test(one_that_fails_does_not_hold_up_the_other),
        cmocka_unit_test(what_is_put_off_waits_and_nothing_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
