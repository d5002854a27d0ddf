/* Where ports are reached, as people read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

static void a_table_has_each_port_in_a_word(void **state) {
    (void)state;
    CLEANUP_JSON json_t *list =
        json_pack("[{s:[{s:s, s:i, s:s}, {s:s, s:i, s:s}]}, {s:[{s:s, s:n, s:s}]}, {s:[]}]", "published", "address",
                  "127.0.0.1", "port", 8080, "protocol", "tcp", "address", "[::1]", "port", 53, "protocol", "udp",
                  "published", "address", "unix:/run/a", "port", "protocol", "unix", "published");
    static const char *const expected[] = {"127.0.0.1:8080 [::1]:53/udp", "unix:/run/a", ""};
    assert_non_null(list);
    assert_true(ports_words(list));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_string_equal(text_of(json_array_get(list, i), "ports", "?"), expected[i]);
}

static void there_may_be_none(void **state) {
    (void)state;
    CLEANUP_JSON json_t *list = json_pack("[{s:[]}, {}]", "published");
    assert_false(ports_words(list));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_each_port_in_a_word),
        cmocka_unit_test(there_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
