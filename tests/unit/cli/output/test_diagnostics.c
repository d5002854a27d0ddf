/* Tests how the command line prints compiler diagnostics: the source line, the caret, hints, and hostile text. */
#include "scratch.h"

#include "cli/cli_internal.h"

enum { OUTPUT_BYTES = 65536 };

static char output[OUTPUT_BYTES];

/* What is printed on stderr for the diagnostics in this JSON text. */
static const char *printed(const struct cli *cli, enum severity severity, const char *text) {
    json_t *list = json_loads(text, 0, NULL);
    assert_non_null(list);
    CLEANUP_FD int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    fflush(stderr);
    CLEANUP_FD int kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    diagnostics_print(cli, severity, list);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    ssize_t size = pread(file, output, sizeof output - 1, 0);
    output[size > 0 ? size : 0] = '\0';
    json_decref(list);
    return output;
}

static struct cli cli_of(const struct scratch *scratch) {
    return (struct cli){.source = scratch->path, .cancel_fd = -1};
}

static void a_caret_is_under_the_place(void **state) {
    scratch_folder(*state, "lib");
    scratch_file(*state, "lib/a.ex", "defmodule A do\n  def f, do: x + 1\nend\n");
    struct cli cli = cli_of(*state);
    assert_string_equal(
        printed(&cli, SEVERITY_ERROR, "[{\"file\": \"lib/a.ex\", \"line\": 2, \"column\": 14, \"message\": \"no x\"}]"),
        "error: no x\n"
        "  --> lib/a.ex:2:14\n"
        "   |\n"
        " 2 |   def f, do: x + 1\n"
        "   |              ^\n"
        "\n");
}

static void without_a_column_the_line_is_marked(void **state) {
    scratch_file(*state, "a.erl", "x\n\tfoo(X).\r\n");
    struct cli cli = cli_of(*state);
    assert_string_equal(
        printed(&cli, SEVERITY_WARNING, "[{\"file\": \"a.erl\", \"line\": 2, \"column\": null, \"message\": \"m\"}]"),
        "warning: m\n"
        "  --> a.erl:2\n"
        "   |\n"
        " 2 |     foo(X).\n"
        "   |     ~~~~~~~\n"
        "\n");
}

static void characters_count_not_bytes(void **state) {
    scratch_file(*state, "a.ex", "漢ü = é(x)\n");
    struct cli cli = cli_of(*state);
    assert_string_equal(
        printed(&cli, SEVERITY_ERROR, "[{\"file\": \"a.ex\", \"line\": 1, \"column\": 6, \"message\": \"m\"}]"),
        "error: m\n"
        "  --> a.ex:1:6\n"
        "   |\n"
        " 1 | 漢ü = é(x)\n"
        "   |       ^\n"
        "\n");
}

static void a_place_past_the_end_is_shown_there(void **state) {
    scratch_file(*state, "a.ex", "ab\n");
    struct cli cli = cli_of(*state);
    assert_non_null(
        strstr(printed(&cli, SEVERITY_ERROR, "[{\"file\": \"a.ex\", \"line\": 1, \"column\": 99, \"message\": \"m\"}]"),
               "\n 1 | ab\n   |   ^\n"));
    assert_null(strstr(printed(&cli, SEVERITY_ERROR, "[{\"file\": \"a.ex\", \"line\": 7, \"message\": \"m\"}]"), "|"));
}

static void of_a_long_line_what_matters_is_shown(void **state) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    for (int i = 0; i < 1000; i++) buf_append_string(&line, "é");
    buf_append_string(&line, "HERE");
    for (int i = 0; i < 1000; i++) buf_append_string(&line, "-");
    scratch_file(*state, "a.ex", buf_string(&line));
    struct cli cli = cli_of(*state);
    const char *text =
        printed(&cli, SEVERITY_ERROR, "[{\"file\": \"a.ex\", \"line\": 1, \"column\": 1001, \"message\": \"m\"}]");
    const char *shown = strstr(text, " 1 | …é"), *here = strstr(text, "HERE--");
    assert_non_null(shown);
    assert_non_null(here);
    const char *end = strchr(here, '\n');
    assert_true(end - here < 200);
    assert_true(string_starts(strchr(here, '-'), "---"));
    CLEANUP_FREE char *before = strndup(shown, (size_t)(here - shown));
    assert_int_equal(text_width(before), strcspn(end + 1, "^"));
}

static void many_are_counted(void **state) {
    struct cli cli = cli_of(*state);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int i = 0; i < 32; i++) buf_printf(&text, "%s{\"message\": \"m%d.\"}", i ? ", " : "[", i);
    buf_append_string(&text, "]");
    const char *shown = printed(&cli, SEVERITY_WARNING, buf_string(&text));
    assert_non_null(strstr(shown, "m19."));
    assert_null(strstr(shown, "m20."));
    assert_non_null(strstr(shown, "and 12 more warnings\n"));
}

static void those_left_out_are_counted(void **state) {
    (void)state;
    CLEANUP_JSON json_t *report =
        json_pack("{s:[{}, {}], s:I, s:[{}]}", "warnings", "warnings_left_out", (json_int_t)98, "errors");
    assert_int_equal(diagnostics_of(report, "warnings"), 100);
    assert_int_equal(diagnostics_of(report, "errors"), 1);
    assert_int_equal(diagnostics_of(NULL, "errors"), 0);
}

static void a_hint_stands_apart(void **state) {
    struct cli cli = cli_of(*state);
    assert_string_equal(
        printed(&cli, SEVERITY_ERROR,
                "[{\"file\": \"a.ex\", \"line\": 1, \"message\": \"no ecto\\nin a\\n\\nhint: vendor it\"}]"),
        "error: no ecto\n"
        "  in a\n"
        "  --> a.ex:1\n"
        "  hint: vendor it\n"
        "\n");
}

static void a_hint_may_follow_at_once(void **state) {
    struct cli cli = cli_of(*state);
    assert_string_equal(printed(&cli, SEVERITY_ERROR, "[{\"file\": \"a.ex\", \"message\": \"no y\\nhint: f?\"}]"),
                        "error: no y\n  --> a.ex\n  hint: f?\n\n");
}

static void what_the_compiler_draws_is_not_drawn_twice(void **state) {
    static const char text[] =
        "[{\"file\": \"a.ex\", \"line\": 1, \"column\": 1, \"message\": \"bad\\n    |\\n  1 | x\\n"
        "    | ^\"}]";
    struct cli cli = cli_of(*state);
    assert_non_null(strstr(printed(&cli, SEVERITY_ERROR, text), "1 | x"));
    scratch_file(*state, "a.ex", "x\n");
    assert_string_equal(printed(&cli, SEVERITY_ERROR, text), "error: bad\n"
                                                             "  --> a.ex:1:1\n"
                                                             "   |\n"
                                                             " 1 | x\n"
                                                             "   | ^\n"
                                                             "\n");
}

/* The name of the file is what a compiler says that ran strangers' code. */
static void no_name_leads_out_of_the_project(void **state) {
    struct scratch *scratch = *state;
    scratch_folder(scratch, "project");
    scratch_file(scratch, "secret", "secret\n");
    scratch_link(scratch, "../secret", "project/link");
    scratch_link(scratch, "inside", "project/fine");
    scratch_file(scratch, "project/inside", "inside\n");
    CLEANUP_FREE char *project = string_print("%s/project", scratch->path);
    CLEANUP_FREE char *absolute = string_print("%s/secret", scratch->path);
    struct cli cli = {.source = project, .cancel_fd = -1};
    const char *const names[] = {"../secret", "link", absolute, ".", "", "project/../../secret"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        assert_false(source_line(&cli, names[i], 1, &line));
    }
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    assert_true(source_line(&cli, "fine", 1, &line));
    assert_string_equal(buf_string(&line), "inside");
}

static void a_single_file_and_code_have_lines_too(void **state) {
    struct scratch *scratch = *state;
    scratch_file(scratch, "a.ex", "one\ntwo");
    CLEANUP_FREE char *path = string_print("%s/a.ex", scratch->path);
    struct cli of_file = {.source = path, .cancel_fd = -1}, of_code = {.code = "1\n2\n", .cancel_fd = -1};
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    assert_true(source_line(&of_file, "a.ex", 2, &line));
    assert_string_equal(buf_string(&line), "two");
    buf_clear(&line);
    assert_true(source_line(&of_code, "b.ex", 2, &line));
    assert_string_equal(buf_string(&line), "2");
    buf_clear(&line);
    assert_false(source_line(&of_code, "b.ex", 3, &line));
}

static void terminals_are_safe(void **state) {
    scratch_file(*state, "a.ex", "\033[2J\n");
    struct cli cli = cli_of(*state);
    assert_null(strchr(printed(&cli, SEVERITY_ERROR,
                               "[{\"file\": \"a.ex\", \"line\": 1, \"message\": \"\\u001b[31m\\u0007\"},"
                               "{\"file\": \"\\u001b[1m\", \"message\": null}, 7, {}]"),
                       '\033'));
    assert_non_null(strstr(output, "no reason given"));
}

static void colour_is_for_terminals(void **state) {
    struct cli cli = cli_of(*state);
    cli.err_colour = true;
    assert_non_null(strstr(printed(&cli, SEVERITY_ERROR, "[{\"message\": \"m\"}]"), "\033[31merror:\033[0m m"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_caret_is_under_the_place, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(without_a_column_the_line_is_marked, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(characters_count_not_bytes, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_place_past_the_end_is_shown_there, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(of_a_long_line_what_matters_is_shown, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(many_are_counted, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(those_left_out_are_counted, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_hint_stands_apart, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_hint_may_follow_at_once, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_the_compiler_draws_is_not_drawn_twice, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(no_name_leads_out_of_the_project, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_single_file_and_code_have_lines_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(terminals_are_safe, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(colour_is_for_terminals, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
