/* Threads for strangers' work: all of it is done, a key has one thread at a time, and the keys take turns. */
#include "loop_test.h"

#include <stdatomic.h>
#include <string.h>

enum { WORKS = 60 };

struct scene {
    uv_loop_t loop;
    struct loop_workers workers;
    atomic_int running[4], most[4];
    char order[WORKS + 1];
    size_t done;
    bool closed;
};

struct counted {
    struct loop_work work;
    struct scene *scene;
    uv_sem_t *gate; /* NULL: it waits for nothing */
    bool has_run;
};

static void run(struct loop_work *work) {
    struct counted *counted = (struct counted *)work;
    struct scene *scene = counted->scene;
    int now = atomic_fetch_add(&scene->running[work->key], 1) + 1;
    if (now > atomic_load(&scene->most[work->key])) atomic_store(&scene->most[work->key], now);
    if (counted->gate) uv_sem_wait(counted->gate);
    counted->has_run = true;
    atomic_fetch_sub(&scene->running[work->key], 1);
}

static void done(struct loop_work *work) {
    struct counted *counted = (struct counted *)work;
    struct scene *scene = counted->scene;
    assert_true(counted->has_run);
    scene->order[scene->done++] = (char)('0' + work->key);
}

static int setup(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    assert_int_equal(loop_workers_open(&scene->workers, &scene->loop, NULL), 0);
    *state = scene;
    return 0;
}

static void on_closed(void *data) {
    struct scene *scene = data;
    scene->closed = true;
}

static int teardown(void **state) {
    struct scene *scene = *state;
    loop_workers_close(&scene->workers, on_closed, scene);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_true(scene->closed);
    assert_int_equal(uv_loop_close(&scene->loop), 0);
    free(scene);
    return 0;
}

static void submit(struct scene *scene, struct counted *counted, uint64_t key, uv_sem_t *gate) {
    *counted = (struct counted){.work = {.run = run, .done = done}, .scene = scene, .gate = gate};
    loop_work_submit(&scene->workers, key, &counted->work);
}

static void all_of_it_is_done_one_of_a_key_at_a_time(void **state) {
    struct scene *scene = *state;
    struct counted works[WORKS];
    for (size_t i = 0; i < WORKS; i++) submit(scene, &works[i], i % 4, NULL);
    while (scene->done < WORKS) uv_run(&scene->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < 4; i++) assert_int_equal(atomic_load(&scene->most[i]), 1);
}

/* One caller's thirty do not keep the other's one waiting: a thread is left. */
static void one_key_leaves_a_thread_to_the_others(void **state) {
    struct scene *scene = *state;
    struct counted works[31];
    uv_sem_t gate;
    uv_sem_init(&gate, 0);
    for (size_t i = 0; i < 30; i++) submit(scene, &works[i], 1, &gate);
    submit(scene, &works[30], 2, NULL);
    while (scene->done < 1) uv_run(&scene->loop, UV_RUN_ONCE);
    assert_string_equal(scene->order, "2");
    for (size_t i = 0; i < 30; i++) uv_sem_post(&gate);
    while (scene->done < 31) uv_run(&scene->loop, UV_RUN_ONCE);
    uv_sem_destroy(&gate);
}

static void closing_waits_for_what_runs(void **state) {
    struct scene *scene = *state;
    static struct counted work;
    submit(scene, &work, 1, NULL);
    loop_workers_close(&scene->workers, on_closed, scene);
    assert_int_equal(scene->done, 1);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_true(scene->closed);
    assert_int_equal(loop_workers_open(&scene->workers, &scene->loop, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_it_is_done_one_of_a_key_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(one_key_leaves_a_thread_to_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_waits_for_what_runs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
