/* A plan comes from the process that reads strangers' input: the launcher believes nothing of it. */
#include <limits.h>
#include <string.h>

#include "jail/plan.h"

enum { MOUNTS_MAX = PLAN_BINDS_MAX, RLIMITS_MAX = 16, HOSTNAME_MAX = 64, ENV_MAX = 256, ARGUMENTS_MAX = 1024 };

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

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static bool is_name(const char *word) {
    size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return length > 0 && word[length] == '\0' && length < JAIL_NAME_BYTES && word[0] != '.' && word[0] != '-';
}

static bool is_hostname(const char *word) {
    return is_name(word) && strlen(word) <= HOSTNAME_MAX;
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
    static const char *const words[] = {"strict", "network", "open"};
    return is_one_of(word, words, ARRAY_SIZE(words));
}

/* None of these leads anywhere: no disk, no memory, no terminal. */
static bool is_device(const char *word) {
    static const char *const words[] = {"null", "zero", "full", "random", "urandom"};
    return is_one_of(word, words, ARRAY_SIZE(words));
}

static bool is_environment(const char *word) {
    return strchr(word, '=') > word;
}

static bool is_text(const char *word) {
    return *word != '\0';
}

static bool is_anything(const char *word) {
    (void)word;
    return true;
}

struct rule {
    bool (*words[2])(const char *word); /* NULL: the verb has no such word */
    uint64_t least, most;
    size_t times; /* at most */
};

static const struct rule rules[JAIL_PLAN_VERB_COUNT] = {
    [JAIL_PLAN_NODE] = {.words = {is_name}, .times = 1},
    [JAIL_PLAN_HOSTNAME] = {.words = {is_hostname}, .times = 1},
    [JAIL_PLAN_NETWORK] = {.words = {is_network}, .times = 1},
    [JAIL_PLAN_MEMORY] = {.least = 1 << 20, .most = PLAN_BYTES_MAX, .times = 1},
    [JAIL_PLAN_SOCKETS] = {.least = 1, .most = PLAN_BYTES_MAX, .times = 1},
    [JAIL_PLAN_CPU] = {.least = 1, .most = 100ULL * 4096, .times = 1},
    [JAIL_PLAN_WEIGHT] = {.least = 1, .most = 100, .times = 1},
    [JAIL_PLAN_TASKS] = {.least = 1, .most = 1 << 22, .times = 1},
    [JAIL_PLAN_RLIMIT] = {.words = {is_text}, .most = UINT64_MAX, .times = RLIMITS_MAX},
    [JAIL_PLAN_BIND] = {.words = {path_is_clean, path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_BIND_EXEC] = {.words = {path_is_clean, path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_PROJECT] = {.words = {is_name, path_is_clean}, .times = 8},
    [JAIL_PLAN_DEVICE] = {.words = {is_device}, .times = 8},
    [JAIL_PLAN_TMPFS] = {.words = {path_is_clean}, .least = 4096, .most = PLAN_BYTES_MAX, .times = 16},
    [JAIL_PLAN_DIRECTORY] = {.words = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_SYMLINK] = {.words = {is_text, path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_PROC] = {.times = 1},
    [JAIL_PLAN_READ] = {.words = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_WRITE] = {.words = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_EXECUTE] = {.words = {path_is_clean}, .times = MOUNTS_MAX},
    [JAIL_PLAN_SECCOMP] = {.words = {is_filter_set}, .times = 1},
    [JAIL_PLAN_EXECS] = {.most = 1 << 20, .times = 1},
    [JAIL_PLAN_REACH] = {.words = {is_reach}, .times = 1},
    [JAIL_PLAN_HOST] = {.words = {is_host}, .times = JAIL_HOSTS_MAX},
    [JAIL_PLAN_RESOLVED] = {.words = {is_host}, .times = JAIL_RESOLVED_MAX},
    [JAIL_PLAN_PORT] = {.least = 1, .most = UINT16_MAX, .times = JAIL_PORTS_MAX},
    [JAIL_PLAN_RATE] = {.least = 1, .most = PLAN_BYTES_MAX, .times = 1},
    [JAIL_PLAN_TRAFFIC] = {.least = 1, .most = PLAN_BYTES_MAX, .times = 1},
    [JAIL_PLAN_CONNECTIONS] = {.least = 1, .most = 1 << 16, .times = 1},
    [JAIL_PLAN_CHDIR] = {.words = {path_is_clean}, .times = 1},
    [JAIL_PLAN_ENV] = {.words = {is_environment}, .times = ENV_MAX},
    [JAIL_PLAN_PROGRAM] = {.words = {path_is_clean}, .times = 1},
    [JAIL_PLAN_ARGUMENT] = {.words = {is_anything}, .times = ARGUMENTS_MAX},
};

static const char *verb_word(enum jail_plan_verb verb) {
    static const char *const words[] = {
#define X(name, word, operands) word,
        JAIL_PLAN_VERBS(X)
#undef X
    };
    return words[verb];
}

static int check_op(const struct jail_plan_op *op, struct error *reterr) {
    const struct rule *rule = &rules[op->verb];
    for (size_t i = 0; i < ARRAY_SIZE(op->words); i++)
        if (rule->words[i] && (!op->words[i] || !rule->words[i](op->words[i])))
            return error_set(reterr, E_INVALID, "the plan's %s has a bad operand '%s'", verb_word(op->verb),
                             op->words[i] ? op->words[i] : "");
    if (rule->most && (op->number < rule->least || op->number > rule->most))
        return error_set(reterr, E_INVALID, "the plan's %s of %llu is out of bounds", verb_word(op->verb),
                         (unsigned long long)op->number);
    return 0;
}

/* times gets how often each verb is there. */
static int check_ops(const struct jail_plan *plan, size_t times[JAIL_PLAN_VERB_COUNT], struct error *reterr) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct jail_plan_op *op = &plan->ops[i];
        if (op->verb >= JAIL_PLAN_VERB_COUNT) return error_set(reterr, E_INVALID, "the plan has an unknown verb");
        if (check_op(op, reterr) < 0) return -1;
        if (++times[op->verb] > rules[op->verb].times)
            return error_set(reterr, E_INVALID, "the plan has more than %zu %s", rules[op->verb].times,
                             verb_word(op->verb));
    }
    /* They are mounted together, whichever verb they came by. */
    if (times[JAIL_PLAN_BIND] + times[JAIL_PLAN_BIND_EXEC] > MOUNTS_MAX)
        return error_set(reterr, E_INVALID, "the plan has more than %d binds", MOUNTS_MAX);
    return 0;
}

int plan_check(const struct jail_plan *plan, struct error *reterr) {
    static const enum jail_plan_verb needed[] = {JAIL_PLAN_NODE, JAIL_PLAN_SECCOMP, JAIL_PLAN_PROGRAM,
                                                 JAIL_PLAN_ARGUMENT};
    size_t times[JAIL_PLAN_VERB_COUNT] = {0};
    if (check_ops(plan, times, reterr) < 0) return -1;
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
        if (times[needed[i]] == 0) return error_set(reterr, E_INVALID, "the plan has no %s", verb_word(needed[i]));
    return 0;
}

int plan_check_equipment(const struct jail_plan *plan, struct error *reterr) {
    static const bool can_be_given[JAIL_PLAN_VERB_COUNT] = {
        [JAIL_PLAN_NODE] = true,     [JAIL_PLAN_BIND] = true,    [JAIL_PLAN_BIND_EXEC] = true,
        [JAIL_PLAN_REACH] = true,    [JAIL_PLAN_HOST] = true,    [JAIL_PLAN_PORT] = true,
        [JAIL_PLAN_RATE] = true,     [JAIL_PLAN_TRAFFIC] = true, [JAIL_PLAN_CONNECTIONS] = true,
        [JAIL_PLAN_RESOLVED] = true,
    };
    /* First: it also tells whether a verb is one. */
    if (check_ops(plan, (size_t[JAIL_PLAN_VERB_COUNT]){0}, reterr) < 0) return -1;
    for (size_t i = 0; i < plan->count; i++)
        if (!can_be_given[plan->ops[i].verb])
            return error_set(reterr, E_INVALID, "a running node can't be given %s", verb_word(plan->ops[i].verb));
    return 0;
}
