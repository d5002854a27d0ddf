/* The table of quotas, and who may have how much: reading rules and finding the one that counts. */
#include <stdio.h>
#include <string.h>

#include "quota/quota.h"

static const struct quota_row rows[QUOTAS] = {
#define X(name, text, kind, unit, fallback, summary)                                                                   \
    [QUOTA_##name] = {text, QUOTA_##kind, QUOTA_##unit, fallback, summary},
    QUOTA_LIST(X)
#undef X
};

/* How the values of each unit are read and written. */
static const struct {
    const char *name;
    bool (*parse)(const char *text, uint64_t *ret);
    void (*to_text)(uint64_t value, char ret[QUANTITY_BYTES]);
    const char *expected;
} units[] = {
    [QUOTA_COUNT] = {"count", parse_u64, count_to_text, "a number"},
    [QUOTA_BYTES] = {"bytes", parse_size, size_to_text, "a size such as 4G"},
    [QUOTA_PERCENT] = {"percent", parse_percent, percent_to_text, "a percentage such as 400%"},
    [QUOTA_BYTES_PER_MINUTE] = {"bytes_per_minute", parse_size, size_to_text, "a size such as 1M"},
};

const struct quota_row *quota_row(enum quota quota) {
    return &rows[quota];
}

const char *quota_unit_name(enum quota_unit unit) {
    return units[unit].name;
}

void quota_to_text(enum quota quota, uint64_t value, char ret[QUANTITY_BYTES]) {
    if (value == QUOTA_UNLIMITED)
        snprintf(ret, QUANTITY_BYTES, "unlimited");
    else
        units[rows[quota].unit].to_text(value, ret);
}

/* ---- reading ---- */

void quota_rules_init(struct quota_rules *ret, uint64_t memory_bytes) {
    *ret = (struct quota_rules){.count = 1, .memory_bytes = memory_bytes};
    ret->items[0] = (struct quota_rule){.whom = QUOTA_OF_ALL, .name = "default"};
}

static struct quota_rule *find_rule(struct quota_rules *rules, enum quota_whom whom, uint32_t id) {
    for (size_t i = 0; i < rules->count; i++)
        if (rules->items[i].whom == whom && rules->items[i].id == id) return &rules->items[i];
    return NULL;
}

static int add_rule(struct quota_rules *rules, enum quota_whom whom, const char *name, struct quota_rule **ret,
                    struct error *reterr) {
    struct quota_rule rule = {.whom = whom};
    int result = string_format(rule.name, sizeof rule.name, reterr, "%s", name);
    if (result == 0)
        result =
            whom == QUOTA_OF_USER ? quota_find_user(name, &rule.id, reterr) : quota_find_group(name, &rule.id, reterr);
    if (result < 0) return result;
    if (find_rule(rules, whom, rule.id))
        return error_set(reterr, E_INVALID, "there are two rules for '%s', which are the same", name);
    if (rules->count == QUOTA_RULES_MAX)
        return error_set(reterr, E_INVALID, "there are more than %d rules", QUOTA_RULES_MAX);
    *ret = &rules->items[rules->count++];
    **ret = rule;
    return 0;
}

int quota_rules_begin(struct quota_rules *rules, const char *header, struct quota_rule **ret, struct error *reterr) {
    static const struct {
        const char *prefix;
        enum quota_whom whom;
    } forms[] = {{"quota user ", QUOTA_OF_USER}, {"quota group ", QUOTA_OF_GROUP}};
    if (strcmp(header, "quota") == 0) {
        *ret = &rules->items[0];
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if (!string_starts(header, forms[i].prefix)) continue;
        const char *name = header + strlen(forms[i].prefix);
        return add_rule(rules, forms[i].whom, name + strspn(name, " \t"), ret, reterr);
    }
    return error_set(reterr, E_INVALID,
                     "'[%.60s]' is no section of quotas: [quota], [quota user NAME] or "
                     "[quota group NAME]",
                     header);
}

static int find_quota(const char *name, enum quota *ret) {
    for (unsigned i = 0; i < QUOTAS; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        *ret = (enum quota)i;
        return 0;
    }
    return -1;
}

int quota_rule_set(struct quota_rule *rule, const char *name, const char *value, struct error *reterr) {
    enum quota quota;
    if (find_quota(name, &quota) < 0) return error_set(reterr, E_INVALID, "there is no quota '%.60s'", name);
    uint64_t number = QUOTA_UNLIMITED;
    bool is_unlimited = strcmp(value, "unlimited") == 0;
    if (!is_unlimited && (!units[rows[quota].unit].parse(value, &number) || number > INT64_MAX))
        return error_set(reterr, E_INVALID, "the quota %s is '%.60s', but must be %s, or unlimited", name, value,
                         units[rows[quota].unit].expected);
    if (rule->set & 1u << quota) return error_set(reterr, E_INVALID, "the quota %s is there twice", name);
    rule->set |= 1u << quota;
    rule->values[quota] = number;
    return 0;
}

/* ---- finding ---- */

static bool is_in(const struct quota_identity *identity, gid_t gid) {
    for (size_t i = 0; i < identity->group_count; i++)
        if (identity->groups[i] == gid) return true;
    return false;
}

static bool applies(const struct quota_rule *rule, const struct quota_identity *identity) {
    switch (rule->whom) {
    case QUOTA_OF_ALL: return true;
    case QUOTA_OF_USER: return rule->id == identity->uid;
    case QUOTA_OF_GROUP: return is_in(identity, rule->id);
    }
    return false;
}

/* A user's before a group's before that of all; of two groups, the one that gives more. */
static bool goes_before(const struct quota_rule *rule, const struct quota_rule *best, enum quota quota) {
    static const int rank[] = {[QUOTA_OF_ALL] = 0, [QUOTA_OF_GROUP] = 1, [QUOTA_OF_USER] = 2};
    if (rank[rule->whom] != rank[best->whom]) return rank[rule->whom] > rank[best->whom];
    return rule->values[quota] > best->values[quota];
}

uint64_t quota_rules_resolve(const struct quota_rules *rules, const struct quota_identity *identity, enum quota quota,
                             const struct quota_rule **ret_rule) {
    const struct quota_rule *best = &rules->items[0];
    for (size_t i = 1; i < rules->count; i++) {
        const struct quota_rule *rule = &rules->items[i];
        if (!(rule->set & 1u << quota) || !applies(rule, identity)) continue;
        if (goes_before(rule, best, quota)) best = rule;
    }
    if (ret_rule) *ret_rule = best;
    if (best->set & 1u << quota) return best->values[quota];
    return rows[quota].fallback == QUOTA_HALF_THE_MEMORY ? rules->memory_bytes / 2 : rows[quota].fallback;
}

static bool is_same_rule(const struct quota_rule *one, const struct quota_rule *other) {
    return one->whom == other->whom && one->id == other->id && one->set == other->set &&
           strcmp(one->name, other->name) == 0 && memcmp(one->values, other->values, sizeof one->values) == 0;
}

bool quota_rules_equal(const struct quota_rules *one, const struct quota_rules *other) {
    bool are_equal = one->count == other->count && one->memory_bytes == other->memory_bytes;
    for (size_t i = 0; are_equal && i < one->count; i++) are_equal = is_same_rule(&one->items[i], &other->items[i]);
    return are_equal;
}

const char *quota_rules_user(const struct quota_rules *rules, uid_t uid) {
    for (size_t i = 0; i < rules->count; i++)
        if (rules->items[i].whom == QUOTA_OF_USER && rules->items[i].id == uid) return rules->items[i].name;
    return NULL;
}
