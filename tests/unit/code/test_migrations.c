/* Tests the parser of state migrations that callers give with a reload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "code/code.h"

/* What one text becomes, as JSON with its keys in order; an error's text for what is refused. To be freed. */
static char *read_texts(json_t *texts) {
    struct error error;
    json_t *migrations;
    int result = migrations_read(texts, "elixir", &migrations, &error);
    json_decref(texts);
    if (result < 0) return strdup(error.detail);
    char *text = json_dumps(migrations, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(migrations);
    return text;
}

static const struct {
    const char *written, *read;
} readings[] = {
    {"fn s, _, _ -> s end", "{\"*\":{\"code\":\"fn s, _, _ -> s end\",\"language\":\"elixir\"}}"},
    {"A=fn s, 1, 2 -> s end", "{\"Elixir.A\":{\"code\":\"fn s, 1, 2 -> s end\",\"language\":\"elixir\"}}"},
    {"a_b=fun(S, _, _) -> S end", "{\"a_b\":{\"code\":\"fun(S, _, _) -> S end\",\"language\":\"elixir\"}}"},
    {"Move.up/3", "{\"*\":{\"function\":\"up\",\"module\":\"Elixir.Move\"}}"},
    {"My.Move.up!/3", "{\"*\":{\"function\":\"up!\",\"module\":\"Elixir.My.Move\"}}"},
    {"move:up/3", "{\"*\":{\"function\":\"up\",\"module\":\"move\"}}"},
    {"A=move:up/3", "{\"Elixir.A\":{\"function\":\"up\",\"module\":\"move\"}}"},
    {"&Move.up/3", "{\"*\":{\"code\":\"&Move.up/3\",\"language\":\"elixir\"}}"},
    {"fun move:up/3", "{\"*\":{\"code\":\"fun move:up/3\",\"language\":\"elixir\"}}"},
    {"x == y", "{\"*\":{\"code\":\"x == y\",\"language\":\"elixir\"}}"},
    {"up/3", "{\"*\":{\"code\":\"up/3\",\"language\":\"elixir\"}}"},
    {"a:b:c/3", "{\"*\":{\"code\":\"a:b:c/3\",\"language\":\"elixir\"}}"},
    {"Move./3", "{\"*\":{\"code\":\"Move./3\",\"language\":\"elixir\"}}"},
    {"Move.up/", "{\"*\":{\"code\":\"Move.up/\",\"language\":\"elixir\"}}"},
    {"Move.up/3.0", "{\"*\":{\"code\":\"Move.up/3.0\",\"language\":\"elixir\"}}"},
    {"Move.up/2", "Move.up/2 does not take three arguments: state, old and new version"},
    {"A=move:up/13", "move:up/13 does not take three arguments: state, old and new version"},
};

static void test_each_form(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
        CLEANUP_FREE char *read = read_texts(json_pack("[s]", readings[i].written));
        assert_string_equal(read, readings[i].read);
    }
}

static void test_one_for_each_module(void **state) {
    (void)state;
    CLEANUP_FREE char *both = read_texts(json_pack("[s, s]", "A=Move.up/3", "fn s, _, _ -> s end"));
    assert_non_null(strstr(both, "\"*\""));
    assert_non_null(strstr(both, "\"Elixir.A\""));
    CLEANUP_FREE char *twice = read_texts(json_pack("[s, s]", "A=Move.up/3", "A=other"));
    assert_string_equal(twice, "there are two migrations for A");
    CLEANUP_FREE char *all_twice = read_texts(json_pack("[s, s]", "Move.up/3", "other"));
    assert_string_equal(all_twice, "there are two migrations for every module");
    CLEANUP_FREE char *none = read_texts(NULL);
    assert_string_equal(none, "{}");
}

static void test_some_name_a_module(void **state) {
    (void)state;
    json_t *none = json_object(), *all = json_pack("{s:{}}", "*"), *both = json_pack("{s:{}, s:{}}", "*", "Elixir.A");
    assert_false(migrations_name_modules(none));
    assert_false(migrations_name_modules(all));
    assert_true(migrations_name_modules(both));
    json_decref(none);
    json_decref(all);
    json_decref(both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form),
        cmocka_unit_test(test_one_for_each_module),
        cmocka_unit_test(test_some_name_a_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
