/* Tests the state of a watched project for every combination of facts. */
#include "../scratch.h"
#include "watch/watch.h"

/* Every combination of facts, in the words of the rules. */
static void the_most_important_state_wins(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 32; bits++) {
        struct watch_facts facts = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16};
        enum watch_state expected = WATCH_WATCHING;
        if (facts.is_polling) expected = WATCH_POLLING;
        if (facts.has_failed) expected = WATCH_FAILED;
        if (!facts.has_folder) expected = WATCH_PAUSED;
        if (facts.is_working) expected = WATCH_COMPILING;
        if (!facts.is_on) expected = WATCH_OFF;
        assert_int_equal(watch_state_of(&facts), expected);
    }
}

static void states_have_names(void **state) {
    (void)state;
    assert_string_equal(watch_state_name(WATCH_OFF), "off");
    assert_string_equal(watch_state_name(WATCH_POLLING), "polling");
    assert_string_equal(watch_state_name(WATCH_WATCHING), "watching");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_important_state_wins),
        cmocka_unit_test(states_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
