/* What follows when a sandbox has reached a limit. The limit holds in any case; this is what its policy adds. */
#include <string.h>

#include "core/core_internal.h"
#include "core/policy/containment.h"
#include "core/sandbox/logs.h"
#include "core/sandbox/sandbox.h"

enum {
    THROTTLED_PERCENT = 5,
    THROTTLE_MS = 10000,
    RELIEF_DEADLINE_MS = 2000,
    TELL_FORKS_MS = 1000,
    BLAME_MS = 5000, /* what was killed so long ago at most may be why an application ended */
    BOMB_FORKS = 4,  /* refused between two looks that are a tenth of a second apart: so often tries a bomb alone */
};

struct reached {
    enum jail_limit limit;
    uint64_t count, max;
};

struct jail_limits limits_in_force(const struct sandbox *sandbox, const struct jail_limits *limits) {
    struct jail_limits in_force = *limits;
    bool is_throttled = sandbox->limits.throttled_until_ms != 0;
    if (is_throttled && (!limits->cpu_percent || limits->cpu_percent > THROTTLED_PERCENT))
        in_force.cpu_percent = THROTTLED_PERCENT;
    return in_force;
}

static void throttle(struct sandbox *sandbox, const char *reason) {
    bool was_throttled = sandbox->limits.throttled_until_ms != 0;
    (void)reason;
    sandbox->limits.throttled_until_ms = clock_monotonic_ms() + THROTTLE_MS;
    if (!was_throttled) launcher_push(sandbox, PUSH_LIMITS);
}

void limit_throttle_over(struct sandbox *sandbox) {
    if (!sandbox->limits.throttled_until_ms || clock_monotonic_ms() < sandbox->limits.throttled_until_ms ||
        !sandbox->node)
        return;
    sandbox->limits.throttled_until_ms = 0;
    launcher_push(sandbox, PUSH_LIMITS);
}

void limit_take_up(struct sandbox *sandbox) {
    sandbox->metering.tasks_refused = sandbox->metering.cpu_watch_refused = node_tasks_refused(sandbox->node);
    sandbox->metering.files_refused = node_files_refused(sandbox->node);
    launcher_push(sandbox, PUSH_LIMITS);
}

static void on_destroyed(void *data, const struct error *error) {
    struct engine *engine = data;
    if (error) engine_log_error(engine, "destroy_failed", NULL, error);
}

static void destroy(struct sandbox *sandbox, const char *reason) {
    sandbox->ending.is_punished = true;
    sandbox_destroy(sandbox, reason, on_destroyed, sandbox->engine);
}

/* As if it had crashed: its end decides what follows. */
static void restart(struct sandbox *sandbox, const char *reason) {
    error_set(&sandbox->limits.error, E_LIMIT, "%s", reason);
    node_kill(sandbox->node, reason);
}

static void freeze(struct sandbox *sandbox, const char *reason) {
    sandbox_freeze(sandbox, reason);
}

static bool is_acted_on(const struct sandbox *sandbox) {
    return sandbox->node && sandbox->status == STATUS_RUNNING && !sandbox->ending.is_destroying &&
           !sandbox->engine->closing.is_begun;
}

static void act(struct sandbox *sandbox, enum jail_policy policy, const char *reason) {
    static void (*const actions[JAIL_POLICY_COUNT])(struct sandbox *,
                                                    const char *) = {[JAIL_POLICY_THROTTLE] = throttle,
                                                                     [JAIL_POLICY_RESTART] = restart,
                                                                     [JAIL_POLICY_FREEZE] = freeze,
                                                                     [JAIL_POLICY_DESTROY] = destroy};
    if (is_acted_on(sandbox) && actions[policy]) actions[policy](sandbox, reason);
}

/* In the log and as its last error, for its owner: events are read by few. A call that took too long is told by its
   answer. */
static void note_killed(struct sandbox *sandbox, const struct reached *reached, uint64_t killed) {
    const char *name = jail_limit_kind(reached->limit)->name;
    struct error *error = &sandbox->limits.killed;
    if (killed == 0 || reached->limit == JAIL_LIMIT_MAX_RUN) return;
    error_set(error, E_LIMIT, "its limit on %s killed %llu of its processes: %llu of %llu; --limit %s=N gives it more",
              name, (unsigned long long)killed, (unsigned long long)reached->count, (unsigned long long)reached->max,
              name);
    sandbox->limits.killed_ms = clock_monotonic_ms();
    sandbox_set_error(sandbox, error);
    log_add(sandbox, "service", "warning", NULL, error->detail, strlen(error->detail));
}

void limit_blame(const struct sandbox *sandbox, struct error *error) {
    const struct limit_state *limits = &sandbox->limits;
    bool is_fresh = limits->killed.code != E_NONE && clock_monotonic_ms() - limits->killed_ms < BLAME_MS;
    struct error ended = *error;
    if (is_fresh) error_set(error, ended.code, "%s; %s", limits->killed.detail, ended.detail);
}

static void tell(struct sandbox *sandbox, const struct reached *reached, uint64_t killed) {
    enum jail_policy policy = sandbox->config.policies.of[reached->limit];
    note_killed(sandbox, reached, killed);
    alarm_event(sandbox->engine, &sandbox->limits.alarms, EVENT_LIMIT, sandbox->id,
                json_pack("{s:s, s:{s:I, s:I}, s:s, s:I}", "limit", jail_limit_kind(reached->limit)->name, "usage",
                          "count", (json_int_t)reached->count, "limit", (json_int_t)reached->max, "policy",
                          jail_policy_name(policy), "killed", (json_int_t)killed));
}

/* ---- killing the process that has most of what the kernel holds ---- */

struct relief {
    struct sandbox_ref ref;
    struct reached reached;
};

static void on_relieved(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct relief *relief = data;
    struct sandbox *sandbox = sandbox_deref(&relief->ref);
    const struct term *killed = error ? NULL : term_map_get(result, "killed");
    uint64_t count = 0;
    (void)reason;
    if (killed && !term_to_uint64(killed, &count)) count = 0;
    if (sandbox) tell(sandbox, &relief->reached, count > 0);
    free(relief);
}

/* Only the VM knows the owners of connections, and which process sends and gets most. */
static void ask_for_relief(struct sandbox *sandbox, const struct reached *reached) {
    struct relief *relief = new_or_abort(struct relief);
    struct buf args = BUF_INIT;
    *relief = (struct relief){.ref = sandbox_ref(sandbox), .reached = *reached};
    struct term_map map = term_map_begin(&args);
    term_map_atom(&map, "limit", jail_limit_kind(reached->limit)->name);
    term_map_end(&map);
    node_call(sandbox->node, "relieve", &args, RELIEF_DEADLINE_MS, on_relieved, relief);
}

static bool needs_relief(const struct sandbox *sandbox, enum jail_limit limit) {
    return jail_limit_kind(limit)->holder == JAIL_HELD_BY_KERNEL &&
           sandbox->config.policies.of[limit] == JAIL_POLICY_KILL_PROCESS && is_acted_on(sandbox);
}

void limit_reached(struct sandbox *sandbox, enum jail_limit limit, uint64_t count, uint64_t max, uint64_t killed) {
    struct reached reached = {limit, count, max};
    char reason[FREEZE_REASON_BYTES];
    if (needs_relief(sandbox, limit)) {
        ask_for_relief(sandbox, &reached);
        return;
    }
    snprintf(reason, sizeof reason, "it reached its limit on %s: %llu of %llu", jail_limit_kind(limit)->name,
             (unsigned long long)count, (unsigned long long)max);
    tell(sandbox, &reached, killed);
    act(sandbox, sandbox->config.policies.of[limit], reason);
}

/* ---- what the kernel refuses ---- */

static void compare(struct sandbox *sandbox, enum jail_limit limit, uint64_t now, uint64_t *told) {
    uint64_t max = jail_limit_value(&sandbox->config.limits, limit);
    bool is_more = now > *told;
    *told = now; /* threads that have ended are not counted any more */
    if (!is_more) return;
    limit_reached(sandbox, limit, max, max, 0);
    containment_note(sandbox, jail_limit_kind(limit)->name);
}

/* All of a rate may be used; a connection beyond what is allowed is an attempt at more. */
void limit_bound_reached(struct sandbox *sandbox, const char *name) {
    enum jail_limit limit;
    if (!limit_find(name, &limit)) return;
    uint64_t max = jail_limit_value(&sandbox->config.limits, limit);
    limit_reached(sandbox, limit, max, max, 0);
    if (limit == JAIL_LIMIT_CONNECTIONS) containment_note(sandbox, jail_limit_kind(limit)->name);
}

static void look_at_forks(struct sandbox *sandbox, uint64_t refused) {
    if (refused <= sandbox->metering.tasks_refused) return; /* less: it could not be read */
    sandbox->metering.forks_told_ms = clock_monotonic_ms();
    compare(sandbox, JAIL_LIMIT_OS_TASKS, refused, &sandbox->metering.tasks_refused);
}

void limit_look_at_forks(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    uint64_t refused = node_tasks_refused(sandbox->node), before = metering->cpu_watch_refused;
    if (refused <= before) return; /* less: it could not be read */
    metering->cpu_watch_refused = refused;
    if (clock_monotonic_ms() - metering->forks_told_ms >= TELL_FORKS_MS) look_at_forks(sandbox, refused);
    /* The kernel is at work for each refused fork, and on every core. */
    if (refused - before >= BOMB_FORKS) act(sandbox, JAIL_POLICY_THROTTLE, NULL);
}

void limit_look_at_refusals(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    look_at_forks(sandbox, node_tasks_refused(sandbox->node));
    if (sandbox->node && sandbox->config.limits.file_size_bytes)
        compare(sandbox, JAIL_LIMIT_FILE_SIZE, node_files_refused(sandbox->node), &metering->files_refused);
}
