/* Every row of the table is sane, so that what is made from it is too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/table.h"

#define FOR_EACH_OP(row)                                                                                               \
    size_t row##_count;                                                                                                \
    const struct op *row##_table = ops_table(&row##_count);                                                            \
    for (const struct op *row = row##_table; row < row##_table + row##_count; row++)

static void names_are_unique_and_found(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        assert_ptr_equal(ops_find(op->name), op);
    }
    assert_null(ops_find("no-such-operation"));
    assert_null(ops_find(""));
}

static void texts_are_there(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        assert_non_null(op->summary);
        assert_non_null(op->example);
        char command[64];
        snprintf(command, sizeof command, "sandbox %s", op->name);
        assert_true(string_starts(op->example, command));
        for (size_t i = 0; i < op->param_count; i++) assert_non_null(op->params[i].summary);
    }
}

static void methods_and_paths_come_together(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        assert_int_equal(op->method == NULL, op->path == NULL);
        if (!op->path) assert_int_equal(op->start, OP_LOCAL);
        if (op->path) assert_true(op->path[0] == '/');
    }
}

static void routes_are_unique(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        FOR_EACH_OP(other) {
            if (op == other || !op->path || !other->path) continue;
            assert_false(string_equal(op->path, other->path) && string_equal(op->method, other->method));
        }
    }
}

/* ":id" in the path and OP_IN_PATH in the parameters say the same. */
static void path_parameters_are_declared(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        size_t declared = 0, written = 0;
        for (const char *at = op->path ? op->path : ""; (at = strchr(at, ':')); at++) written++;
        for (size_t i = 0; i < op->param_count; i++) {
            if (!(op->params[i].flags & OP_IN_PATH)) continue;
            char placeholder[64];
            snprintf(placeholder, sizeof placeholder, "/:%s", op->params[i].name);
            assert_non_null(strstr(op->path, placeholder));
            assert_false(op->params[i].flags & OP_CLIENT);
            declared++;
        }
        assert_int_equal(declared, written);
    }
}

static void parameters_are_unique(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        for (size_t i = 0; i < op->param_count; i++)
            assert_ptr_equal(ops_param(op, op->params[i].name), &op->params[i]);
    }
    assert_null(ops_param(ops_find("create"), "nothing"));
}

static void bounds_are_in_order(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        for (size_t i = 0; i < op->param_count; i++) {
            const struct op_param *param = &op->params[i];
            assert_true(param->min >= 0 && (param->max == 0 || param->max > param->min));
            assert_int_equal(param->type == OP_CHOICE, param->choices != NULL);
            if (param->type == OP_INTEGER) assert_true(param->max > 0);
        }
    }
}

static void defaults_pass_their_own_check(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        for (size_t i = 0; i < op->param_count; i++) {
            if (!op->params[i].fallback) continue;
            json_t *value = json_loads(op->params[i].fallback, JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            json_t *checked = NULL;
            assert_int_equal(ops_convert(&op->params[i], value, &checked, NULL), 0);
            assert_true(json_equal(value, checked));
            json_decref(checked);
            json_decref(value);
        }
    }
}

static void only_reads_are_unaudited(void **state) {
    (void)state;
    FOR_EACH_OP(op) {
        assert_true(op->role >= ROLE_VIEWER);
        if (!op->method) continue;
        bool reads = strcmp(op->method, "GET") == 0;
        assert_int_equal(op->audit == AUDIT_NOT, reads);
        if (!reads) assert_true(op->role >= ROLE_OPERATOR);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(texts_are_there),
        cmocka_unit_test(methods_and_paths_come_together),
        cmocka_unit_test(routes_are_unique),
        cmocka_unit_test(path_parameters_are_declared),
        cmocka_unit_test(parameters_are_unique),
        cmocka_unit_test(bounds_are_in_order),
        cmocka_unit_test(defaults_pass_their_own_check),
        cmocka_unit_test(only_reads_are_unaudited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
