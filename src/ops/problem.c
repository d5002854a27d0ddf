/* Problems (RFC 9457), the JSON form of an error: one table has their members, from which problems and their schema are
   made. */
#include <string.h>

#include "ops/table.h"

typedef json_t *member_fn(const struct error *error, const struct error_kind *kind);

static json_t *type_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_sprintf("urn:sandbox:problem:%s", kind->slug);
}

static json_t *title_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_string(kind->title);
}

static json_t *status_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_integer(kind->http_status);
}

/* An error's text may hold a stranger's bytes, or be cut inside a character. */
static json_t *detail_of(const struct error *error, const struct error_kind *kind) {
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    size_t size = strlen(error->detail);
    (void)kind;
    if (utf8_valid((const uint8_t *)error->detail, size)) return json_stringn_nocheck(error->detail, size);
    escape_text(&escaped, error->detail, size);
    return escaped.failed ? NULL : json_stringn_nocheck((const char *)escaped.data, escaped.size);
}

static json_t *code_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_string(kind->slug);
}

static json_t *category_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_string(error_category_name(kind->category));
}

static json_t *recovery_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_string(error_recovery_name(kind->recovery));
}

static json_t *retry_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_boolean(kind->may_pass);
}

static json_t *advice_of(const struct error *error, const struct error_kind *kind) {
    (void)error;
    return json_string(kind->advice);
}

static const struct {
    const char *name;
    const char *type; /* of the schema */
    member_fn *of;    /* NULL: the service adds it to its answers; see api_problem */
} members[] = {
    {"type", "string", type_of},         {"title", "string", title_of},  {"status", "integer", status_of},
    {"detail", "string", detail_of},     {"code", "string", code_of},    {"category", "string", category_of},
    {"recovery", "string", recovery_of}, {"retry", "boolean", retry_of}, {"advice", "string", advice_of},
    {"sandbox_id", "string", NULL},      {"errors", "array", NULL},      {"result", "object", NULL},
};

json_t *ops_problem(const struct error *error) {
    const struct error_kind *kind = error_kind(error->code);
    json_t *problem = json_object();
    for (size_t i = 0; problem && i < ARRAY_SIZE(members); i++) {
        if (!members[i].of || json_object_set_new(problem, members[i].name, members[i].of(error, kind)) == 0) continue;
        json_decref(problem);
        return NULL;
    }
    return problem;
}

/* A problem that is about no sandbox has null for it. */
json_t *ops_problem_schema(void) {
    json_t *properties = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        json_object_set_new(properties, members[i].name,
                            strcmp(members[i].name, "sandbox_id") == 0
                                ? json_pack("{s:[s, s]}", "type", members[i].type, "null")
                                : json_pack("{s:s}", "type", members[i].type));
    return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}
