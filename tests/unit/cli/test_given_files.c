/* Tests the syntax of --env-file, and how files that options name become parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli_internal.h"
#include "folder.h"

static void expect(const char *text, const char *expected) {
    struct error error;
    CLEANUP_JSON json_t *variables = json_object();
    if (given_variables_read("f", text, variables, &error) < 0) fail_msg("%s: %s", text, error.detail);
    CLEANUP_JSON json_t *wanted = json_loads(expected, 0, NULL);
    assert_non_null(wanted);
    if (!json_equal(variables, wanted)) fail_msg("%s: other variables", text);
}

static void expect_refusal(const char *text, const char *said) {
    struct error error;
    CLEANUP_JSON json_t *variables = json_object();
    assert_int_equal(given_variables_read("f", text, variables, &error), -E_INVALID);
    if (!strstr(error.detail, said)) fail_msg("%s: %s", text, error.detail);
    assert_null(strstr(error.detail, "hunter"));
}

static void lines_are_names_and_values(void **state) {
    (void)state;
    expect("", "{}");
    expect("\n# a comment\n  \nA=1\r\nB = two words \n", "{\"A\":\"1\",\"B\":\"two words\"}");
    expect("export A=1\nA=2", "{\"A\":\"2\"}");
    expect("A=\nB=a=b#c\nC=a #c\nD=#c", "{\"A\":\"\",\"B\":\"a=b#c\",\"C\":\"a\",\"D\":\"\"}");
    expect("A='a $b \\n' # c\nB=\"x\\n\\\"y\\\" \\$z\\q\"", "{\"A\":\"a $b \\\\n\",\"B\":\"x\\n\\\"y\\\" $z\\\\q\"}");
}

static void a_bad_line_is_told_by_its_number(void **state) {
    (void)state;
    expect_refusal("A=1\nhunter2\n", "f:2: a line is NAME=VALUE");
    expect_refusal("\n\n1A=hunter2\n", "f:3: the name of a variable");
    expect_refusal("=hunter2\n", "f:1: the name of a variable");
    expect_refusal("A B=hunter2\n", "f:1: the name of a variable");
    expect_refusal("A=\"hunter2\n", "f:1: the value of A has no end quote");
    expect_refusal("A='hunter2' more\n", "f:1: the value of A has no end quote");
    expect_refusal("A=\"hunter2\\\"\n", "f:1: the value of A has no end quote");
}

static const char *write_file(const char *folder, const char *name, const char *text, size_t size) {
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % ARRAY_SIZE(paths)];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static int parse(char **words, int count, json_t **ret, struct error *reterr) {
    struct cli cli = {.cancel_fd = -1};
    struct arguments arguments = {NULL, NULL};
    int result = args_parse(&cli, ops_find("create"), count, words, &arguments, reterr);
    if (result == 0) *ret = json_incref(arguments.params);
    arguments_free(&arguments);
    return result;
}

/* What is given by itself goes over every file, wherever it stands. */
static void files_become_parameters(void **state) {
    const char *folder = *state;
    struct error error;
    json_t *params = NULL;
    const char *first = write_file(folder, "first.env", "A=1\nB=1\nC=1\n", 12);
    const char *second = write_file(folder, "second.env", "B=2\nC=2\n", 8);
    const char *config = write_file(folder, "sys.config", "[].\n", 4);
    char *words[] = {"-e",   "C=3",        "--env-file",   (char *)first, "c",
                     "/tmp", "--env-file", (char *)second, "--config",    (char *)config};
    if (parse(words, ARRAY_SIZE(words), &params, &error) < 0) fail_msg("%s", error.detail);
    CLEANUP_JSON json_t *expected =
        json_loads("{\"id\":\"c\",\"source\":\"/tmp\",\"env\":{\"A\":\"1\",\"B\":\"2\",\"C\":\"3\"},"
                   "\"config\":{\"sys.config\":\"[].\\n\"}}",
                   0, NULL);
    assert_true(json_equal(params, expected));
    json_decref(params);
}

static void files_are_bounded_texts(void **state) {
    const char *folder = *state;
    struct error error;
    json_t *params = NULL;
    CLEANUP_FREE char *large = calloc(1, OP_FILES_MAX_BYTES + 1);
    memset(large, '#', OP_FILES_MAX_BYTES + 1);
    const struct {
        const char *path, *said;
    } cases[] = {
        {write_file(folder, "large", large, OP_FILES_MAX_BYTES + 1), "longer than"},
        {write_file(folder, "binary", "A=\0", 3), "is not text"},
        {write_file(folder, "latin", "A=\xe4", 3), "is not UTF-8"},
        {"/nowhere/at/all", "No such file"},
        {"/dev/zero", "longer than"},
        {folder, "Is a directory"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *words[] = {"c", "/tmp", "--env-file", (char *)cases[i].path};
        assert_true(parse(words, ARRAY_SIZE(words), &params, &error) < 0);
        if (!strstr(error.detail, cases[i].said)) fail_msg("%s: %s", cases[i].path, error.detail);
    }
}

static int make_folder(void **state) {
    static char folder[TEST_FOLDER_BYTES];
    *state = test_folder_make(folder);
    return *state ? 0 : -1;
}

static int remove_folder(void **state) {
    static const char *const names[] = {"first.env", "second.env", "sys.config", "large", "binary", "latin"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", (const char *)*state, names[i]);
        unlink(path);
    }
    return rmdir(*state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_names_and_values),
        cmocka_unit_test(a_bad_line_is_told_by_its_number),
        cmocka_unit_test(files_become_parameters),
        cmocka_unit_test(files_are_bounded_texts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
