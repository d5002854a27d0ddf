/* Tests when changes to files have settled, from times and kinds of events. */
#include "../scratch.h"
#include "watch/watch.h"

static void nothing_is_never_due(void **state) {
    (void)state;
    assert_int_equal(watch_debounce_due_ms(&(struct watch_debounce){0}), UINT64_MAX);
}

static void one_save_is_quick(void **state) {
    struct watch_debounce debounce = {0};
    (void)state;
    watch_debounce_note(&debounce, 1000, WATCH_SIGN_OPEN);
    watch_debounce_note(&debounce, 1001, WATCH_SIGN_DONE);
    assert_int_equal(watch_debounce_due_ms(&debounce), 1006);
}

static void a_backup_and_rename_is_quick_too(void **state) {
    struct watch_debounce debounce = {0};
    (void)state;
    watch_debounce_note(&debounce, 0, WATCH_SIGN_GONE);
    assert_int_equal(watch_debounce_due_ms(&debounce), 30); /* the new file is about to come */
    watch_debounce_note(&debounce, 1, WATCH_SIGN_OPEN);
    watch_debounce_note(&debounce, 2, WATCH_SIGN_DONE);
    watch_debounce_note(&debounce, 3, WATCH_SIGN_DONE);
    assert_int_equal(watch_debounce_due_ms(&debounce), 8);
}

static void an_open_file_is_waited_for(void **state) {
    struct watch_debounce debounce = {0};
    (void)state;
    watch_debounce_note(&debounce, 10, WATCH_SIGN_OPEN);
    assert_int_equal(watch_debounce_due_ms(&debounce), 70);
    watch_debounce_note(&debounce, 50, WATCH_SIGN_OPEN);
    assert_int_equal(watch_debounce_due_ms(&debounce), 110);
}

static void many_files_make_it_patient(void **state) {
    struct watch_debounce debounce = {0};
    (void)state;
    uint64_t quiet_before = 0;
    for (uint64_t i = 0; i < 500; i++) {
        watch_debounce_note(&debounce, i, WATCH_SIGN_DONE);
        uint64_t quiet = watch_debounce_due_ms(&debounce) - i;
        assert_true(quiet >= quiet_before && quiet <= 200);
        quiet_before = quiet;
    }
    assert_int_equal(quiet_before, 200);
}

static void who_never_stops_is_looked_at(void **state) {
    struct watch_debounce debounce = {0};
    (void)state;
    for (uint64_t at = 0; at < 5000; at += 3) {
        watch_debounce_note(&debounce, at, WATCH_SIGN_OPEN);
        assert_true(watch_debounce_due_ms(&debounce) <= 2000);
    }
}

/* A save in the middle of a look waits with what was looked at, within the same bounds. */
static void what_comes_during_a_reading_joins_it(void **state) {
    struct watch_debounce looked_at = {0}, later = {0};
    (void)state;
    assert_false(watch_debounce_rejoin(&later, &looked_at, 0));
    for (uint64_t i = 0; i < 8; i++) watch_debounce_note(&looked_at, 100 + i, WATCH_SIGN_DONE);
    assert_false(watch_debounce_rejoin(&later, &looked_at, 120)); /* nothing came */
    watch_debounce_note(&later, 115, WATCH_SIGN_DONE);
    assert_true(watch_debounce_rejoin(&later, &looked_at, 120));
    assert_int_equal(later.first_ms, 100);
    assert_int_equal(watch_debounce_due_ms(&later), 115 + 5 + (9 - 4) * 5);
    struct watch_debounce late = {0};
    watch_debounce_note(&late, 2099, WATCH_SIGN_OPEN);
    assert_false(watch_debounce_rejoin(&late, &later, 2100));
    assert_int_equal(late.first_ms, 2099);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_never_due),
        cmocka_unit_test(one_save_is_quick),
        cmocka_unit_test(a_backup_and_rename_is_quick_too),
        cmocka_unit_test(an_open_file_is_waited_for),
        cmocka_unit_test(many_files_make_it_patient),
        cmocka_unit_test(who_never_stops_is_looked_at),
        cmocka_unit_test(what_comes_during_a_reading_joins_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
