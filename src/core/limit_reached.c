/* What follows when a sandbox has reached a limit. The limit holds in any case; this is what its policy adds. */
#include "core/containment.h"
#include "core/core_internal.h"

enum {
    THROTTLED_PERCENT = 5,
    THROTTLE_MS = 10000,
};

struct jail_limits limits_in_force(const struct sandbox *sandbox, const struct jail_limits *limits) {
    struct jail_limits in_force = *limits;
    bool is_throttled = sandbox->throttled_until_ms != 0;
    if (is_throttled && (!limits->cpu_percent || limits->cpu_percent > THROTTLED_PERCENT))
        in_force.cpu_percent = THROTTLED_PERCENT;
    return in_force;
}

static void throttle(struct sandbox *sandbox, const char *reason) {
    bool was_throttled = sandbox->throttled_until_ms != 0;
    (void)reason;
    sandbox->throttled_until_ms = clock_monotonic_ms() + THROTTLE_MS;
    if (!was_throttled) tell_launcher(sandbox, TELL_LIMITS);
}

void limit_throttle_over(struct sandbox *sandbox) {
    if (!sandbox->throttled_until_ms || clock_monotonic_ms() < sandbox->throttled_until_ms || !sandbox->node) return;
    sandbox->throttled_until_ms = 0;
    tell_launcher(sandbox, TELL_LIMITS);
}

void limit_take_up(struct sandbox *sandbox) {
    sandbox->metering.tasks_refused = node_tasks_refused(sandbox->node);
    sandbox->metering.files_refused = node_files_refused(sandbox->node);
    tell_launcher(sandbox, TELL_LIMITS);
}

static void on_destroyed(void *data, const struct error *error) {
    struct engine *engine = data;
    if (error) engine_log_error(engine, "destroy_failed", NULL, error);
}

static void destroy(struct sandbox *sandbox, const char *reason) {
    sandbox_destroy(sandbox, reason, on_destroyed, sandbox->engine);
}

/* As if it had crashed: its end decides what follows. */
static void restart(struct sandbox *sandbox, const char *reason) {
    error_set(&sandbox->limit_error, E_LIMIT, "%s", reason);
    node_kill(sandbox->node, reason);
}

static void freeze(struct sandbox *sandbox, const char *reason) {
    sandbox_freeze(sandbox, reason);
}

static void act(struct sandbox *sandbox, enum limit_policy policy, const char *reason) {
    static void (*const actions[LIMIT_POLICY_COUNT])(struct sandbox *, const char *) = {
        [LIMIT_THROTTLE] = throttle, [LIMIT_RESTART] = restart, [LIMIT_FREEZE] = freeze, [LIMIT_DESTROY] = destroy};
    bool is_running = sandbox->node && sandbox->status == STATUS_RUNNING && !sandbox->destroying;
    if (is_running && actions[policy] && !sandbox->engine->closing) actions[policy](sandbox, reason);
}

void limit_reached(struct sandbox *sandbox, enum limit limit, uint64_t count, uint64_t max, uint64_t killed) {
    enum limit_policy policy = sandbox->config.policies.of[limit];
    char reason[FREEZE_REASON_BYTES];
    snprintf(reason, sizeof reason, "it reached its limit on %s: %llu of %llu", limit_name(limit),
             (unsigned long long)count, (unsigned long long)max);
    alarm_event(sandbox->engine, &sandbox->limit_alarms, EVENT_LIMIT, sandbox->id,
                json_pack("{s:s, s:{s:I, s:I}, s:s, s:I}", "limit", limit_name(limit), "usage", "count",
                          (json_int_t)count, "limit", (json_int_t)max, "policy", limit_policy_name(policy), "killed",
                          (json_int_t)killed));
    act(sandbox, policy, reason);
}

/* ---- what the kernel refuses ---- */

static void compare(struct sandbox *sandbox, enum limit limit, uint64_t now, uint64_t *told) {
    uint64_t max = limit_value(&sandbox->config.limits, limit);
    bool is_more = now > *told;
    *told = now; /* threads that have ended are not counted any more */
    if (!is_more) return;
    limit_reached(sandbox, limit, max, max, 0);
    containment_note(sandbox, limit_name(limit));
}

void limit_look_at_refusals(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    compare(sandbox, LIMIT_OF_OS_TASKS, node_tasks_refused(sandbox->node), &metering->tasks_refused);
    if (sandbox->node && sandbox->config.limits.file_bytes)
        compare(sandbox, LIMIT_OF_FILE_SIZE, node_files_refused(sandbox->node), &metering->files_refused);
}
