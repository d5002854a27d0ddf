/* From what a caller sent to checked parameters. It runs on the loop for a short request and on a thread for a long
   one, so it touches nothing but the intake. */
#include "api/intake.h"

#include "api/api_internal.h"

static int parse(const struct intake *intake, json_t **ret, struct error *reterr) {
    json_error_t where;
    json_t *members = json_loadb((const char *)intake->text, intake->size, JSON_REJECT_DUPLICATES, &where);
    if (!members)
        return error_set(reterr, E_INVALID, "%s JSON: line %d, column %d: %s", intake->is_not, where.line, where.column,
                         where.text);
    if (!json_is_object(members)) {
        json_decref(members);
        return error_set(reterr, E_INVALID, "%s a JSON object", intake->is_not);
    }
    *ret = members;
    return 0;
}

static int read_text(struct intake *intake, struct error *reterr) {
    json_t *members = NULL;
    if (intake->size == 0) return 0;
    int result = parse(intake, &members, reterr);
    if (result == 0) result = input_merge(members, intake->params, reterr);
    json_decref(members);
    return result;
}

/* What was refused may hold anything, and is looked at no more than the audit trail shows of it. */
static void forget_unchecked(struct intake *intake) {
    if (intake->size <= INTAKE_SHORT_BYTES) return;
    json_t *left = json_object(); /* a new one: the old has room for everything that was in it */
    json_t *id = json_object_get(intake->params, "id");
    if (left && json_is_string(id) && json_string_length(id) <= OP_ID_MAX_BYTES) json_object_set(left, "id", id);
    json_decref(intake->params);
    intake->params = left;
}

static int check(struct intake *intake, struct error *reterr) {
    json_t *completed = NULL;
    int result = ops_check(intake->op, intake->params, &completed, reterr);
    if (result < 0) {
        forget_unchecked(intake);
        return result;
    }
    json_decref(intake->params);
    intake->params = completed;
    return 0;
}

void intake_run(struct intake *intake) {
    struct error *error = &intake->error;
    int result = read_text(intake, error);
    if (result == 0 && intake->op->shape == OP_LIST) result = page_take(intake->params, &intake->page, error);
    if (result == 0 && intake->path)
        result = idempotency_fingerprint(intake->op->method, intake->path, intake->text, intake->size,
                                         intake->fingerprint, error);
    if (result < 0) {
        intake->outcome = INTAKE_MALFORMED;
        forget_unchecked(intake);
        return;
    }
    intake->outcome = check(intake, error) < 0 ? INTAKE_REFUSED : INTAKE_CHECKED;
}
