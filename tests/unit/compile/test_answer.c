/* Tests how a compiler node's answers are read: valid ones, invalid ones, and bounds on all that a node says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../said.h"
#include "compile/compile_internal.h"
#include "compile/project/model.h"

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

static void assert_refused(const char *json, enum error_code code) {
    CLEANUP_TERM struct term_doc *doc = say(json);
    struct model model = {0};
    struct error error;
    if (model_from_term(term_root(doc), &model, &error) == 0) fail_msg("%s was accepted", json);
    assert_int_equal(error.code, code);
    assert_int_equal(model.app_count, 0);
}

static void assert_no_project(const char *json) {
    assert_refused(json, E_PROTOCOL);
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

/* Which is no lie of the node's. */
static void test_too_many_applications(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    buf_append_string(&json, "{\"described_by\": [], \"apps\": [");
    for (int i = 0; i <= NODE_APPS_MAX; i++)
        buf_printf(&json, "%s{\"name\": \"a%d\", \"sources\": [], \"options\": \"\"}", i ? "," : "", i);
    buf_append_string(&json, "]}");
    assert_refused(buf_string(&json), E_TOO_LARGE);
}

/* {apps => [#{name => N, options => …, sources => [Path, …]}, …], described_by => []} */
static struct term_doc *project_of(size_t apps, size_t sources, const char *path) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    struct term_doc *doc = NULL;
    char name[16];
    term_put_version(&bytes);
    term_put_map(&bytes, 2);
    term_put_atom(&bytes, "described_by");
    term_put_nil(&bytes);
    term_put_atom(&bytes, "apps");
    term_put_list(&bytes, apps);
    for (size_t i = 0; i < apps; i++) {
        snprintf(name, sizeof name, "a%zu", i);
        term_put_map(&bytes, 3);
        term_put_atom(&bytes, "name");
        term_put_string(&bytes, name);
        term_put_atom(&bytes, "options");
        term_put_string(&bytes, "");
        term_put_atom(&bytes, "sources");
        term_put_list(&bytes, sources);
        for (size_t k = 0; k < sources; k++) term_put_string(&bytes, path);
        term_put_nil(&bytes);
    }
    term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    return doc;
}

/* A node that says 15,000 sources with names of 3,500 bytes had the loop busy for a tenth of a second. */
static void test_sources_of_too_many_bytes(void **state) {
    (void)state;
    char path[3500];
    struct model model = {0};
    struct error error;
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    CLEANUP_TERM struct term_doc *long_names = project_of(1, 1500, path);
    assert_int_equal(model_from_term(term_root(long_names), &model, &error), -E_TOO_LARGE);
    assert_string_equal(error.detail, "the project has more than 20000 sources, or their paths have more than 4 MiB");
    CLEANUP_TERM struct term_doc *many = project_of(2, 19000, "a.ex"); /* of several applications */
    assert_int_equal(model_from_term(term_root(many), &model, &error), -E_TOO_LARGE);
    CLEANUP_TERM struct term_doc *fits = project_of(2, 10000, "apps/shop/lib/shop/orders/order_line_item_tax.ex");
    assert_int_equal(model_from_term(term_root(fits), &model, &error), 0);
    model_free(&model);
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
    struct answer_budget budget = whole_answer_budget;
    assert_int_equal(record_take_answer(record, term_root(doc), &budget, NULL), 0);
    assert_true(record->is_compiled);
    assert_string_equal(record->modules[0].name, "Elixir.A");
    assert_memory_equal(record->modules[0].beam, "FOR1", 4);
    assert_string_equal(record->compile.items[0], "b");
    assert_string_equal(record->files.items[0], "a.txt");
    assert_string_equal(record->files.items[1], "i.hrl");
    assert_int_equal(json_array_size(record->warnings), 1);
    struct error error;
    assert_int_equal(record_check_beams(record, 25, &budget, &error), -E_FORMAT);
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
        "[\"../x/../y\"]}"};
    char json[512];
    for (size_t i = 0; i < ARRAY_SIZE(modules) + ARRAY_SIZE(answers); i++) {
        if (i < ARRAY_SIZE(modules))
            snprintf(json, sizeof json, "{\"modules\": [{\"module\": %s, \"beam\": \"\"}], " LISTS "}", modules[i]);
        else
            snprintf(json, sizeof json, "%s", answers[i - ARRAY_SIZE(modules)]);
        CLEANUP_TERM struct term_doc *doc = say(json);
        struct record *record = record_new("lib/a.ex", "app");
        struct answer_budget budget = whole_answer_budget;
        struct error error;
        if (record_take_answer(record, term_root(doc), &budget, &error) == 0) fail_msg("%s was accepted", json);
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
    struct answer_budget budget = whole_answer_budget;
    struct error error;
    assert_int_equal(record_take_answer(record, term_root(doc), &budget, &error), -E_COMPILE);
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

/* ---- what all files may hold together ---- */

/* {compile => [Name, …], warnings => [#{}, …]} and the rest empty. */
static struct term_doc *answer_of(const char *name, size_t names, size_t warnings) {
    static const char *const empty[] = {"exports", "runtime", "includes", "resources", "modules"};
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    struct term_doc *doc = NULL;
    term_put_version(&bytes);
    term_put_map(&bytes, ARRAY_SIZE(empty) + 2);
    for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
        term_put_atom(&bytes, empty[i]);
        term_put_nil(&bytes);
    }
    term_put_atom(&bytes, "compile");
    term_put_list(&bytes, names);
    for (size_t i = 0; i < names; i++) term_put_string(&bytes, name);
    if (names > 0) term_put_nil(&bytes);
    term_put_atom(&bytes, "warnings");
    term_put_list(&bytes, warnings);
    for (size_t i = 0; i < warnings; i++) term_put_map(&bytes, 0);
    if (warnings > 0) term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    return doc;
}

/* Two thousand files with 950 warnings of five bytes each would become a gigabyte of objects. */
static void test_warnings_of_all_files_are_bounded(void **state) {
    (void)state;
    enum { FILES = 20, EACH = 950 };
    CLEANUP_TERM struct term_doc *doc = answer_of("", 0, EACH);
    struct answer_budget budget = whole_answer_budget;
    struct manifest manifest = {0};
    size_t kept = 0, left_out = 0;
    for (int i = 0; i < FILES; i++) {
        struct record *record = record_new("lib/a.ex", "app");
        assert_int_equal(record_take_answer(record, term_root(doc), &budget, NULL), 0);
        kept += json_array_size(record->warnings);
        left_out += record->warnings_left_out;
        assert_true(manifest_add(&manifest, record));
    }
    assert_int_equal(kept, DIAGNOSTICS_MAX);
    assert_int_equal(left_out, FILES * EACH - DIAGNOSTICS_MAX);

    /* It is still known when it is read from the build's description. */
    json_t *json = record_to_json(manifest.records[FILES - 1]);
    struct record *read = record_from_json(json);
    assert_int_equal(read->warnings_left_out, EACH);
    record_free(read);
    json_decref(json);
    manifest_free(&manifest);
}

static void test_dependencies_of_all_files_are_bounded(void **state) {
    (void)state;
    enum { EACH = 19000 };
    CLEANUP_TERM struct term_doc *doc = answer_of("1000000", EACH, 0);
    struct answer_budget budget = whole_answer_budget;
    struct manifest manifest = {0};
    struct error error;
    int result = 0;
    while (result == 0) {
        struct record *record = record_new("lib/a.ex", "app");
        assert_true(manifest_add(&manifest, record));
        result = record_take_answer(record, term_root(doc), &budget, &error);
    }
    assert_int_equal(result, -E_TOO_LARGE);
    assert_string_equal(error.detail, "the project's files depend on more than 250000 modules and files in all");
    assert_int_equal(manifest.count, DEPENDENCIES_MAX / EACH + 1);
    assert_false(manifest.records[manifest.count - 1]->is_compiled);
    manifest_free(&manifest);
}

static void test_long_names_take_room(void **state) {
    (void)state;
    CLEANUP_FREE char *name = malloc((1 << 20) + 1);
    memset(name, 'n', 1 << 20);
    name[1 << 20] = '\0';
    CLEANUP_TERM struct term_doc *doc = answer_of(name, 40, 0);
    struct answer_budget budget = whole_answer_budget;
    struct record *records[8];
    struct error error;
    int result = 0;
    size_t count = 0;
    for (; count < ARRAY_SIZE(records) && result == 0; count++) {
        records[count] = record_new("lib/a.ex", "app");
        result = record_take_answer(records[count], term_root(doc), &budget, &error);
    }
    assert_int_equal(result, -E_TOO_LARGE);
    assert_string_equal(error.detail, "what was compiled, with what it depends on, is larger than 256 MiB");
    while (count > 0) record_free(records[--count]);
}

/* A file that is compiled again takes the place of itself. */
static void test_budget_is_given_back(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = answer_of("name", 10000, 600);
    struct answer_budget budget = whole_answer_budget;
    struct record *record = record_new("lib/a.ex", "app");
    for (int i = 0; i < 30; i++) {
        assert_int_equal(record_take_answer(record, term_root(doc), &budget, NULL), 0);
        assert_int_equal(json_array_size(record->warnings), 600);
        assert_int_equal(record->warnings_left_out, 0);
    }
    record_give_budget(record, &budget);
    record_give_budget(record, &budget); /* it has none any more */
    assert_memory_equal(&budget, &whole_answer_budget, sizeof budget);
    record_free(record);
}

/* What was kept of an earlier build counts too. */
static void test_known_records_take_room(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = answer_of("name", 10, 600);
    struct answer_budget budget = whole_answer_budget, none = {0};
    struct record *first = record_new("lib/a.ex", "app"), *second = record_new("lib/b.ex", "app");
    struct error error;
    assert_int_equal(record_take_answer(first, term_root(doc), &budget, NULL), 0);
    json_t *json = record_to_json(first);
    record_free(second);
    second = record_from_json(json);
    assert_int_equal(record_hold(second, &budget, NULL), 0);
    assert_int_equal(json_array_size(second->warnings), 400);
    assert_int_equal(second->warnings_left_out, 200);
    assert_int_equal(json_array_size(json_object_get(json, "warnings")), 600); /* the description's own */
    record_give_budget(second, &budget);
    assert_int_equal(record_hold(second, &none, &error), -E_TOO_LARGE);
    json_decref(json);
    record_free(first);
    record_free(second);
}

/* ---- what it says besides ---- */

/* A few long ones are as much as many short ones. */
static void test_texts_of_diagnostics_are_bounded(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    CLEANUP_FREE char *text = malloc(TEXT_MAX_BYTES);
    memset(text, 'w', TEXT_MAX_BYTES);
    term_put_version(&bytes);
    term_put_list(&bytes, DIAGNOSTICS_MAX);
    for (int i = 0; i < DIAGNOSTICS_MAX; i++) {
        term_put_map(&bytes, 1);
        term_put_atom(&bytes, "message");
        term_put_binary(&bytes, text, TEXT_MAX_BYTES);
    }
    term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    size_t left_out;
    json_t *list = diagnostics_to_json(term_root(doc), &whole_diagnostics_budget, &left_out);
    assert_int_equal(json_array_size(list) + left_out, DIAGNOSTICS_MAX);
    assert_in_range(json_array_size(list), 400, DIAGNOSTICS_MAX_BYTES / TEXT_MAX_BYTES);
    json_decref(list);
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
    size_t left_out;
    json_t *list = diagnostics_to_json(term_root(doc), &whole_diagnostics_budget, &left_out);
    assert_int_equal(left_out, DIAGNOSTICS_MAX * 2);
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
    size_t left_out;
    return diagnostics_to_json(term_root(doc), &whole_diagnostics_budget, &left_out);
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
    size_t left_out = 7;
    json_t *list = diagnostics_to_json(NULL, &whole_diagnostics_budget, &left_out);
    assert_int_equal(left_out, 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

/* ---- several reports as one ---- */

static json_t *warnings_of(size_t count, size_t bytes) {
    json_t *list = json_array();
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'w', bytes);
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_pack("{s:s%}", "message", text, bytes));
    free(text);
    return list;
}

static void test_joined_diagnostics_are_bounded(void **state) {
    (void)state;
    static const struct {
        size_t count, bytes, at_most;
    } cases[] = {{400, 10, DIAGNOSTICS_MAX}, {400, 8000, DIAGNOSTICS_MAX_BYTES / 8000}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *all = json_array();
        size_t left_out = 0, given = 0;
        for (size_t round = 0; round < 5; round++, given += cases[i].count) {
            json_t *more = warnings_of(cases[i].count, cases[i].bytes);
            left_out += diagnostics_join(all, more);
            json_decref(more);
        }
        assert_in_range(json_array_size(all), cases[i].count, cases[i].at_most);
        assert_int_equal(json_array_size(all) + left_out, given);
        json_decref(all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_project),
        cmocka_unit_test(test_projects_that_are_none),
        cmocka_unit_test(test_too_many_applications),
        cmocka_unit_test(test_joined_diagnostics_are_bounded),
        cmocka_unit_test(test_sources_of_too_many_bytes),
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_names_that_are_the_agents),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_warnings_of_all_files_are_bounded),
        cmocka_unit_test(test_dependencies_of_all_files_are_bounded),
        cmocka_unit_test(test_long_names_take_room),
        cmocka_unit_test(test_budget_is_given_back),
        cmocka_unit_test(test_known_records_take_room),
        cmocka_unit_test(test_texts_of_diagnostics_are_bounded),
        cmocka_unit_test(test_diagnostics_are_bounded),
        cmocka_unit_test(test_messages_that_are_not_text),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
