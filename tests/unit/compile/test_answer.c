#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile_internal.h"

/* What the compiler node says, put together as JSON with binaries for texts; a key "beam" makes it a module. */
struct outcome {
    int result;
    struct error error;
    struct file_list list;
    json_t *facts, *report;
};

static void give(const char *json, struct outcome *ret) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    json_t *value = json_loads(json, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    term_put_version(&bytes);
    assert_int_equal(term_put_json(&bytes, value, NULL), 0);
    json_decref(value);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    *ret = (struct outcome){0};
    ret->result = answer_to_build(term_root(doc), &ret->list, &ret->facts, &ret->report, &ret->error);
}

static void outcome_free(struct outcome *outcome) {
    file_list_free(&outcome->list);
    json_decref(outcome->facts);
    json_decref(outcome->report);
}

static void assert_refused(const char *json, enum error_code code) {
    CLEANUP(outcome_free) struct outcome outcome;
    give(json, &outcome);
    if (outcome.result == 0) fail_msg("%s was accepted", json);
    assert_int_equal(outcome.error.code, code);
    assert_null(outcome.facts);
    assert_null(outcome.report);
}

static void test_a_build(void **state) {
    (void)state;
    CLEANUP(outcome_free) struct outcome outcome;
    give("{\"apps\": [{\"name\": \"counter\", \"app_file\": \"{application}\", \"priv\": true, \"dir\": "
         "\"apps/counter\","
         " \"modules\": [{\"module\": \"Elixir.Counter\", \"beam\": \"FOR1\"}]}], \"main\": \"counter\","
         " \"config\": \"[]\", \"language\": \"elixir\", \"supervisor\": null,"
         " \"warnings\": [{\"file\": \"a.ex\", \"line\": 3, \"message\": \"unused\", \"kind\": \"warning\"}]}",
         &outcome);
    assert_int_equal(outcome.result, 0);
    assert_int_equal(outcome.list.count, 3);
    assert_string_equal(outcome.list.files[0].path, "counter/ebin/counter.app");
    assert_string_equal(outcome.list.files[1].path, "counter/ebin/Elixir.Counter.beam");
    assert_memory_equal(outcome.list.files[1].data, "FOR1", 4);
    assert_string_equal(outcome.list.files[2].path, BUILD_CONFIG_FILE);
    const char *app, *main, *language, *module, *file;
    int has_config, line;
    json_t *supervisor, *column;
    assert_int_equal(json_unpack(outcome.facts, "{s:[{s:s}], s:s, s:s, s:[s], s:b, s:o}", "apps", "name", &app, "main",
                                 &main, "language", &language, "modules", &module, "has_config", &has_config,
                                 "supervisor", &supervisor),
                     0);
    assert_string_equal(app, "counter");
    assert_string_equal(main, "counter");
    assert_string_equal(language, "elixir");
    assert_string_equal(module, "Counter");
    assert_true(has_config);
    assert_true(json_is_null(supervisor));
    assert_int_equal(json_unpack(outcome.report, "{s:[{s:s, s:i, s:o}], s:s}", "warnings", "file", &file, "line", &line,
                                 "column", &column, "app_file", &app),
                     0);
    assert_string_equal(file, "a.ex");
    assert_int_equal(line, 3);
    assert_true(json_is_null(column));
    assert_string_equal(app, "counter/ebin/counter.app");
}

static void test_names_that_are_no_names(void **state) {
    (void)state;
    static const char *const apps[] = {"\"../x\"", "\"a/b\"", "\"\"", "\".\"",         "\"a.b\"",    "\"a b\"",
                                       "7",        "null",    "[]",   "\"a\\u0000b\"", "\"\\u00e4\""};
    static const char *const modules[] = {"\"../x\"", "\"a/b\"",   "\"\"",         "7",           "null",
                                          "{}",       "\"a\\nb\"", "\"a\\u007f\"", "\"a\\u0000\""};
    char json[256];
    for (size_t i = 0; i < ARRAY_SIZE(apps); i++) {
        snprintf(json, sizeof json, "{\"apps\": [{\"name\": %s, \"modules\": [{\"module\": \"m\", \"beam\": \"\"}]}]}",
                 apps[i]);
        assert_refused(json, E_PROTOCOL);
    }
    for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
        snprintf(json, sizeof json, "{\"apps\": [{\"name\": \"a\", \"modules\": [{\"module\": %s, \"beam\": \"\"}]}]}",
                 modules[i]);
        assert_refused(json, E_PROTOCOL);
    }
}

static void test_long_names(void **state) {
    (void)state;
    char name[300], json[600];
    memset(name, 'a', sizeof name);
    name[248] = '\0';
    snprintf(json, sizeof json, "{\"apps\": [{\"name\": \"a\", \"modules\": [{\"module\": \"%s\", \"beam\": \"\"}]}]}",
             name);
    assert_refused(json, E_PROTOCOL);
    name[100] = '\0';
    snprintf(json, sizeof json, "{\"apps\": [{\"name\": \"%s\", \"modules\": [{\"module\": \"a\", \"beam\": \"\"}]}]}",
             name);
    assert_refused(json, E_PROTOCOL);
}

static void test_other_shapes(void **state) {
    (void)state;
    static const char *const answers[] = {
        "{}",
        "[]",
        "{\"apps\": {}}",
        "{\"apps\": []}",
        "{\"apps\": \"a\"}",
        "{\"apps\": [7]}",
        "{\"apps\": [{}]}",
        "{\"apps\": [{\"name\": \"a\", \"modules\": [7]}]}",
        "{\"apps\": [{\"name\": \"a\", \"modules\": [{}]}]}",
        "{\"apps\": [{\"name\": \"a\", \"modules\": [{\"module\": \"m\", \"beam\": 7}]}]}",
        "{\"apps\": [{\"name\": \"a\", \"modules\": [{\"module\": \"m\"}]}]}"};
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) assert_refused(answers[i], E_PROTOCOL);
}

static void test_no_modules(void **state) {
    (void)state;
    assert_refused("{\"apps\": [{\"name\": \"a\", \"modules\": []}]}", E_INVALID);
    assert_refused("{\"apps\": [{\"name\": \"a\", \"modules\": 7}]}", E_INVALID);
}

static void test_too_many_applications(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    buf_append_string(&json, "{\"apps\": [");
    for (int i = 0; i <= NODE_APPS_MAX; i++)
        buf_printf(&json, "%s{\"name\": \"a%d\", \"modules\": [{\"module\": \"m%d\", \"beam\": \"\"}]}", i ? "," : "",
                   i, i);
    buf_append_string(&json, "]}");
    assert_refused(buf_string(&json), E_PROTOCOL);
}

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
        cmocka_unit_test(test_a_build),
        cmocka_unit_test(test_names_that_are_no_names),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_no_modules),
        cmocka_unit_test(test_too_many_applications),
        cmocka_unit_test(test_diagnostics_are_bounded),
        cmocka_unit_test(test_messages_that_are_not_text),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
