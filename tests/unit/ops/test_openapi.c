/* Tests the OpenAPI description against the table of operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/table.h"

static json_t *operation_at(json_t *document, const char *path, const char *method) {
    return json_object_get(json_object_get(json_object_get(document, "paths"), path), method);
}

static void every_served_operation_is_in_it(void **state) {
    (void)state;
    json_t *document = ops_openapi();
    assert_string_equal(json_string_value(json_object_get(document, "openapi")), "3.1.0");
    size_t written = 0, served = 0, count;
    const char *path;
    json_t *methods;
    json_object_foreach(json_object_get(document, "paths"), path, methods) {
        written += json_object_size(methods);
    }
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) served += table[i].path != NULL;
    assert_int_equal(written, served);
    json_decref(document);
}

static void parameters_are_where_http_has_them(void **state) {
    (void)state;
    json_t *document = ops_openapi();
    json_t *eval = operation_at(document, "/api/v1/sandboxes/{id}/eval", "post");
    assert_non_null(eval);
    json_t *parameters = json_object_get(eval, "parameters");
    assert_int_equal(json_array_size(parameters), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(parameters, 0), "in")), "path");
    const char *in_body = "";
    assert_int_equal(json_unpack(eval, "{s:{s:{s:{s:{s:{s:{s:s}}}}}}}", "requestBody", "content", "application/json",
                                 "schema", "properties", "code", "type", &in_body),
                     0);
    assert_string_equal(in_body, "string");

    json_t *events = operation_at(document, "/api/v1/events", "get");
    assert_null(json_object_get(events, "requestBody"));
    assert_int_equal(json_array_size(json_object_get(events, "parameters")), 3);
    json_decref(document);
}

static void the_description_has_every_row(void **state) {
    (void)state;
    size_t count;
    const struct op *table = ops_table(&count);
    json_t *operations = ops_describe();
    assert_int_equal(json_array_size(operations), count);
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_array_get(operations, i);
        assert_string_equal(json_string_value(json_object_get(row, "name")), table[i].name);
        size_t sent = 0;
        for (size_t k = 0; k < table[i].param_count; k++) sent += !(table[i].params[k].flags & OP_CLIENT);
        assert_int_equal(json_array_size(json_object_get(row, "params")), sent);
    }
    json_decref(operations);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_served_operation_is_in_it),
        cmocka_unit_test(parameters_are_where_http_has_them),
        cmocka_unit_test(the_description_has_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
