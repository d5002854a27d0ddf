/* Tests the lines about process states that a reload or a restart kept or lost. */
#include "scratch.h"

#include "cli/cli_internal.h"

static char output[4096];

static const char *printed(const char *states) {
    struct cli cli = {.cancel_fd = -1};
    json_t *json = states ? json_loads(states, 0, NULL) : NULL;
    CLEANUP_FD int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    fflush(stderr);
    CLEANUP_FD int kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    states_lines(&cli, json);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    ssize_t size = pread(file, output, sizeof output - 1, 0);
    output[size > 0 ? size : 0] = '\0';
    json_decref(json);
    return output;
}

static void what_was_kept_is_counted_and_what_was_not_is_listed(void **state) {
    (void)state;
    assert_string_equal(printed("{\"kept\": 1, \"lost\": [], \"lost_count\": 0, \"fresh\": null}"),
                        "1 process kept its state\n");
    assert_string_equal(printed("{\"kept\": 0, \"lost\": [{\"path\": \"a/b\", \"reason\": \"it was busy\"}, "
                                "{\"path\": \"c\", \"reason\": null}], \"lost_count\": 9, \"fresh\": null}"),
                        "0 processes kept their state\nnot kept: a/b: it was busy\nnot kept: c\nand 7 more\n");
    assert_string_equal(
        printed("{\"kept\": 0, \"lost\": [{\"path\": \"a\", \"reason\": \"x\"}, {\"path\": \"b\", \"reason\": "
                "\"y\"}, {\"path\": \"c\", \"reason\": \"x\"}, {\"path\": \"d\", \"reason\": \"x\"}, {\"path\": \"e\", "
                "\"reason\": \"x\"}], \"lost_count\": 5, \"fresh\": null}"),
        "0 processes kept their state\nnot kept: a, c, d and 1 more: x\nnot kept: b: y\n");
    assert_string_equal(printed("{\"kept\": 0, \"lost\": [], \"lost_count\": 0, \"fresh\": \"its VM had ended\"}"),
                        "started fresh: its VM had ended\n");
}

static void a_sandbox_writes_nothing_on_the_terminal(void **state) {
    (void)state;
    assert_string_equal(printed(NULL), "");
    assert_null(strchr(printed("{\"fresh\": \"\\u001b[2J\"}"), '\x1b'));
    assert_null(strchr(printed("{\"lost\": [{\"path\": \"\\u001b[2J\", \"reason\": \"\\u001b[2J\"}]}"), '\x1b'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_kept_is_counted_and_what_was_not_is_listed),
        cmocka_unit_test(a_sandbox_writes_nothing_on_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
