/* Tests where a client looks for the service's home and for its programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"

static void the_given_home_wins(void **state) {
    (void)state;
    char home[CLIENT_HOME_BYTES];
    setenv("SANDBOX_HOME", "/from/environment", 1);
    assert_int_equal(client_home("/given", home, NULL), 0);
    assert_string_equal(home, "/given");
    assert_int_equal(client_home(NULL, home, NULL), 0);
    assert_string_equal(home, "/from/environment");
    assert_int_equal(client_home("/slashes///", home, NULL), 0);
    assert_string_equal(home, "/slashes");
}

static void the_default_depends_on_who_asks(void **state) {
    (void)state;
    char home[CLIENT_HOME_BYTES];
    unsetenv("SANDBOX_HOME");
    setenv("XDG_STATE_HOME", "/state", 1);
    assert_int_equal(client_home(NULL, home, NULL), 0);
    assert_string_equal(home, geteuid() == 0 ? "/var/lib/sandbox" : "/state/sandbox");
    setenv("SANDBOX_HOME", "", 1);
    assert_int_equal(client_home(NULL, home, NULL), 0);
    assert_string_equal(home, geteuid() == 0 ? "/var/lib/sandbox" : "/state/sandbox");
}

static void relative_homes_become_absolute(void **state) {
    (void)state;
    char home[CLIENT_HOME_BYTES];
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(client_home("here", home, NULL), 0);
    assert_string_equal(home, "/here");
    assert_int_equal(chdir("/usr"), 0);
    assert_int_equal(client_home("here", home, NULL), 0);
    assert_string_equal(home, "/usr/here");
}

static void a_home_too_long_for_a_socket_is_refused(void **state) {
    (void)state;
    char home[CLIENT_HOME_BYTES] = "untouched";
    char path[CLIENT_HOME_BYTES];
    struct error error;
    memset(path, 'h', sizeof path);
    path[0] = '/';
    size_t longest = sizeof path - sizeof "/launcher.sock";
    path[longest] = '\0';
    assert_int_equal(client_home(path, home, &error), 0);
    strcpy(home, "untouched");
    path[longest] = 'h';
    path[longest + 1] = '\0';
    assert_int_equal(client_home(path, home, &error), -E_INVALID);
    assert_string_equal(home, "untouched");
    assert_int_equal(client_home("", home, &error), -E_INVALID);
}

static void a_missing_program_is_told(void **state) {
    (void)state;
    char path[PATH_MAX];
    struct error error;
    assert_int_equal(client_find_program("no-such-program-of-ours", path, &error), -E_NO_DAEMON);
    assert_non_null(strstr(error.detail, "no-such-program-of-ours"));
    /* This test itself is beside the running program. */
    assert_int_equal(client_find_program("test_home", path, &error), 0);
    assert_true(string_ends(path, "/test_home"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_given_home_wins),
        cmocka_unit_test(the_default_depends_on_who_asks),
        cmocka_unit_test(relative_homes_become_absolute),
        cmocka_unit_test(a_home_too_long_for_a_socket_is_refused),
        cmocka_unit_test(a_missing_program_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
