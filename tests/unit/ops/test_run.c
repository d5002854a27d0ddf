/* Tests that each row of the table runs its own engine function, after roles and parameters are checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/run.h"

/* What the engine's stand-ins note. */
struct call {
    const char *function;
    struct engine *engine;
    unsigned answers;
    struct error error;
    enum audit_kind audit;
};

#define STAND_IN(name)                                                                                                 \
    void engine_##name(struct engine *engine, struct request *request) {                                               \
        struct call *call = request->transport;                                                                        \
        call->function = #name;                                                                                        \
        call->engine = engine;                                                                                         \
        request->done(request, NULL, NULL);                                                                            \
    }
ENGINE_OPS(STAND_IN)

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct call *call = request->transport;
    assert_null(result);
    call->answers++;
    if (error) call->error = *error;
}

void engine_carry_out(struct engine *engine, const struct audit_subject *subject, struct request *request,
                      engine_fn *run) {
    struct call *call = request->transport;
    call->audit = subject->kind;
    run(engine, request);
}

void engine_refuse(struct engine *engine, const struct audit_subject *subject, struct request *request,
                   const struct error *error) {
    struct call *call = request->transport;
    (void)engine;
    call->audit = subject->kind;
    request->done(request, NULL, error);
}

static char engine_marker;

/* Run an operation with these parameters; the completed ones go to *ret_params if that is given. */
static struct call run_as(enum role role, const char *name, json_t *params, json_t **ret_params) {
    struct call call = {0};
    struct request request = {.params = params, .caller.role = role, .done = on_done, .transport = &call};
    const struct op *op = ops_find(name);
    struct error refusal;
    json_t *completed;
    bool is_refused = ops_check(op, params, &completed, &refusal) < 0;
    if (!is_refused) {
        json_decref(params);
        request.params = completed;
    }
    ops_run((struct engine *)&engine_marker, op, &request, is_refused ? &refusal : NULL);
    assert_int_equal(call.answers, 1);
    if (ret_params)
        *ret_params = request.params;
    else
        json_decref(request.params);
    return call;
}

static void every_operation_that_is_not_local_has_a_function(void **state) {
    (void)state;
    size_t count;
    const struct op *table = ops_table(&count);
    for (const struct op *op = table; op < table + count; op++) {
        bool has_runner = ops_runner(op) != NULL;
        if (has_runner == (op->start == OP_LOCAL)) fail_msg("'%s' %s", op->name, has_runner ? "has one" : "has none");
    }
}

static json_t *any_value(const struct op_param *param) {
    switch (param->type) {
    case OP_PATH: return json_string("/a");
    case OP_PATHS: return json_pack("[s]", "/a");
    case OP_TEXTS:
    case OP_EXPRESSIONS:
    case OP_WORDS: return json_pack("[s]", "a");
    case OP_PAIRS:
    case OP_FILES: return json_pack("{s:s}", "a", "1");
    case OP_INTEGER: return json_integer((json_int_t)param->min);
    case OP_CHOICE: return json_stringn(param->choices, strcspn(param->choices, "|"));
    default: return json_string("a");
    }
}

static json_t *required_params(const struct op *op) {
    json_t *params = json_object();
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_REQUIRED)
            json_object_set_new(params, op->params[i].name, any_value(&op->params[i]));
    return params;
}

static void a_row_runs_its_own_function(void **state) {
    (void)state;
    struct call call = run_as(ROLE_VIEWER, "info", json_pack("{s:s}", "id", "counter"), NULL);
    assert_string_equal(call.function, "info");
    assert_ptr_equal(call.engine, &engine_marker);
    assert_int_equal(call.error.code, E_NONE);
    size_t count;
    const struct op *table = ops_table(&count);
    for (const struct op *op = table; op < table + count; op++) {
        if (op->start == OP_LOCAL) continue;
        call = run_as(ROLE_ADMIN, op->name, required_params(op), NULL);
        assert_non_null(call.function);
        CLEANUP_FREE char *function = strdup(op->name); /* a dash is an underscore there */
        for (char *at = function; *at; at++)
            if (*at == '-') *at = '_';
        assert_string_equal(call.function, function);
    }
}

static void roles_are_needed(void **state) {
    (void)state;
    static const struct {
        enum role role;
        const char *op;
        enum error_code expected;
    } cases[] = {
        {ROLE_NONE, "health", E_UNAUTHENTICATED}, {ROLE_VIEWER, "health", E_NONE},
        {ROLE_VIEWER, "shutdown", E_FORBIDDEN},   {ROLE_OPERATOR, "shutdown", E_FORBIDDEN},
        {ROLE_ADMIN, "shutdown", E_NONE},         {ROLE_NONE, "shutdown", E_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct call call = run_as(cases[i].role, cases[i].op, json_object(), NULL);
        assert_int_equal(call.error.code, cases[i].expected);
        assert_int_equal(call.function != NULL, cases[i].expected == E_NONE);
    }
    struct call call = run_as(ROLE_VIEWER, "destroy", json_pack("{s:s}", "id", "a"), NULL);
    assert_int_equal(call.error.code, E_FORBIDDEN);
    call = run_as(ROLE_VIEWER, "destroy", json_pack("{s:s}", "id", "../etc"), NULL);
    assert_int_equal(call.error.code, E_FORBIDDEN);
    call = run_as(ROLE_OPERATOR, "destroy", json_pack("{s:s}", "id", "a"), NULL);
    assert_int_equal(call.error.code, E_NONE);
}

/* What changes nothing is a viewer's, also where it takes its time. */
static void viewers_read_and_wait(void **state) {
    (void)state;
    static const char *const names[] = {"info", "wait", "stats", "logs"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct call call = run_as(ROLE_VIEWER, names[i], json_pack("{s:s}", "id", "a"), NULL);
        assert_int_equal(call.error.code, E_NONE);
        assert_string_equal(call.function, names[i]);
    }
}

static void parameters_are_checked_and_completed(void **state) {
    (void)state;
    struct call call = run_as(ROLE_ADMIN, "info", json_pack("{s:s}", "id", "../etc"), NULL);
    assert_int_equal(call.error.code, E_INVALID);
    assert_null(call.function);
    call = run_as(ROLE_ADMIN, "list", json_pack("{s:i}", "unheard_of", 1), NULL);
    assert_int_equal(call.error.code, E_INVALID);
    json_t *completed;
    call = run_as(ROLE_ADMIN, "restart", json_pack("{s:s}", "id", "a"), &completed);
    assert_int_equal(call.error.code, E_NONE);
    assert_true(json_is_false(json_object_get(completed, "fresh")));
    json_decref(completed);
}

static void nothing_sent_is_fine_where_nothing_is_needed(void **state) {
    (void)state;
    struct call call = run_as(ROLE_ADMIN, "list", NULL, NULL);
    assert_string_equal(call.function, "list");
}

static void local_operations_are_refused(void **state) {
    (void)state;
    struct call call = run_as(ROLE_ADMIN, "version", json_object(), NULL);
    assert_int_equal(call.error.code, E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_that_is_not_local_has_a_function),
        cmocka_unit_test(a_row_runs_its_own_function),
        cmocka_unit_test(roles_are_needed),
        cmocka_unit_test(viewers_read_and_wait),
        cmocka_unit_test(parameters_are_checked_and_completed),
        cmocka_unit_test(nothing_sent_is_fine_where_nothing_is_needed),
        cmocka_unit_test(local_operations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
