/* restart: asked for or decided by policy, with the states of the tree's processes where a caller wants them kept. */
#include "core/core_internal.h"
#include "core/queue.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"

enum {
    SNAPSHOT_TIMEOUT_MS = 2000,  /* for the processes, each of which may be busy */
    SNAPSHOT_DEADLINE_MS = 5000, /* for all of it: a VM that hangs is restarted all the same */
    LEARNING_LOOK_MS = 10,       /* whether it is known by now what the old tree ran */
    LEARNING_LOOKS_MAX = 200,
};

struct restart_job {
    struct job job;
    bool aborted;
    bool waiting;     /* for the registry or for the old tree */
    uint64_t call_id; /* while the old tree's states are asked for; else 0 */
    bool is_learning; /* what the old tree ran */
    unsigned looks;
    struct kept_states states;
    struct error error;
};

/* While a restart runs it is the sandbox's only running job, and in front. */
static struct restart_job *restart_of(struct sandbox *sandbox) {
    return (struct restart_job *)sandbox->jobs;
}

static void answer_restarted(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    json_t *answer = sandbox_to_json(sandbox);
    json_object_set_new(answer, "states", states_to_json(&restart->states));
    answer_ok(sandbox->engine, restart->job.request, answer);
}

static void finish_restart(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    bool failed = restart->error.code != E_NONE;
    if (restart->job.request && failed)
        answer_error(sandbox->engine, restart->job.request, &restart->error, NULL);
    else if (restart->job.request)
        answer_restarted(restart);
    sandbox->states = NULL;
    states_free(&restart->states);
    job_finish(&restart->job);
    free(restart);
}

static void on_failed_tree_ended(struct sandbox *sandbox) {
    struct restart_job *restart = restart_of(sandbox);
    /* While the service ends, the registry goes on saying that it starts: the next daemon takes that up. */
    if (!sandbox->destroying && !sandbox->engine->closing) {
        sandbox_set_error(sandbox, &restart->error);
        sandbox_set_status(sandbox, STATUS_ERROR, restart->error.detail);
        sandbox_save(sandbox, NULL, NULL);
        if (!restart->job.request) patterns_note(sandbox->engine, sandbox, PATTERN_OWN_END, &restart->error);
        if (!restart->aborted) sandbox_schedule_restart(sandbox, true);
    }
    finish_restart(restart);
}

static void fail_restart(struct restart_job *restart, const struct error *error) {
    if (restart->error.code == E_NONE) restart->error = *error;
    tree_end(restart->job.sandbox, on_failed_tree_ended);
}

static void on_restart_saved(void *data, const struct error *error) {
    struct restart_job *restart = data;
    struct sandbox *sandbox = restart->job.sandbox;
    if (error || restart->aborted) {
        fail_restart(restart, error ? error : &restart->error);
        return;
    }
    json_t *told = json_pack("{s:i, s:I, s:I}", "restart_count", (int)sandbox->restart_count, "kept",
                             (json_int_t)restart->states.count, "lost_count", (json_int_t)restart->states.lost_count);
    engine_event(sandbox->engine, EVENT_RESTARTED, sandbox->id, told);
    finish_restart(restart);
}

static void on_old_tree_ended(struct sandbox *sandbox);

/* What it could not start with may have been the states. */
static void start_without_states(struct restart_job *restart, const struct error *error) {
    struct error why;
    error_set(&why, error->code, "the application did not start with the states: %s", error->detail);
    states_none(&restart->states, &why);
    tree_end(restart->job.sandbox, on_old_tree_ended);
}

static void on_restarted(struct sandbox *sandbox, const struct error *error) {
    struct restart_job *restart = restart_of(sandbox);
    if (error && restart->states.count > 0 && !restart->aborted) {
        start_without_states(restart, error);
        return;
    }
    if (error) {
        fail_restart(restart, error);
        return;
    }
    sandbox_set_error(sandbox, NULL);
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    restart->waiting = true;
    sandbox_save(sandbox, on_restart_saved, restart);
}

static void on_restart_toolchain(void *data, const struct error *error) {
    struct restart_job *restart = data;
    restart->waiting = false;
    if (error || restart->aborted) {
        fail_restart(restart, error ? error : &restart->error);
        return;
    }
    restart->job.sandbox->states = restart->states.count > 0 ? &restart->states : NULL;
    tree_start(restart->job.sandbox, on_restarted);
}

static void on_old_tree_ended(struct sandbox *sandbox) {
    struct restart_job *restart = restart_of(sandbox);
    sandbox_set_status(sandbox, STATUS_STARTING, "restart");
    restart->waiting = true;
    engine_need_toolchain(sandbox->engine, on_restart_toolchain, restart);
}

/* ---- the old tree: what it runs, and its states ---- */

static void end_old_tree(struct restart_job *restart);

static void on_learning_look(uv_timer_t *timer) {
    end_old_tree(restart_of(timer->data));
}

/* A daemon that has just come learns from the node which code it was changed to last: that is what starts again. */
static void end_old_tree(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    bool can_say = sandbox->node && !node_is_frozen(sandbox->node);
    restart->is_learning = can_say && restart->looks++ < LEARNING_LOOKS_MAX && !live_code_is_known(sandbox);
    if (restart->is_learning)
        uv_timer_start(&sandbox->backoff, on_learning_look, LEARNING_LOOK_MS, 0);
    else
        tree_end(sandbox, on_old_tree_ended);
}

/* On a thread where they are many: what they are made of is for the node to choose. */
static void *make_states(const struct term *snapshot) {
    struct kept_states *states = calloc(1, sizeof *states);
    if (states) states_take(states, snapshot);
    return states;
}

static void release_states(void *states) {
    states_free(states);
    free(states);
}

static const struct node_preparation as_states = {.make = make_states, .release = release_states};

static void on_states_taken(void *data, void *made, const struct term *reason, const struct error *error) {
    struct restart_job *restart = data;
    struct error why;
    (void)reason;
    restart->call_id = 0;
    if (made) {
        restart->states = *(struct kept_states *)made;
        free(made);
    } else {
        error_set(&why, error ? error->code : E_NO_MEMORY, "the states could not be had: %s",
                  error ? error->detail : "no memory for them");
        states_none(&restart->states, &why);
    }
    end_old_tree(restart);
}

/* Why there is nothing to keep; NULL when there is. */
static const char *why_fresh(const struct sandbox *sandbox) {
    if (sandbox->starts_fresh) return "no states were to be kept";
    if (!sandbox->node) return "its VM had ended";
    if (node_is_frozen(sandbox->node)) return "it was frozen";
    return NULL;
}

static void take_states(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    struct buf args = BUF_INIT;
    struct error error;
    const char *why = why_fresh(sandbox);
    if (why) {
        error_set(&error, E_CONFLICT, "%s", why);
        states_none(&restart->states, &error);
        end_old_tree(restart);
        return;
    }
    term_put_map(&args, 1);
    term_put_atom(&args, "timeout_ms");
    term_put_uint64(&args, SNAPSHOT_TIMEOUT_MS);
    restart->call_id = node_call_prepared(sandbox->node, "snapshot_states", &args, SNAPSHOT_DEADLINE_MS, &as_states,
                                          on_states_taken, restart);
}

/* ---- beginning ---- */

/* A restart that the registry could not take has not happened: one that was due stays due. */
static void undo_restart(struct sandbox *sandbox) {
    sandbox->restart_count--;
    if (sandbox->status == STATUS_ERROR) sandbox_schedule_restart(sandbox, true);
}

/* The registry knows of the restart before the old tree goes, so that a daemon killed in between goes on with it. */
static void on_restart_noted(void *data, const struct error *error) {
    struct restart_job *restart = data;
    struct sandbox *sandbox = restart->job.sandbox;
    if (error || restart->aborted) {
        restart->waiting = false;
        if (error && restart->error.code == E_NONE) restart->error = *error;
        if (error) undo_restart(sandbox);
        finish_restart(restart);
        return;
    }
    uv_timer_stop(&sandbox->backoff); /* it may have ended meanwhile, by itself */
    if (sandbox->status == STATUS_RUNNING) sandbox_set_status(sandbox, STATUS_STOPPING, "restart");
    take_states(restart);
}

static void start_restart(struct job *job) {
    struct restart_job *restart = (struct restart_job *)job;
    struct sandbox *sandbox = job->sandbox;
    uv_timer_stop(&sandbox->backoff);
    restart->waiting = true;
    sandbox->restart_count++;
    if (job->request) sandbox->starts_fresh = json_is_true(json_object_get(job->request->params, "fresh"));
    enum sandbox_status shown = sandbox->status;
    sandbox->status = STATUS_STARTING;
    sandbox_save(sandbox, on_restart_noted, restart);
    sandbox->status = shown;
}

static void abort_restart(struct job *job, const struct error *why) {
    struct restart_job *restart = (struct restart_job *)job;
    if (restart->aborted) return;
    restart->aborted = true;
    restart->error = *why;
    /* Nothing is lost while the old tree is only asked: the next daemon goes on with it. */
    if (restart->call_id) node_cancel(job->sandbox->node, restart->call_id);
    if (restart->is_learning) uv_timer_stop(&job->sandbox->backoff);
    if (!job->running || restart->call_id || restart->is_learning)
        finish_restart(restart);
    else if (!restart->waiting)
        fail_restart(restart, why);
}

static void submit_restart(struct sandbox *sandbox, struct request *request) {
    struct restart_job *restart = calloc(1, sizeof *restart);
    if (!restart) abort(); /* as in answers.c */
    restart->job = (struct job){
        .sandbox = sandbox, .request = request, .exclusive = true, .start = start_restart, .abort = abort_restart};
    job_submit(&restart->job);
}

void engine_restart(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (sandbox && engine->closing) error_set(&error, E_SHUTDOWN, "the service is shutting down");
    if (!sandbox || engine->closing) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    sandbox->restarts_in_a_row = 0;
    patterns_note(engine, sandbox, PATTERN_OWN_END, NULL); /* whoever asks begins the count anew */
    submit_restart(sandbox, request);
}

static void on_backoff_over(uv_timer_t *timer) {
    struct sandbox *sandbox = timer->data;
    sandbox->restarts_in_a_row++;
    submit_restart(sandbox, NULL);
}

/* One that ends again and again is left alone for longer. */
static void schedule(struct sandbox *sandbox, const struct restart_policy *policy, bool crashed) {
    uint64_t delay_ms;
    uint64_t rest_ms = patterns_rest_ms(&sandbox->patterns, PATTERN_OWN_END, clock_monotonic_ms());
    if (sandbox->engine->closing || sandbox->destroying) return;
    if (restart_policy_decide(policy, crashed, sandbox->restarts_in_a_row, &delay_ms))
        uv_timer_start(&sandbox->backoff, on_backoff_over, delay_ms > rest_ms ? delay_ms : rest_ms, 0);
}

void sandbox_schedule_restart(struct sandbox *sandbox, bool crashed) {
    schedule(sandbox, &sandbox->policy, crashed);
}

void sandbox_restart_later(struct sandbox *sandbox) {
    static const struct restart_policy always = {RESTART_ALWAYS, 0};
    schedule(sandbox, &always, true);
}

void sandbox_resume_restart(struct sandbox *sandbox) {
    submit_restart(sandbox, NULL);
}
