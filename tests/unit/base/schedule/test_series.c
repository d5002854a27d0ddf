#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/schedule/series.h"

static const int one, other;

/* How many of so many questions, a few milliseconds apart, are part of a series. */
static unsigned ask(struct series *series, const void *whom, unsigned times, uint64_t apart_ms) {
    unsigned count = 0;
    for (unsigned i = 0; i < times; i++) count += series_goes_on(series, whom, series->asked_ms + apart_ms);
    return count;
}

static void one_alone_is_a_series_soon(void **state) {
    (void)state;
    struct series series = {0};
    assert_int_equal(ask(&series, &one, SERIES_LEAST, 0), 0);
    assert_int_equal(ask(&series, &one, 100, SERIES_PAUSE_MS), 100);
}

static void somebody_else_ends_it(void **state) {
    (void)state;
    struct series series = {0};
    ask(&series, &one, 2 * SERIES_LEAST, 0);
    assert_int_equal(ask(&series, &other, 1, 0), 0);
    assert_int_equal(ask(&series, &one, SERIES_LEAST, 0), 0);
    assert_int_equal(ask(&series, &one, 1, 0), 1);
}

static void who_take_turns_have_none(void **state) {
    (void)state;
    struct series series = {0};
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(ask(&series, &one, SERIES_LEAST, 0), 0);
        assert_int_equal(ask(&series, &other, SERIES_LEAST, 0), 0);
    }
}

static void a_pause_ends_it(void **state) {
    (void)state;
    struct series series = {0};
    ask(&series, &one, 2 * SERIES_LEAST, 0);
    assert_int_equal(ask(&series, &one, 1, SERIES_PAUSE_MS + 1), 0);
    assert_int_equal(ask(&series, &one, SERIES_LEAST - 1, 0), 0);
    assert_int_equal(ask(&series, &one, 1, 0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_is_a_series_soon),
        cmocka_unit_test(somebody_else_ends_it),
        cmocka_unit_test(who_take_turns_have_none),
        cmocka_unit_test(a_pause_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
