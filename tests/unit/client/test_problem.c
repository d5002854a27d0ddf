/* Tests how the problems in answers become errors of the client library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/client_internal.h"

static void every_error_has_a_problem(void **state) {
    (void)state;
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        struct error error, again;
        error_set(&error, (enum error_code)code, "detail %d", code);
        json_t *problem = ops_problem(&error);
        assert_non_null(problem);
        problem_read(problem, 0, &again);
        assert_int_equal(again.code, code);
        assert_string_equal(again.detail, error.detail);
        json_decref(problem);
    }
}

static void unknown_slugs_are_judged_by_their_status(void **state) {
    (void)state;
    struct error error;
    json_t *problem = json_pack("{s:s}", "code", "of_the_future");
    problem_read(problem, 404, &error);
    assert_int_equal(error.code, E_NOT_FOUND);
    problem_read(problem, 418, &error);
    assert_int_equal(error.code, E_INVALID);
    problem_read(problem, 599, &error);
    assert_int_equal(error.code, E_SYSTEM);
    problem_read(NULL, 409, &error);
    assert_int_equal(error_kind(error.code)->exit_code, 4);
    json_decref(problem);
}

static void callers_get_the_whole_problem(void **state) {
    (void)state;
    struct error error;
    struct sbx_error reported;
    json_t *problem = json_pack("{s:s, s:s, s:s, s:s, s:{s:[]}}", "code", "compile_failed", "category", "compilation",
                                "recovery", "fix_input", "detail", "no", "result", "errors");
    problem_read(problem, 422, &error);
    problem_report(&error, problem, &reported);
    assert_string_equal(reported.code, "compile_failed");
    assert_string_equal(reported.category, "compilation");
    assert_int_equal(reported.status, 422);
    assert_int_equal(reported.exit_code, 1);
    assert_non_null(strstr(reported.json, "\"result\""));
    sbx_error_clear(&reported);
    assert_null(reported.json);
    problem_report(&error, problem, NULL);
    json_decref(problem);
}

static void broken_text_makes_no_broken_json(void **state) {
    (void)state;
    struct error error;
    error_set(&error, E_INVALID, "half a character: \xc3");
    json_t *problem = ops_problem(&error);
    assert_string_equal(json_string_value(json_object_get(problem, "detail")), "half a character: \\xc3");
    json_decref(problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_problem),
        cmocka_unit_test(unknown_slugs_are_judged_by_their_status),
        cmocka_unit_test(callers_get_the_whole_problem),
        cmocka_unit_test(broken_text_makes_no_broken_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
