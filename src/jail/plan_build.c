/* A profile, limits and the features of a host become a plan. Pure: the tests compare the plan's text. */
#include <string.h>

#include "jail/egress_policy.h"
#include "jail/plan.h"

enum { DATA_PERCENT = 75 }; /* of the disk is /data; /tmp has the rest */

/* A plan in the making; the first failure stays. */
struct draft {
    struct jail_plan plan;
    const struct jail_request *request;
    const struct jail_features *features;
    struct error *reterr;
    int failed;
};

static void cleanup_draft(struct draft *draft) {
    jail_plan_free(&draft->plan);
}

static void add(struct draft *draft, enum jail_plan_verb verb, const char *first, const char *second, uint64_t number) {
    if (!draft->failed) draft->failed = plan_add(&draft->plan, verb, first, second, number, draft->reterr);
}

static bool can(const struct draft *draft, enum jail_guarantee guarantee) {
    return draft->features->guarantees & (1u << guarantee);
}

static bool is_path(const char *path) {
    return path && path[0] == '/' && path[1];
}

static int check_paths(const struct jail_request *request, struct error *reterr) {
    for (size_t i = 0; i < request->bind_count; i++) {
        const struct jail_bind *bind = &request->binds[i];
        bool is_source = bind->is_toolchain ? bind->source && plan_name_is_valid(bind->source) : is_path(bind->source);
        if (!is_path(bind->target) || !is_source)
            return error_set(reterr, E_INVALID, "'%s' can't be bound at '%s'", bind->source ? bind->source : "",
                             bind->target ? bind->target : "");
    }
    for (const char *const *path = request->directories; path && *path; path++)
        if (!is_path(*path)) return error_set(reterr, E_INVALID, "'%s' is not an absolute path", *path);
    for (const char *const *path = request->executables; path && *path; path++)
        if (!is_path(*path)) return error_set(reterr, E_INVALID, "'%s' is not an absolute path", *path);
    return 0;
}

static int check(const struct jail_request *request, struct error *reterr) {
    if (!request->node || !plan_name_is_valid(request->node))
        return error_set(reterr, E_INVALID, "'%s' is not a node's name", request->node ? request->node : "");
    if (!is_path(request->program) || !request->argv || !request->argv[0])
        return error_set(reterr, E_INVALID, "node %s has no program to run", request->node);
    for (const char *const *pair = request->env; pair && *pair; pair++)
        if (!strchr(*pair, '=') || **pair == '=') return error_set(reterr, E_INVALID, "'%s' is not NAME=value", *pair);
    return check_paths(request, reterr);
}

/* Below `above`, or the same. */
static bool is_within(const char *path, const char *above) {
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (!path[length] || path[length] == '/');
}

/* What programs other than the VM need: themselves and their libraries. */
static const char *const system_directories[] = {
    "/usr/bin", "/usr/lib", "/bin", "/lib",
#ifdef __x86_64__
    "/lib64", /* the loader's place in the ABI */
#endif
};

static bool is_in_system(const char *path) {
    for (size_t i = 0; i < ARRAY_SIZE(system_directories); i++)
        if (is_within(path, system_directories[i])) return true;
    return false;
}

static void add_limits(struct draft *draft) {
    const struct jail_limits *limits = &draft->request->limits;
    if (!draft->failed) draft->failed = plan_add_limits(&draft->plan, limits, draft->reterr);
    if (limits->cpu_weight_percent) add(draft, JAIL_PLAN_WEIGHT, NULL, NULL, limits->cpu_weight_percent);
}

static void add_binds(struct draft *draft) {
    const struct jail_request *request = draft->request;
    bool has_system = request->profile->may_exec;
    for (size_t i = 0; has_system && i < ARRAY_SIZE(system_directories); i++)
        add(draft, JAIL_PLAN_BIND_EXEC, system_directories[i], system_directories[i], 0);
    for (size_t i = 0; i < request->bind_count; i++) {
        const struct jail_bind *bind = &request->binds[i];
        /* There already, at its own place. */
        if (has_system && strcmp(bind->source, bind->target) == 0 && is_in_system(bind->target)) continue;
        enum jail_plan_verb verb = bind->is_toolchain ? JAIL_PLAN_TOOLCHAIN
                                   : bind->executable ? JAIL_PLAN_BIND_EXEC
                                                      : JAIL_PLAN_BIND;
        add(draft, verb, bind->source, bind->target, 0);
    }
}

/* Where /data is a volume, all of what the limit of the disk allows is /tmp's. */
static void add_disks(struct draft *draft) {
    const char *volume = draft->request->data_volume;
    if (volume)
        add(draft, JAIL_PLAN_VOLUME, volume, JAIL_DATA, 0);
    else
        add(draft, JAIL_PLAN_TMPFS, plan_disks[0], NULL, DATA_PERCENT);
    add(draft, JAIL_PLAN_TMPFS, plan_disks[1], NULL, volume ? 100 : 100 - DATA_PERCENT);
}

static void add_root(struct draft *draft) {
    add_binds(draft);
    for (size_t i = 0; i < PLAN_DEVICES; i++) add(draft, JAIL_PLAN_DEVICE, plan_devices[i], NULL, 0);
    add_disks(draft);
    for (const char *const *path = draft->request->directories; path && *path; path++)
        add(draft, JAIL_PLAN_DIRECTORY, *path, NULL, 0);
    if (draft->request->takes_volumes) add(draft, JAIL_PLAN_DIRECTORY, JAIL_VOLUMES, NULL, 0);
    add(draft, JAIL_PLAN_PROC, NULL, NULL, 0);
}

/* The kernel executes a dynamic program's loader too. */
static bool is_loader(const char *path) {
    const char *name = strrchr(path, '/') + 1;
    return string_starts(name, "ld-") || strcmp(name, "ld.so") == 0;
}

/* Whether a rule on one of the directories holds for this path. */
static bool is_below_directory(const struct jail_request *request, const char *path) {
    for (const char *const *directory = request->directories; directory && *directory; directory++)
        if (is_within(path, *directory)) return true;
    return false;
}

static void add_read_rules(struct draft *draft) {
    const struct jail_request *request = draft->request;
    bool has_system = request->profile->may_exec;
    /* First the places to mount at: a rule on a directory stops holding for what is mounted over it later, one on the
       directory above it goes on. */
    for (const char *const *path = request->directories; path && *path; path++)
        add(draft, JAIL_PLAN_READ, *path, NULL, 0);
    for (size_t i = 0; i < request->bind_count; i++) {
        const char *target = request->binds[i].target;
        if (!is_below_directory(request, target) && !(has_system && is_in_system(target)))
            add(draft, JAIL_PLAN_READ, target, NULL, 0);
    }
    add(draft, JAIL_PLAN_READ, "/proc", NULL, 0);
}

static void add_execute_rules(struct draft *draft) {
    const struct jail_request *request = draft->request;
    for (size_t i = 0; request->profile->may_exec && i < ARRAY_SIZE(system_directories); i++)
        add(draft, JAIL_PLAN_EXECUTE, system_directories[i], NULL, 0);
    if (request->profile->may_exec && request->takes_volumes) add(draft, JAIL_PLAN_EXECUTE, JAIL_VOLUMES, NULL, 0);
    for (size_t i = 0; i < request->bind_count; i++)
        if (request->binds[i].executable && is_loader(request->binds[i].target))
            add(draft, JAIL_PLAN_EXECUTE, request->binds[i].target, NULL, 0);
    for (const char *const *path = request->executables; path && *path; path++)
        add(draft, JAIL_PLAN_EXECUTE, *path, NULL, 0);
}

static void add_landlock(struct draft *draft) {
    if (!can(draft, JAIL_GUARANTEE_LANDLOCK)) return;
    add_read_rules(draft);
    /* What is mounted over /data later is out of the reach of a rule on /data. One on the directory above holds for it,
       and that is the root: all else there is read-only as a mount, and no rule lets anything of it be executed. */
    add(draft, JAIL_PLAN_WRITE, draft->request->takes_data ? "/" : JAIL_DATA, NULL, 0);
    add(draft, JAIL_PLAN_WRITE, "/tmp", NULL, 0);
    /* What is mounted below comes later: a rule on the directory above goes on to hold. */
    if (draft->request->takes_volumes) add(draft, JAIL_PLAN_WRITE, JAIL_VOLUMES, NULL, 0);
    add_execute_rules(draft);
}

static bool has_network(const struct jail_request *request) {
    return request->profile->network != JAIL_NETWORK_NONE || request->has_loopback;
}

/* Without a network namespace, internet sockets would be the host's: then no node gets any. */
static const char *system_call_set(const struct draft *draft) {
    const struct jail_profile *profile = draft->request->profile;
    if (!has_network(draft->request) || !can(draft, JAIL_GUARANTEE_NETWORK)) return "strict";
    return profile->may_exec ? "open" : "network";
}

static void add_egress(struct draft *draft) {
    const struct jail_request *request = draft->request;
    bool wants = request->profile->network == JAIL_NETWORK_OUTGOING;
    if (!wants || !can(draft, JAIL_GUARANTEE_EGRESS) || !can(draft, JAIL_GUARANTEE_NETWORK) || draft->failed) return;
    struct jail_egress egress = jail_egress_bounded(&request->profile->egress, &request->limits);
    jail_egress_resolve(&egress, request->resolved, request->resolved_count);
    draft->failed = egress_write(&egress, &draft->plan, draft->reterr);
}

static void add_filters(struct draft *draft) {
    add_landlock(draft);
    add(draft, JAIL_PLAN_SECCOMP, system_call_set(draft), NULL, 0);
    /* Counting needs the kernel to notify the launcher. */
    if (!draft->request->profile->may_exec && can(draft, JAIL_GUARANTEE_NOTIFY))
        add(draft, JAIL_PLAN_EXECS, NULL, NULL, draft->request->execs);
}

static void add_program(struct draft *draft) {
    const struct jail_request *request = draft->request;
    add(draft, JAIL_PLAN_CHDIR, "/data", NULL, 0);
    for (const char *const *pair = request->env; pair && *pair; pair++) add(draft, JAIL_PLAN_ENV, *pair, NULL, 0);
    add(draft, JAIL_PLAN_PROGRAM, request->program, NULL, 0);
    for (const char *const *word = request->argv; *word; word++) add(draft, JAIL_PLAN_ARGUMENT, *word, NULL, 0);
}

int jail_plan_build(const struct jail_request *request, const struct jail_features *features, struct jail_plan *ret,
                    uint32_t *ret_lost, struct error *reterr) {
    if (check(request, reterr) < 0) return -1;
    CLEANUP(cleanup_draft) struct draft draft = {.request = request, .features = features, .reterr = reterr};
    add(&draft, JAIL_PLAN_NODE, request->node, NULL, 0);
    /* With a domain, so that nothing inside goes and asks a resolver for the rest of the name. */
    add(&draft, JAIL_PLAN_HOSTNAME, "sandbox.local", NULL, 0);
    if (can(&draft, JAIL_GUARANTEE_NETWORK))
        add(&draft, JAIL_PLAN_NETWORK, has_network(request) ? "loopback" : "none", NULL, 0);
    add_egress(&draft);
    add_limits(&draft);
    add_root(&draft);
    add_filters(&draft);
    add_program(&draft);
    if (draft.failed) return draft.failed;
    *ret_lost = ~jail_guarantees_of(features, request->profile) & ((1u << JAIL_GUARANTEE_COUNT) - 1);
    /* A profile without a network loses nothing where there is none, and its memory holds no such buffers. */
    if (request->profile->network != JAIL_NETWORK_OUTGOING) *ret_lost &= ~(1u << JAIL_GUARANTEE_EGRESS);
    if (request->profile->network == JAIL_NETWORK_NONE) *ret_lost &= ~(1u << JAIL_GUARANTEE_SOCKETS);
    *ret = draft.plan;
    draft.plan = (struct jail_plan){0};
    return 0;
}
