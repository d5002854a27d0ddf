/* restart and destroy, asked for or decided by policy. */
#include "core/core_internal.h"

/* ---- restart ---- */

struct restart_job {
    struct job job;
    bool aborted;
    bool waiting; /* for the registry or for the old tree */
    struct error error;
};

/* While a restart runs it is the sandbox's only running job, and in front. */
static struct restart_job *restart_of(struct sandbox *sandbox) {
    return (struct restart_job *)sandbox->jobs;
}

static void finish_restart(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    bool failed = restart->error.code != E_NONE;
    if (restart->job.request && failed)
        answer_error(sandbox->engine, restart->job.request, &restart->error, NULL);
    else if (restart->job.request)
        answer_ok(sandbox->engine, restart->job.request, sandbox_to_json(sandbox));
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
    engine_event(sandbox->engine, EVENT_RESTARTED, sandbox->id,
                 json_pack("{s:i}", "restart_count", (int)sandbox->restart_count));
    finish_restart(restart);
}

static void on_restarted(struct sandbox *sandbox, const struct error *error) {
    struct restart_job *restart = restart_of(sandbox);
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
    if (error || restart->aborted)
        fail_restart(restart, error ? error : &restart->error);
    else
        tree_start(restart->job.sandbox, on_restarted);
}

static void on_old_tree_ended(struct sandbox *sandbox) {
    struct restart_job *restart = restart_of(sandbox);
    sandbox_set_status(sandbox, STATUS_STARTING, "restart");
    engine_need_toolchain(sandbox->engine, on_restart_toolchain, restart);
}

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
    tree_end(sandbox, on_old_tree_ended);
}

static void start_restart(struct job *job) {
    struct restart_job *restart = (struct restart_job *)job;
    struct sandbox *sandbox = job->sandbox;
    uv_timer_stop(&sandbox->backoff);
    restart->waiting = true;
    sandbox->restart_count++;
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
    if (!job->running)
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
    submit_restart(sandbox, request);
}

static void on_backoff_over(uv_timer_t *timer) {
    struct sandbox *sandbox = timer->data;
    sandbox->restarts_in_a_row++;
    submit_restart(sandbox, NULL);
}

void sandbox_schedule_restart(struct sandbox *sandbox, bool crashed) {
    uint64_t delay_ms;
    if (sandbox->engine->closing || sandbox->destroying) return;
    if (restart_policy_decide(&sandbox->policy, crashed, sandbox->restarts_in_a_row, &delay_ms))
        uv_timer_start(&sandbox->backoff, on_backoff_over, delay_ms, 0);
}

void sandbox_resume_restart(struct sandbox *sandbox) {
    submit_restart(sandbox, NULL);
}

/* ---- destroy ---- */

static void tell_waiters(struct sandbox *sandbox, const struct error *error) {
    struct waiter *waiter = sandbox->destroy_waiters;
    sandbox->destroy_waiters = NULL;
    while (waiter) {
        struct waiter *next = waiter->next;
        waiter->done(waiter->data, error);
        free(waiter);
        waiter = next;
    }
}

static void on_destroyed_tree_ended(struct sandbox *sandbox) {
    engine_event(sandbox->engine, EVENT_DESTROYED, sandbox->id, json_object());
    tell_waiters(sandbox, NULL);
    sandbox_remove(sandbox);
}

/* Out of the registry first: a daemon killed from here on finds a node that nobody owns, and buries it. */
static void on_forgotten(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    if (error) {
        sandbox->destroying = false;
        sandbox_start_ttl(sandbox);
        if (sandbox->status == STATUS_ERROR) sandbox_schedule_restart(sandbox, true);
        tell_waiters(sandbox, error);
        engine_wake(sandbox->engine);
        return;
    }
    sandbox->persistent = false;
    sandbox_set_status(sandbox, STATUS_STOPPING, "destroy");
    tree_end(sandbox, on_destroyed_tree_ended);
}

void sandbox_jobs_over(struct sandbox *sandbox) {
    if (sandbox->stillborn) {
        tell_waiters(sandbox, NULL);
        sandbox_remove(sandbox);
    } else if (sandbox->persistent)
        store_delete_sandbox(sandbox->engine->store, sandbox->id, on_forgotten, sandbox);
    else
        on_forgotten(sandbox, NULL);
}

void sandbox_destroy(struct sandbox *sandbox, const char *reason, void (*done)(void *data, const struct error *error),
                     void *data) {
    struct waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter) abort(); /* as in answers.c */
    *waiter = (struct waiter){.next = sandbox->destroy_waiters, .done = done, .data = data};
    sandbox->destroy_waiters = waiter;
    if (sandbox->destroying) return;
    struct error why;
    error_set(&why, E_CONFLICT, "the sandbox '%s' was destroyed: %s", sandbox->id, reason);
    sandbox->destroying = true;
    uv_timer_stop(&sandbox->ttl);
    uv_timer_stop(&sandbox->backoff);
    if (sandbox->jobs)
        jobs_abort_all(sandbox, &why);
    else
        sandbox_jobs_over(sandbox);
}

static void on_destroyed(void *data, const struct error *error) {
    struct request *request = data;
    struct engine *engine = request->state;
    if (error)
        answer_error(engine, request, error, NULL);
    else
        answer_ok(engine, request,
                  json_pack("{s:O, s:s}", "id", json_object_get(request->params, "id"), "status", "destroyed"));
}

void engine_destroy(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    request->state = engine;
    sandbox_destroy(sandbox, "on request", on_destroyed, request);
}
