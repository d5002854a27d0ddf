/* Runs an operation for a caller: checks its role, then passes the request to the engine's function. */
#include "ops/run.h"

/* A dash in the operation's name is an underscore in its function's. */
static bool is_name_of(const char *function, const char *name) {
    for (; *function && (*function == *name || (*function == '_' && *name == '-')); function++) name++;
    return !*function && !*name;
}

static const struct {
    const char *name;
    engine_fn *run;
} runners[] = {
#define X(name) {#name, engine_##name},
    ENGINE_OPS(X)
#undef X
};

engine_fn *ops_runner(const struct op *op) {
    for (size_t i = 0; i < ARRAY_SIZE(runners); i++)
        if (is_name_of(runners[i].name, op->name)) return runners[i].run;
    return NULL;
}

/* E_UNAUTHENTICATED, E_FORBIDDEN. */
static int check_role(const struct op *op, const struct caller *caller, struct error *reterr) {
    if (caller->role == ROLE_NONE) return error_set(reterr, E_UNAUTHENTICATED, "'%s' needs a known caller", op->name);
    if (caller->role < op->role)
        return error_set(reterr, E_FORBIDDEN, "'%s' needs the role %s", op->name, ops_role_name(op->role));
    return 0;
}

void ops_run(struct engine *engine, const struct op *op, struct request *request, const struct error *refusal) {
    struct audit_subject subject = {.op = op->name, .kind = op->audit};
    struct error error;
    engine_fn *run = ops_runner(op);
    if (!run) {
        error_set(&error, E_INVALID, "'%s' is not carried out by the service", op->name);
        request->done(request, NULL, &error);
    } else if (check_role(op, &request->caller, &error) < 0) {
        engine_refuse(engine, &subject, request, &error);
    } else if (refusal) {
        engine_refuse(engine, &subject, request, refusal);
    } else {
        engine_carry_out(engine, &subject, request, run);
    }
}
