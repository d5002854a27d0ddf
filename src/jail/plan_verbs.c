/* The language of plans, as one table: the daemon writes by it, and the launcher reads and checks by it. */
#include <limits.h>
#include <string.h>

#include "jail/plan.h"
#include "jail/seccomp.h"

enum { MOUNTS_MAX = PLAN_BINDS_MAX, HOSTNAME_MAX = 64, ENV_MAX = 256, ARGUMENTS_MAX = 1024 };

const char *const plan_disks[JAIL_DISKS] = {JAIL_DATA, "/tmp"};
const char *const plan_devices[PLAN_DEVICES] = {"null", "zero", "urandom"};

bool path_is_clean(const char *path) {
    if (path[0] != '/' || strlen(path) >= PATH_MAX) return false;
    for (const char *at = path; *at == '/';) {
        const char *name = at + 1;
        size_t length = strcspn(name, "/");
        if (length == 0 || length > NAME_MAX || (length == 1 && name[0] == '.') ||
            (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        at = name + length;
    }
    return true;
}

bool plan_is_volume_place(const char *path) {
    return path_is_clean(path) && (string_starts(path, JAIL_VOLUMES "/") || string_starts(path, JAIL_DATA "/"));
}

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static bool is_hostname(const char *word) {
    return plan_name_is_valid(word) && strlen(word) <= HOSTNAME_MAX;
}

static bool is_network(const char *word) {
    static const char *const words[] = {"none", "loopback"};
    return is_one_of(word, words, ARRAY_SIZE(words));
}

static bool is_reach(const char *word) {
    enum jail_reach reach;
    return jail_reach_find(word, &reach) == 0;
}

static bool is_host(const char *word) {
    struct jail_host host;
    return jail_host_parse(word, &host, NULL) == 0;
}

static bool is_filter_set(const char *word) {
    return seccomp_set_find(word) >= 0;
}

/* The root too. */
static bool is_rule_place(const char *word) {
    return path_is_clean(word) || strcmp(word, "/") == 0;
}

static bool is_disk(const char *word) {
    return is_one_of(word, plan_disks, JAIL_DISKS);
}

static bool is_data(const char *word) {
    return strcmp(word, JAIL_DATA) == 0;
}

static bool is_device(const char *word) {
    return is_one_of(word, plan_devices, PLAN_DEVICES);
}

static bool is_environment(const char *word) {
    return strchr(word, '=') > word;
}

static bool is_anything(const char *word) {
    (void)word;
    return true;
}

static const struct plan_verb verbs[JAIL_PLAN_VERB_COUNT] = {
    [JAIL_PLAN_NODE] = {"node", .operands = {plan_name_is_valid}, .times = 1, .is_needed = true, .can_be_given = true},
    [JAIL_PLAN_HOSTNAME] = {"hostname", .operands = {is_hostname}, .times = 1},
    [JAIL_PLAN_NETWORK] = {"network", .operands = {is_network}, .times = 1},
    [JAIL_PLAN_LIMIT] = {"limit", .operands = {plan_name_is_valid}, .least = 1, .most = UINT64_MAX,
                         .times = JAIL_LIMIT_COUNT, .can_be_given = true},
    [JAIL_PLAN_WEIGHT] = {"weight", .least = 1, .most = 100, .times = 1},
    [JAIL_PLAN_BIND] = {"bind", .operands = {path_is_clean, path_is_clean}, .times = MOUNTS_MAX, .can_be_given = true},
    [JAIL_PLAN_BIND_EXEC] = {"bind-exec", .operands = {path_is_clean, path_is_clean}, .times = MOUNTS_MAX,
                             .can_be_given = true},
    [JAIL_PLAN_TOOLCHAIN] = {"toolchain", .operands = {plan_name_is_valid, path_is_clean}, .times = 4},
    [JAIL_PLAN_DEVICE] = {"device", .operands = {is_device}, .times = 8},
    [JAIL_PLAN_TMPFS] = {"tmpfs", .operands = {is_disk}, .least = 1, .most = 100, .times = JAIL_DISKS},
    [JAIL_PLAN_VOLUME] = {"volume", .operands = {plan_name_is_valid, is_data}, .times = 1},
    [JAIL_PLAN_DIRECTORY] = {"directory", .operands = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_PROC] = {"proc", .times = 1},
    [JAIL_PLAN_READ] = {"read", .operands = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_WRITE] = {"write", .operands = {is_rule_place}, .times = MOUNTS_MAX},
    [JAIL_PLAN_EXECUTE] = {"execute", .operands = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_SECCOMP] = {"seccomp", .operands = {is_filter_set}, .times = 1, .is_needed = true},
    [JAIL_PLAN_EXECS] = {"execs", .most = 1 << 20, .times = 1},
    [JAIL_PLAN_REACH] = {"reach", .operands = {is_reach}, .times = 1, .can_be_given = true},
    [JAIL_PLAN_HOST] = {"host", .operands = {is_host}, .times = JAIL_HOSTS_MAX, .can_be_given = true},
    [JAIL_PLAN_RESOLVED] = {"resolved", .operands = {is_host}, .times = JAIL_RESOLVED_MAX, .can_be_given = true},
    [JAIL_PLAN_PORT] = {"port", .least = 1, .most = UINT16_MAX, .times = JAIL_PORTS_MAX, .can_be_given = true},
    [JAIL_PLAN_CHDIR] = {"chdir", .operands = {path_is_clean}, .times = 1},
    [JAIL_PLAN_ENV] = {"env", .operands = {is_environment}, .times = ENV_MAX},
    [JAIL_PLAN_PROGRAM] = {"program", .operands = {path_is_clean}, .times = 1, .is_needed = true},
    [JAIL_PLAN_ARGUMENT] = {"argument", .operands = {is_anything}, .times = ARGUMENTS_MAX, .is_needed = true},
};

const struct plan_verb *plan_verb(enum jail_plan_verb verb) {
    return &verbs[verb];
}
