/* Tests the way from a request to its operation over a stand-in engine: methods, parameters, problems and pages. */
#include "api_fixture.h"

#include "ops/table.h"

static void ask(struct fixture *fixture, const char *method, const char *target, const char *body,
                struct response *ret) {
    struct client client;
    client_open(fixture, &client);
    client_ask(&client, method, target, NULL, body, ret);
    client_close(&client);
}

static void bad_requests_get_problems(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        const char *method, *target, *body;
        int status;
        const char *code, *detail;
    } cases[] = {
        {"GET", "/nowhere", NULL, 404, "not_found", "/nowhere"},
        {"GET", "/", NULL, 404, "not_found", "/"},
        {"PATCH", "/api/v1/sandboxes/a", NULL, 405, "method_not_allowed", "PATCH"},
        {"POST", "/api/v1/sandboxes", "{\"id\": \"a\",}", 400, "invalid_input", "line 1, column 12"},
        {"POST", "/api/v1/sandboxes", "[1]", 400, "invalid_input", "not a JSON object"},
        {"POST", "/api/v1/sandboxes", "{\"id\":\"a\",\"id\":\"b\"}", 400, "invalid_input", "duplicate"},
        {"POST", "/api/v1/sandboxes", "\xff\xfe", 400, "invalid_input", "not JSON"},
        {"POST", "/api/v1/sandboxes", "", 400, "invalid_input", "id"},
        {"POST", "/api/v1/sandboxes/a/restart", "{\"id\":\"b\"}", 400, "invalid_input", "id: given twice"},
        {"POST", "/api/v1/sandboxes/a/restart?fresh=true", "{\"fresh\":true}", 400, "invalid_input", "given twice"},
        {"GET", "/api/v1/sandboxes/a?id=b", NULL, 400, "invalid_input", "id: given twice"},
        {"GET", "/api/v1/sandboxes/a?colour=red", NULL, 400, "invalid_input", "colour"},
        {"GET", "/api/v1/sandboxes/..%2fetc", NULL, 404, "not_found", ""},
        {"GET", "/api/v1/sandboxes/a%00b", NULL, 400, "invalid_input", "%00"},
        {"GET", "/api/v1/sandboxes/%ff", NULL, 400, "invalid_input", "UTF-8"},
        {"GET", "/api/v1/sandboxes?x=%ff", NULL, 400, "invalid_input", "UTF-8"},
        {"GET", "/api/v1/sandboxes?limit=0", NULL, 400, "invalid_input", "limit"},
        {"GET", "/api/v1/sandboxes?limit=1001", NULL, 400, "invalid_input", "limit"},
        {"GET", "/api/v1/sandboxes?limit=many", NULL, 400, "invalid_input", "limit"},
        {"GET", "/api/v1/operations?colour=red", NULL, 400, "invalid_input", "colour"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct response response;
        ask(fixture, cases[i].method, cases[i].target, cases[i].body, &response);
        assert_problem(&response, cases[i].status, cases[i].code);
        if (!strstr(response_text(&response, "detail"), cases[i].detail))
            fail_msg("'%s' is not in '%s'", cases[i].detail, response_text(&response, "detail"));
        response_free(&response);
    }
    assert_int_equal(fixture->engine.started, 0);
}

static void a_wrong_method_says_which_are_right(void **state) {
    struct response response;
    ask(*state, "PUT", "/api/v1/sandboxes/a", NULL, &response);
    assert_int_equal(response.status, 405);
    assert_non_null(strstr(response.header, "\r\nAllow: GET, DELETE\r\n"));
    response_free(&response);
}

static void the_engines_failure_becomes_a_problem(void **state) {
    struct response response;
    ask(*state, "GET", "/api/v1/sandboxes/missing", NULL, &response);
    assert_problem(&response, 404, "not_found");
    assert_string_equal(response_text(&response, "type"), "urn:sandbox:problem:not_found");
    assert_string_equal(response_text(&response, "sandbox_id"), "missing");
    assert_string_equal(response_text(&response, "detail"), "the test said so");
    assert_null(json_object_get(response.json, "result"));
    response_free(&response);
}

static void a_failure_with_a_result_carries_it(void **state) {
    struct response response;
    ask(*state, "POST", "/api/v1/sandboxes", "{\"id\":\"broken\",\"source\":\"/a\"}", &response);
    assert_problem(&response, 422, "compile_failed");
    json_t *errors = json_object_get(response.json, "errors");
    assert_int_equal(json_array_size(errors), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(errors, 0), "line")), 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(response.json, "result"), "status")),
                        "failed");
    response_free(&response);
}

static void parameters_come_from_path_query_and_body(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    ask(fixture, "POST", "/api/v1/sandboxes/a/restart?fresh=true", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(fixture->engine.last_params, "{\"fresh\":true,\"id\":\"a\"}");
    response_free(&response);
    ask(fixture, "POST", "/api/v1/sandboxes/a/restart", "{\"fresh\":false}", &response);
    assert_string_equal(fixture->engine.last_params, "{\"fresh\":false,\"id\":\"a\"}");
    response_free(&response);
    ask(fixture, "POST", "/api/v1/sandboxes?require=uid_per_node&require=cgroups", "{\"id\":\"a\",\"source\":\"/a\"}",
        &response);
    assert_non_null(strstr(fixture->engine.last_params, "\"require\":[\"uid_per_node\",\"cgroups\"]"));
    response_free(&response);
}

static size_t items_of(const struct response *response) {
    return json_array_size(json_object_get(response->json, "items"));
}

static void lists_page(void **state) {
    struct fixture *fixture = *state;
    char target[128] = "/api/v1/sandboxes?limit=2", seen[128] = "";
    unsigned pages = 0;
    for (bool more = true; more; pages++) {
        struct response response;
        ask(fixture, "GET", target, NULL, &response);
        assert_int_equal(response.status, 200);
        size_t i;
        json_t *item;
        json_array_foreach(json_object_get(response.json, "items"), i, item) {
            strcat(strcat(seen, json_string_value(json_object_get(item, "id"))), " ");
        }
        more = json_is_string(json_object_get(response.json, "next"));
        snprintf(target, sizeof target, "/api/v1/sandboxes?limit=2&cursor=%s", response_text(&response, "next"));
        response_free(&response);
    }
    assert_string_equal(seen, "s0000 s0001 s0002 s0003 s0004 ");
    assert_int_equal(pages, 3);
}

static void a_list_without_paging_is_whole_up_to_a_bound(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    ask(fixture, "GET", "/api/v1/sandboxes", NULL, &response);
    assert_int_equal(items_of(&response), 5);
    assert_true(json_is_null(json_object_get(response.json, "next")));
    response_free(&response);
    fixture->engine.list_size = 1001;
    ask(fixture, "GET", "/api/v1/sandboxes", NULL, &response);
    assert_int_equal(items_of(&response), 1000);
    assert_string_equal(response_text(&response, "next"), "s0999");
    response_free(&response);
}

static void a_cursor_whose_item_is_gone_goes_on_after_it(void **state) {
    struct response response;
    ask(*state, "GET", "/api/v1/sandboxes?cursor=s0002x", NULL, &response);
    assert_int_equal(items_of(&response), 2);
    response_free(&response);
    ask(*state, "GET", "/api/v1/sandboxes?cursor=zzz", NULL, &response);
    assert_int_equal(items_of(&response), 0);
    response_free(&response);
    ask(*state, "GET", "/api/v1/profiles?limit=1&cursor=medium", NULL, &response);
    assert_int_equal(items_of(&response), 1);
    assert_true(json_is_null(json_object_get(response.json, "next")));
    response_free(&response);
}

static void the_table_describes_itself(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    size_t count;
    (void)ops_table(&count);
    ask(fixture, "GET", "/api/v1/operations", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_int_equal(items_of(&response), count);
    response_free(&response);
    for (int i = 0; i < 2; i++) {
        ask(fixture, "GET", "/openapi.json", NULL, &response);
        assert_int_equal(response.status, 200);
        assert_true(string_starts(response_text(&response, "openapi"), "3.1"));
        response_free(&response);
    }
    assert_int_equal(fixture->engine.started, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_requests_get_problems, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_wrong_method_says_which_are_right, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_engines_failure_becomes_a_problem, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_failure_with_a_result_carries_it, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(parameters_come_from_path_query_and_body, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lists_page, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_list_without_paging_is_whole_up_to_a_bound, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_cursor_whose_item_is_gone_goes_on_after_it, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_table_describes_itself, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
