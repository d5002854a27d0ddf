/* Tests the text of audit records: caller, operation, bounded parameters, and the outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy/audit_record.h"

/* The members as the object they belong to. */
static json_t *object_of(const struct buf *members) {
    struct buf text = BUF_INIT;
    json_error_t where;
    buf_printf(&text, "{%.*s}", (int)members->size, (const char *)members->data);
    json_t *object = json_loads(buf_string(&text), JSON_REJECT_DUPLICATES, &where);
    if (!object) fail_msg("%s in %s", where.text, buf_string(&text));
    buf_free(&text);
    return object;
}

static const char *text_of(json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static json_t *record_of(json_t *params, const struct caller *caller, const char *correlation_id) {
    struct buf members = BUF_INIT;
    struct request request = {.params = params, .caller = *caller, .correlation_id = correlation_id};
    audit_record_begin(&members, "create", &request, "begin");
    audit_record_params(&members, params);
    json_t *record = object_of(&members);
    buf_free(&members);
    json_decref(params);
    return record;
}

static const struct caller somebody = {.uid = (uid_t)-2, .pid = 7, .peer_fd = 3};

static void who_asks_for_what(void **state) {
    (void)state;
    json_t *record = record_of(json_pack("{s:s, s:i, s:b}", "id", "c", "n", -5, "on", 1), &somebody, "a\"\\b");
    json_t *params = json_object_get(record, "params");
    assert_string_equal(text_of(record, "phase"), "begin");
    assert_string_equal(text_of(record, "op"), "create");
    assert_string_equal(text_of(record, "sandbox_id"), "c");
    assert_int_equal(json_integer_value(json_object_get(record, "uid")), 4294967294);
    assert_int_equal(json_integer_value(json_object_get(record, "pid")), 7);
    assert_string_equal(text_of(record, "from"), "unix");
    assert_string_equal(text_of(record, "correlation_id"), "a\"\\b");
    assert_int_equal(strlen(text_of(record, "time")), 24);
    assert_int_equal(json_integer_value(json_object_get(params, "n")), -5);
    assert_true(json_is_true(json_object_get(params, "on")));
    json_decref(record);
}

static void where_it_comes_from(void **state) {
    (void)state;
    static const struct {
        struct caller caller;
        const char *from;
    } cases[] = {
        {{.peer_fd = 3}, "unix"},
        {{.peer_fd = -1}, "tcp"},
        {{.peer_fd = -1, .grant = "w"}, "watch"},
        {{.peer_fd = -1, .is_service = true}, "service"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *record = record_of(json_object(), &cases[i].caller, NULL);
        assert_string_equal(text_of(record, "from"), cases[i].from);
        assert_true(json_is_null(json_object_get(record, "sandbox_id")));
        assert_true(json_is_null(json_object_get(record, "correlation_id")));
        json_decref(record);
    }
}

static void long_texts_are_cut_between_characters(void **state) {
    (void)state;
    char text[200] = {0};
    memset(text, 'x', 127);
    memcpy(text + 127, "äöü", 6);
    json_t *record = record_of(json_pack("{s:s, s:[s]}", "id", text, "paths", text), &somebody, NULL);
    json_t *params = json_object_get(record, "params");
    const char *id = text_of(record, "sandbox_id");
    assert_int_equal(strlen(id), 127 + 3);
    assert_string_equal(id + 127, "…");
    assert_string_equal(text_of(params, "id"), id);
    assert_string_equal(json_string_value(json_array_get(json_object_get(params, "paths"), 0)), id);
    json_decref(record);
}

static void an_environment_keeps_its_secrets(void **state) {
    (void)state;
    json_t *record = record_of(json_pack("{s:{s:s}}", "env", "PASSWORD", "geheim"), &somebody, NULL);
    json_t *names = json_object_get(json_object_get(record, "params"), "env");
    assert_int_equal(json_array_size(names), 1);
    assert_string_equal(json_string_value(json_array_get(names, 0)), "PASSWORD");
    json_decref(record);
}

static void what_is_deeper_is_not_told(void **state) {
    (void)state;
    json_t *record =
        record_of(json_pack("{s:[{s:s}, [s], i]}", "env", "PASSWORD", "geheim", "geheim", 5), &somebody, NULL);
    json_t *values = json_object_get(json_object_get(record, "params"), "env");
    assert_int_equal(json_array_size(values), 3);
    assert_true(json_is_null(json_array_get(values, 0)));
    assert_true(json_is_null(json_array_get(values, 1)));
    assert_int_equal(json_integer_value(json_array_get(values, 2)), 5);
    json_decref(record);
}

static void names_are_a_strangers_too(void **state) {
    (void)state;
    char name[1000] = "a\"\n\\";
    memset(name + 4, 'x', 900);
    json_t *record = record_of(json_pack("{s:i, s:s}", name, 1, "\"", "\x01\"},{"), &somebody, NULL);
    json_t *params = json_object_get(record, "params");
    assert_int_equal(json_object_size(params), 2);
    assert_string_equal(text_of(params, "\""), "\x01\"},{");
    assert_null(json_object_get(params, name));
    json_decref(record);
}

static void lists_have_a_bound(void **state) {
    (void)state;
    json_t *list = json_array(), *object = json_object();
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%d", i);
        json_array_append_new(list, json_integer(i));
        json_object_set_new(object, name, json_null());
    }
    json_t *record = record_of(json_pack("{s:o, s:o}", "list", list, "env", object), &somebody, NULL);
    json_t *params = json_object_get(record, "params");
    assert_int_equal(json_array_size(json_object_get(params, "list")), 16);
    assert_int_equal(json_array_size(json_object_get(params, "env")), 16);
    json_decref(record);
}

static void too_much_is_not_told(void **state) {
    (void)state;
    json_t *params = json_object();
    char text[129] = {0};
    memset(text, 'x', 128);
    for (int i = 0; i < 100; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(params, name, json_string(text));
    }
    json_t *record = record_of(params, &somebody, NULL);
    assert_true(json_is_null(json_object_get(record, "params")));
    json_decref(record);
}

static void how_it_ended(void **state) {
    (void)state;
    struct buf members = BUF_INIT;
    struct error error;
    error_set(&error, E_NOT_FOUND, "x");
    audit_record_outcome(&members, &error, 12);
    json_t *record = object_of(&members);
    assert_string_equal(text_of(record, "outcome"), "not_found");
    assert_int_equal(json_integer_value(json_object_get(record, "duration_ms")), 12);
    json_decref(record);
    buf_clear(&members);
    audit_record_outcome(&members, NULL, 0);
    record = object_of(&members);
    assert_string_equal(text_of(record, "outcome"), "ok");
    json_decref(record);
    buf_free(&members);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_what),
        cmocka_unit_test(where_it_comes_from),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(an_environment_keeps_its_secrets),
        cmocka_unit_test(what_is_deeper_is_not_told),
        cmocka_unit_test(names_are_a_strangers_too),
        cmocka_unit_test(lists_have_a_bound),
        cmocka_unit_test(too_much_is_not_told),
        cmocka_unit_test(how_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
