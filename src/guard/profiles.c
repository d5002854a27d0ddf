/* Profiles: the built-in ones, and those of the settings, with their keys, inheritance and access lists. */
#include "guard/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const scan_names[] = {"off", "report", "refuse"};
static const char *const permit_names[] = {"yes", "no"};
static const char *const audit_names[] = {"changes", "all"};
static const char *const containment_names[] = {
#define X(name, text) [GUARD_##name] = text,
    GUARD_CONTAINMENT_LIST(X)
#undef X
};
static const struct escalation_policy lenient = {
    .steps = {GUARD_LOG}, .step_count = 1, .after = 100, .within_ms = 60000};
/* Repeated violations under the strictest profile need an operator. */
static const struct escalation_policy strict = {
    .steps = {GUARD_LOG, GUARD_FREEZE}, .step_count = 2, .after = 100, .within_ms = 60000};

const char *guard_scan_name(enum guard_scan scan) {
    return scan_names[scan];
}

const char *guard_audit_name(enum guard_audit audit) {
    return audit_names[audit];
}

const char *guard_containment_name(enum guard_containment containment) {
    return containment_names[containment];
}

void guard_profiles_free(struct guard_profiles *profiles) {
    free(profiles->items);
    *profiles = (struct guard_profiles){0};
}

static struct guard_profile *find(const struct guard_profiles *profiles, const char *name) {
    for (size_t i = 0; i < profiles->count; i++)
        if (strcmp(profiles->items[i].jail.name, name) == 0) return &profiles->items[i];
    return NULL;
}

const struct guard_profile *guard_profile_find(const struct guard_profiles *profiles, const char *name) {
    return find(profiles, name);
}

/* ---- keys ---- */

enum { LIMIT_NAME_BYTES = 32 };

struct key;
typedef int set_fn(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr);

struct key {
    const char *name, *summary;
    set_fn *set;
    size_t offset, size;                            /* of the field */
    bool (*parse)(const char *text, uint64_t *ret); /* for a number */
    const char *const *choices;                     /* for a choice */
    size_t choice_count;
};

/* Numbers have 4 or 8 bytes. */
static int set_number(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    uint64_t number;
    if (!key->parse(value, &number) || (key->size == sizeof(uint32_t) && number > UINT32_MAX))
        return error_set(reterr, E_INVALID, "%s is '%.60s', which is no number of that kind", key->name, value);
    if (key->size == sizeof(uint32_t))
        *(uint32_t *)((char *)profile + key->offset) = (uint32_t)number;
    else
        *(uint64_t *)((char *)profile + key->offset) = number;
    return 0;
}

/* E_INVALID, with the words that would do: "scan is 'none'; it may be off, report or refuse". */
static int refuse_word(const struct key *key, const char *value, const char *const *words, size_t count,
                       struct error *reterr) {
    CLEANUP(buf_free) struct buf list = BUF_INIT;
    for (size_t i = 0; i < count; i++) buf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
    return error_set(reterr, E_INVALID, "%s is '%.60s'; it may be %s", key->name, value, buf_string(&list));
}

static int set_choice(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    for (size_t i = 0; i < key->choice_count; i++) {
        if (strcmp(key->choices[i], value) != 0) continue;
        *(unsigned *)((char *)profile + key->offset) = (unsigned)i;
        return 0;
    }
    return refuse_word(key, value, key->choices, key->choice_count, reterr);
}

static int set_summary(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    (void)key;
    return string_format(profile->summary, sizeof profile->summary, reterr, "%s", value);
}

/* The jail provides exactly what the operations need. */
static void follow_operations(struct guard_profile *profile) {
    unsigned needs = guard_operations_need(profile->operations);
    profile->jail.network = needs & GUARD_NEEDS_OUTGOING  ? JAIL_NETWORK_OUTGOING
                            : needs & GUARD_NEEDS_NETWORK ? JAIL_NETWORK_LOOPBACK
                                                          : JAIL_NETWORK_NONE;
    profile->jail.may_exec = needs & GUARD_NEEDS_EXEC;
    profile->jail.native_code = needs & GUARD_NEEDS_NATIVE;
}

static void name_operations(struct guard_profile *profile) {
    size_t count, length = 0;
    const struct guard_operation *table = guard_operations(&count);
    profile->operation_names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!(profile->operations >> i & 1)) continue;
        length += (size_t)snprintf(profile->operation_names + length, sizeof profile->operation_names - length, "%s%s",
                                   length > 0 ? "," : "", table[i].name);
        if (i == 0) break; /* all */
    }
}

/* "file_read, math" replaces the operations; "+file_write" adds to them. */
static int set_operations(struct guard_profile *profile, const struct key *key, const char *value,
                          struct error *reterr) {
    operation_set set;
    bool adds = value[0] == '+';
    (void)key;
    int result = guard_operations_parse(value + adds, &set, reterr);
    if (result < 0) return result;
    profile->operations = adds ? profile->operations | set : set;
    name_operations(profile);
    follow_operations(profile);
    return 0;
}

static int find_containment(const char *name, enum guard_containment *ret) {
    for (size_t i = 0; i < GUARD_CONTAINMENTS; i++) {
        if (strcmp(containment_names[i], name) != 0) continue;
        *ret = (enum guard_containment)i;
        return 0;
    }
    return -1;
}

/* "log, freeze, destroy": the first step and those that follow. */
static int set_containment(struct guard_profile *profile, const struct key *key, const char *value,
                           struct error *reterr) {
    CLEANUP_FREE char *copy = strdup(value);
    struct escalation_policy policy = profile->on_violation;
    enum guard_containment step;
    char *rest = copy;
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a profile");
    policy.step_count = 0;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        name = string_trim(name);
        if (find_containment(name, &step) < 0)
            return refuse_word(key, name, containment_names, ARRAY_SIZE(containment_names), reterr);
        if (policy.step_count > 0 && step <= policy.steps[policy.step_count - 1])
            return error_set(reterr, E_INVALID, "%s: '%s' is no severer than what comes before it", key->name, name);
        policy.steps[policy.step_count++] = (uint8_t)step;
    }
    profile->on_violation = policy;
    return 0;
}

/* Adds an address, or else a name. */
static int add_host(struct jail_egress *egress, const char *text, struct error *reterr) {
    struct jail_host host;
    struct jail_named named;
    if (jail_host_parse(text, &host, NULL) == 0) {
        if (egress->host_count == JAIL_HOSTS_MAX)
            return error_set(reterr, E_INVALID, "hosts are more than %d addresses", JAIL_HOSTS_MAX);
        egress->hosts[egress->host_count++] = host;
        return 0;
    }
    int result = jail_named_parse(text, &named, reterr);
    if (result < 0) return result;
    if (egress->name_count == JAIL_NAMES_MAX)
        return error_set(reterr, E_INVALID, "hosts are more than %d names", JAIL_NAMES_MAX);
    egress->names[egress->name_count++] = named;
    return 0;
}

/* "10.1.0.0/16:5432, www.example.org": only these, unless `reach` allows more. */
static int set_hosts(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    struct jail_egress *egress = &profile->jail.egress;
    CLEANUP_FREE char *copy = strdup(value);
    char *rest = copy;
    int result = 0;
    (void)key;
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a profile");
    egress->reach = JAIL_REACH_LISTED;
    egress->host_count = egress->name_count = 0;
    for (char *word; result == 0 && (word = strsep(&rest, ", \t"));)
        if (word[0]) result = add_host(egress, word, reterr);
    return result;
}

static int set_ports(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    struct jail_egress *egress = &profile->jail.egress;
    CLEANUP_FREE char *copy = strdup(value);
    char *rest = copy;
    (void)key;
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a profile");
    egress->port_count = 0;
    for (char *word; (word = strsep(&rest, ", \t"));) {
        uint64_t port;
        if (!word[0]) continue;
        if (egress->port_count == JAIL_PORTS_MAX)
            return error_set(reterr, E_INVALID, "ports are more than %d", JAIL_PORTS_MAX);
        if (!parse_u64(word, &port) || port == 0 || port > UINT16_MAX)
            return error_set(reterr, E_INVALID, "'%.60s' is no port", word);
        egress->ports[egress->port_count++] = (uint16_t)port;
    }
    return 0;
}

static int set_reach(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    const char *names[JAIL_REACH_ANYWHERE + 1];
    if (jail_reach_find(value, &profile->jail.egress.reach) == 0) return 0;
    for (unsigned i = 0; i < ARRAY_SIZE(names); i++) names[i] = jail_reach_name(i);
    return refuse_word(key, value, names, ARRAY_SIZE(names), reterr);
}

static int set_users(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    (void)key;
    profile->has_own_access = true;
    return guard_access_users(&profile->access, value, reterr);
}

static int set_groups(struct guard_profile *profile, const struct key *key, const char *value, struct error *reterr) {
    (void)key;
    profile->has_own_access = true;
    return guard_access_groups(&profile->access, value, reterr);
}

#define FIELD(field) offsetof(struct guard_profile, field), sizeof(((struct guard_profile *)NULL)->field)
#define OWN(function) function, 0, 0, NULL, NULL, 0
#define NUMBER(field, parser) set_number, FIELD(field), parser, NULL, 0
#define CHOICE(field, names) set_choice, FIELD(field), NULL, names, ARRAY_SIZE(names)

/* But for the limits, which jail/limits.h has. */
static const struct key keys[] = {
    {"summary", "what it is for, in a line", OWN(set_summary)},
    {"operations", "what it allows, such as `file_read, math`; `+file_write` adds to what it inherits",
     OWN(set_operations)},
    {"scan", "what findings of a scan lead to: `off`, `report`, `refuse`", CHOICE(scan, scan_names)},
    {"audit", "what the audit trail records: `changes`, or `all`", CHOICE(audit, audit_names)},
    {"on-violation", "the first step, and those that follow: some of `log`, `rollback`, `freeze`, `destroy`, in order",
     OWN(set_containment)},
    {"escalate-after", "so many violations lead to the next step", NUMBER(on_violation.after, parse_u64)},
    {"escalate-within", "within this time", NUMBER(on_violation.within_ms, parse_duration)},
    {"hosts", "addresses and names that may be reached, such as `10.1.0.0/16:5432, www.example.org`; no others then",
     OWN(set_hosts)},
    {"ports", "ports of hosts that are not listed, such as `80, 443`; any without", OWN(set_ports)},
    {"reach", "what else may be reached: `listed` (nothing), `public`, `anywhere`", OWN(set_reach)},
    {"may-publish", "whether its sandboxes may publish ports: `yes`, or `no`", CHOICE(forbids_publish, permit_names)},
    {"may-connect", "whether they may connect to services of the host: `yes`, or `no`",
     CHOICE(forbids_connect, permit_names)},
    {"users", "users who may choose it, besides root", OWN(set_users)},
    {"groups", "groups whose members may choose it", OWN(set_groups)},
};

/* A limit's setting is its name, with dashes. */
static void name_limit(enum jail_limit limit, char ret[LIMIT_NAME_BYTES]) {
    snprintf(ret, LIMIT_NAME_BYTES, "%s", jail_limit_kind(limit)->name);
    for (char *at = ret; (at = strchr(at, '_'));) *at = '-';
}

static int set_key(struct guard_profile *profile, const char *name, const char *value, struct error *reterr) {
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i].name, name) == 0) return keys[i].set(profile, &keys[i], value, reterr);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        char limit[LIMIT_NAME_BYTES];
        name_limit(i, limit);
        if (strcmp(limit, name) == 0) return jail_limit_read(i, value, &profile->jail.limits, reterr);
    }
    return error_set(reterr, E_INVALID, "there is no setting '%.60s' of a profile", name);
}

void guard_profile_settings(void (*tell)(const char *name, const char *summary)) {
    tell("inherits", "the profile that it takes after, first of its lines; `medium` without");
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) tell(keys[i].name, keys[i].summary);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        char limit[LIMIT_NAME_BYTES];
        name_limit(i, limit);
        tell(limit, jail_limit_kind(i)->summary);
    }
}

/* ---- built-in profiles ---- */

/* The pointers of a copied profile must point into the copy. */
static void own_texts(struct guard_profile *profile) {
    profile->jail.summary = profile->summary;
    profile->jail.operations = profile->operation_names;
}

static int add_built_in(struct guard_profiles *profiles, const struct jail_profile *jail, struct error *reterr) {
    struct guard_profile *profile = &profiles->items[profiles->count++];
    bool is_strictest = strcmp(jail->isolation, "high") == 0;
    *profile = (struct guard_profile){
        .jail = *jail, .scan = GUARD_SCAN_REPORT, .on_violation = is_strictest ? strict : lenient};
    snprintf(profile->summary, sizeof profile->summary, "%s", jail->summary);
    int result = guard_operations_parse(jail->operations, &profile->operations, reterr);
    name_operations(profile);
    own_texts(profile);
    return result;
}

/* ---- profiles of the settings ---- */

static bool is_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return length > 0 && length < JAIL_NAME_BYTES && name[length] == '\0';
}

/* [profile NAME]. The parent is known only when the next line names it; until then it is medium. */
static int begin_profile(struct guard_profiles *profiles, char *header, struct guard_profile **ret,
                         struct error *reterr) {
    char *close = strchr(header, ']');
    if (!string_starts(header, "[profile ") || !close)
        return error_set(reterr, E_INVALID, "'%.60s' is no section; a profile begins with [profile NAME]", header);
    *close = '\0';
    const char *name = string_trim(header + strlen("[profile "));
    if (!is_name(name)) return error_set(reterr, E_INVALID, "'%.60s' is no name for a profile", name);
    if (find(profiles, name)) return error_set(reterr, E_INVALID, "there is a profile '%s' already", name);
    if (profiles->count == GUARD_PROFILES_MAX)
        return error_set(reterr, E_INVALID, "there are more than %d profiles", GUARD_PROFILES_MAX);
    const struct guard_profile *medium = find(profiles, JAIL_DEFAULT_PROFILE);
    if (!medium) return error_set(reterr, E_INVALID, "there is no profile '" JAIL_DEFAULT_PROFILE "' to begin with");
    struct guard_profile *profile = &profiles->items[profiles->count++];
    *profile = *medium;
    profile->has_own_access = false;
    profile->access = (struct guard_access){0};
    snprintf(profile->jail.name, sizeof profile->jail.name, "%s", name);
    snprintf(profile->inherits, sizeof profile->inherits, JAIL_DEFAULT_PROFILE);
    own_texts(profile);
    *ret = profile;
    return 0;
}

static int inherit(struct guard_profiles *profiles, struct guard_profile *profile, const char *from,
                   struct error *reterr) {
    const struct guard_profile *parent = find(profiles, from);
    struct guard_profile copy = *profile;
    if (!parent || parent == profile || !parent->jail.is_public)
        return error_set(reterr, E_INVALID, "there is no profile '%.60s' before it to inherit from", from);
    *profile = *parent;
    profile->has_own_access = false;
    profile->access = (struct guard_access){0}; /* the parent's list may still come: see inherit_access */
    memcpy(profile->jail.name, copy.jail.name, sizeof copy.jail.name);
    snprintf(profile->inherits, sizeof profile->inherits, "%s", parent->jail.name);
    own_texts(profile);
    return 0;
}

struct reading {
    struct guard_profiles *profiles;
    struct guard_profile *profile; /* the section's profile; NULL: none yet */
    bool is_access;                /* the section is [access NAME] */
    unsigned lines;                /* in the section */
};

/* [access NAME] */
static int begin_access(const struct guard_profiles *profiles, char *header, struct guard_profile **ret,
                        struct error *reterr) {
    char *close = strchr(header, ']');
    if (!close) return error_set(reterr, E_INVALID, "'%.60s' is no section; one is [access NAME]", header);
    *close = '\0';
    const char *name = string_trim(header + strlen("[access "));
    struct guard_profile *profile = find(profiles, name);
    if (!profile) return error_set(reterr, E_INVALID, "there is no profile '%.60s' before this line", name);
    *ret = profile;
    return 0;
}

/* A child of a restricted profile is restricted too, in whatever order the settings say so. Parents come first. */
static void inherit_access(struct guard_profiles *profiles) {
    for (size_t i = 0; i < profiles->count; i++) {
        struct guard_profile *profile = &profiles->items[i];
        const struct guard_profile *parent = profile->inherits[0] ? find(profiles, profile->inherits) : NULL;
        if (parent && !profile->has_own_access) profile->access = parent->access;
    }
}

static int read_setting(struct reading *reading, char *line, struct error *reterr) {
    char *equals = strchr(line, '=');
    if (!equals || !reading->profile) return error_set(reterr, E_INVALID, "a line of a profile is 'name = value'");
    *equals = '\0';
    const char *name = string_trim(line), *value = string_trim(equals + 1);
    if (reading->is_access && strcmp(name, "users") != 0 && strcmp(name, "groups") != 0)
        return error_set(reterr, E_INVALID, "[access %s] has users and groups, not '%.60s'",
                         reading->profile->jail.name, name);
    int result = reading->lines++ == 0 && strcmp(name, "inherits") == 0
                     ? inherit(reading->profiles, reading->profile, value, reterr)
                     : set_key(reading->profile, name, value, reterr);
    return result < 0 ? error_prefix(reterr, "profile '%s'", reading->profile->jail.name) : 0;
}

static int read_line(struct reading *reading, char *line, struct error *reterr) {
    line[strcspn(line, "#")] = '\0';
    line = string_trim(line);
    if (!line[0]) return 0;
    if (line[0] != '[') return read_setting(reading, line, reterr);
    reading->lines = 0;
    reading->is_access = string_starts(line, "[access ");
    return reading->is_access ? begin_access(reading->profiles, line, &reading->profile, reterr)
                              : begin_profile(reading->profiles, line, &reading->profile, reterr);
}

static int read_text(struct guard_profiles *profiles, char *text, struct error *reterr) {
    struct reading reading = {.profiles = profiles};
    unsigned number = 0;
    int result = 0;
    for (char *line; result == 0 && (line = strsep(&text, "\n")); number++) result = read_line(&reading, line, reterr);
    if (result < 0) return error_prefix(reterr, "sandbox.conf:%u", number);
    inherit_access(profiles);
    return 0;
}

int guard_profiles_read(const char *text, struct guard_profiles *ret, struct error *reterr) {
    CLEANUP(guard_profiles_free)
    struct guard_profiles profiles = {.items = calloc(GUARD_PROFILES_MAX, sizeof *profiles.items)};
    CLEANUP_FREE char *copy = strdup(text ? text : "");
    size_t count;
    const struct jail_profile *built_in = jail_profiles(&count);
    int result = profiles.items && copy ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for profiles");
    for (size_t i = 0; result == 0 && i < count; i++)
        if (built_in[i].is_public) result = add_built_in(&profiles, &built_in[i], reterr);
    if (result == 0) result = read_text(&profiles, copy, reterr);
    if (result < 0) return result;
    *ret = profiles;
    profiles = (struct guard_profiles){0};
    return 0;
}
