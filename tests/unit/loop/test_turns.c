/* Work that waits for a turn: none while there is time, and when there is none the keys take turns. */
#include "loop_test.h"

#include <string.h>

enum { WAITERS = 6, FULL_US = 1500 };

struct scene {
    uv_loop_t loop;
    struct loop_watch *watch;
    struct loop_turns turns;
    uv_timer_t timer;
    char order[WAITERS + 1];
    bool is_closed;
};

struct named {
    struct loop_waiter waiter;
    struct scene *scene;
    char name;
    unsigned burn_us;
};

static void burn(unsigned us) {
    uint64_t end_ns = uv_hrtime() + us * UINT64_C(1000);
    while (uv_hrtime() < end_ns) {
    }
}

static void go(struct loop_waiter *waiter) {
    struct named *named = (struct named *)waiter;
    size_t length = strlen(named->scene->order);
    named->scene->order[length] = named->name;
    burn(named->burn_us);
}

static void on_timer(uv_timer_t *timer) {
    (void)timer;
}

static int setup(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    assert_int_equal(loop_watch_open(&scene->loop, &scene->watch, NULL), 0);
    loop_turns_open(&scene->turns, &scene->loop, "test", LOOP_TURN_FULL_US);
    uv_timer_init(&scene->loop, &scene->timer);
    uv_timer_start(&scene->timer, on_timer, 0, 0);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    *state = scene;
    return 0;
}

static void on_closed(uv_handle_t *idle) {
    struct loop_turns *turns = idle->data;
    ((struct scene *)((char *)turns - offsetof(struct scene, turns)))->is_closed = true;
}

static int teardown(void **state) {
    struct scene *scene = *state;
    loop_turns_close(&scene->turns, on_closed);
    uv_close((uv_handle_t *)&scene->timer, NULL);
    loop_watch_close(scene->watch);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_true(scene->is_closed);
    assert_int_equal(uv_loop_close(&scene->loop), 0);
    free(scene);
    return 0;
}

static struct named name(struct scene *scene, char letter, unsigned burn_us) {
    return (struct named){.waiter.go = go, .scene = scene, .name = letter, .burn_us = burn_us};
}

static void fill_turn(struct scene *scene) {
    loop_note(&scene->loop, "test", NULL);
    burn(FULL_US);
}

static void nothing_waits_while_there_is_time(void **state) {
    struct scene *scene = *state;
    struct named only = name(scene, 'a', 0);
    assert_false(loop_turns_wait(&scene->turns, 1, &only.waiter));
    loop_turns_remove(&scene->turns, &only.waiter);
}

static void keys_take_turns(void **state) {
    struct scene *scene = *state;
    struct named items[WAITERS];
    for (size_t i = 0; i < WAITERS; i++) items[i] = name(scene, (char)('a' + i), 0);
    fill_turn(scene);
    for (size_t i = 0; i < WAITERS - 1; i++) assert_true(loop_turns_wait(&scene->turns, 1, &items[i].waiter));
    assert_true(loop_turns_wait(&scene->turns, 2, &items[WAITERS - 1].waiter));
    loop_turns_remove(&scene->turns, &items[1].waiter);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_string_equal(scene->order, "afcde");
}

/* However full the turns are, each of them does some of what waits, and not all of it. */
static void what_waits_has_a_part_of_each_turn(void **state) {
    struct scene *scene = *state;
    struct named items[WAITERS];
    fill_turn(scene);
    for (size_t i = 0; i < WAITERS; i++) {
        items[i] = name(scene, (char)('a' + i), 200);
        assert_true(loop_turns_wait(&scene->turns, 1, &items[i].waiter));
    }
    for (size_t done = 0; done < WAITERS;) {
        fill_turn(scene);
        uv_run(&scene->loop, UV_RUN_NOWAIT);
        assert_in_range(strlen(scene->order) - done, 1, WAITERS / 2);
        done = strlen(scene->order);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_waits_while_there_is_time, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_has_a_part_of_each_turn, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
