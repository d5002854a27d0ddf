#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/network/launcher_push.h"

static void what_is_due_is_sent_at_once_and_once(void **state) {
    struct telling telling = {0};
    (void)state;
    assert_false(telling_is_due(&telling));
    assert_false(telling_begin(&telling, TELL_LIMITS, 1000));
    telling_want(&telling, TELL_LIMITS);
    telling_want(&telling, TELL_NAMES);
    assert_true(telling_is_due(&telling));
    assert_int_equal(telling_next_ms(&telling), 0);
    assert_true(telling_begin(&telling, TELL_LIMITS, 1000));
    assert_true(telling_begin(&telling, TELL_NAMES, 1000));
    assert_false(telling_begin(&telling, TELL_LIMITS, 1000));
    telling_answered(&telling, TELL_LIMITS, false, 1001);
    telling_answered(&telling, TELL_NAMES, false, 1002);
    assert_true(telling_next_ms(&telling) == UINT64_MAX);
    assert_false(telling_begin(&telling, TELL_LIMITS, 5000));
}

/* However often somebody wants it told. */
static void it_is_told_a_few_times_a_second_at_most(void **state) {
    struct telling telling = {0};
    unsigned sent = 0;
    (void)state;
    for (uint64_t now_ms = 1000; now_ms < 2000; now_ms++) {
        telling_want(&telling, TELL_LIMITS);
        if (!telling_begin(&telling, TELL_LIMITS, now_ms)) continue;
        telling_want(&telling, TELL_LIMITS); /* while it is on its way */
        assert_true(telling_next_ms(&telling) == UINT64_MAX);
        telling_answered(&telling, TELL_LIMITS, false, now_ms);
        sent++;
    }
    assert_int_equal(sent, 1000 / TELL_EVERY_MS);
    assert_true(telling_next_ms(&telling) <= 2000 + TELL_EVERY_MS);
}

static void what_failed_is_told_again_later_each_time(void **state) {
    struct telling telling = {0};
    uint64_t now_ms = 1000, pause_ms = 0;
    (void)state;
    telling_want(&telling, TELL_NAMES);
    assert_true(telling_begin(&telling, TELL_NAMES, now_ms));
    telling_answered(&telling, TELL_NAMES, true, now_ms);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t next_ms = telling_next_ms(&telling);
        assert_true(next_ms - now_ms > pause_ms || next_ms - now_ms == TELL_AGAIN_MAX_MS);
        pause_ms = next_ms - now_ms;
        assert_false(telling_begin(&telling, TELL_NAMES, next_ms - 1));
        now_ms = next_ms;
        assert_true(telling_begin(&telling, TELL_NAMES, now_ms));
        telling_answered(&telling, TELL_NAMES, true, now_ms);
    }
    assert_int_equal(pause_ms, TELL_AGAIN_MAX_MS);
    now_ms = telling_next_ms(&telling);
    assert_true(telling_begin(&telling, TELL_NAMES, now_ms));
    telling_answered(&telling, TELL_NAMES, false, now_ms);
    telling_want(&telling, TELL_NAMES);
    assert_int_equal(telling_next_ms(&telling), now_ms + TELL_EVERY_MS); /* all is well again */
}

/* Names that can't be told are no reason to let a throttled node run on. */
static void one_that_fails_does_not_hold_up_the_other(void **state) {
    struct telling telling = {0};
    uint64_t now_ms = 1000;
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        telling_want(&telling, TELL_NAMES);
        now_ms = telling_next_ms(&telling) > now_ms ? telling_next_ms(&telling) : now_ms;
        assert_true(telling_begin(&telling, TELL_NAMES, now_ms));
        telling_answered(&telling, TELL_NAMES, true, now_ms);
    }
    telling_want(&telling, TELL_LIMITS);
    assert_true(telling_begin(&telling, TELL_LIMITS, now_ms));
    telling_answered(&telling, TELL_LIMITS, false, now_ms);
    telling_want(&telling, TELL_LIMITS);
    assert_int_equal(telling_next_ms(&telling), now_ms + TELL_EVERY_MS);
    assert_false(telling_begin(&telling, TELL_NAMES, now_ms + TELL_AGAIN_MAX_MS - 1)); /* nor is it told sooner */
    assert_true(telling_begin(&telling, TELL_NAMES, now_ms + TELL_AGAIN_MAX_MS));
}

static void what_is_put_off_waits_and_nothing_else_does(void **state) {
    struct telling telling = {0};
    (void)state;
    telling_want(&telling, TELL_LIMITS);
    telling_want(&telling, TELL_NAMES);
    telling_put_off(&telling, TELL_LIMITS, 1000);
    telling_put_off(&telling, TELL_LIMITS, 1001); /* not further */
    assert_false(telling_begin(&telling, TELL_LIMITS, 1000));
    assert_true(telling_begin(&telling, TELL_NAMES, 1000));
    assert_int_equal(telling_next_ms(&telling), 1000 + TELL_EVERY_MS);
    assert_true(telling_begin(&telling, TELL_LIMITS, 1000 + TELL_EVERY_MS));
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
