/* Limits and policies of a sandbox: read from callers and the registry, shown, and told to the agent. Pure. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"

static const char *name_of(enum jail_limit limit) {
    return jail_limit_kind(limit)->name;
}

bool limit_find(const char *name, enum jail_limit *ret) {
    if (jail_limit_find(name, ret)) return true;
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        if (strcmp(jail_limit_kind(i)->field, name) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

bool limit_find_recorded(const char *name, enum jail_limit *ret) {
    static const struct {
        const char *name;
        enum jail_limit limit;
    } earlier[] = {
        {"file_bytes", JAIL_LIMIT_FILE_SIZE}, {"ets_bytes", JAIL_LIMIT_ETS_MEMORY}, {"ports", JAIL_LIMIT_VM_PORTS}};
    for (size_t i = 0; i < ARRAY_SIZE(earlier); i++) {
        if (strcmp(earlier[i].name, name) != 0) continue;
        *ret = earlier[i].limit;
        return true;
    }
    return limit_find(name, ret);
}

/* ---- policies ---- */

void limit_policies_default(struct limit_policies *ret) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) ret->of[i] = (uint8_t)jail_limit_kind(i)->policy;
}

json_t *limit_policies_to_json(const struct limit_policies *policies) {
    json_t *object = json_object();
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++)
        if (policies->of[i] != jail_limit_kind(i)->policy)
            json_object_set_new(object, name_of(i), json_string(jail_policy_name(policies->of[i])));
    return object;
}

static bool find_policy(enum jail_limit limit, const char *name, enum jail_policy *ret) {
    return jail_policy_find(name, ret) && (jail_limit_kind(limit)->policies & 1u << *ret);
}

void limit_policies_from_json(json_t *json, struct limit_policies *ret) {
    const char *name;
    json_t *value;
    limit_policies_default(ret);
    json_object_foreach(json, name, value) {
        enum jail_limit limit;
        enum jail_policy policy;
        if (json_is_string(value) && limit_find_recorded(name, &limit) &&
            find_policy(limit, json_string_value(value), &policy))
            ret->of[limit] = (uint8_t)policy;
    }
}

static int read_policy(enum jail_limit limit, const char *text, struct limit_policies *policies, struct error *reterr) {
    CLEANUP(buf_free) struct buf known = BUF_INIT;
    enum jail_policy policy;
    for (unsigned i = 0; i < JAIL_POLICY_COUNT; i++)
        if (jail_limit_kind(limit)->policies & 1u << i)
            buf_printf(&known, "%s%s", known.size ? ", " : "", jail_policy_name(i));
    if (!find_policy(limit, text, &policy))
        return error_set(reterr, E_INVALID, "%s: '%.40s' is no policy for it; there %s: %s", name_of(limit), text,
                         strchr(buf_string(&known), ',') ? "are" : "is", buf_string(&known));
    policies->of[limit] = (uint8_t)policy;
    return 0;
}

/* ---- values ---- */

static int read_pair(const char *name, const char *text, struct jail_limits *limits, struct limit_policies *policies,
                     struct error *reterr) {
    enum jail_limit limit;
    char value[64];
    size_t size = strcspn(text, ":");
    if (!limit_find(name, &limit))
        return error_set(reterr, E_INVALID, "there is no limit '%.40s'; `sandbox limits ID` lists them", name);
    if (size >= sizeof value || (size == 0 && !text[size]))
        return error_set(reterr, E_INVALID, "%s: write VALUE, :POLICY or VALUE:POLICY", name_of(limit));
    memcpy(value, text, size);
    value[size] = '\0';
    int result = size > 0 ? jail_limit_read(limit, value, limits, reterr) : 0;
    if (result == 0 && text[size]) result = read_policy(limit, text + size + 1, policies, reterr);
    return result;
}

int limits_read(json_t *pairs, struct jail_limits *limits, struct limit_policies *policies, struct error *reterr) {
    struct jail_limits new_limits = *limits;
    struct limit_policies new_policies = *policies;
    const char *name;
    json_t *text;
    json_object_foreach(pairs, name, text) {
        int result = read_pair(name, json_string_value(text), &new_limits, &new_policies, reterr);
        if (result < 0) return result;
    }
    int result = jail_limits_check(&new_limits, reterr);
    if (result < 0) return result;
    *limits = new_limits;
    *policies = new_policies;
    return 0;
}

void limits_take_fields(json_t *object, struct jail_limits *limits) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        enum jail_limit limit;
        if (json_is_integer(value) && limit_find_recorded(name, &limit))
            jail_limit_set(limits, limit, (uint64_t)json_integer_value(value));
    }
}

bool limits_differ(const struct jail_limits *a, const struct jail_limits *b, enum jail_holder holder) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++)
        if (jail_limit_kind(i)->holder == holder && jail_limit_value(a, i) != jail_limit_value(b, i)) return true;
    return false;
}

json_t *limits_to_json(const struct jail_limits *limits, const struct limit_policies *policies) {
    json_t *array = json_array();
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(i);
        uint64_t value = jail_limit_value(limits, i);
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:o, s:s, s:s}", "limit", kind->name, "field", kind->field, "value",
                                        value ? json_integer((json_int_t)value) : json_null(), "policy",
                                        jail_policy_name(policies->of[i]), "held_by", jail_holder_name(kind->holder)));
    }
    return array;
}

/* ---- for the agent ---- */

void limits_put(struct buf *args, const struct jail_limits *limits, const struct limit_policies *policies) {
    size_t held = 0, kills = 0;
    bool kills_of[JAIL_LIMIT_COUNT] = {0};
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        bool is_held = jail_limit_kind(i)->holder == JAIL_HELD_BY_AGENT;
        kills_of[i] = is_held && policies->of[i] == JAIL_POLICY_KILL_PROCESS;
        held += is_held;
        kills += kills_of[i];
    }
    term_put_map(args, held + 1);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        if (jail_limit_kind(i)->holder != JAIL_HELD_BY_AGENT) continue;
        term_put_atom(args, jail_limit_kind(i)->field);
        term_put_uint64(args, jail_limit_value(limits, i));
    }
    term_put_atom(args, "kill");
    term_put_list(args, kills);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++)
        if (kills_of[i]) term_put_atom(args, jail_limit_kind(i)->field);
    if (kills > 0) term_put_nil(args);
}
