/* The operation table as an OpenAPI document. */
#include <string.h>

#include "ops/table.h"

static json_t *number_schema(const struct op_param *param) {
    json_t *schema = json_pack("{s:s, s:I}", "type", "integer", "minimum", (json_int_t)param->min);
    if (param->max && param->max != INT64_MAX) json_object_set_new(schema, "maximum", json_integer(param->max));
    return schema;
}

/* A number in its own unit, or text with one. */
static json_t *quantity_schema(const struct op_param *param, const char *pattern) {
    return json_pack("{s:[o, {s:s, s:s}]}", "anyOf", number_schema(param), "type", "string", "pattern", pattern);
}

static json_t *text_schema(const char *pattern) {
    json_t *schema = json_pack("{s:s}", "type", "string");
    if (pattern) json_object_set_new(schema, "pattern", json_string(pattern));
    return schema;
}

static json_t *choice_schema(const char *choices) {
    json_t *values = json_array();
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
        json_array_append_new(values, json_stringn(at, strcspn(at, "|")));
    return json_pack("{s:s, s:o}", "type", "string", "enum", values);
}

static json_t *type_schema(const struct op_param *param) {
    switch (param->type) {
    case OP_ID: return text_schema("^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$");
    case OP_PATH: return text_schema("^/");
    case OP_INTEGER: return number_schema(param);
    case OP_SIZE: return quantity_schema(param, "^[0-9]+(B|K|KiB|M|MiB|G|GiB|T)?$");
    case OP_DURATION: return quantity_schema(param, "^[0-9]+(ms|s|m|min|h|d)?$");
    case OP_PERCENT: return quantity_schema(param, "^[0-9]+%?$");
    case OP_BOOLEAN: return json_pack("{s:s}", "type", "boolean");
    case OP_CHOICE: return choice_schema(param->choices);
    case OP_RESTART: return text_schema("^(never|always|on-failure(:[0-9]+)?)$");
    case OP_TEXTS:
    case OP_PATHS:
    case OP_MOUNTS:
    case OP_WORDS:
    case OP_EXPRESSIONS: return json_pack("{s:s, s:o}", "type", "array", "items", text_schema(NULL));
    case OP_PAIRS:
    case OP_FILES: return json_pack("{s:s, s:o}", "type", "object", "additionalProperties", text_schema(NULL));
    default: return text_schema(NULL);
    }
}

static json_t *param_schema(const struct op_param *param) {
    json_t *schema = type_schema(param);
    json_object_set_new(schema, "description", json_string(param->summary));
    if (param->fallback) json_object_set_new(schema, "default", json_loads(param->fallback, JSON_DECODE_ANY, NULL));
    return schema;
}

static json_t *parameter(const char *name, const char *place, bool required, json_t *schema) {
    return json_pack("{s:s, s:s, s:b, s:o}", "name", name, "in", place, "required", required, "schema", schema);
}

static bool has_body(const struct op *op) {
    return strcmp(op->method, "GET") != 0 && strcmp(op->method, "DELETE") != 0;
}

static json_t *url_parameters(const struct op *op) {
    json_t *parameters = json_array();
    for (size_t i = 0; i < op->param_count; i++) {
        const struct op_param *param = &op->params[i];
        bool in_path = param->flags & OP_IN_PATH;
        if ((!in_path && has_body(op)) || (param->flags & OP_CLIENT)) continue;
        json_array_append_new(parameters, parameter(param->name, in_path ? "path" : "query",
                                                    param->flags & (OP_REQUIRED | OP_IN_PATH), param_schema(param)));
    }
    if (op->shape == OP_LIST) {
        json_array_append_new(parameters, parameter("limit", "query", false, json_pack("{s:s}", "type", "integer")));
        json_array_append_new(parameters, parameter("cursor", "query", false, text_schema(NULL)));
    }
    return parameters;
}

static json_t *body_schema(const struct op *op) {
    json_t *properties = json_object();
    json_t *required = json_array();
    for (size_t i = 0; i < op->param_count; i++) {
        const struct op_param *param = &op->params[i];
        if (param->flags & (OP_IN_PATH | OP_CLIENT)) continue;
        json_object_set_new(properties, param->name, param_schema(param));
        if (param->flags & OP_REQUIRED) json_array_append_new(required, json_string(param->name));
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required,
                     "additionalProperties", 0);
}

static json_t *content(const char *media_type, json_t *schema) {
    return json_pack("{s:{s:{s:o}}}", "content", media_type, "schema", schema);
}

static json_t *answer_content(enum op_shape shape) {
    if (shape == OP_STREAM) return content("application/x-ndjson", json_object());
    if (shape == OP_LIST)
        return content("application/json", json_pack("{s:s, s:{s:{s:s}, s:{s:[s, s]}}}", "type", "object", "properties",
                                                     "items", "type", "array", "next", "type", "string", "null"));
    return content("application/json", json_pack("{s:s}", "type", "object"));
}

static json_t *described(json_t *answer, const char *description) {
    json_object_set_new(answer, "description", json_string(description));
    return answer;
}

static json_t *operation(const struct op *op) {
    json_t *problem = content("application/problem+json", json_pack("{s:s}", "$ref", "#/components/schemas/problem"));
    json_t *result =
        json_pack("{s:s, s:s, s:s, s:o, s:{s:o, s:o}}", "operationId", op->name, "summary", op->summary, "x-role",
                  ops_role_name(op->role), "parameters", url_parameters(op), "responses", "200",
                  described(answer_content(op->shape), "done"), "default", described(problem, "a problem"));
    if (has_body(op)) json_object_set_new(result, "requestBody", content("application/json", body_schema(op)));
    return result;
}

/* OpenAPI writes "{id}" where the table writes ":id". */
static void template_path(const char *path, struct buf *ret) {
    for (const char *at = path; *at;) {
        bool in_parameter = *at == ':';
        size_t size = in_parameter ? strcspn(at, "/") : 1;
        if (in_parameter)
            buf_printf(ret, "{%.*s}", (int)size - 1, at + 1);
        else
            buf_append_byte(ret, (uint8_t)*at);
        at += size;
    }
}

static void add_operation(json_t *paths, const struct op *op) {
    CLEANUP(buf_free) struct buf path = BUF_INIT;
    template_path(op->path, &path);
    json_t *methods = json_object_get(paths, buf_string(&path));
    if (!methods) {
        methods = json_object();
        json_object_set_new(paths, buf_string(&path), methods);
    }
    char method[16];
    size_t length = 0;
    for (; op->method[length] && length < sizeof method - 1; length++) method[length] = (char)(op->method[length] | 32);
    method[length] = '\0';
    json_object_set_new(methods, method, operation(op));
}

json_t *ops_openapi(void) {
    size_t count;
    const struct op *table = ops_table(&count);
    json_t *paths = json_object();
    for (const struct op *op = table; op < table + count; op++)
        if (op->path) add_operation(paths, op);
    return json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:{s:o}}}", "openapi", "3.1.0", "info", "title", "Sandbox", "version",
                     SANDBOX_VERSION, "paths", paths, "components", "schemas", "problem", ops_problem_schema());
}
