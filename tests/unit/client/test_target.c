/* Tests how an operation and its parameters become a path, a query and a body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/client_internal.h"

static void expect_target(const char *op, const char *params_json, const char *cursor, const char *path,
                          const char *body) {
    json_t *params = json_loads(params_json, 0, NULL);
    assert_non_null(params);
    CLEANUP(target_free) struct target target = {BUF_INIT, BUF_INIT};
    assert_int_equal(target_build(ops_find(op), params, cursor, &target, NULL), 0);
    assert_string_equal(buf_string(&target.path), path);
    assert_string_equal(buf_string(&target.body), body);
    json_decref(params);
}

static void parameters_go_where_http_has_them(void **state) {
    (void)state;
    expect_target("list", "{}", NULL, "/api/v1/sandboxes", "");
    expect_target("info", "{\"id\":\"a\"}", NULL, "/api/v1/sandboxes/a", "");
    expect_target("eval", "{\"id\":\"a\",\"code\":\"1+1\"}", NULL, "/api/v1/sandboxes/a/eval", "{\"code\":\"1+1\"}");
    expect_target("restart", "{\"id\":\"a\"}", NULL, "/api/v1/sandboxes/a/restart", "{}");
    expect_target("destroy", "{\"id\":\"a\"}", NULL, "/api/v1/sandboxes/a", "");
    expect_target("logs", "{\"id\":\"a\",\"follow\":true,\"tail\":5}", NULL,
                  "/api/v1/sandboxes/a/logs?follow=true&tail=5", "");
}

static void cursors_follow_the_rest(void **state) {
    (void)state;
    expect_target("list", "{}", "a b/c", "/api/v1/sandboxes?cursor=a%20b%2Fc", "");
    expect_target("events", "{\"since\":3}", "x", "/api/v1/events?since=3&cursor=x", "");
}

static void odd_characters_are_encoded(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    percent_encode(&text, "a-._~9 /?&=%é\n");
    assert_string_equal(buf_string(&text), "a-._~9%20%2F%3F%26%3D%25%C3%A9%0A");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_go_where_http_has_them),
        cmocka_unit_test(cursors_follow_the_rest),
        cmocka_unit_test(odd_characters_are_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
