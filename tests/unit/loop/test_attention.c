/* The time in which the loop listened, from chosen times. */
#include "loop_test.h"

enum { MS = 1000000 };

static void waiting_counts(void **state) {
    (void)state;
    struct attention attention;
    attention_begin(&attention, 0);
    attention_poll(&attention, 0, 500);
    attention_poll(&attention, UINT64_C(500) * MS, 500);
    attention_poll(&attention, UINT64_C(1000) * MS, 500);
    assert_int_equal(attention_ms(&attention, UINT64_C(1000) * MS), 1000);
    assert_int_equal(attention_ms(&attention, UINT64_C(1250) * MS), 1250);
}

/* Stopped for a minute while it meant to wait for half a second. */
static void a_pause_does_not_count(void **state) {
    (void)state;
    struct attention attention;
    attention_begin(&attention, 0);
    attention_poll(&attention, 0, 500);
    assert_in_range(attention_ms(&attention, UINT64_C(60000) * MS), 500, 700);
    attention_poll(&attention, UINT64_C(60000) * MS, 500);
    assert_in_range(attention_ms(&attention, UINT64_C(60500) * MS), 1000, 1200);
}

/* Turn after turn of long work: what is left of each is what a quick turn would take. */
static void long_work_does_not_count(void **state) {
    (void)state;
    struct attention attention;
    attention_begin(&attention, 0);
    for (uint64_t i = 1; i <= 10; i++) attention_poll(&attention, i * 3000 * MS, 0);
    assert_in_range(attention_ms(&attention, UINT64_C(30000) * MS), 0, 1000);
}

static void waiting_without_end_counts_little(void **state) {
    (void)state;
    struct attention attention;
    attention_begin(&attention, 0);
    attention_poll(&attention, 0, -1);
    assert_in_range(attention_ms(&attention, UINT64_C(90000) * MS), 0, 200);
}

static void many_short_turns_add_up(void **state) {
    (void)state;
    struct attention attention;
    attention_begin(&attention, 0);
    for (uint64_t i = 1; i <= 100000; i++) attention_poll(&attention, i * MS / 100, 0);
    assert_int_equal(attention_ms(&attention, UINT64_C(1000) * MS), 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_counts),           cmocka_unit_test(a_pause_does_not_count),
        cmocka_unit_test(long_work_does_not_count), cmocka_unit_test(waiting_without_end_counts_little),
        cmocka_unit_test(many_short_turns_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
