/* The operation `quotas`, and requests counted while they are under way. */
#include <inttypes.h>
#include <stdio.h>

#include "core/core_internal.h"

enum { PRINCIPALS_SHOWN_MAX = 256 };

int request_admit(struct engine *engine, struct request *request, struct error *reterr) {
    int result = quotas_take(engine->config.quotas, request->caller.uid, QUOTA_REQUESTS, 1, reterr);
    request->is_counted = result == 0;
    return result;
}

void request_over(struct engine *engine, struct request *request) {
    if (request->is_counted) quotas_give(engine->config.quotas, request->caller.uid, QUOTA_REQUESTS, 1);
    request->is_counted = false;
}

/* ---- as JSON ---- */

static json_t *amount_json(uint64_t value) {
    return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static json_t *row_json(const char *id, enum quota quota, uint64_t limit) {
    const struct quota_row *row = quota_row(quota);
    json_t *object = json_pack("{s:s, s:s, s:s}", "id", id, "quota", row->name, "unit", quota_unit_name(row->unit));
    json_object_set_new(object, "limit", limit == QUOTA_UNLIMITED ? json_null() : amount_json(limit));
    return object;
}

/* "default", "user alice", "group staff" */
static json_t *rule_json(const struct quota_rule *rule) {
    static const char *const prefixes[] = {[QUOTA_OF_ALL] = "", [QUOTA_OF_USER] = "user ", [QUOTA_OF_GROUP] = "group "};
    return rule ? json_sprintf("%s%s", prefixes[rule->whom], rule->name) : json_null();
}

static void add_state(void *data, const struct quota_state *state) {
    char id[64];
    snprintf(id, sizeof id, "uid:%010" PRIu32 " %02u", (uint32_t)state->uid, (unsigned)state->quota);
    json_t *object = row_json(id, state->quota, state->limit);
    json_object_set_new(object, "principal", json_integer(state->uid));
    json_object_set_new(object, "user", state->user ? json_string(state->user) : json_null());
    json_object_set_new(object, "used", amount_json(state->used));
    json_object_set_new(object, "rule", rule_json(state->rule));
    json_array_append_new(data, object);
}

/* What settings say, of no principal. */
static void add_rule(json_t *array, const struct quota_rules *rules, size_t index) {
    const struct quota_rule *rule = &rules->items[index];
    for (unsigned i = 0; i < QUOTAS; i++) {
        char id[64];
        struct quota_identity none = {.uid = (uid_t)-1};
        bool is_default = rule->whom == QUOTA_OF_ALL;
        if (!is_default && !(rule->set & 1u << i)) continue;
        uint64_t limit = is_default ? quota_rules_resolve(rules, &none, i, NULL) : rule->values[i];
        snprintf(id, sizeof id, "rule %03zu %02u", index, i);
        json_t *object = row_json(id, i, limit);
        json_object_set_new(object, "principal", json_null());
        json_object_set_new(object, "user", json_null());
        json_object_set_new(object, "used", json_null());
        json_object_set_new(object, "rule", rule_json(rule));
        json_array_append_new(array, object);
    }
}

/* ---- the operation ---- */

/* A number, or a name that a rule has: asking the system for others could take long. */
static int find_principal(const struct quota_rules *rules, const char *name, uid_t *ret, struct error *reterr) {
    uint64_t number;
    if (parse_u64(name, &number) && number <= UINT32_MAX) {
        *ret = (uid_t)number;
        return 0;
    }
    for (size_t i = 0; rules && i < rules->count; i++) {
        const struct quota_rule *rule = &rules->items[i];
        if (rule->whom != QUOTA_OF_USER || !string_equal(rule->name, name)) continue;
        *ret = rule->id;
        return 0;
    }
    return error_set(reterr, E_NOT_FOUND, "no rule names the user '%.60s'; ask by its number", name);
}

static void show_all(struct quotas *quotas, json_t *array) {
    const struct quota_rules *rules = quotas_rules(quotas);
    CLEANUP_FREE uid_t *uids = zeroed_or_abort(PRINCIPALS_SHOWN_MAX, sizeof *uids);
    size_t count = quotas_principals(quotas, uids, PRINCIPALS_SHOWN_MAX);
    for (size_t i = 0; rules && i < rules->count; i++) add_rule(array, rules, i);
    for (size_t i = 0; i < count; i++) quotas_show(quotas, uids[i], add_state, array);
}

static int check_principal(const struct caller *caller, uid_t uid, struct error *reterr) {
    if (caller->role == ROLE_ADMIN || caller->uid == uid) return 0;
    return error_set(reterr, E_FORBIDDEN, "only an admin may see the quotas of uid %u", uid);
}

void engine_quotas(struct engine *engine, struct request *request) {
    struct quotas *quotas = engine->config.quotas;
    const char *name = json_string_value(json_object_get(request->params, "user"));
    bool is_all = !name && request->caller.role == ROLE_ADMIN;
    uid_t uid = request->caller.uid;
    struct error error;
    int result = name ? find_principal(quotas_rules(quotas), name, &uid, &error) : 0;
    if (result == 0) result = check_principal(&request->caller, uid, &error);
    if (result < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    json_t *array = json_array();
    if (is_all)
        show_all(quotas, array);
    else
        quotas_show(quotas, uid, add_state, array);
    answer_ok(engine, request, array);
}
