/* Threads of a low priority do what is queued, and the loop lives as long. */
#include "loop_test.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { THREADS = 4, POOL_NICE = 5, MANY = 50 };

struct look {
    uv_work_t work;
    uv_barrier_t *all; /* NULL: it waits for no other */
    uv_thread_t thread;
    int nice;
    size_t *done;
};

static void look(uv_work_t *work) {
    struct look *one = work->data;
    one->thread = uv_thread_self();
    one->nice = getpriority(PRIO_PROCESS, 0);
    if (one->all) uv_barrier_wait(one->all); /* so that each thread has one */
}

static void on_looked(uv_work_t *work, int status) {
    struct look *one = work->data;
    assert_int_equal(status, 0);
    ++*one->done;
}

static void run_all(struct look *looks, size_t count, uv_barrier_t *all) {
    uv_loop_t loop = {0};
    struct loop_watch *watch;
    size_t done = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loop_watch_open(&loop, &watch, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        looks[i] = (struct look){.work.data = &looks[i], .all = all, .done = &done};
        assert_int_equal(loop_queue_work(&loop, &looks[i].work, look, on_looked), 0);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(done, count);
    loop_watch_close(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void each_thread_has_a_low_priority(void **state) {
    (void)state;
    uv_barrier_t all;
    struct look looks[THREADS];
    int own = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(uv_barrier_init(&all, THREADS), 0);
    run_all(looks, THREADS, &all);
    uv_barrier_destroy(&all);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(looks[i].nice, own > POOL_NICE ? own : POOL_NICE);
        for (size_t k = 0; k < i; k++) assert_false(uv_thread_equal(&looks[i].thread, &looks[k].thread));
    }
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own); /* the loop's own stays */
}

static void more_than_there_are_threads(void **state) {
    (void)state;
    struct look looks[MANY];
    run_all(looks, MANY, NULL);
}

static void closing_waits_for_what_is_queued(void **state) {
    (void)state;
    uv_loop_t loop = {0};
    struct loop_watch *watch;
    struct look looks[MANY];
    size_t done = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loop_watch_open(&loop, &watch, NULL), 0);
    for (size_t i = 0; i < MANY; i++) {
        looks[i] = (struct look){.work.data = &looks[i], .done = &done};
        loop_queue_work(&loop, &looks[i].work, look, on_looked);
    }
    loop_watch_close(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(done, MANY);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_thread_has_a_low_priority),
                                       cmocka_unit_test(more_than_there_are_threads),
                                       cmocka_unit_test(closing_waits_for_what_is_queued)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
