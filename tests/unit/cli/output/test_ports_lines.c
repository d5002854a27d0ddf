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

/* Which is all that tells of a server that does not listen. */
static void a_port_that_only_refused_says_so(void **state) {
    (void)state;
    CLEANUP_JSON json_t *list =
        json_pack("[{s:[{s:s, s:i, s:i, s:i}]}, {s:[{s:s, s:i, s:i, s:i}]}]", "published", "address", "127.0.0.1",
                  "port", 4000, "connections", 0, "refused", 3, "published", "address", "127.0.0.1", "port", 4001,
                  "connections", 1, "refused", 3);
    assert_true(ports_words(list));
    assert_string_equal(text_of(json_array_get(list, 0), "ports", "?"), "127.0.0.1:4000 (3 refused)");
    assert_string_equal(text_of(json_array_get(list, 1), "ports", "?"), "127.0.0.1:4001");
}

static void there_may_be_none(void **state) {
    (void)state;
    CLEANUP_JSON json_t *list = json_pack("[{s:[]}, {}]", "published");
    assert_false(ports_words(list));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_each_port_in_a_word),
        cmocka_unit_test(a_port_that_only_refused_says_so),
        cmocka_unit_test(there_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
