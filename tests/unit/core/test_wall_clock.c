/* A wall clock that is stepped ends nothing. */
#include "core/sandbox/sandbox.h"
#include "core/stage.h"
#include "scratch.h"

enum { HOUR_MS = 3600000 };

static const int64_t steps_ms[] = {INT64_C(86400000), INT64_C(315360000000), -INT64_C(86400000),
                                   -INT64_C(315360000000)};
static _Atomic int64_t step_ms;

static int set_up(void **state) {
    step_ms = 0;
    clock_step_wall(&step_ms);
    return stage_setup(state);
}

static int tear_down(void **state) {
    clock_step_wall(NULL);
    return stage_teardown(state);
}

static void assert_left_about(const struct sandbox *sandbox, uint64_t expected_ms) {
    uint64_t left_ms = uv_timer_get_due_in(&sandbox->ending.ttl);
    assert_in_range(left_ms, expected_ms - 60000, expected_ms);
}

/* A change of limits, and a destroy that fails, start the timer again. */
static void test_a_time_to_live_goes_on(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct sandbox *sandbox = sandbox_new(&stage->engine, "x", &error);
    sandbox->config.limits.ttl_ms = HOUR_MS;
    sandbox->times.born_ms -= HOUR_MS / 2;
    for (size_t i = 0; i < ARRAY_SIZE(steps_ms); i++) {
        step_ms = steps_ms[i];
        sandbox_start_ttl(sandbox);
        assert_left_about(sandbox, HOUR_MS / 2);
    }
    sandbox_remove(sandbox);
}

static void test_an_age_is_never_negative(void **state) {
    (void)state;
    int64_t now_ms = clock_wall_ms();
    assert_in_range(wall_clock_age_ms(now_ms - 1000), 1000, 61000);
    step_ms = -86400000;
    assert_int_equal(wall_clock_age_ms(now_ms), 0);
}

/* The first and the second daemon of a home. */
static void test_a_step_forward_is_allowed_for(void **state) {
    struct stage *stage = *state;
    void *scratch;
    assert_int_equal(scratch_setup(&scratch), 0);
    stage->engine.config.home = ((struct scratch *)scratch)->path;
    scratch_folder(scratch, "store");
    wall_clock_open(&stage->engine);
    assert_in_range(wall_clock_forward_ms(&stage->engine), 0, 1000);
    step_ms = -86400000;
    assert_int_equal(wall_clock_forward_ms(&stage->engine), 0);
    step_ms = 86400000;
    assert_in_range(wall_clock_forward_ms(&stage->engine), 86399000, 86401000);
    stage->engine.wall_clock = (struct wall_clock){.boot_id = ""};
    wall_clock_open(&stage->engine);
    assert_in_range(wall_clock_forward_ms(&stage->engine), 86399000,
                    86401000); /* files of the first look a day too old */
    assert_int_equal(scratch_teardown(&scratch), 0);
}

#define STEPPED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        STEPPED(test_a_time_to_live_goes_on),
        STEPPED(test_an_age_is_never_negative),
        STEPPED(test_a_step_forward_is_allowed_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
