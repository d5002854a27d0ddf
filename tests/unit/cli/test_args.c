/* Tests how arguments of the command line become parameters, by the rows of the table of operations. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

enum { WORDS_MAX = 16 };

/* Split at '|', so that words may hold blanks. */
static int split(const char *line, char *copy, char **words) {
    strcpy(copy, line);
    int count = 0;
    for (char *word = strtok(copy, "|"); word && count < WORDS_MAX; word = strtok(NULL, "|")) words[count++] = word;
    return count;
}

static void expect_params(const char *op, const char *line, const char *params, const char *rest) {
    char copy[1024], *words[WORDS_MAX];
    struct cli cli = {.cancel_fd = -1};
    struct error error;
    CLEANUP(arguments_free) struct arguments arguments = {NULL, NULL};
    int count = split(line, copy, words);
    if (args_parse(&cli, ops_find(op), count, words, &arguments, &error) < 0) fail_msg("%s: %s", line, error.detail);
    CLEANUP_JSON json_t *expected = json_loads(params, 0, NULL);
    CLEANUP_JSON json_t *expected_rest = rest ? json_loads(rest, 0, NULL) : NULL;
    assert_non_null(expected);
    if (!json_equal(arguments.params, expected)) fail_msg("%s: other parameters", line);
    assert_int_equal(arguments.rest == NULL, rest == NULL);
    if (rest) assert_true(json_equal(arguments.rest, expected_rest));
}

static void expect_complaint(const char *op, const char *line, const char *complaint) {
    char copy[1024], *words[WORDS_MAX];
    struct cli cli = {.cancel_fd = -1};
    struct error error;
    struct arguments arguments = {NULL, NULL};
    int count = split(line, copy, words);
    assert_int_equal(args_parse(&cli, ops_find(op), count, words, &arguments, &error), -E_INVALID);
    assert_null(arguments.params);
    if (!strstr(error.detail, complaint)) fail_msg("%s: %s", line, error.detail);
}

static void flags_are_typed_by_the_row(void **state) {
    (void)state;
    expect_params("create", "c|/tmp", "{\"id\":\"c\",\"source\":\"/tmp\"}", NULL);
    expect_params("create", "--memory|64M|c|/tmp|--cpu=50%|--max-run|5s",
                  "{\"id\":\"c\",\"source\":\"/tmp\",\"memory_bytes\":67108864,\"cpu_percent\":50,\"max_run_ms\":5000}",
                  NULL);
    expect_params("eval", "c|1 + 1|--lang|erlang|--timeout|2s",
                  "{\"id\":\"c\",\"code\":\"1 + 1\",\"language\":\"erlang\",\"timeout_ms\":2000}", NULL);
    expect_params("restart", "c|--fresh", "{\"id\":\"c\",\"fresh\":true}", NULL);
    expect_params("restart", "--fresh=false|c", "{\"id\":\"c\",\"fresh\":false}", NULL);
}

static void flags_may_repeat_where_the_row_says(void **state) {
    (void)state;
    expect_params("create", "c|/tmp|--env|A=1|--env|B=x=y|--require|cgroups|--require|seccomp",
                  "{\"id\":\"c\",\"source\":\"/tmp\",\"env\":{\"A\":\"1\",\"B\":\"x=y\"},"
                  "\"require\":[\"cgroups\",\"seccomp\"]}",
                  NULL);
    expect_params("destroy", "a|b|c", "{}", "[\"a\",\"b\",\"c\"]");
    expect_complaint("create", "c|/tmp|--memory|64M|--memory|32M", "--memory: given twice");
}

static void after_two_dashes_all_are_words(void **state) {
    (void)state;
    expect_params("eval", "c|--|--1", "{\"id\":\"c\",\"code\":\"--1\"}", NULL);
    expect_complaint("eval", "c|-1", "after --");
}

static void a_task_takes_all_words_from_its_name_on(void **state) {
    (void)state;
    expect_params("mix", "-e|A=1|/tmp|--profile=low|run|-e|1|--|--home|x",
                  "{\"source\":\"/tmp\",\"env\":{\"A\":\"1\"},\"profile\":\"low\","
                  "\"task\":[\"run\",\"-e\",\"1\",\"--\",\"--home\",\"x\"]}",
                  NULL);
    expect_params("mix", "/tmp|--|--help", "{\"source\":\"/tmp\",\"task\":[\"--help\"]}", NULL);
    expect_complaint("mix", "/tmp|--profil|low|run", "did you mean --profile?");
    expect_complaint("mix", "/tmp", "TASK is missing");
    expect_complaint("mix", "", "PROJECT is missing");
}

static void paths_become_absolute(void **state) {
    (void)state;
    CLEANUP_FD int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir("/usr"), 0);
    expect_params("create", "c|.", "{\"id\":\"c\",\"source\":\"/usr\"}", NULL);
    expect_params("create", "c|no/such", "{\"id\":\"c\",\"source\":\"/usr/no/such\"}", NULL);
    assert_int_equal(fchdir(before), 0);
}

static void mistakes_are_named(void **state) {
    (void)state;
    expect_complaint("create", "", "ID is missing");
    expect_complaint("create", "c", "SOURCE is missing");
    expect_complaint("create", "c|/tmp|extra", "\"extra\" is one word too many");
    expect_complaint("create", "c/d|/tmp", "ID: ");
    expect_complaint("create", "c|/tmp|--memry|1G", "did you mean --memory?");
    expect_complaint("create", "c|/tmp|--memory", "--memory needs a value");
    expect_complaint("create", "c|/tmp|--memory|lots", "--memory: \"lots\" is not a size");
    expect_complaint("create", "c|/tmp|--max-run|5", "--max-run: 5 has no unit");
    expect_complaint("create", "c|/tmp|--env|A", "--env: \"A\" is not NAME=VALUE");
    expect_complaint("create", "c|/tmp|--restart|often", "--restart: ");
    expect_complaint("destroy", "", "ID is missing");
    expect_complaint("destroy", "a|.b", "ID: ");
    expect_complaint("list", "x", "one word too many");
}

static void every_command_takes_the_common_flags(void **state) {
    (void)state;
    char *words[] = {(char *)"--json", (char *)"--home", (char *)"/h", (char *)"--timeout=3s",
                     (char *)"--no-autostart"};
    struct cli cli = {.cancel_fd = -1};
    CLEANUP(arguments_free) struct arguments arguments = {NULL, NULL};
    assert_int_equal(args_parse(&cli, ops_find("list"), ARRAY_SIZE(words), words, &arguments, NULL), 0);
    assert_true(cli.json && cli.no_autostart);
    assert_string_equal(cli.home, "/h");
    assert_int_equal(cli.timeout_ms, 3000);
    expect_complaint("list", "--home", "--home needs a value");
    expect_complaint("list", "--json=yes", "--json takes no value");
    expect_complaint("list", "--timeout|5", "--timeout: ");
    expect_complaint("list", "--timeout|0s", "--timeout: ");
}

static void help_needs_nothing_else(void **state) {
    (void)state;
    char *words[] = {(char *)"--help"};
    struct cli cli = {.cancel_fd = -1};
    CLEANUP(arguments_free) struct arguments arguments = {NULL, NULL};
    assert_int_equal(args_parse(&cli, ops_find("create"), 1, words, &arguments, NULL), 0);
    assert_true(cli.wants_help);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_typed_by_the_row),
        cmocka_unit_test(flags_may_repeat_where_the_row_says),
        cmocka_unit_test(after_two_dashes_all_are_words),
        cmocka_unit_test(a_task_takes_all_words_from_its_name_on),
        cmocka_unit_test(paths_become_absolute),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(every_command_takes_the_common_flags),
        cmocka_unit_test(help_needs_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
