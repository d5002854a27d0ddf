/* Tests the names of guarantees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "jail/jail.h"

static void every_guarantee_is_found_by_its_name(void **state) {
    (void)state;
    for (unsigned i = 0; i < JAIL_GUARANTEE_COUNT; i++) {
        enum jail_guarantee found = JAIL_GUARANTEE_COUNT;
        assert_int_equal(jail_guarantee_find(jail_guarantee_name(i), &found), 0);
        assert_int_equal(found, i);
        assert_true(strlen(jail_guarantee_meaning(i)) > 0);
    }
    assert_string_equal(jail_guarantee_name(JAIL_GUARANTEE_UID), "uid_per_node");
}

static void unknown_names_change_nothing(void **state) {
    (void)state;
    enum jail_guarantee found = JAIL_GUARANTEE_CPU;
    assert_true(jail_guarantee_find("immortality", &found) < 0);
    assert_int_equal(found, JAIL_GUARANTEE_CPU);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_guarantee_is_found_by_its_name),
        cmocka_unit_test(unknown_names_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
