/* The table of limits as data, and the values of a limit. The daemon and the launcher read and write limits by it. */
#include "jail/limits.h"

#include <string.h>

#define ZERO_REFUSED                                                                                                   \
    { .meaning = JAIL_ZERO_IS_REFUSED }
#define ZERO_UNBOUND                                                                                                   \
    { .meaning = JAIL_ZERO_IS_UNBOUND }
#define ZERO_SHARE(OF, part_count)                                                                                     \
    { .meaning = JAIL_ZERO_IS_SHARE, .of = JAIL_LIMIT_##OF, .parts = (part_count) }

static const struct jail_limit_kind kinds[JAIL_LIMIT_COUNT] = {
#define X(NAME, name, unit, least, most, zero, holder, policies, policy, metered, option, summary)                     \
    [JAIL_LIMIT_##NAME] = {#name,                                                                                      \
                           JAIL_FIELD_TEXT(name, unit),                                                                \
                           offsetof(struct jail_limits, JAIL_FIELD_##unit(name)),                                      \
                           JAIL_UNIT_##unit,                                                                           \
                           least,                                                                                      \
                           most,                                                                                       \
                           ZERO_##zero,                                                                                \
                           JAIL_HELD_BY_##holder,                                                                      \
                           JAIL_POLICIES_##policies,                                                                   \
                           JAIL_POLICY_##policy,                                                                       \
                           summary},
    JAIL_LIMIT_LIST(X)
#undef X
};

const struct jail_limit_kind *jail_limit_kind(enum jail_limit limit) {
    return &kinds[limit];
}

bool jail_limit_find(const char *name, enum jail_limit *ret) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *ret = i;
        return true;
    }
    return false;
}

uint64_t jail_limit_get(const struct jail_limits *limits, enum jail_limit limit) {
    uint64_t value;
    memcpy(&value, (const char *)limits + kinds[limit].offset, sizeof value);
    return value;
}

void jail_limit_set(struct jail_limits *limits, enum jail_limit limit, uint64_t value) {
    memcpy((char *)limits + kinds[limit].offset, &value, sizeof value);
}

uint64_t jail_limit_value(const struct jail_limits *limits, enum jail_limit limit) {
    const struct jail_limit_kind *kind = &kinds[limit];
    uint64_t value = jail_limit_get(limits, limit);
    if (value || kind->zero.meaning != JAIL_ZERO_IS_SHARE) return value;
    uint64_t whole = jail_limit_get(limits, kind->zero.of), share = whole / kind->zero.parts;
    return whole && share < kind->least ? kind->least : share;
}

bool jail_limit_is_within(enum jail_limit limit, uint64_t value) {
    return value >= kinds[limit].least && value <= kinds[limit].most;
}
