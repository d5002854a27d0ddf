/* Limits as people write and read them. Only the daemon and tools need it. */
#include <string.h>

#include "jail/limits.h"

static const struct {
    bool (*parse)(const char *text, uint64_t *ret);
    void (*print)(uint64_t value, char ret[QUANTITY_BYTES]);
    const char *example;
} units[] = {
    [JAIL_UNIT_COUNT] = {parse_u64, count_to_text, "100"},
    [JAIL_UNIT_BYTES] = {parse_size, size_to_text, "64M"},
    [JAIL_UNIT_PERCENT] = {parse_percent, percent_to_text, "50%"},
    [JAIL_UNIT_MS] = {parse_duration, duration_to_text, "5s"},
};

static const char *const holder_names[] = {
    [JAIL_HELD_BY_KERNEL] = "kernel", [JAIL_HELD_BY_AGENT] = "agent", [JAIL_HELD_BY_SERVICE] = "service"};

static const char *const policy_names[JAIL_POLICY_COUNT] = {
#define X(NAME, text) [JAIL_POLICY_##NAME] = text,
    JAIL_POLICY_LIST(X)
#undef X
};

const char *jail_holder_name(enum jail_holder holder) {
    return holder_names[holder];
}

const char *jail_policy_name(enum jail_policy policy) {
    return policy_names[policy];
}

bool jail_policy_find(const char *name, enum jail_policy *ret) {
    for (unsigned i = 0; i < JAIL_POLICY_COUNT; i++) {
        if (strcmp(policy_names[i], name) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

void jail_limit_to_text(enum jail_limit limit, uint64_t value, char ret[QUANTITY_BYTES]) {
    units[jail_limit_kind(limit)->unit].print(value, ret);
}

static int refuse_bounds(enum jail_limit limit, const char *text, struct error *reterr) {
    const struct jail_limit_kind *kind = jail_limit_kind(limit);
    char least[QUANTITY_BYTES], most[QUANTITY_BYTES];
    jail_limit_to_text(limit, kind->least, least);
    jail_limit_to_text(limit, kind->most, most);
    return error_set(reterr, E_INVALID, "%s: %.40s is out of bounds: from %s to %s", kind->name, text, least, most);
}

int jail_limits_check(const struct jail_limits *limits, struct error *reterr) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        uint64_t value = jail_limit_get(limits, i);
        char text[QUANTITY_BYTES];
        if (jail_limit_is_within(i, value) || (value == 0 && jail_limit_kind(i)->zero.meaning != JAIL_ZERO_IS_REFUSED))
            continue;
        jail_limit_to_text(i, value, text);
        return refuse_bounds(i, text, reterr);
    }
    return 0;
}

int jail_limit_read(enum jail_limit limit, const char *text, struct jail_limits *limits, struct error *reterr) {
    const struct jail_limit_kind *kind = jail_limit_kind(limit);
    uint64_t value = 0;
    bool is_none = strcmp(text, "none") == 0;
    if (is_none && kind->zero.meaning == JAIL_ZERO_IS_REFUSED)
        return error_set(reterr, E_INVALID, "%s: there is no sandbox without this limit", kind->name);
    if (!is_none && !units[kind->unit].parse(text, &value))
        return error_set(reterr, E_INVALID, "%s: '%.40s' is not a value such as %s", kind->name, text,
                         units[kind->unit].example);
    if (!is_none && !jail_limit_is_within(limit, value)) return refuse_bounds(limit, text, reterr);
    jail_limit_set(limits, limit, value);
    return 0;
}
