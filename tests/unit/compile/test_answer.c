#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../said.h"
#include "compile/compile_internal.h"
#include "compile/model.h"

/* ---- what a project is ---- */

#define APP(name, more) "{\"name\": " name ", \"options\": \"o\", \"sources\": [\"lib/a.ex\"], \"dir\": \".\"" more "}"

static void test_a_project(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc =
        say("{\"apps\": [{\"name\": \"dep\", \"dir\": \"deps/dep\", \"options\": \"x\", \"sources\": [], \"priv\": "
            "true}, " APP(
                "\"counter\"",
                "") "], \"main\": \"counter\", \"loose\": false, \"config\": \"[]\","
                    " \"described_by\": [\"mix.exs\"], \"problems\": [{\"message\": \"m\", \"kind\": \"warning\"}]}");
    CLEANUP(model_free) struct model model = {0};
    assert_int_equal(model_from_term(term_root(doc), &model, NULL), 0);
    assert_int_equal(model.app_count, 2);
    assert_string_equal(model.apps[0].dir, "deps/dep");
    assert_string_equal(model.apps[1].dir, "");
    assert_true(model.apps[0].has_priv && !model.apps[1].has_priv);
    assert_string_equal(model.apps[1].sources.items[0], "lib/a.ex");
    assert_memory_not_equal(model.apps[0].options, model.apps[1].options, DIGEST_BYTES);
    assert_string_equal(model.main, "counter");
    assert_int_equal(model.config_size, 2);
    assert_int_equal(json_array_size(model.problems), 1);
    assert_ptr_equal(model_find(&model, "counter"), &model.apps[1]);
    assert_null(model_find(&model, "other"));
}

static void assert_no_project(const char *json) {
    CLEANUP_TERM struct term_doc *doc = say(json);
    struct model model = {0};
    struct error error;
    if (model_from_term(term_root(doc), &model, &error) == 0) fail_msg("%s was accepted", json);
    assert_int_equal(error.code, E_PROTOCOL);
    assert_int_equal(model.app_count, 0);
}

static void test_projects_that_are_none(void **state) {
    (void)state;
    static const char *const apps[] = {"\"../x\"", "\"a/b\"", "\"\"", "\".\"",         "\"a.b\"",    "\"a b\"",
                                       "7",        "null",    "[]",   "\"a\\u0000b\"", "\"\\u00e4\""};
    static const char *const answers[] = {
        "{}",
        "[]",
        "{\"apps\": {}}",
        "{\"apps\": []}",
        "{\"apps\": \"a\"}",
        "{\"apps\": [7]}",
        "{\"apps\": [{}]}",
        "{\"apps\": [{\"name\": \"a\", \"sources\": []}]}",
        "{\"apps\": [{\"name\": \"a\", \"sources\": [\"../a.ex\"], \"options\": \"\"}]}",
        "{\"apps\": [{\"name\": \"a\", \"sources\": [\"/a.ex\"], \"options\": \"\"}]}",
        "{\"apps\": [{\"name\": \"a\", \"sources\": [7], \"options\": \"\"}]}",
        "{\"apps\": [{\"name\": \"a\", \"sources\": [], \"options\": \"\", \"dir\": \"a/../..\"}]}",
        "{\"apps\": [" APP("\"a\"", "") ", " APP("\"a\"", "") "]}",
        "{\"apps\": [" APP("\"a\"", "") "], \"described_by\": 7}"};
    char json[512];
    for (size_t i = 0; i < ARRAY_SIZE(apps); i++) {
        snprintf(json, sizeof json, "{\"described_by\": [], \"apps\": [" APP("%s", "") "]}", apps[i]);
        assert_no_project(json);
    }
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) assert_no_project(answers[i]);
}

static void test_too_many_applications(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    buf_append_string(&json, "{\"described_by\": [], \"apps\": [");
    for (int i = 0; i <= NODE_APPS_MAX; i++)
        buf_printf(&json, "%s{\"name\": \"a%d\", \"sources\": [], \"options\": \"\"}", i ? "," : "", i);
    buf_append_string(&json, "]}");
    assert_no_project(buf_string(&json));
}

/* ---- what a file compiled to ---- */

#define LISTS "\"compile\": [], \"exports\": [], \"runtime\": [], \"includes\": [], \"resources\": []"

static void test_a_file(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc =
        say("{\"file\": \"lib/a.ex\", \"modules\": [{\"module\": \"Elixir.A\", \"beam\": \"FOR1\"}], \"compile\": "
            "[\"c\", \"b\"],"
            " \"exports\": [\"e\"], \"runtime\": [], \"includes\": [\"i.hrl\"], \"resources\": [\"a.txt\"],"
            " \"warnings\": [{\"file\": \"lib/a.ex\", \"line\": 3, \"message\": \"unused\", \"kind\": \"warning\"}]}");
    struct record *record = record_new("lib/a.ex", "app");
    assert_int_equal(record_take_answer(record, term_root(doc), NULL), 0);
    assert_true(record->is_compiled);
    assert_string_equal(record->modules[0].name, "Elixir.A");
    assert_memory_equal(record->modules[0].beam, "FOR1", 4);
    assert_string_equal(record->compile.items[0], "b");
    assert_string_equal(record->files.items[0], "a.txt");
    assert_string_equal(record->files.items[1], "i.hrl");
    assert_int_equal(json_array_size(record->warnings), 1);
    struct error error;
    assert_int_equal(record_check_beams(record, 25, &error), -E_FORMAT);
    assert_non_null(strstr(error.detail, "Elixir.A"));
    record_free(record);
}

static void test_files_that_are_none(void **state) {
    (void)state;
    static const char *const modules[] = {"\"../x\"", "\"a/b\"",   "\"\"",         "7",           "null",
                                          "{}",       "\"a\\nb\"", "\"a\\u007f\"", "\"a\\u0000\""};
    static const char *const answers[] = {
        "{\"modules\": [7], " LISTS "}",
        "{\"modules\": [{}], " LISTS "}",
        "{\"modules\": [{\"module\": \"m\", \"beam\": 7}], " LISTS "}",
        "{\"modules\": [{\"module\": \"m\"}], " LISTS "}",
        "{\"modules\": []}",
        "{\"modules\": [], \"compile\": [7], \"exports\": [], \"runtime\": [], \"includes\": [], \"resources\": []}",
        "{\"modules\": [], \"compile\": [], \"exports\": [], \"runtime\": [], \"includes\": [\"/etc/passwd\"], "
        "\"resources\": []}",
        "{\"modules\": [], \"compile\": [], \"exports\": [], \"runtime\": [], \"includes\": [], \"resources\": "
        "[\"../x\"]}"};
    char json[512];
    for (size_t i = 0; i < ARRAY_SIZE(modules) + ARRAY_SIZE(answers); i++) {
        if (i < ARRAY_SIZE(modules))
            snprintf(json, sizeof json, "{\"modules\": [{\"module\": %s, \"beam\": \"\"}], " LISTS "}", modules[i]);
        else
            snprintf(json, sizeof json, "%s", answers[i - ARRAY_SIZE(modules)]);
        CLEANUP_TERM struct term_doc *doc = say(json);
        struct record *record = record_new("lib/a.ex", "app");
        struct error error;
        if (record_take_answer(record, term_root(doc), &error) == 0) fail_msg("%s was accepted", json);
        assert_int_equal(error.code, E_PROTOCOL);
        assert_false(record->is_compiled);
        record_free(record);
    }
}

/* It is the sources' own mistake, not the node's. */
static void test_names_that_are_the_agents(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = say("{\"modules\": [{\"module\": \"sbx_eval\", \"beam\": \"\"}], " LISTS "}");
    struct record *record = record_new("src/sbx_eval.erl", "app");
    struct error error;
    assert_int_equal(record_take_answer(record, term_root(doc), &error), -E_COMPILE);
    assert_string_equal(error.detail, "the module sbx_eval can't be named so: names that begin with sbx_ are reserved "
                                      "for the agent inside each node");
    assert_false(record->is_compiled);
    record_free(record);
}

static void test_long_names(void **state) {
    (void)state;
    char name[300];
    memset(name, 'a', sizeof name);
    name[248] = '\0';
    assert_false(is_module_name(name));
    name[247] = '\0';
    assert_true(is_module_name(name));
    assert_false(is_app_name(name));
    name[99] = '\0';
    assert_true(is_app_name(name));
    assert_false(is_relative_path("") || is_relative_path("/a") || is_relative_path("a//b") || is_relative_path(".."));
    assert_false(is_relative_path("a/../b") || is_relative_path("a/\xff"));
    assert_true(is_relative_path("a/b..c/...ex"));
}

/* ---- what it says besides ---- */

/* A list of a million warnings would be a million objects. */
static void test_diagnostics_are_bounded(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    term_put_version(&bytes);
    term_put_list(&bytes, DIAGNOSTICS_MAX * 3);
    for (int i = 0; i < DIAGNOSTICS_MAX * 3; i++) term_put_nil(&bytes);
    term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    json_t *list = diagnostics_to_json(term_root(doc));
    assert_int_equal(json_array_size(list), DIAGNOSTICS_MAX);
    json_t *first = json_array_get(list, 0);
    assert_true(json_is_null(json_object_get(first, "file")));
    assert_true(json_is_null(json_object_get(first, "line")));
    json_decref(list);
}

static json_t *only_message(const void *text, size_t size) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    term_put_version(&bytes);
    term_put_list(&bytes, 1);
    term_put_map(&bytes, 1);
    term_put_atom(&bytes, "message");
    term_put_binary(&bytes, text, size);
    term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    return diagnostics_to_json(term_root(doc));
}

static void test_messages_that_are_not_text(void **state) {
    (void)state;
    json_t *list = only_message("caf\xe9", 4);
    const char *message;
    assert_int_equal(json_unpack(list, "[{s:s}]", "message", &message), 0);
    assert_int_equal(strncmp(message, "caf", 3), 0);
    json_decref(list);
}

static void test_long_messages_are_cut(void **state) {
    (void)state;
    CLEANUP_FREE char *long_text = malloc(TEXT_MAX_BYTES * 2);
    memset(long_text, 'x', TEXT_MAX_BYTES * 2);
    json_t *list = only_message(long_text, TEXT_MAX_BYTES * 2);
    assert_int_equal(json_string_length(json_object_get(json_array_get(list, 0), "message")), TEXT_MAX_BYTES);
    json_decref(list);
}

static void test_no_list(void **state) {
    (void)state;
    json_t *list = diagnostics_to_json(NULL);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_project),
        cmocka_unit_test(test_projects_that_are_none),
        cmocka_unit_test(test_too_many_applications),
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_names_that_are_the_agents),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_diagnostics_are_bounded),
        cmocka_unit_test(test_messages_that_are_not_text),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
