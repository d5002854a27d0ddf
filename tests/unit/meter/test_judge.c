/* Tests the judgement of samples: threshold levels, trends, and the time of the next sample. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "meter/meter.h"

/* ---- thresholds ---- */

static const struct meter_thresholds usual = {80, 95, 5};

static void a_level_is_left_later_than_it_is_entered(void **state) {
    (void)state;
    static const struct {
        double percent;
        enum meter_level level;
    } steps[] = {
        {10, METER_NORMAL},    {79.9, METER_NORMAL},  {80, METER_WARNING},   {76, METER_WARNING}, {94.9, METER_WARNING},
        {95, METER_CRITICAL},  {91, METER_CRITICAL},  {89.9, METER_WARNING}, {75, METER_WARNING}, {74.9, METER_NORMAL},
        {100, METER_CRITICAL}, {NAN, METER_CRITICAL}, {20, METER_NORMAL},
    };
    enum meter_level level = METER_NORMAL;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        level = meter_level_next(level, steps[i].percent, &usual);
        if (level != steps[i].level)
            fail_msg("at %.1f %%: %s, not %s", steps[i].percent, meter_level_name(level),
                     meter_level_name(steps[i].level));
    }
}

/* ---- trends ---- */

struct story {
    int64_t every_ms;
    double first, growth; /* per sample */
    int count;
    double limit;
    double per_s, reached_in_ms;
};

static void assert_trend(const struct story *story) {
    struct meter_history history;
    struct meter_sample sample;
    meter_history_init(&history);
    meter_sample_clear(&sample);
    for (int i = 0; i < story->count; i++) {
        sample.at_ms = 1000000 + i * story->every_ms;
        sample.values[METER_ATOMS] = story->first + story->growth * i;
        meter_history_add(&history, &sample);
    }
    struct meter_trend trend = meter_trend(&history, METER_ATOMS, story->limit);
    if (isnan(story->per_s))
        assert_true(isnan(trend.per_s));
    else
        assert_float_equal(trend.per_s, story->per_s, 0.01);
    if (isfinite(story->reached_in_ms))
        assert_float_equal(trend.reached_in_ms, story->reached_in_ms, 50);
    else
        assert_int_equal(isnan(trend.reached_in_ms), isnan(story->reached_in_ms));
    meter_history_free(&history);
}

static void a_trend_tells_when_the_limit_is_reached(void **state) {
    (void)state;
    static const struct story stories[] = {
        {1000, 100, 10, 10, 1000, 10, 81000}, /* 190 now, 810 to go */
        {2000, 100, 10, 10, 1000, 5, 162000},  {1000, 100, -1, 10, 1000, -1, INFINITY},
        {1000, 100, 0, 10, 1000, 0, INFINITY}, {1000, 100, 0.0001, 10, 1000, 0, INFINITY}, /* in months */
        {1000, 100, 10, 10, 150, 10, 0},                                                   /* it is beyond already */
        {1000, 100, 10, 3, 1000, NAN, NAN},                                                /* too few to tell */
        {100, 100, 10, 5, 1000, NAN, NAN},  /* too short a time to tell */
        {1000, 100, 10, 10, NAN, 10, NAN},  /* there is no limit */
        {1000, NAN, 0, 10, 1000, NAN, NAN}, /* nothing is known */
    };
    for (size_t i = 0; i < ARRAY_SIZE(stories); i++) assert_trend(&stories[i]);
}

/* What is long past does not count: it grows slowly now, after a jump before. */
static void a_trend_forgets(void **state) {
    (void)state;
    struct meter_history history;
    struct meter_sample sample;
    meter_history_init(&history);
    meter_sample_clear(&sample);
    for (int i = 0; i < 20; i++) {
        sample.at_ms = 1000000 + i * 1000 + (i >= 5 ? METER_TREND_MS : 0);
        sample.values[METER_ATOMS] = i < 5 ? i * 1000 : 5000 + i;
        meter_history_add(&history, &sample);
    }
    assert_float_equal(meter_trend(&history, METER_ATOMS, NAN).per_s, 1, 0.01);
    meter_history_free(&history);
}

/* ---- how often to look ---- */

static void near_a_limit_it_looks_often_and_idle_hardly(void **state) {
    (void)state;
    const struct {
        struct meter_situation situation;
        uint64_t next_ms;
    } cases[] = {
        {{true, 10, INFINITY, 0}, METER_BUSY_MS},
        {{true, 75, INFINITY, 0}, METER_NEAR_MS},
        {{true, 10, 59999, 0}, METER_NEAR_MS},
        {{true, 10, 60000, 0}, METER_BUSY_MS},
        {{false, 10, INFINITY, 0}, METER_BUSY_MS},
        {{false, 10, INFINITY, 1}, 2 * METER_BUSY_MS},
        {{false, 99, INFINITY, 2}, 4 * METER_BUSY_MS},
        {{false, 10, INFINITY, 3}, METER_IDLE_MAX_MS},
        {{false, 10, INFINITY, 4000000000}, METER_IDLE_MAX_MS},
        {{true, NAN, NAN, 0}, METER_BUSY_MS},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(meter_next_reading_ms(&cases[i].situation), cases[i].next_ms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_left_later_than_it_is_entered),
        cmocka_unit_test(a_trend_tells_when_the_limit_is_reached),
        cmocka_unit_test(a_trend_forgets),
        cmocka_unit_test(near_a_limit_it_looks_often_and_idle_hardly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
