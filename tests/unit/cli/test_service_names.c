/* Names of hosts become addresses, and nothing else of a service is changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

static void what_is_no_name_stays(void **state) {
    static const char *const texts[] = {
        "5432", "10.0.0.1:5432", "db=[::1]:80", "localhost:80", "unix:/run/a.b:80", "db=unix:/run/x.example:1",
        "db=",  ":80",           "nonsense"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        CLEANUP_JSON json_t *params = json_pack("{s:[s]}", "connect", texts[i]);
        struct error error = {0};
        if (service_names_resolve(params, &error) < 0) fail_msg("%s: %s", texts[i], error.detail);
        assert_string_equal(json_string_value(json_array_get(json_object_get(params, "connect"), 0)), texts[i]);
    }
}

static void a_name_becomes_an_address(void **state) {
    (void)state;
    CLEANUP_JSON json_t *params = json_pack("{s:[s, s]}", "connect", "db=ip6-localhost:5432", "5432");
    struct error error = {0};
    if (service_names_resolve(params, &error) < 0) return; /* this host does not know it */
    assert_string_equal(json_string_value(json_array_get(json_object_get(params, "connect"), 0)), "db=[::1]:5432");
    assert_string_equal(json_string_value(json_array_get(json_object_get(params, "connect"), 1)), "5432");
}

static void a_name_that_is_none_is_told(void **state) {
    (void)state;
    CLEANUP_JSON json_t *params = json_pack("{s:[s]}", "connect", "no..such..name:5432");
    struct error error = {0};
    assert_true(service_names_resolve(params, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_non_null(strstr(error.detail, "--connect: no..such..name"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_name_stays),
        cmocka_unit_test(a_name_becomes_an_address),
        cmocka_unit_test(a_name_that_is_none_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
