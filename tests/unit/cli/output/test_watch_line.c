/* Tests the line that `--watch` prints for each save. */
#include "scratch.h"

#include "cli/cli_internal.h"

static char output[8192];

static const char *printed(const struct cli *cli, const char *kind, const char *data) {
    json_t *event = json_pack("{s:s, s:o}", "kind", kind, "data", json_loads(data, 0, NULL));
    assert_non_null(event);
    CLEANUP_FD int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    fflush(stderr);
    CLEANUP_FD int kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    watch_line(cli, event);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    ssize_t size = pread(file, output, sizeof output - 1, 0);
    output[size > 0 ? size : 0] = '\0';
    json_decref(event);
    return output;
}

static void one_save_is_one_line(void **state) {
    struct cli cli = {.cancel_fd = -1};
    (void)state;
    assert_string_equal(
        printed(&cli, "watch_reloaded",
                "{\"files\": [\"lib/a.ex\"], \"file_count\": 1, \"compiled_count\": 1,"
                " \"modules\": [\"A\"], \"module_count\": 1, \"processes\": 3, \"since_save_us\": 41900}"),
        "✓ lib/a.ex: compiled 1 module, reloaded A, 3 processes kept their state, 41 ms\n");
    assert_string_equal(
        printed(&cli, "watch_reloaded",
                "{\"files\": [\"a.erl\"], \"file_count\": 1, \"compiled_count\": 0, \"modules\": [\"a\"],"
                " \"module_count\": 1, \"processes\": 1, \"since_save_us\": 9000}"),
        "✓ a.erl: reloaded a, 1 process kept its state, 9 ms\n");
}

static void what_went_is_told_apart(void **state) {
    struct cli cli = {.cancel_fd = -1};
    (void)state;
    assert_string_equal(printed(&cli, "watch_reloaded",
                                "{\"files\": [\"a.erl\"], \"file_count\": 1, \"modules\": [\"a\"],"
                                " \"module_count\": 1, \"removed_count\": 1, \"since_save_us\": 9000}"),
                        "✓ a.erl: removed a, 9 ms\n");
    assert_string_equal(printed(&cli, "watch_reloaded",
                                "{\"files\": [\"a.erl\", \"b.erl\"], \"file_count\": 2, \"modules\": [\"a\", \"b\"],"
                                " \"module_count\": 2, \"removed_count\": 1, \"since_save_us\": 9000}"),
                        "✓ a.erl, b.erl: changed a, b, 9 ms\n");
}

static void many_are_one_line_too(void **state) {
    struct cli cli = {.cancel_fd = -1};
    (void)state;
    assert_string_equal(printed(&cli, "watch_reloaded",
                                "{\"files\": [\"a\", \"b\", \"c\", \"d\"], \"file_count\": 10, \"compiled_count\": 12,"
                                " \"modules\": [\"A\", \"B\", \"C\", \"D\"], \"module_count\": 12, \"processes\": 0,"
                                " \"since_save_us\": 1500000}"),
                        "✓ a, b, c and 7 more: compiled 12 modules, reloaded A, B, C and 9 more, 1.5 s\n");
}

static void a_change_of_nothing_says_so(void **state) {
    struct cli cli = {.cancel_fd = -1};
    (void)state;
    assert_string_equal(
        printed(&cli, "watch_reloaded",
                "{\"files\": [\"README\"], \"file_count\": 1, \"modules\": [], \"since_save_us\": 8000}"),
        "✓ README: no change in the code that runs, 8 ms\n");
}

static void an_error_shows_its_line(void **state) {
    const struct scratch *scratch = *state;
    struct cli cli = {.source = scratch->path, .cancel_fd = -1};
    scratch_file(scratch, "a.erl", "-module(a).\nf( -> ok.\n");
    assert_string_equal(
        printed(&cli, "watch_failed",
                "{\"files\": [\"a.erl\"], \"file_count\": 1, \"detail\": \"syntax \\u001b[31m\","
                " \"errors\": [{\"file\": \"a.erl\", \"line\": 2, \"column\": 4, \"message\": \"m\"}]}"),
        "✗ a.erl: 1 error; what ran before runs on\n"
        "error: m\n"
        "  --> a.erl:2:4\n"
        "   |\n"
        " 2 | f( -> ok.\n"
        "   |    ^\n"
        "\n");
    assert_string_equal(printed(&cli, "watch_failed",
                                "{\"files\": [\"a.erl\"], \"file_count\": 1, \"detail\": \"busy \\u001b[31m\","
                                " \"errors\": []}"),
                        "✗ a.erl: busy \\x1B[31m; what ran before runs on\n");
}

static void whether_changes_are_seen_is_told(void **state) {
    struct cli cli = {.cancel_fd = -1};
    (void)state;
    assert_string_equal(printed(&cli, "watch", "{\"state\": \"watching\", \"detail\": null}"), "watching\n");
    assert_string_equal(printed(&cli, "watch", "{\"state\": \"paused\", \"detail\": \"/a: gone\"}"),
                        "paused: /a: gone\n");
    assert_string_equal(printed(&cli, "created", "{}"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_save_is_one_line),
        cmocka_unit_test(what_went_is_told_apart),
        cmocka_unit_test(many_are_one_line_too),
        cmocka_unit_test(a_change_of_nothing_says_so),
        cmocka_unit_test_setup_teardown(an_error_shows_its_line, scratch_setup, scratch_teardown),
        cmocka_unit_test(whether_changes_are_seen_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
