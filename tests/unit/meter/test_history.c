/* Tests the history of samples: averages and peaks over time, its bound, and stepped clocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "meter/meter.h"

enum { BEGIN_MS = 600000 * 1000 }; /* where a minute and ten of them begin */

static int setup(void **state) {
    struct meter_history *history = malloc(sizeof *history);
    assert_non_null(history);
    meter_history_init(history);
    *state = history;
    return 0;
}

static int teardown(void **state) {
    meter_history_free(*state);
    free(*state);
    return 0;
}

static bool add(struct meter_history *history, int64_t at_ms, double memory) {
    struct meter_sample sample;
    meter_sample_clear(&sample);
    sample.at_ms = at_ms;
    sample.values[METER_MEMORY] = memory;
    return meter_history_add(history, &sample);
}

static float average(const struct meter_history *history, enum meter_span span, size_t index) {
    return meter_history_at(history, span, index)->averages[METER_MEMORY];
}

static void the_last_samples_are_kept_as_they_came(void **state) {
    struct meter_history *history = *state;
    assert_int_equal(meter_history_count(history, METER_RECENT), 0);
    for (int i = 0; i < 100; i++) add(history, BEGIN_MS + 1 + i, i);
    assert_int_equal(meter_history_count(history, METER_RECENT), 60);
    assert_float_equal(average(history, METER_RECENT, 0), 40, 0);
    assert_float_equal(average(history, METER_RECENT, 59), 99, 0);
    assert_int_equal(meter_history_at(history, METER_RECENT, 0)->at_ms, BEGIN_MS + 41);
    assert_true(isnan(meter_history_at(history, METER_RECENT, 0)->averages[METER_ATOMS]));
}

static void time_that_does_not_pass_adds_nothing(void **state) {
    struct meter_history *history = *state;
    add(history, BEGIN_MS + 10, 1);
    add(history, BEGIN_MS + 10, 2);
    add(history, BEGIN_MS + 5, 3);
    assert_int_equal(meter_history_count(history, METER_RECENT), 1);
    assert_float_equal(history->last.values[METER_MEMORY], 1, 0);
}

/* The wall clock is stepped back a day, and on by years: what is measured goes on. */
static void a_stepped_clock_loses_no_sample(void **state) {
    static const int64_t steps_ms[] = {-86400000, INT64_C(315360000000), -86400000};
    struct meter_history *history = *state;
    int64_t at_ms = BEGIN_MS * INT64_C(10);
    for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms; i++) {
        for (int n = 0; n < 10; n++) add(history, at_ms += 1000, (double)(i * 10) + n);
        meter_history_step(history, steps_ms[i]);
        at_ms += steps_ms[i];
    }
    assert_int_equal(meter_history_count(history, METER_RECENT), 30);
    struct meter_trend trend = meter_trend(history, METER_MEMORY, 59);
    assert_float_equal(trend.per_s, 1, 0.01);
    assert_float_equal(trend.reached_in_ms, 30000, 300);
}

/* A sample counts for the time since the one before, however irregular the looks are. */
static void a_minute_is_its_average_over_time_and_its_peak(void **state) {
    struct meter_history *history = *state;
    add(history, BEGIN_MS + 1000, 100);
    add(history, BEGIN_MS + 31000, 10); /* for 30 s */
    add(history, BEGIN_MS + 41000, 40); /* for 10 s */
    assert_int_equal(meter_history_count(history, METER_MINUTES), 0);
    add(history, BEGIN_MS + 61000, 7);
    assert_int_equal(meter_history_count(history, METER_MINUTES), 1);
    assert_float_equal(average(history, METER_MINUTES, 0), (30000 * 10 + 10000 * 40 + 100) / 40001.0F, 0.001F);
    assert_float_equal(meter_history_at(history, METER_MINUTES, 0)->peaks[METER_MEMORY], 100, 0);
    assert_int_equal(meter_history_at(history, METER_MINUTES, 0)->at_ms, BEGIN_MS);
    assert_true(isnan(meter_history_at(history, METER_MINUTES, 0)->averages[METER_ATOMS]));
    assert_true(isnan(meter_history_at(history, METER_MINUTES, 0)->peaks[METER_ATOMS]));
}

static void a_day_is_kept_and_no_more(void **state) {
    struct meter_history *history = *state;
    unsigned told = 0;
    for (int i = 0; i <= 200; i++) told += add(history, BEGIN_MS + 1 + (int64_t)i * 600000, i);
    assert_int_equal(told, 200);
    assert_int_equal(meter_history_count(history, METER_DAY), 144);
    assert_float_equal(average(history, METER_DAY, 0), 56, 0);
    assert_float_equal(average(history, METER_DAY, 143), 199, 0);
    assert_int_equal(meter_history_count(history, METER_MINUTES), 60);
}

static void what_is_restored_comes_before(void **state) {
    struct meter_history *history = *state;
    struct meter_point point = {.at_ms = BEGIN_MS - 600000};
    point.averages[METER_MEMORY] = 5;
    meter_history_restore(history, &point);
    add(history, BEGIN_MS + 1, 6);
    assert_true(add(history, BEGIN_MS + 600001, 7));
    assert_int_equal(meter_history_count(history, METER_DAY), 2);
    assert_float_equal(average(history, METER_DAY, 0), 5, 0);
    assert_float_equal(average(history, METER_DAY, 1), 6, 0);
}

static void metrics_have_names(void **state) {
    (void)state;
    assert_string_equal(meter_metric_name(METER_RUN_QUEUE), "run_queue");
    assert_true(meter_metric_is_outside(METER_MEMORY));
    assert_false(meter_metric_is_outside(METER_ATOMS));
    assert_string_equal(meter_span_name(METER_DAY), "day");
}

#define WITH_HISTORY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_HISTORY(the_last_samples_are_kept_as_they_came),
        WITH_HISTORY(time_that_does_not_pass_adds_nothing),
        WITH_HISTORY(a_stepped_clock_loses_no_sample),
        WITH_HISTORY(a_minute_is_its_average_over_time_and_its_peak),
        WITH_HISTORY(a_day_is_kept_and_no_more),
        WITH_HISTORY(what_is_restored_comes_before),
        cmocka_unit_test(metrics_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
