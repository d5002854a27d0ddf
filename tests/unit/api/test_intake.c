/* From a body's text to checked parameters. */
#include "api_fixture.h"

#include <stdlib.h>

#include "api/api_internal.h"

/* For an operation, with one parameter from the path. */
static struct intake take(const char *op, const char *body) {
    struct intake intake = {.op = ops_find(op),
                            .params = json_pack("{s:s}", "id", "a"),
                            .text = (const uint8_t *)body,
                            .size = strlen(body),
                            .is_not = "the body is not"};
    intake_run(&intake);
    return intake;
}

static void assert_params(struct intake *intake, const char *expected) {
    char *text = json_dumps(intake->params, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, expected);
    free(text);
    json_decref(intake->params);
    free(intake->page.cursor);
}

static void parameters_are_merged_and_completed(void **state) {
    (void)state;
    struct intake intake = take("eval", "{\"code\": \"1\", \"timeout_ms\": \"5s\"}");
    assert_int_equal(intake.outcome, INTAKE_CHECKED);
    assert_params(&intake, "{\"code\":\"1\",\"id\":\"a\",\"timeout_ms\":5000}");
    intake = take("freeze", "");
    assert_int_equal(intake.outcome, INTAKE_CHECKED);
    assert_params(&intake, "{\"id\":\"a\"}");
}

static void what_is_no_parameter_says_where(void **state) {
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{\"id\": \"b\"}", "id: given twice"},  {"{\n  \"x\" 1}", "line 2, column 7"},
        {"\"text\"", "the body is not JSON"},    {"{} trailing", "line 1"},
        {"[]", "the body is not a JSON object"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct intake intake = take("freeze", cases[i].body);
        assert_int_equal(intake.outcome, INTAKE_MALFORMED);
        assert_int_equal(intake.error.code, E_INVALID);
        if (!strstr(intake.error.detail, cases[i].detail))
            fail_msg("'%s' is not in '%s'", cases[i].detail, intake.error.detail);
        json_decref(intake.params);
    }
}

static void deep_nesting_is_no_parameter(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    char *body = malloc(DEPTH + 1);
    memset(body, '[', DEPTH);
    body[DEPTH] = '\0';
    struct intake intake = take("eval", body);
    assert_int_equal(intake.outcome, INTAKE_MALFORMED);
    json_decref(intake.params);
    free(body);
}

/* The audit trail shows what was refused, but of a long one only whom it was about. */
static void what_is_refused_is_kept_if_it_is_short(void **state) {
    (void)state;
    struct intake intake = take("freeze", "{\"what\": 1}");
    assert_int_equal(intake.outcome, INTAKE_REFUSED);
    assert_int_equal(intake.error.code, E_INVALID);
    assert_params(&intake, "{\"id\":\"a\",\"what\":1}");
    struct buf body = BUF_INIT;
    buf_append_string(&body, "{\"k\":0");
    for (int i = 0; body.size < 2 * INTAKE_SHORT_BYTES; i++) buf_printf(&body, ",\"k%d\":0", i);
    buf_append_string(&body, "}");
    intake = take("freeze", buf_string(&body));
    assert_int_equal(intake.outcome, INTAKE_REFUSED);
    assert_params(&intake, "{\"id\":\"a\"}");
    buf_free(&body);
}

static void fingerprints_tell_bodies_apart(void **state) {
    (void)state;
    static const char *const bodies[] = {"{\"code\":\"1\"}", "{\"code\":\"2\"}", "{\"code\":\"1\"}"};
    uint8_t prints[3][FINGERPRINT_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        struct intake intake = {.op = ops_find("eval"),
                                .params = json_pack("{s:s}", "id", "a"),
                                .text = (const uint8_t *)bodies[i],
                                .size = strlen(bodies[i]),
                                .is_not = "the body is not",
                                .path = "/api/v1/sandboxes/a/eval"};
        intake_run(&intake);
        assert_int_equal(intake.outcome, INTAKE_CHECKED);
        memcpy(prints[i], intake.fingerprint, FINGERPRINT_BYTES);
        json_decref(intake.params);
    }
    assert_memory_not_equal(prints[0], prints[1], FINGERPRINT_BYTES);
    assert_memory_equal(prints[0], prints[2], FINGERPRINT_BYTES);
}

static void a_bound_for_each_operation(void **state) {
    (void)state;
    assert_in_range(ops_body_max(ops_find("freeze")), 4096, 64 << 10);
    assert_in_range(ops_body_max(ops_find("info")), 4096, 64 << 10);
    assert_in_range(ops_body_max(ops_find("eval")), 1 << 20, 4 << 20);
    assert_in_range(ops_body_max(ops_find("create")), 256 << 10, 2 << 20);
    assert_int_equal(ops_body_max(ops_find("reload")), 4 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_merged_and_completed), cmocka_unit_test(what_is_no_parameter_says_where),
        cmocka_unit_test(deep_nesting_is_no_parameter),        cmocka_unit_test(what_is_refused_is_kept_if_it_is_short),
        cmocka_unit_test(fingerprints_tell_bodies_apart),      cmocka_unit_test(a_bound_for_each_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
