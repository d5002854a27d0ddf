/* What is done without a sandbox: compile, validate, deps. Nothing of it stays. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "builds.h"
#include "processes.h"
#include "support.h"

static int open_world(void **state) {
    *state = world_open("warm-nodes = 0\n");
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static size_t size_of(const json_t *object, const char *name) {
    return json_array_size(json_object_get(object, name));
}

/* ---- compile ---- */

static void a_project_is_compiled(struct world *world) {
    json_t *report = world_op(world, "compile", "{s:s}", "source", EXAMPLES "/counter_erl");
    assert_string_equal(text_of(report, "status"), "ok");
    assert_int_equal(size_of(report, "beam_files"), 3);
    assert_int_equal(size_of(report, "errors"), 0);
    assert_true(json_is_string(json_object_get(report, "app_file")));
    assert_true(json_is_integer(json_object_get(report, "compilation_time_ms")));
    json_decref(report);
}

#define HANDED_IN "handed_in.ex" /* by one name, so that one compiler serves */

static void sources_that_do_not_compile_are_a_problem(struct world *world) {
    json_t *problem = world_fails(world, "compile", "compile_failed", "{s:s, s:s}", "code",
                                  "defmodule Broken do\n  def f do\n    g(1)\n  end\nend\n", "file", HANDED_IN);
    json_t *result = json_object_get(problem, "result");
    json_t *error = json_array_get(json_object_get(result, "errors"), 0);
    assert_string_equal(text_of(result, "status"), "error");
    assert_string_equal(text_of(error, "file"), HANDED_IN);
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 3);
    build_assert_no_leftovers(world);
    json_decref(problem);
}

static void wrong_wishes_are_refused(struct world *world) {
    static const struct {
        const char *params, *detail;
    } cases[] = {
        {"{}", "a path is missing, or code"},
        {"{\"source\": \"/a\", \"code\": \"b\", \"file\": \"c.ex\"}", "a path or code, not both"},
        {"{\"source\": \"/a\", \"file\": \"c.ex\"}", "file: a path has its own name"},
        {"{\"code\": \"b\"}", "file is missing: the name that the code goes by"},
        {"{\"code\": \"b\", \"file\": \"../c.ex\"}", "file: \"../c.ex\" is not a file's name such as counter.ex"},
        {"{\"code\": \"b\", \"file\": \"..\"}", "file: \"..\" is not a file's name such as counter.ex"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sbx_error error;
        assert_int_equal(sbx_compile(world_client(world), NULL, cases[i].params, NULL, &error), -1);
        assert_string_equal(error.code, "invalid_input");
        assert_string_equal(error.detail, cases[i].detail);
        sbx_error_clear(&error);
    }
}

/* Code that never compiles to an end, and a caller who does not wait for it. */
static void a_caller_who_leaves_ends_it(struct world *world) {
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *impatient;
    struct sbx_error error;
    options.home = world_home(world);
    options.timeout_ms = 700;
    assert_int_equal(sbx_open_with(&options, &impatient, &error), 0);
    assert_int_equal(sbx_compile(impatient, NULL,
                                 "{\"code\": \"Process.sleep(:infinity)\", \"file\": \"" HANDED_IN "\"}", NULL, &error),
                     -1);
    assert_string_equal(error.code, "timeout");
    sbx_error_clear(&error);
    sbx_close(impatient);
    build_assert_no_leftovers(world);
}

static void test_compile(void **state) {
    a_project_is_compiled(*state);
    sources_that_do_not_compile_are_a_problem(*state);
    wrong_wishes_are_refused(*state);
    a_caller_who_leaves_ends_it(*state);
}

/* ---- validate ---- */

static json_t *validate(struct world *world, const char *path) {
    char *text = NULL;
    struct sbx_error error;
    if (sbx_validate_beam(world_client(world), path, &text, &error) < 0) fail_msg("%s: %s", path, error.detail);
    json_t *answer = json_loads(text, 0, NULL);
    free(text);
    return answer;
}

static void test_validate(void **state) {
    struct world *world = *state;
    const char *good = world_copy(world, "ebin/compiled.beam", COMPILED "/compiled.beam", SIZE_MAX);
    const char *cut = world_copy(world, "ebin/cut.beam", COMPILED "/compiled.beam", 200);

    json_t *answer = validate(world, good);
    json_t *file = json_array_get(json_object_get(answer, "files"), 0);
    assert_true(json_is_true(json_object_get(answer, "valid")));
    assert_string_equal(text_of(file, "file"), good);
    assert_string_equal(text_of(file, "module"), "compiled");
    json_decref(answer);

    answer = validate(world, world_path(world, "ebin"));
    assert_true(json_is_false(json_object_get(answer, "valid")));
    assert_int_equal(size_of(answer, "files"), 2);
    file = json_array_get(json_object_get(answer, "files"), 1);
    assert_string_equal(text_of(file, "file"), cut);
    assert_string_equal(text_of(json_object_get(file, "error"), "code"), "malformed_data");
    json_decref(answer);

    json_decref(world_fails(world, "validate", "not_found", "{s:s}", "path", world_path(world, "nothing.beam")));
    world_file(world, "empty/notes.txt", "");
    json_decref(world_fails(world, "validate", "invalid_input", "{s:s}", "path", world_path(world, "empty")));
    build_assert_no_leftovers(world);
}

/* ---- deps ---- */

static void expect_graph(const char *text) {
    json_t *graph = json_loads(text, 0, NULL);
    CLEANUP_FREE char *order = json_dumps(json_object_get(graph, "order"), JSON_COMPACT);
    json_t *first = json_array_get(json_object_get(graph, "modules"), 0);
    assert_string_equal(text_of(first, "module"), "counter");
    assert_string_equal(text_of(first, "app"), "counter_erl");
    assert_int_equal(size_of(graph, "modules"), 3);
    assert_int_equal(size_of(graph, "cycles"), 0);
    assert_non_null(strstr(order, "[\"counter_sup\"],[\"counter_app\"]"));
    json_decref(graph);
}

static void test_deps(void **state) {
    struct world *world = *state;
    struct sbx *client = world_client(world);
    char *text = NULL;
    world_do(world, "create", "{s:s, s:s}", "id", "a", "source", EXAMPLES "/counter_erl");
    assert_int_equal(sbx_dependency_graph(client, "a", NULL, &text, NULL), 0);
    expect_graph(text);
    free(text);
    assert_int_equal(sbx_dependency_graph(client, EXAMPLES "/counter_erl", NULL, &text, NULL), 0);
    expect_graph(text);
    free(text);
    assert_int_equal(sbx_reload_order(client, "a", &text, NULL), 0);
    assert_true(string_starts(text, "[["));
    free(text);
    json_t *answer = world_op(world, "deps", "{s:s, s:s, s:b}", "target", "a", "format", "dot", "external", 1);
    assert_true(string_starts(text_of(answer, "text"), "digraph modules {"));
    assert_non_null(strstr(text_of(answer, "text"), "\"counter\" -> \"gen_server\""));
    json_decref(answer);
    json_decref(world_fails(world, "deps", "not_found", "{s:s}", "target", "b"));
    world_destroy(world, "a");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_validate),
        cmocka_unit_test(test_deps),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
