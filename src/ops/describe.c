/* The operation table as JSON, for clients that read it at run time. */
#include "ops/table.h"

const char *ops_type_name(enum op_type type) {
    static const char *const names[OP_TYPE_COUNT] = {
        [OP_TEXT] = "text",
        [OP_ID] = "id",
        [OP_PATH] = "path",
        [OP_NAME] = "name",
        [OP_MODULE] = "module",
        [OP_INTEGER] = "integer",
        [OP_SIZE] = "size",
        [OP_DURATION] = "duration",
        [OP_PERCENT] = "percent",
        [OP_BOOLEAN] = "boolean",
        [OP_CHOICE] = "choice",
        [OP_RESTART] = "restart",
        [OP_TEXTS] = "texts",
        [OP_PATHS] = "paths",
        [OP_EXPRESSIONS] = "expressions",
        [OP_PAIRS] = "pairs",
        [OP_MOUNTS] = "mounts",
        [OP_FILES] = "files",
        [OP_WORDS] = "words",
    };
    return names[type];
}

const char *ops_role_name(enum role role) {
    static const char *const names[] = {[ROLE_VIEWER] = "viewer", [ROLE_OPERATOR] = "operator", [ROLE_ADMIN] = "admin"};
    return names[role];
}

const char *ops_shape_name(enum op_shape shape) {
    static const char *const names[] = {[OP_OBJECT] = "object", [OP_LIST] = "list", [OP_STREAM] = "stream"};
    return names[shape];
}

static json_t *bound(int64_t value, bool given) {
    return given ? json_integer(value) : json_null();
}

static json_t *describe_param(const struct op_param *param) {
    bool bounded = param->min || param->max;
    return json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:o, s:s?, s:s}", "name", param->name, "type",
                     ops_type_name(param->type), "required", (param->flags & OP_REQUIRED) != 0, "in_path",
                     (param->flags & OP_IN_PATH) != 0, "default",
                     param->fallback ? json_loads(param->fallback, JSON_DECODE_ANY, NULL) : json_null(), "min",
                     bound(param->min, bounded), "max", bound(param->max, bounded), "choices", param->choices,
                     "summary", param->summary);
}

static json_t *describe_params(const struct op *op) {
    json_t *params = json_array();
    for (size_t i = 0; i < op->param_count; i++)
        if (!(op->params[i].flags & OP_CLIENT)) json_array_append_new(params, describe_param(&op->params[i]));
    return params;
}

json_t *ops_describe(void) {
    size_t count;
    const struct op *table = ops_table(&count);
    json_t *operations = json_array();
    for (const struct op *op = table; op < table + count; op++)
        json_array_append_new(operations,
                              json_pack("{s:s, s:s?, s:s?, s:s, s:b, s:s, s:s, s:s, s:o}", "name", op->name, "method",
                                        op->method, "path", op->path, "role", ops_role_name(op->role), "audited",
                                        op->audit != AUDIT_NOT, "shape", ops_shape_name(op->shape), "summary",
                                        op->summary, "example", op->example, "params", describe_params(op)));
    if (operations && json_array_size(operations) == count) return operations;
    json_decref(operations);
    return NULL;
}
