/* When sandboxes are looked at. */
#include "core/stage.h"

#include "loop/loop.h"

enum { BUSY_NS = 5 * 1000 * 1000 };

/* Before the timers of each turn, as requests would. */
static void keep_busy(uv_check_t *check) {
    uint64_t end_ns = uv_hrtime() + BUSY_NS;
    loop_note(check->loop, "others", NULL);
    while (uv_hrtime() < end_ns) {
    }
}

static void close_timers(struct engine *engine) {
    uv_close((uv_handle_t *)&engine->meter_timer, NULL);
    uv_close((uv_handle_t *)&engine->cpu_watch.timer, NULL);
}

static void test_a_busy_loop_looks_at_sandboxes_too(void **state) {
    struct stage *stage = *state;
    struct engine *engine = &stage->engine;
    struct sandbox sandboxes[2] = {{.engine = engine, .id = "a"}, {.engine = engine, .id = "b"}};
    struct loop_watch *watch;
    uv_check_t busy;
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    metering_open(engine);
    cpu_watch_open(engine);
    for (size_t i = 0; i < ARRAY_SIZE(sandboxes); i++) {
        metering_init(&sandboxes[i]);
        assert_true(map_set(&engine->sandboxes, sandboxes[i].id, &sandboxes[i]));
        metering_begin(&sandboxes[i]);
        sandboxes[i].metering.next_ms = 1;
    }
    uv_check_init(&stage->loop, &busy);
    uv_check_start(&busy, keep_busy);
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    uv_timer_start(&engine->meter_timer, engine->meter_timer.timer_cb, 0, 0); /* as if their time had come */
    uint64_t begun_ms = clock_monotonic_ms();
    while (sandboxes[0].metering.next_ms == 1 || sandboxes[1].metering.next_ms == 1) {
        assert_true(clock_monotonic_ms() - begun_ms < 5000);
        uv_run(&stage->loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < ARRAY_SIZE(sandboxes); i++) metering_free(&sandboxes[i]);
    uv_close((uv_handle_t *)&busy, NULL);
    close_timers(engine);
    loop_watch_close(watch);
    uv_run(&stage->loop, UV_RUN_NOWAIT); /* a handle lies on this function's stack */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_a_busy_loop_looks_at_sandboxes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
