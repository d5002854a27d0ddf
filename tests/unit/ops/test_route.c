/* Tests how a method and a path lead to an operation, for every row of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/table.h"

static void every_path_leads_to_its_operation(void **state) {
    (void)state;
    static const struct {
        const char *method, *path, *op, *id;
    } cases[] = {
        {"POST", "/api/v1/sandboxes", "create", NULL},
        {"GET", "/api/v1/sandboxes", "list", NULL},
        {"GET", "/api/v1/sandboxes/counter", "info", "counter"},
        {"DELETE", "/api/v1/sandboxes/counter", "destroy", "counter"},
        {"POST", "/api/v1/sandboxes/a.b-c/eval", "eval", "a.b-c"},
        {"GET", "/api/v1/sandboxes/x/logs", "logs", "x"},
        {"GET", "/health", "health", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *params = json_object();
        const struct op *op = NULL;
        assert_int_equal(ops_route(cases[i].method, cases[i].path, params, &op, NULL), 0);
        assert_string_equal(op->name, cases[i].op);
        assert_true(string_equal(json_string_value(json_object_get(params, "id")), cases[i].id));
        json_decref(params);
    }
}

static void expect_failure(const char *method, const char *path, enum error_code code) {
    json_t *params = json_object();
    const struct op *op = NULL;
    struct error error;
    assert_int_equal(ops_route(method, path, params, &op, &error), -(int)code);
    assert_null(op);
    assert_int_equal(json_object_size(params), 0);
    json_decref(params);
}

static void other_paths_lead_nowhere(void **state) {
    (void)state;
    static const char *const paths[] = {
        "",
        "/",
        "/api/v1",
        "/api/v1/sandboxes/",
        "/api/v1/sandboxes//eval",
        "/api/v1/sandboxes/a/eval/b",
        "health",
        "/healthy",
        "/heal",
        "/health/",
        "//health",
    };
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) expect_failure("GET", paths[i], E_NOT_FOUND);
}

static void a_wrong_method_is_told_apart(void **state) {
    (void)state;
    expect_failure("PUT", "/api/v1/sandboxes", E_METHOD);
    expect_failure("GET", "/api/v1/sandboxes/a/eval", E_METHOD);
    expect_failure("get", "/health", E_METHOD);
    expect_failure("", "/health", E_METHOD);
}

static void broken_utf8_is_refused(void **state) {
    (void)state;
    expect_failure("GET", "/api/v1/sandboxes/\xff", E_INVALID);
}

static void allowed_methods_are_listed(void **state) {
    (void)state;
    char allow[OPS_ALLOW_BYTES];
    ops_allow("/api/v1/sandboxes", allow);
    assert_string_equal(allow, "POST, GET");
    ops_allow("/api/v1/sandboxes/x", allow);
    assert_string_equal(allow, "GET, DELETE");
    ops_allow("/nowhere", allow);
    assert_string_equal(allow, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_leads_to_its_operation), cmocka_unit_test(other_paths_lead_nowhere),
        cmocka_unit_test(a_wrong_method_is_told_apart),      cmocka_unit_test(broken_utf8_is_refused),
        cmocka_unit_test(allowed_methods_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
