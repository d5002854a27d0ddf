/* Tests the state machine of a sandbox, and the decision to start it again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/core_internal.h"

static void test_names_are_found_again(void **state) {
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        enum sandbox_status found = STATUS_COUNT;
        assert_true(status_find(status_name((enum sandbox_status)i), &found));
        assert_int_equal(found, i);
    }
    enum sandbox_status untouched = STATUS_RUNNING;
    assert_false(status_find("Running", &untouched));
    assert_false(status_find("", &untouched));
    assert_int_equal(untouched, STATUS_RUNNING);
}

/* From each status, the initials of those that may follow. */
static void test_transitions(void **state) {
    (void)state;
    static const struct {
        enum sandbox_status from;
        enum sandbox_status to[5];
        size_t count;
    } table[] = {
        {STATUS_INITIALIZING, {STATUS_COMPILING, STATUS_STARTING, STATUS_STOPPING, STATUS_ERROR}, 4},
        {STATUS_COMPILING, {STATUS_STARTING, STATUS_STOPPING, STATUS_ERROR}, 3},
        {STATUS_STARTING, {STATUS_RUNNING, STATUS_STOPPING, STATUS_ERROR}, 3},
        {STATUS_RUNNING, {STATUS_RELOADING, STATUS_STOPPING, STATUS_STOPPED, STATUS_ERROR}, 4},
        {STATUS_RELOADING, {STATUS_RUNNING, STATUS_STOPPING, STATUS_ERROR}, 3},
        {STATUS_STOPPING, {STATUS_STOPPED, STATUS_STARTING, STATUS_ERROR}, 3},
        {STATUS_STOPPED, {STATUS_STARTING, STATUS_STOPPING, STATUS_ERROR}, 3},
        {STATUS_ERROR, {STATUS_STARTING, STATUS_STOPPING}, 2},
    };
    assert_int_equal(ARRAY_SIZE(table), STATUS_COUNT);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        for (int to = 0; to < STATUS_COUNT; to++) {
            bool allowed = to == (int)table[i].from;
            for (size_t j = 0; j < table[i].count; j++) allowed = allowed || (int)table[i].to[j] == to;
            if (status_may_follow(table[i].from, (enum sandbox_status)to) != allowed)
                fail_msg("from %s to %s", status_name(table[i].from), status_name((enum sandbox_status)to));
        }
}

static void test_policies_as_written(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct restart_policy policy;
    } good[] = {{"never", {RESTART_NEVER, 0}},
                {"always", {RESTART_ALWAYS, 0}},
                {"on-failure", {RESTART_ON_FAILURE, 0}},
                {"on-failure:1", {RESTART_ON_FAILURE, 1}},
                {"on-failure:4294967295", {RESTART_ON_FAILURE, UINT32_MAX}}};
    static const char *const bad[] = {"",           "Never",         "on-failure:",           "on-failure:0",
                                      "always:3",   "on-failure:-1", "on-failure:4294967296", "on-failure:3x",
                                      "on-failures"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct restart_policy policy;
        assert_true(restart_policy_parse(good[i].text, &policy));
        assert_int_equal(policy.kind, good[i].policy.kind);
        assert_int_equal(policy.max, good[i].policy.max);
    }
    struct restart_policy untouched = {RESTART_ALWAYS, 7};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_false(restart_policy_parse(bad[i], &untouched));
    assert_int_equal(untouched.kind, RESTART_ALWAYS);
    assert_int_equal(untouched.max, 7);
}

static bool decide(enum restart_kind kind, uint32_t max, bool crashed, uint32_t in_a_row, uint64_t *ret_delay_ms) {
    struct restart_policy policy = {kind, max};
    return restart_policy_decide(&policy, crashed, in_a_row, ret_delay_ms);
}

static void test_who_is_started_again(void **state) {
    (void)state;
    uint64_t delay_ms;
    assert_false(decide(RESTART_NEVER, 0, true, 0, &delay_ms));
    assert_false(decide(RESTART_ON_FAILURE, 0, false, 0, &delay_ms));
    assert_true(decide(RESTART_ON_FAILURE, 0, true, 1000000, &delay_ms));
    assert_true(decide(RESTART_ALWAYS, 0, false, 0, &delay_ms));
    assert_true(decide(RESTART_ON_FAILURE, 3, true, 2, &delay_ms));
    assert_false(decide(RESTART_ON_FAILURE, 3, true, 3, &delay_ms));
}

static void test_delays_double_up_to_a_bound(void **state) {
    (void)state;
    static const uint64_t delays_ms[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    for (uint32_t i = 0; i < ARRAY_SIZE(delays_ms); i++) {
        uint64_t delay_ms = 0;
        assert_true(decide(RESTART_ALWAYS, 0, true, i, &delay_ms));
        assert_int_equal(delay_ms, delays_ms[i]);
    }
    uint64_t delay_ms = 0;
    assert_true(decide(RESTART_ALWAYS, 0, true, UINT32_MAX, &delay_ms));
    assert_int_equal(delay_ms, 30000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found_again),       cmocka_unit_test(test_transitions),
        cmocka_unit_test(test_policies_as_written),         cmocka_unit_test(test_who_is_started_again),
        cmocka_unit_test(test_delays_double_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
