/* Tests the steps of escalation: how many violations in a window lead to the next one. */
#include "guard_test.h"

#include "guard/escalation.h"

/* Three of a step are its own, the fourth is the next step's. */
static const struct escalation_policy policy = {
    .steps = {GUARD_LOG, GUARD_FREEZE, GUARD_DESTROY}, .step_count = 3, .after = 3, .within_ms = 1000};

static enum guard_containment note_many(struct escalation *escalation, int count, uint64_t now_ms) {
    enum guard_containment action = GUARD_CONTAINMENTS;
    for (int i = 0; i < count; i++) action = escalation_note(escalation, &policy, now_ms);
    return action;
}

static void test_many_go_one_step_further(void **state) {
    (void)state;
    struct escalation escalation = {0};
    assert_int_equal(note_many(&escalation, 3, 5000), GUARD_LOG);
    assert_int_equal(note_many(&escalation, 1, 5001), GUARD_FREEZE);
    assert_int_equal(note_many(&escalation, 2, 5002), GUARD_FREEZE);
    assert_int_equal(note_many(&escalation, 1, 5003), GUARD_DESTROY);
    assert_int_equal(note_many(&escalation, 100, 5004), GUARD_DESTROY);
}

static void test_few_at_a_time_stay(void **state) {
    (void)state;
    struct escalation escalation = {0};
    for (uint64_t now_ms = 0; now_ms < 100000; now_ms += 400)
        assert_int_equal(escalation_note(&escalation, &policy, now_ms), GUARD_LOG);
}

static void test_the_window_begins_with_the_first(void **state) {
    (void)state;
    struct escalation escalation = {0};
    assert_int_equal(note_many(&escalation, 1, 7000), GUARD_LOG);
    assert_int_equal(note_many(&escalation, 2, 7999), GUARD_LOG);
    assert_int_equal(note_many(&escalation, 3, 8000), GUARD_LOG); /* one after it was over */
    assert_int_equal(note_many(&escalation, 1, 8999), GUARD_FREEZE);
}

static void test_who_stops_begins_anew(void **state) {
    (void)state;
    struct escalation escalation = {0};
    assert_int_equal(note_many(&escalation, 4, 100), GUARD_FREEZE);
    assert_int_equal(note_many(&escalation, 1, 1099), GUARD_FREEZE);
    assert_int_equal(note_many(&escalation, 1, 2099), GUARD_LOG);
}

static void test_one_step_is_all_there_is(void **state) {
    (void)state;
    static const struct escalation_policy single = {
        .steps = {GUARD_ROLLBACK}, .step_count = 1, .after = 0, .within_ms = 1000};
    static const struct escalation_policy none = {.within_ms = 1000};
    struct escalation escalation = {0};
    for (int i = 0; i < 10; i++) assert_int_equal(escalation_note(&escalation, &single, 0), GUARD_ROLLBACK);
    assert_int_equal(escalation_note(&escalation, &none, 0), GUARD_LOG);
}

static void test_what_failed_is_followed_by_more(void **state) {
    (void)state;
    static const struct escalation_policy full = {
        .steps = {GUARD_LOG, GUARD_ROLLBACK, GUARD_DESTROY}, .step_count = 3, .after = 1, .within_ms = 1000};
    static const struct escalation_policy single = {
        .steps = {GUARD_ROLLBACK}, .step_count = 1, .after = 1, .within_ms = 1000};
    struct escalation escalation = {.step = 1};
    assert_int_equal(escalation_next(&escalation, &full, GUARD_ROLLBACK), GUARD_DESTROY);
    assert_int_equal(escalation.step, 2);
    escalation = (struct escalation){0};
    assert_int_equal(escalation_next(&escalation, &single, GUARD_ROLLBACK), GUARD_FREEZE);
    assert_int_equal(escalation_next(&escalation, &single, GUARD_DESTROY), GUARD_DESTROY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_go_one_step_further),         cmocka_unit_test(test_few_at_a_time_stay),
        cmocka_unit_test(test_the_window_begins_with_the_first), cmocka_unit_test(test_who_stops_begins_anew),
        cmocka_unit_test(test_one_step_is_all_there_is),         cmocka_unit_test(test_what_failed_is_followed_by_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
