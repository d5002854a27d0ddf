/* The table of limits: reading and showing them. All of it is pure. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"

#define POLICY(name) (1u << LIMIT_##name)
#define LIMIT_ANY                                                                                                      \
    (POLICY(WARN) | POLICY(THROTTLE) | POLICY(KILL_PROCESS) | POLICY(RESTART) | POLICY(FREEZE) | POLICY(DESTROY))
#define LIMIT_OUTSIDE (LIMIT_ANY & ~POLICY(KILL_PROCESS)) /* seen from outside, where no process can be told apart */

static const struct {
    const char *name;
    const char *field;
    enum limit_unit unit;
    enum limit_holder holder;
    unsigned policies;
    enum limit_policy fallback;
} kinds[LIMIT_COUNT] = {
#define X(name, text, field, unit, holder, policies, policy)                                                           \
    [LIMIT_OF_##name] = {text, field, unit, holder, policies, policy},
    LIMIT_LIST(X)
#undef X
};

static const char *const policy_names[LIMIT_POLICY_COUNT] = {
#define X(name, text) [LIMIT_##name] = text,
    LIMIT_POLICY_LIST(X)
#undef X
};

static const char *const holder_names[] = {
    [HELD_BY_KERNEL] = "kernel", [HELD_BY_AGENT] = "agent", [HELD_BY_SERVICE] = "service"};

const char *limit_name(enum limit limit) {
    return kinds[limit].name;
}

enum limit_holder limit_holder(enum limit limit) {
    return kinds[limit].holder;
}

bool limit_find(const char *name, enum limit *ret) {
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        if (strcmp(kinds[i].name, name) != 0 && strcmp(kinds[i].field, name) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

const char *limit_policy_name(enum limit_policy policy) {
    return policy_names[policy];
}

/* ---- policies ---- */

static bool find_policy(const char *name, enum limit_policy *ret) {
    for (unsigned i = 0; i < LIMIT_POLICY_COUNT; i++) {
        if (strcmp(policy_names[i], name) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

void limit_policies_default(struct limit_policies *ret) {
    for (unsigned i = 0; i < LIMIT_COUNT; i++) ret->of[i] = (uint8_t)kinds[i].fallback;
}

json_t *limit_policies_to_json(const struct limit_policies *policies) {
    json_t *object = json_object();
    for (unsigned i = 0; i < LIMIT_COUNT; i++)
        if (policies->of[i] != kinds[i].fallback)
            json_object_set_new(object, kinds[i].name, json_string(policy_names[policies->of[i]]));
    return object;
}

void limit_policies_from_json(json_t *json, struct limit_policies *ret) {
    limit_policies_default(ret);
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        const char *name = json_string_value(json_object_get(json, kinds[i].name));
        enum limit_policy policy;
        if (name && find_policy(name, &policy) && (kinds[i].policies & 1u << policy)) ret->of[i] = (uint8_t)policy;
    }
}

static int read_policy(enum limit limit, const char *text, struct limit_policies *policies, struct error *reterr) {
    CLEANUP(buf_free) struct buf known = BUF_INIT;
    enum limit_policy policy;
    for (unsigned i = 0; i < LIMIT_POLICY_COUNT; i++)
        if (kinds[limit].policies & 1u << i) buf_printf(&known, "%s%s", known.size ? ", " : "", policy_names[i]);
    if (!find_policy(text, &policy) || !(kinds[limit].policies & 1u << policy))
        return error_set(reterr, E_INVALID, "%s: '%.40s' is no policy for it; there %s: %s", kinds[limit].name, text,
                         strchr(buf_string(&known), ',') ? "are" : "is", buf_string(&known));
    policies->of[limit] = (uint8_t)policy;
    return 0;
}

/* ---- values ---- */

static const struct {
    bool (*parse)(const char *text, uint64_t *ret);
    void (*print)(uint64_t value, char ret[QUANTITY_BYTES]);
    const char *example;
} units[] = {
    [UNIT_COUNT] = {parse_u64, count_to_text, "100"},
    [UNIT_SIZE] = {parse_size, size_to_text, "64M"},
    [UNIT_PERCENT] = {parse_percent, percent_to_text, "50%"},
    [UNIT_DURATION] = {parse_duration, duration_to_text, "5s"},
};

static int refuse_bounds(enum limit limit, const char *text, const struct jail_limit_kind *kind, struct error *reterr) {
    char least[QUANTITY_BYTES], most[QUANTITY_BYTES];
    units[kinds[limit].unit].print(kind->least, least);
    units[kinds[limit].unit].print(kind->most, most);
    return error_set(reterr, E_INVALID, "%s: %.40s is out of bounds: from %s to %s", kinds[limit].name, text, least,
                     most);
}

static int read_value(enum limit limit, const char *text, struct jail_limits *limits, struct error *reterr) {
    const struct jail_limit_kind *kind = jail_limit_find(kinds[limit].field);
    uint64_t value = 0;
    bool is_none = strcmp(text, "none") == 0;
    if (is_none && !kind->zero_is_none)
        return error_set(reterr, E_INVALID, "%s: there is no sandbox without this limit", kinds[limit].name);
    if (!is_none && !units[kinds[limit].unit].parse(text, &value))
        return error_set(reterr, E_INVALID, "%s: '%.40s' is not a value such as %s", kinds[limit].name, text,
                         units[kinds[limit].unit].example);
    if (!is_none && (value < kind->least || value > kind->most)) return refuse_bounds(limit, text, kind, reterr);
    jail_limit_set(limits, kind, value);
    return 0;
}

static int read_pair(const char *name, const char *text, struct jail_limits *limits, struct limit_policies *policies,
                     struct error *reterr) {
    enum limit limit;
    char value[64];
    size_t size = strcspn(text, ":");
    if (!limit_find(name, &limit))
        return error_set(reterr, E_INVALID, "there is no limit '%.40s'; `sandbox limits ID` lists them", name);
    if (size >= sizeof value || (size == 0 && !text[size]))
        return error_set(reterr, E_INVALID, "%s: write VALUE, :POLICY or VALUE:POLICY", kinds[limit].name);
    memcpy(value, text, size);
    value[size] = '\0';
    int result = size > 0 ? read_value(limit, value, limits, reterr) : 0;
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

uint64_t limit_value(const struct jail_limits *limits, enum limit limit) {
    uint64_t value = jail_limit_get(limits, jail_limit_find(kinds[limit].field));
    if (value == 0 && limit == LIMIT_OF_ETS_MEMORY) return limits->memory_bytes / 2;
    /* While it is collected, a heap is there twice, and the VM itself needs its share. */
    if (value == 0 && limit == LIMIT_OF_HEAP) return limits->memory_bytes / 4;
    return value;
}

bool limits_differ(const struct jail_limits *a, const struct jail_limits *b, enum limit_holder holder) {
    for (unsigned i = 0; i < LIMIT_COUNT; i++)
        if (kinds[i].holder == holder && limit_value(a, i) != limit_value(b, i)) return true;
    return false;
}

json_t *limits_to_json(const struct jail_limits *limits, const struct limit_policies *policies) {
    json_t *array = json_array();
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        uint64_t value = limit_value(limits, i);
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:o, s:s, s:s}", "limit", kinds[i].name, "field", kinds[i].field,
                                        "value", value ? json_integer((json_int_t)value) : json_null(), "policy",
                                        policy_names[policies->of[i]], "held_by", holder_names[kinds[i].holder]));
    }
    return array;
}

/* ---- for the agent ---- */

void limits_put(struct buf *args, const struct jail_limits *limits, const struct limit_policies *policies) {
    size_t held = 0, kills = 0;
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        held += kinds[i].holder == HELD_BY_AGENT;
        kills += kinds[i].holder == HELD_BY_AGENT && policies->of[i] == LIMIT_KILL_PROCESS;
    }
    term_put_map(args, held + 1);
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        if (kinds[i].holder != HELD_BY_AGENT) continue;
        term_put_atom(args, kinds[i].field);
        term_put_uint64(args, limit_value(limits, i));
    }
    term_put_atom(args, "kill");
    term_put_list(args, kills);
    for (unsigned i = 0; i < LIMIT_COUNT; i++)
        if (kinds[i].holder == HELD_BY_AGENT && policies->of[i] == LIMIT_KILL_PROCESS)
            term_put_atom(args, kinds[i].field);
    if (kills > 0) term_put_nil(args);
}
