/* Tests which kinds of events are chosen for the webhook. */
#include "core/notify.h"
#include "core/stage.h"

static uint64_t chosen(const char *list) {
    struct error error;
    uint64_t kinds = 0;
    if (notify_choose(list, &kinds, &error) < 0) fail_msg("%s", error.detail);
    return kinds;
}

static uint64_t bit(enum event_kind kind) {
    return UINT64_C(1) << kind;
}

static void test_kinds_are_chosen_by_name(void **state) {
    (void)state;
    assert_int_equal(chosen(""), 0);
    assert_int_equal(chosen("alert"), bit(EVENT_ALERT));
    assert_int_equal(chosen(" alert,limit , status"), bit(EVENT_ALERT) | bit(EVENT_LIMIT) | bit(EVENT_STATUS));
    assert_int_equal(chosen("all"), (bit(EVENT_KINDS) - 1) & ~bit(EVENT_WEBHOOK));
    assert_int_equal(chosen("webhook"), 0); /* never about itself */
}

static void test_unknown_kinds_are_refused(void **state) {
    struct error error;
    uint64_t kinds = 7;
    (void)state;
    assert_true(notify_choose("alert,alarm", &kinds, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_non_null(strstr(error.detail, "'alarm'"));
    assert_int_equal(kinds, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_are_chosen_by_name),
        cmocka_unit_test(test_unknown_kinds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
