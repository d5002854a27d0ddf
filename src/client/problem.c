/* Reads problems (RFC 9457), the service's JSON form of an error, and reports errors to callers of the library. */
#include <stdio.h>
#include <string.h>

#include "client/client_internal.h"

static enum error_code code_of_status(int status) {
    for (int code = E_NONE + 1; code < E_COUNT; code++)
        if (error_kind((enum error_code)code)->http_status == status) return (enum error_code)code;
    return status < 500 ? E_INVALID : E_SYSTEM;
}

void problem_read(const json_t *problem, int status, struct error *ret) {
    const char *slug = json_string_value(json_object_get(problem, "code"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    enum error_code code = slug ? error_code_from_slug(slug) : E_NONE;
    error_set(ret, code ? code : code_of_status(status), "%s", detail ? detail : "the service gave no reason");
}

static void copy_field(char *ret, size_t size, const json_t *problem, const char *name, const char *fallback) {
    const char *given = json_string_value(json_object_get(problem, name));
    snprintf(ret, size, "%s", given ? given : fallback);
}

void problem_report(const struct error *error, const json_t *problem, struct sbx_error *reterr) {
    if (!reterr) return;
    const struct error_kind *kind = error_kind(error->code);
    json_t *own = problem ? NULL : ops_problem(error);
    const json_t *shown = problem ? problem : own;
    *reterr = (struct sbx_error){.status = kind->http_status, .exit_code = kind->exit_code};
    copy_field(reterr->code, sizeof reterr->code, shown, "code", kind->slug);
    copy_field(reterr->category, sizeof reterr->category, shown, "category", error_category_name(kind->category));
    copy_field(reterr->recovery, sizeof reterr->recovery, shown, "recovery", error_recovery_name(kind->recovery));
    snprintf(reterr->detail, sizeof reterr->detail, "%s", error->detail);
    reterr->json = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
    json_decref(own);
}
