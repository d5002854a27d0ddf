/* Tests how parameters of requests are checked and converted, type by type and as whole requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/table.h"

/* One value, written as JSON, against one parameter: either what it becomes, or a word of the complaint. */
struct conversion {
    const char *input;
    const char *output;    /* JSON, or NULL: refused */
    const char *complaint; /* part of the error's detail */
};

static void check_conversions(const struct op_param *param, const struct conversion *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_t *input = json_loads(cases[i].input, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(input);
        json_t *output = NULL;
        struct error error = {0};
        int result = ops_convert(param, input, &output, &error);
        if (cases[i].output) {
            assert_int_equal(result, 0);
            json_t *expected = json_loads(cases[i].output, JSON_DECODE_ANY, NULL);
            assert_true(json_equal(output, expected));
            json_decref(expected);
        } else {
            assert_int_equal(result, -E_INVALID);
            assert_null(output);
            if (!strstr(error.detail, cases[i].complaint)) fail_msg("%s: %s", cases[i].input, error.detail);
        }
        json_decref(output);
        json_decref(input);
    }
}

#define CHECK(param, ...)                                                                                              \
    do {                                                                                                               \
        static const struct conversion cases[] = {__VA_ARGS__};                                                        \
        check_conversions(param, cases, ARRAY_SIZE(cases));                                                            \
    } while (0)

static void text_is_bounded(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_TEXT, .min = 1, .max = 5};
    CHECK(&param, {"\"hello\"", "\"hello\"", NULL}, {"\"\"", NULL, "empty"}, {"\"hello!\"", NULL, "6 bytes"},
          {"7", NULL, "not text"}, {"\"a\\u0000b\"", NULL, "not text"}, {"[]", NULL, "not text"});
}

static void ids_keep_to_their_alphabet(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_ID};
    CHECK(&param, {"\"a\"", "\"a\"", NULL}, {"\"Counter_1.b-c\"", "\"Counter_1.b-c\"", NULL}, {"\"\"", NULL, "an id"},
          {"\".hidden\"", NULL, "an id"}, {"\"-flag\"", NULL, "an id"}, {"\"a/b\"", NULL, "an id"},
          {"\"ä\"", NULL, "an id"}, {"1", NULL, "an id"});
    char id[OP_ID_MAX_BYTES + 2] = {0};
    memset(id, 'x', OP_ID_MAX_BYTES);
    assert_true(ops_id_valid(id));
    id[OP_ID_MAX_BYTES] = 'x';
    assert_false(ops_id_valid(id));
}

static void paths_are_absolute(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_PATH};
    CHECK(&param, {"\"/srv/app\"", "\"/srv/app\"", NULL}, {"\"app\"", NULL, "absolute"}, {"\"\"", NULL, "absolute"},
          {"\"/a\\u0000b\"", NULL, "absolute"}, {"{}", NULL, "absolute"});
}

static void names_have_no_blanks(void **state) {
    (void)state;
    const struct op_param name = {.type = OP_NAME};
    CHECK(&name, {"\"counter\"", "\"counter\"", NULL}, {"\"a b\"", NULL, "a name"}, {"\"\"", NULL, "a name"},
          {"\"\\u009b\"", NULL, "a name"}, {"null", NULL, "a name"});
    const struct op_param module = {.type = OP_MODULE};
    CHECK(&module, {"\"Counter.Server\"", "\"Counter.Server\"", NULL}, {"\"größe\"", "\"größe\"", NULL},
          {"\"a\\nb\"", NULL, "a module's name"});
}

static void integers_are_whole(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_INTEGER, .min = 1, .max = 100};
    CHECK(&param, {"1", "1", NULL}, {"100", "100", NULL}, {"\"42\"", "42", NULL}, {"0", NULL, "between 1 and 100"},
          {"101", NULL, "between 1 and 100"}, {"-1", NULL, "whole number"}, {"1.5", NULL, "whole number"},
          {"\"4x\"", NULL, "whole number"}, {"\"99999999999999999999\"", NULL, "whole number"},
          {"true", NULL, "whole number"});
}

static void sizes_have_units(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_SIZE, .min = 1 << 20, .max = INT64_C(1) << 40};
    CHECK(&param, {"\"64M\"", "67108864", NULL}, {"1048576", "1048576", NULL}, {"\"2097152\"", "2097152", NULL},
          {"\"1K\"", NULL, "between 1M and 1T"}, {"\"2T\"", NULL, "between 1M and 1T"}, {"\"64Q\"", NULL, "a size"},
          {"\"\"", NULL, "a size"}, {"\"-64M\"", NULL, "a size"}, {"\"16777216T\"", NULL, "a size"});
}

static void durations_have_units(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_DURATION, .min = 10, .max = 3600000};
    CHECK(&param, {"\"5s\"", "5000", NULL}, {"250", "250", NULL}, {"\"250\"", "250", NULL}, {"\"1h\"", "3600000", NULL},
          {"\"2h\"", NULL, "between 10ms and 1h"}, {"\"5 s\"", NULL, "a duration"}, {"2.5", NULL, "a duration"});
}

static void percents_may_have_a_sign(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_PERCENT, .min = 1, .max = 400};
    CHECK(&param, {"\"50%\"", "50", NULL}, {"50", "50", NULL}, {"\"400\"", "400", NULL},
          {"\"0%\"", NULL, "between 1% and 400%"}, {"\"%\"", NULL, "a percentage"}, {"\"5%%\"", NULL, "a percentage"},
          {"\"11111111111111111111111111111%\"", NULL, "a percentage"});
}

static void booleans_come_as_text_too(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_BOOLEAN};
    CHECK(&param, {"true", "true", NULL}, {"\"true\"", "true", NULL}, {"\"false\"", "false", NULL},
          {"1", NULL, "true or false"}, {"\"yes\"", NULL, "true or false"});
}

static void choices_are_exact(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_CHOICE, .choices = "elixir|erlang"};
    CHECK(&param, {"\"elixir\"", "\"elixir\"", NULL}, {"\"erlang\"", "\"erlang\"", NULL},
          {"\"erl\"", NULL, "elixir|erlang"}, {"\"elixir|erlang\"", NULL, "elixir|erlang"},
          {"\"\"", NULL, "elixir|erlang"});
}

static void restart_policies_may_count(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_RESTART};
    CHECK(&param, {"\"never\"", "\"never\"", NULL}, {"\"always\"", "\"always\"", NULL},
          {"\"on-failure\"", "\"on-failure\"", NULL}, {"\"on-failure:3\"", "\"on-failure:3\"", NULL},
          {"\"on-failure:\"", NULL, "on-failure:N"}, {"\"on-failure:0\"", NULL, "on-failure:N"},
          {"\"always:3\"", NULL, "on-failure:N"}, {"false", NULL, "on-failure:N"});
}

static void lists_are_bounded(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_TEXTS, .max = 2};
    CHECK(&param, {"[\"cgroups\",\"seccomp\"]", "[\"cgroups\",\"seccomp\"]", NULL}, {"[]", "[]", NULL},
          {"[\"a\",\"b\",\"c\"]", NULL, "3 entries"}, {"[\"a b\"]", NULL, "a name"}, {"[1]", NULL, "a name"},
          {"\"a\"", NULL, "a list"});
}

static void lists_of_code_hold_any_text(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_EXPRESSIONS, .max = 2};
    CHECK(&param, {"[\"fn s, _, _ -> s end\"]", "[\"fn s, _, _ -> s end\"]", NULL}, {"[\"\"]", NULL, "code of at most"},
          {"[1]", NULL, "code of at most"}, {"[\"a\",\"b\",\"c\"]", NULL, "3 entries"});
}

static void pairs_are_environment_variables(void **state) {
    (void)state;
    const struct op_param param = {.type = OP_PAIRS, .max = 2};
    CHECK(&param, {"{\"PORT\":\"80\",\"_x\":\"\"}", "{\"PORT\":\"80\",\"_x\":\"\"}", NULL}, {"{}", "{}", NULL},
          {"{\"A\":1}", NULL, "not text"}, {"{\"A=B\":\"x\"}", NULL, "variable's name"},
          {"{\"1A\":\"x\"}", NULL, "variable's name"}, {"{\"\":\"x\"}", NULL, "variable's name"},
          {"{\"A\":\"\",\"B\":\"\",\"C\":\"\"}", NULL, "3 entries"}, {"[]", NULL, "an object"},
          {"{\"A\":\"x\\u0000\"}", NULL, "not text"});
}

/* A sandbox's are printed for the registry again and again. */
static void pairs_are_bounded_together(void **state) {
    enum { COUNT = 8 };
    (void)state;
    const struct op_param param = {.type = OP_PAIRS, .max = COUNT};
    CLEANUP_FREE char *value = calloc(OP_VARIABLE_MAX_BYTES, 1);
    memset(value, 'v', OP_PAIRS_MAX_BYTES / COUNT - 2);
    json_t *input = json_object(), *output = NULL;
    struct error error;
    for (int i = 0; i < COUNT; i++)
        json_object_set_new(input, (char[]){'A', (char)('0' + i), '\0'}, json_string(value));
    assert_int_equal(ops_convert(&param, input, &output, &error), 0);
    json_decref(output);
    value[strlen(value)] = 'v';
    json_object_set_new(input, "A0", json_string(value));
    assert_int_equal(ops_convert(&param, input, &output, &error), -E_INVALID);
    assert_non_null(strstr(error.detail, "all entries together are longer than 131072 bytes"));
    json_decref(input);
}

static void long_values_are_cut_in_complaints(void **state) {
    (void)state;
    char text[4096];
    memset(text, 'z', sizeof text);
    json_t *input = json_stringn(text, sizeof text);
    struct error error;
    json_t *output = NULL;
    assert_int_equal(ops_convert(&(struct op_param){.type = OP_ID}, input, &output, &error), -E_INVALID);
    assert_true(strlen(error.detail) < 200);
    assert_non_null(strstr(error.detail, "z… is not an id"));
    json_decref(input);
}

/* ---- whole requests ---- */

static void expect_refusal(const char *op, const char *input, const char *complaint) {
    json_t *params = json_loads(input, JSON_DECODE_ANY, NULL);
    assert_non_null(params);
    json_t *checked = (json_t *)"untouched";
    struct error error;
    assert_int_equal(ops_check(ops_find(op), params, &checked, &error), -E_INVALID);
    assert_string_equal((const char *)checked, "untouched");
    if (!strstr(error.detail, complaint)) fail_msg("%s: %s", input, error.detail);
    json_decref(params);
}

static void a_request_is_completed(void **state) {
    (void)state;
    json_t *input = json_loads("{\"id\":\"c\",\"source\":\"/c\",\"memory_bytes\":\"64M\",\"ttl_ms\":null}", 0, NULL);
    json_t *expected = json_loads("{\"id\":\"c\",\"source\":\"/c\",\"memory_bytes\":67108864,\"profile\":\"medium\","
                                  "\"restart\":\"never\",\"watch\":false,\"with_sources\":false,\"timing\":false}",
                                  0, NULL);
    json_t *checked = NULL;
    assert_int_equal(ops_check(ops_find("create"), input, &checked, NULL), 0);
    assert_true(json_equal(checked, expected));
    json_decref(input);
    json_decref(expected);
    json_decref(checked);
}

static void nothing_sent_is_an_empty_request(void **state) {
    (void)state;
    json_t *checked = NULL;
    assert_int_equal(ops_check(ops_find("list"), NULL, &checked, NULL), 0);
    assert_int_equal(json_object_size(checked), 0);
    json_decref(checked);
}

static void bad_requests_name_the_parameter(void **state) {
    (void)state;
    expect_refusal("create", "{\"id\":\"c\"}", "source is missing");
    expect_refusal("create", "{\"id\":null,\"source\":\"/c\"}", "id is missing");
    expect_refusal("create", "{\"id\":\"c\",\"source\":\"/c\",\"memry\":1}", "create has no parameter \"memry\"");
    expect_refusal("create", "{\"id\":\"c\",\"source\":\"/c\",\"memory_bytes\":5}",
                   "memory_bytes: 5 is not between 16M");
    expect_refusal("info", "[\"c\"]", "not a JSON object");
}

/* What a request of `create` leaves out is what the table's row says, whatever kind of JSON that is. */
static void defaults_are_the_rows(void **state) {
    (void)state;
    static const char *const names[] = {"create", "run", "reload", "wait", "logs", "events"};
    json_t *sent = json_pack("{s:s, s:s}", "id", "c", "source", "/c");
    size_t compared = 0;
    for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
        const struct op *op = ops_find(names[n]);
        json_t *input = json_object(), *checked = NULL;
        const char *name;
        json_t *value;
        json_object_foreach(sent, name, value) if (ops_param(op, name)) json_object_set(input, name, value);
        assert_int_equal(ops_check(op, input, &checked, NULL), 0);
        for (size_t i = 0; i < op->param_count; i++) {
            const struct op_param *param = &op->params[i];
            if (!param->fallback) continue;
            json_t *expected = json_loads(param->fallback, JSON_DECODE_ANY, NULL);
            assert_true(json_equal(json_object_get(checked, param->name), expected));
            json_decref(expected);
            compared++;
        }
        json_decref(checked);
        json_decref(input);
    }
    json_decref(sent);
    assert_true(compared > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_bounded),
        cmocka_unit_test(ids_keep_to_their_alphabet),
        cmocka_unit_test(paths_are_absolute),
        cmocka_unit_test(names_have_no_blanks),
        cmocka_unit_test(integers_are_whole),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(percents_may_have_a_sign),
        cmocka_unit_test(booleans_come_as_text_too),
        cmocka_unit_test(choices_are_exact),
        cmocka_unit_test(restart_policies_may_count),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(lists_of_code_hold_any_text),
        cmocka_unit_test(pairs_are_environment_variables),
        cmocka_unit_test(pairs_are_bounded_together),
        cmocka_unit_test(long_values_are_cut_in_complaints),
        cmocka_unit_test(a_request_is_completed),
        cmocka_unit_test(defaults_are_the_rows),
        cmocka_unit_test(nothing_sent_is_an_empty_request),
        cmocka_unit_test(bad_requests_name_the_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
