/* Tests the bodies of answers: problems, pages of lists, and escaped text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api_internal.h"

static void assert_json(json_t *value, const char *expected) {
    assert_non_null(value);
    char *text = json_dumps(value, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void a_problem_has_every_member(void **state) {
    (void)state;
    struct error error;
    error_set(&error, E_TIMEOUT, "5 s are over");
    assert_json(api_problem(&error, "counter", NULL),
                "{\"type\":\"urn:sandbox:problem:timeout\",\"title\":\"The time allowed is over\",\"status\":504,"
                "\"detail\":\"5 s are over\",\"code\":\"timeout\",\"category\":\"runtime\",\"recovery\":\"retry\","
                "\"retry\":true,\"advice\":\"try again, or allow more time\","
                "\"sandbox_id\":\"counter\",\"errors\":[]}");
}

static void a_problem_takes_its_errors_from_the_result(void **state) {
    (void)state;
    struct error error;
    error_set(&error, E_COMPILE, "no");
    json_t *result = json_pack("{s:[s]}", "errors", "e1");
    json_t *problem = api_problem(&error, NULL, result);
    assert_true(json_is_null(json_object_get(problem, "sandbox_id")));
    assert_ptr_equal(json_object_get(problem, "errors"), json_object_get(result, "errors"));
    assert_ptr_equal(json_object_get(problem, "result"), result);
    json_decref(problem);
    assert_int_equal(result->refcount, 1);
    json_decref(result);
}

static bool has_type(const json_t *value, const char *type) {
    return json_is_string(value)    ? strcmp(type, "string") == 0
           : json_is_integer(value) ? strcmp(type, "integer") == 0
           : json_is_boolean(value) ? strcmp(type, "boolean") == 0
           : json_is_array(value)   ? strcmp(type, "array") == 0
           : json_is_object(value)  ? strcmp(type, "object") == 0
                                    : json_is_null(value) && strcmp(type, "null") == 0;
}

/* A schema's type is one word, or a list of them. */
static bool has_type_of(const json_t *value, const json_t *types) {
    if (json_is_string(types)) return has_type(value, json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (has_type(value, json_string_value(json_array_get(types, i)))) return true;
    return false;
}

static void assert_as_documented(json_t *problem, size_t missing) {
    json_t *schema = ops_problem_schema(), *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    json_object_foreach(problem, name, value) {
        if (!has_type_of(value, json_object_get(json_object_get(properties, name), "type")))
            fail_msg("openapi.json has no such '%s' of a problem", name);
    }
    assert_int_equal(json_object_size(problem) + missing, json_object_size(properties));
    json_decref(schema);
    json_decref(problem);
}

static void a_problem_is_as_the_document_says(void **state) {
    (void)state;
    struct error error;
    error_set(&error, E_COMPILE, "no");
    json_t *result = json_object();
    assert_as_documented(api_problem(&error, "counter", result), 0);
    assert_as_documented(api_problem(&error, NULL, NULL), 1);
    json_decref(result);
}

static void broken_text_is_escaped(void **state) {
    (void)state;
    struct error error;
    error_set(&error, E_INVALID, "caf\xc3");
    json_t *problem = api_problem(&error, NULL, NULL);
    assert_string_equal(json_string_value(json_object_get(problem, "detail")), "caf\\xc3");
    json_decref(problem);
}

static json_t *letters(void) {
    return json_pack("[{s:s}, {s:s}, {s:s}]", "id", "a", "id", "b", "name", "c");
}

static void pages_are_cut_at_the_limit(void **state) {
    (void)state;
    assert_json(page_cut(letters(), &(struct page){3, NULL}),
                "{\"items\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"name\":\"c\"}],\"next\":null}");
    assert_json(page_cut(letters(), &(struct page){2, NULL}),
                "{\"items\":[{\"id\":\"a\"},{\"id\":\"b\"}],\"next\":\"b\"}");
    assert_json(page_cut(letters(), &(struct page){2, (char *)"b"}), "{\"items\":[{\"name\":\"c\"}],\"next\":null}");
    assert_json(page_cut(letters(), &(struct page){2, (char *)"aa"}),
                "{\"items\":[{\"id\":\"b\"},{\"name\":\"c\"}],\"next\":null}");
    assert_json(page_cut(json_array(), &(struct page){2, (char *)"b"}), "{\"items\":[],\"next\":null}");
}

static void paging_is_taken_out_of_the_parameters(void **state) {
    (void)state;
    struct page page;
    json_t *params = json_pack("{s:i, s:s, s:s}", "limit", 7, "cursor", "x", "other", "stays");
    assert_int_equal(page_take(params, &page, NULL), 0);
    assert_int_equal(page.limit, 7);
    assert_string_equal(page.cursor, "x");
    free(page.cursor);
    assert_json(params, "{\"other\":\"stays\"}");
}

static void bad_paging_changes_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {"{\"limit\":-1}", "{\"limit\":1.5}", "{\"limit\":\"\"}", "{\"limit\":null}",
                                      "{\"cursor\":1}"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct error error = {0};
        struct page page = {.limit = 42};
        json_t *params = json_loads(bad[i], 0, NULL);
        assert_true(page_take(params, &page, &error) < 0);
        assert_int_equal(error.code, E_INVALID);
        assert_int_equal(page.limit, 42);
        assert_json(params, bad[i]);
    }
}

static void answers_are_shared_by_reference(void **state) {
    (void)state;
    struct answer *answer = answer_json(200, json_pack("[i]", 1));
    assert_string_equal(answer->body, "[1]");
    assert_ptr_equal(answer_reference(answer), answer);
    assert_null(answer_release(answer));
    assert_int_equal(answer->references, 1);
    assert_null(answer_release(answer));
    assert_null(answer_json(200, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_has_every_member),
        cmocka_unit_test(a_problem_takes_its_errors_from_the_result),
        cmocka_unit_test(a_problem_is_as_the_document_says),
        cmocka_unit_test(broken_text_is_escaped),
        cmocka_unit_test(pages_are_cut_at_the_limit),
        cmocka_unit_test(paging_is_taken_out_of_the_parameters),
        cmocka_unit_test(bad_paging_changes_nothing),
        cmocka_unit_test(answers_are_shared_by_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
