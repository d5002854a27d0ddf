/* Tests loops on several processors: every round runs once, rounds overlap, and the first failure ends the loop. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/base_test.h"

enum { ROUNDS = 1000, FAILING = 17 };

struct rounds {
    atomic_int runs[ROUNDS];
    atomic_int failures;
};

static int count_round(void *context, size_t index, struct error *reterr) {
    struct rounds *rounds = context;
    (void)reterr;
    atomic_fetch_add(&rounds->runs[index], 1);
    return 0;
}

static void test_every_round_is_run_once(void **state) {
    (void)state;
    static struct rounds rounds;
    struct error error;
    assert_int_equal(parallel_each(ROUNDS, count_round, &rounds, &error), 0);
    for (int i = 0; i < ROUNDS; i++) assert_int_equal(rounds.runs[i], 1);
}

static void test_a_loop_of_no_rounds_and_of_one(void **state) {
    (void)state;
    struct rounds rounds = {0};
    struct error error;
    assert_int_equal(parallel_each(0, count_round, &rounds, &error), 0);
    assert_int_equal(rounds.runs[0], 0);
    assert_int_equal(parallel_each(1, count_round, &rounds, &error), 0);
    assert_int_equal(rounds.runs[0], 1);
}

static int fail_some(void *context, size_t index, struct error *reterr) {
    struct rounds *rounds = context;
    atomic_fetch_add(&rounds->runs[index], 1);
    if (index < FAILING) return 0;
    atomic_fetch_add(&rounds->failures, 1);
    return error_set(reterr, E_INVALID, "round %zu", index);
}

/* Each thread may have begun one when another failed. */
static void test_the_first_failure_ends_it_and_is_told(void **state) {
    (void)state;
    static struct rounds rounds;
    struct error error;
    assert_int_equal(parallel_each(ROUNDS, fail_some, &rounds, &error), -1);
    assert_int_equal(error.code, E_INVALID);
    assert_memory_equal(error.detail, "round ", 6);
    assert_in_range(rounds.failures, 1, PARALLEL_THREADS_MAX);
    for (int i = 0; i < FAILING; i++) assert_int_equal(rounds.runs[i], 1);
    assert_int_equal(rounds.runs[ROUNDS - 1], 0);
}

/* Two rounds that wait for each other can only end when both run at once. */
static int meet(void *context, size_t index, struct error *reterr) {
    (void)index, (void)reterr;
    pthread_barrier_wait(context);
    return 0;
}

static void test_rounds_run_at_the_same_time(void **state) {
    (void)state;
    pthread_barrier_t barrier;
    struct error error;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0 || CPU_COUNT(&allowed) < 2) skip();
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    assert_int_equal(parallel_each(2, meet, &barrier, &error), 0);
    pthread_barrier_destroy(&barrier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_round_is_run_once),
        cmocka_unit_test(test_a_loop_of_no_rounds_and_of_one),
        cmocka_unit_test(test_the_first_failure_ends_it_and_is_told),
        cmocka_unit_test(test_rounds_run_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
