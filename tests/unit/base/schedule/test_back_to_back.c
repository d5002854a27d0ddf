/* Tests when requests to one party count as back to back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/schedule/back_to_back.h"

static const int one, other;

/* How many of so many questions, a few milliseconds apart, are back to back. */
static unsigned ask(struct back_to_back *row, const void *party, unsigned times, uint64_t apart_ms) {
    unsigned count = 0;
    for (unsigned i = 0; i < times; i++) count += back_to_back_note(row, party, row->asked_ms + apart_ms);
    return count;
}

static void requests_to_one_party_become_back_to_back(void **state) {
    (void)state;
    struct back_to_back row = {0};
    assert_int_equal(ask(&row, &one, BACK_TO_BACK_LEAST, 0), 0);
    assert_int_equal(ask(&row, &one, 100, BACK_TO_BACK_PAUSE_MS), 100);
}

static void another_party_ends_the_row(void **state) {
    (void)state;
    struct back_to_back row = {0};
    ask(&row, &one, 2 * BACK_TO_BACK_LEAST, 0);
    assert_int_equal(ask(&row, &other, 1, 0), 0);
    assert_int_equal(ask(&row, &one, BACK_TO_BACK_LEAST, 0), 0);
    assert_int_equal(ask(&row, &one, 1, 0), 1);
}

static void parties_that_take_turns_have_no_row(void **state) {
    (void)state;
    struct back_to_back row = {0};
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(ask(&row, &one, BACK_TO_BACK_LEAST, 0), 0);
        assert_int_equal(ask(&row, &other, BACK_TO_BACK_LEAST, 0), 0);
    }
}

static void a_pause_ends_the_row(void **state) {
    (void)state;
    struct back_to_back row = {0};
    ask(&row, &one, 2 * BACK_TO_BACK_LEAST, 0);
    assert_int_equal(ask(&row, &one, 1, BACK_TO_BACK_PAUSE_MS + 1), 0);
    assert_int_equal(ask(&row, &one, BACK_TO_BACK_LEAST - 1, 0), 0);
    assert_int_equal(ask(&row, &one, 1, 0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_to_one_party_become_back_to_back),
        cmocka_unit_test(another_party_ends_the_row),
        cmocka_unit_test(parties_that_take_turns_have_no_row),
        cmocka_unit_test(a_pause_ends_the_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
