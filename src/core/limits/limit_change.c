/* limits: show them, or change them while the sandbox runs. What the kernel holds is changed first, through the
   launcher, then what the agent holds; only then are they the sandbox's. */
#include <string.h>

#include "core/core_internal.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"

enum { CHANGE_DEADLINE_MS = 2000 };

struct change_job {
    struct job job;
    struct jail_limits limits;
    struct limit_policies policies;
    struct error error;
    uint64_t call_id; /* to the agent, or 0 */
    bool aborted;
    bool is_with_launcher;
};

static void finish(struct change_job *change) {
    struct sandbox *sandbox = change->job.sandbox;
    struct engine *engine = sandbox->engine;
    if (change->error.code != E_NONE)
        answer_error(engine, change->job.request, &change->error, NULL);
    else
        answer_ok(engine, change->job.request, limits_to_json(&sandbox->config.limits, &sandbox->config.policies));
    if (sandbox->limits.change == change) {
        sandbox->limits.change = NULL;
        charge_lower(engine, &sandbox->charge, &sandbox->config.limits);
    }
    job_finish(&change->job);
    free(change);
}

static void on_abort(struct job *job, const struct error *why) {
    struct change_job *change = (struct change_job *)job;
    if (change->aborted) return;
    change->aborted = true;
    change->error = *why;
    if (change->call_id) node_cancel(job->sandbox->node, change->call_id);
    if (!change->is_with_launcher) finish(change);
}

static void adopt(struct change_job *change) {
    struct sandbox *sandbox = change->job.sandbox;
    sandbox->config.limits = change->limits;
    sandbox->config.policies = change->policies;
    sandbox->times.updated_at_ms = clock_wall_ms();
    sandbox_start_ttl(sandbox);
    if (sandbox->persistent) sandbox_save(sandbox, NULL, NULL);
    engine_event(sandbox->engine, EVENT_LIMITS_CHANGED, sandbox->id,
                 json_pack("{s:O}", "set", json_object_get(change->job.request->params, "set")));
    finish(change);
}

/* ---- what the agent holds ---- */

static void on_undone(void *data, const struct error *error) {
    struct change_job *change = data;
    (void)error; /* the error that led here is the one to tell */
    change->is_with_launcher = false;
    finish(change);
}

static void on_agent_changed(void *data, const struct term *result, const struct term *reason,
                             const struct error *error) {
    struct change_job *change = data;
    struct sandbox *sandbox = change->job.sandbox;
    (void)result, (void)reason;
    change->call_id = 0;
    if (!error) {
        adopt(change);
        return;
    }
    change->error = *error;
    if (sandbox->node && limits_differ(&change->limits, &sandbox->config.limits, JAIL_HELD_BY_KERNEL)) {
        struct jail_limits before = limits_in_force(sandbox, &sandbox->config.limits);
        change->is_with_launcher = true;
        node_limit(sandbox->node, &before, on_undone, change);
        return;
    }
    finish(change);
}

static void ask_agent(struct change_job *change) {
    struct sandbox *sandbox = change->job.sandbox;
    const struct sandbox_config *config = &sandbox->config;
    bool differs = limits_differ(&change->limits, &config->limits, JAIL_HELD_BY_AGENT) ||
                   memcmp(&change->policies, &config->policies, sizeof config->policies) != 0;
    if (!differs || !sandbox->node) {
        adopt(change);
        return;
    }
    struct buf args = BUF_INIT;
    limits_put(&args, &change->limits, &change->policies);
    change->call_id = node_call(sandbox->node, "limits", &args, CHANGE_DEADLINE_MS, on_agent_changed, change);
}

/* ---- what the kernel holds ---- */

static void on_kernel_changed(void *data, const struct error *error) {
    struct change_job *change = data;
    change->is_with_launcher = false;
    if (error && !change->aborted) change->error = *error;
    if (change->error.code != E_NONE)
        finish(change);
    else
        ask_agent(change);
}

static int check(const struct change_job *change, struct error *reterr) {
    const struct sandbox *sandbox = change->job.sandbox;
    bool is_frozen = sandbox->node && node_is_frozen(sandbox->node);
    uint64_t before = sandbox->config.limits.processes, after = change->limits.processes;
    if (sandbox->limits.change)
        return error_set(reterr, E_CONFLICT, "limits of '%s' are being changed already", sandbox->id);
    if (is_frozen && limits_differ(&change->limits, &sandbox->config.limits, JAIL_HELD_BY_AGENT))
        return error_set(reterr, E_CONFLICT, "the sandbox '%s' is frozen: thaw it to change what its agent holds",
                         sandbox->id);
    if (sandbox->node && after > before && node_process_table(after) > node_process_table(before))
        return error_set(reterr, E_CONFLICT,
                         "a running VM's table of processes can't grow to %llu: create the sandbox with that limit",
                         (unsigned long long)after);
    return 0;
}

static void start(struct job *job) {
    struct change_job *change = (struct change_job *)job;
    struct sandbox *sandbox = job->sandbox;
    if (check(change, &change->error) < 0) {
        finish(change);
        return;
    }
    sandbox->limits.change = change;
    bool is_admin = job->request->caller.role == ROLE_ADMIN;
    if (charge_raise(sandbox->engine, &sandbox->charge, &change->limits, is_admin, &change->error) < 0) {
        finish(change);
        return;
    }
    if (!sandbox->node || !limits_differ(&change->limits, &sandbox->config.limits, JAIL_HELD_BY_KERNEL)) {
        ask_agent(change);
        return;
    }
    struct jail_limits limits = limits_in_force(sandbox, &change->limits);
    change->is_with_launcher = true;
    node_limit(sandbox->node, &limits, on_kernel_changed, change);
}

void engine_limits(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    json_t *pairs = json_object_get(request->params, "set");
    struct change_job *change = sandbox && json_object_size(pairs) > 0 ? calloc(1, sizeof *change) : NULL;
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    if (!change) { /* nothing to change */
        answer_ok(engine, request, limits_to_json(&sandbox->config.limits, &sandbox->config.policies));
        return;
    }
    change->limits = sandbox->config.limits;
    change->policies = sandbox->config.policies;
    if (limits_read(pairs, &change->limits, &change->policies, &error) < 0) {
        free(change);
        answer_error(engine, request, &error, NULL);
        return;
    }
    change->job = (struct job){.sandbox = sandbox, .request = request, .start = start, .abort = on_abort};
    job_submit(&change->job);
}
