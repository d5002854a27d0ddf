/* A real loop that watches itself: long turns are found with the work that caused them, pauses do not count. */
#include "loop_test.h"
#include "steady_clock.h"

#include <string.h>
#include <time.h>

struct scene {
    uv_loop_t loop;
    struct loop_watch *watch;
    uv_timer_t timer;
    unsigned turns;
    uint64_t early;
};

static void on_first_turn(uv_timer_t *timer) {
    (void)timer;
}

static int setup(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    assert_int_equal(loop_watch_open(&scene->loop, &scene->watch, NULL), 0);
    uv_timer_init(&scene->loop, &scene->timer);
    scene->timer.data = scene;
    uv_timer_start(&scene->timer, on_first_turn, 0, 0);
    uv_run(&scene->loop, UV_RUN_DEFAULT); /* the first is the start, and not counted */
    *state = scene;
    return 0;
}

static int teardown(void **state) {
    struct scene *scene = *state;
    uv_close((uv_handle_t *)&scene->timer, NULL);
    loop_watch_close(scene->watch);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&scene->loop), 0);
    free(scene);
    return 0;
}

static uint64_t thread_cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* On the clock too that the watch compares the pieces of a turn by, which counts no wait for a processor. */
static void burn(uint64_t us) {
    uint64_t end_us = thread_cpu_us() + us, end_ns = uv_hrtime() + us * 1000;
    while (thread_cpu_us() < end_us || uv_hrtime() < end_ns) {
    }
}

static void on_heavy_turn(uv_timer_t *timer) {
    loop_note(timer->loop, "small", "a");
    burn(200);
    loop_note(timer->loop, "large", "b");
    assert_false(loop_turn_is_full(timer->loop));
    burn(LOOP_TURN_LONG_US + 3000);
    assert_true(loop_turn_is_full(timer->loop));
    loop_note(timer->loop, "small", "c");
    burn(200);
}

static void a_long_turn_is_told_with_its_work(void **state) {
    struct scene *scene = *state;
    uv_timer_start(&scene->timer, on_heavy_turn, 0, 0);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    uv_timer_start(&scene->timer, on_heavy_turn, 0, 0);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    uv_run(&scene->loop, UV_RUN_NOWAIT);
    const struct loop_report *report = loop_report(&scene->loop);
    assert_int_equal(report->long_turns, 2);
    assert_int_equal(report->worst_count, 2);
    assert_string_equal(report->worst[0].work, "large");
    assert_string_equal(report->worst[0].detail, "b");
    assert_in_range(report->worst[0].cpu_us, LOOP_TURN_LONG_US + 3000, 60000000);
    assert_true(report->worst[0].cpu_us >= report->worst[1].cpu_us);
    assert_true(report->worst[0].at_ms > 0);
}

static void on_held_up(uv_timer_t *timer) {
    struct scene *scene = timer->data;
    if (scene->turns++ == 0) steady_clock_pass(400); /* what a stopped process or a slow disk does to it */
    if (scene->turns == 50) uv_timer_stop(timer);
}

/* Waiting is no work, and being held up is no listening. */
static void a_pause_is_neither_work_nor_attention(void **state) {
    struct scene *scene = *state;
    uint64_t before = loop_attended_ms(&scene->loop), begun_ms = clock_monotonic_ms();
    uv_timer_start(&scene->timer, on_held_up, 1, 1);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    uint64_t passed_ms = clock_monotonic_ms() - begun_ms;
    uint64_t attended_ms = loop_attended_ms(&scene->loop) - before;
    assert_true(passed_ms >= 440);
    assert_true(attended_ms >= 40 && attended_ms + 250 <= passed_ms);
    assert_int_equal(loop_report(&scene->loop)->long_turns, 0);
}

static void on_deadline(uv_timer_t *timer) {
    struct scene *scene = timer->data;
    if (!loop_deadline_is_early(timer, scene->early, on_deadline)) scene->turns++;
}

static void on_pause(uv_timer_t *timer) {
    (void)timer;
    steady_clock_pass(500);
}

/* Due after 300 ms of listening; half a second went by in which nothing was heard. */
static void a_deadline_waits_for_the_time_that_was_lost(void **state) {
    struct scene *scene = *state;
    uv_timer_t pause;
    uint64_t begun_ms = clock_monotonic_ms();
    uv_timer_init(&scene->loop, &pause);
    scene->early = loop_attended_ms(&scene->loop) + 300;
    uv_timer_start(&scene->timer, on_deadline, 300, 0);
    uv_timer_start(&pause, on_pause, 0, 0);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_int_equal(scene->turns, 1);
    assert_true(clock_monotonic_ms() - begun_ms >= 600);
    uv_close((uv_handle_t *)&pause, NULL);
    uv_run(&scene->loop, UV_RUN_NOWAIT);
}

static void a_loop_without_a_watch_tells_its_own_time(void **state) {
    (void)state;
    uv_loop_t loop = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    loop.data = NULL;
    assert_int_equal(loop_attended_ms(&loop), uv_now(&loop));
    loop_note(&loop, "work", NULL);
    assert_false(loop_turn_is_full(&loop));
    assert_null(loop_report(&loop));
    uv_loop_close(&loop);
}

static void the_longest_come_first(void **state) {
    (void)state;
    struct loop_report report = {0};
    for (uint64_t i = 0; i < 20; i++) {
        struct loop_turn turn = {.cpu_us = 6000 + i * 7 % 20, .work = "w"};
        loop_report_add(&report, &turn);
    }
    loop_report_add(&report, &(struct loop_turn){.cpu_us = LOOP_TURN_LONG_US, .work = "short"});
    assert_int_equal(report.turns, 21);
    assert_int_equal(report.long_turns, 20);
    assert_int_equal(report.worst_count, LOOP_WORST);
    for (size_t i = 0; i < LOOP_WORST; i++) assert_int_equal(report.worst[i].cpu_us, 6019 - i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_turn_is_told_with_its_work, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pause_is_neither_work_nor_attention, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deadline_waits_for_the_time_that_was_lost, setup, teardown),
        cmocka_unit_test(a_loop_without_a_watch_tells_its_own_time),
        cmocka_unit_test(the_longest_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
