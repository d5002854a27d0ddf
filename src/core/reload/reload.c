/* Leading one transaction: compile, compare with what runs, let the agent change it, and keep what came of it. */
#include "core/queue.h"
#include "core/reload/reload_job.h"
#include "core/sandbox/sandbox.h"

#include <stdio.h>
#include <string.h>

/* What the table says too, for reloads that the service begins by itself. */
enum { PROBATION_DEFAULT_MS = 2000, PATIENCE_DEFAULT_MS = 5000 };

enum {
    CALL_SLACK_MS = 5000,
    FIRST_REST_MS = 100, /* then twice as long each time */
    UNSETTLED_REST_MIN_MS = 10,
    UNSETTLED_REST_MAX_MS = 640,
    UNSETTLED_MAX_MS = 15000, /* all told */
};

static struct engine *engine_of(const struct reload_job *reload) {
    return reload->job.sandbox->engine;
}

json_t *reload_param(const struct reload_job *reload, const char *name) {
    return json_object_get(reload->job.request->params, name);
}

static uint64_t duration(const struct reload_job *reload, const char *name, uint64_t fallback) {
    json_t *value = reload_param(reload, name);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : fallback;
}

bool reload_is_dry(const struct reload_job *reload) {
    return json_is_true(reload_param(reload, "dry_run"));
}

/* ---- ending ---- */

/* On the pool. */
static void release(void *data) {
    struct reload_job *reload = data;
    comparison_free(&reload->compared);
    reload_free_parts(reload);
    build_free(&reload->build);
    build_free(&reload->target);
    free(reload->followers);
    buf_free(&reload->module);
    json_decref(reload->migrations);
    json_decref(reload->result);
    json_decref(reload->scan);
    free(reload);
}

static void on_timer_closed(uv_handle_t *handle) {
    loop_discard(handle->loop, release, handle->data);
}

/* The sandbox is free for others, though it may not be over yet. */
static void leave_sandbox(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    if (sandbox->status == STATUS_RELOADING) sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    if (sandbox->reload == &reload->job) sandbox->reload = NULL;
    reload_release_project(reload);
}

static void finish(struct reload_job *reload) {
    uv_loop_t *loop = engine_of(reload)->loop;
    leave_sandbox(reload);
    job_finish(&reload->job);
    if (reload->has_timer)
        uv_close((uv_handle_t *)&reload->timer, on_timer_closed);
    else
        loop_discard(loop, release, reload);
}

void reload_answer(struct reload_job *reload) {
    struct engine *engine = engine_of(reload);
    if (reload->report) json_object_set(reload->result, "compilation", reload->report);
    for (size_t i = 0; i < reload->follower_count; i++)
        answer_ok(engine, reload->followers[i], json_incref(reload->result));
    answer_ok(engine, reload->job.request, take_ptr(reload->result));
    finish(reload);
}

void reload_fail(struct reload_job *reload, const struct error *error, json_t *result) {
    struct engine *engine = engine_of(reload);
    for (size_t i = 0; i < reload->follower_count; i++)
        answer_error(engine, reload->followers[i], error, json_incref(result));
    answer_error(engine, reload->job.request, error, result);
    finish(reload);
}

bool reload_ended_early(struct reload_job *reload, const struct error *error) {
    if (!reload->is_called_off && !error) return false;
    reload_fail(reload, reload->is_called_off ? &reload->why : error, take_ptr(reload->report));
    return true;
}

static void on_abort(struct job *job, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)job;
    if (reload->is_called_off) return;
    reload->is_called_off = true;
    reload->why = *why;
    if (reload->stage == RELOAD_COMPILING) {
        compile_abort(reload->compile);
    } else if (reload->stage == RELOAD_WAITING || reload->stage >= RELOAD_CALLING) {
        if (reload->call_id && job->sandbox->node) node_cancel(job->sandbox->node, reload->call_id);
        reload_fail(reload, why, NULL);
    }
}

/* Else it has failed. */
static bool is_running(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    bool is_frozen = sandbox->node && node_is_frozen(sandbox->node);
    if (sandbox->node && sandbox->status == STATUS_RUNNING && !is_frozen) return true;
    error_set(&error, E_CONFLICT, "the sandbox '%s' is %s, not running", sandbox->id,
              is_frozen ? "frozen" : status_name(sandbox->status));
    reload_fail(reload, &error, NULL);
    return false;
}

/* ---- asking the agent ---- */

void reload_settled(struct sandbox *sandbox, bool committed, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)sandbox->reload;
    if (!reload || reload->stage != RELOAD_PROBATION) return;
    if (committed) {
        reload_answer(reload);
        return;
    }
    json_object_set_new(reload->result, "status", json_string("rolled_back"));
    reload_fail(reload, why, take_ptr(reload->result));
}

void reload_lost(struct sandbox *sandbox, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)sandbox->reload;
    if (reload && reload->stage == RELOAD_PROBATION) reload_fail(reload, why, NULL);
}

/* The agent has not said how it ended, though it answers: what it would say is not waited for any longer. */
static void on_probation_overdue(uv_timer_t *timer) {
    const struct reload_job *reload = timer->data;
    struct error error;
    if (loop_deadline_is_early(timer, reload->overdue_ms, on_probation_overdue)) return;
    error_set(&error, E_TIMEOUT, "the node did not say how the probation ended");
    reload_fail(timer->data, &error, NULL);
}

static void start_timer(struct reload_job *reload, uint64_t after_ms, uv_timer_cb due) {
    if (!reload->has_timer) uv_timer_init(engine_of(reload)->loop, &reload->timer);
    reload->has_timer = true;
    reload->timer.data = reload;
    uv_timer_start(&reload->timer, due, after_ms, 0);
}

static void wait_for_probation(struct reload_job *reload) {
    reload->stage = RELOAD_PROBATION;
    reload_release_project(reload);
    uint64_t allowed_ms = duration(reload, "probation_ms", PROBATION_DEFAULT_MS) + CALL_SLACK_MS;
    reload->overdue_ms = loop_attended_ms(engine_of(reload)->loop) + allowed_ms;
    start_timer(reload, allowed_ms, on_probation_overdue);
}

/* ---- trying again ---- */

static void on_rested(uv_timer_t *timer) {
    struct reload_job *reload = timer->data;
    loop_note(timer->loop, "reload", reload->job.sandbox->id);
    reload_forget_comparison(reload); /* what runs may be something else by now */
    if (is_running(reload)) reload_begin_comparing(reload);
}

/* Only what left everything as it was, and has a cause that passes: somebody was busy, or still used old code while the
   caller would wait. Who has processes killed for it is not asked to have more killed. */
static bool may_pass(const struct reload_job *reload, const struct term *reason) {
    const struct term *step = reason ? term_map_get(reason, "step") : NULL;
    const char *on_busy = json_string_value(reload_param(reload, "on_busy"));
    if (!step || string_equal(on_busy, "kill")) return false;
    if (term_is_atom(step, "suspend")) return true;
    return string_equal(on_busy, "wait") && (term_is_atom(step, "busy") || term_is_atom(step, "old_code"));
}

static bool tries_again(struct reload_job *reload, const struct term *reason) {
    if (!may_pass(reload, reason) || reload->failures >= duration(reload, "retries", 0)) return false;
    leave_sandbox(reload);
    reload->stage = RELOAD_RESTING;
    start_timer(reload, (uint64_t)FIRST_REST_MS << reload->failures++, on_rested);
    return true;
}

void reload_try_once_settled(struct reload_job *reload, const struct error *error) {
    uint64_t rest_ms = reload->unsettled_ms;
    if (rest_ms > UNSETTLED_MAX_MS) {
        reload_fail(reload, error, NULL);
        return;
    }
    if (rest_ms < UNSETTLED_REST_MIN_MS) rest_ms = UNSETTLED_REST_MIN_MS;
    if (rest_ms > UNSETTLED_REST_MAX_MS) rest_ms = UNSETTLED_REST_MAX_MS;
    reload->unsettled_ms += rest_ms;
    leave_sandbox(reload);
    reload->stage = RELOAD_RESTING;
    start_timer(reload, rest_ms, on_rested);
}

static void on_call_failed(struct reload_job *reload, json_t *failure, const struct term *reason,
                           const struct error *error) {
    struct sandbox *sandbox = reload->job.sandbox;
    loop_note(sandbox->engine->loop, "reload", sandbox->id);
    if (error->code != E_RELOAD)
        sandbox->code_known = false; /* another transaction is under way, or this one goes on: only the node knows */
    else if (!reload_is_dry(reload))
        live_code_forget(sandbox); /* the one before is final all the same */
    bool goes_on = error->code == E_CONFLICT || tries_again(reload, reason);
    if (goes_on) json_decref(failure);
    if (error->code == E_CONFLICT)
        reload_try_once_settled(reload, error);
    else if (!goes_on)
        reload_fail(reload, error, failure);
}

/* On a thread where it is long, as is the reason of a failure. */
static void *told_json(const struct term *result) {
    return transaction_report(result);
}

static void *failure_json(const struct term *reason) {
    return transaction_failure(reason);
}

static void release_json(void *told) {
    json_decref(told);
}

static const struct node_preparation as_json = {
    .make = told_json, .make_of_failure = failure_json, .release = release_json};

static void on_reloaded(void *data, void *told_result, const struct term *reason, const struct error *error) {
    struct reload_job *reload = data;
    struct sandbox *sandbox = reload->job.sandbox;
    reload->call_id = 0;
    if (error) {
        on_call_failed(reload, told_result, reason, error);
        return;
    }
    loop_note(sandbox->engine->loop, "reload", sandbox->id);
    struct comparison *compared = &reload->compared;
    reload->result = told_result;
    json_object_set(reload->result, "modules", compared->told);
    json_array_extend(json_object_get(reload->result, "warnings"), compared->warnings);
    if (reload_is_dry(reload)) {
        reload_answer(reload);
        return;
    }
    json_t *told =
        json_pack("{s:O, s:I, s:O, s:O}", "modules", compared->told_first, "module_count",
                  (json_int_t)compared->changes.count, "pause_us", json_object_get(reload->result, "pause_us"),
                  "duration_us", json_object_get(reload->result, "duration_us"));
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL); /* before the registry hears of it */
    live_code_adopt(sandbox, reload->id, &compared->adoption, &reload->build);
    sandbox_set_error(sandbox, NULL);
    engine_event(sandbox->engine, EVENT_RELOADED, sandbox->id, told);
    reload_sync(sandbox->engine, &compared->changes);
    if (json_is_true(reload_param(reload, "wait")))
        wait_for_probation(reload);
    else
        reload_answer(reload);
}

static void call_reload(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct buf args = reload->compared.call;
    const char *on_busy = json_string_value(reload_param(reload, "on_busy"));
    struct reload_options options = {
        .id = reload->id,
        .follows = sandbox->probation.id[0] && !reload_is_dry(reload) ? sandbox->probation.id : NULL,
        .is_rollback = reload->is_rollback,
        .restart_changed = json_is_true(reload_param(reload, "restart_changed")),
        .run_start = json_is_true(reload_param(reload, "run_start")),
        .dry_run = reload_is_dry(reload),
        .on_busy = on_busy ? on_busy : "wait",
        .busy_timeout_ms = duration(reload, "busy_timeout_ms", PATIENCE_DEFAULT_MS),
        .suspend_timeout_ms = duration(reload, "suspend_timeout_ms", PATIENCE_DEFAULT_MS),
        .migrate_timeout_ms = duration(reload, "migrate_timeout_ms", PATIENCE_DEFAULT_MS),
        .probation_ms = duration(reload, "probation_ms", PROBATION_DEFAULT_MS),
    };
    uint64_t deadline_ms =
        options.busy_timeout_ms + options.suspend_timeout_ms + options.migrate_timeout_ms + 2ULL * CALL_SLACK_MS;
    reload->compared.call = (struct buf)BUF_INIT;
    transaction_put_rest(&args, &options);
    reload->stage = RELOAD_CALLING;
    reload->call_id = node_call_prepared(sandbox->node, "reload", &args, deadline_ms, &as_json, on_reloaded, reload);
}

/* Whether what was compared still runs. */
static bool is_as_compared(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    if (strcmp(sandbox->build.digest, reload->from_build) == 0) return true;
    error_set(&error, E_CONFLICT, "the code of '%s' has changed meanwhile; try again", sandbox->id);
    reload_try_once_settled(reload, &error);
    return false;
}

void reload_begin_transaction(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    if (!is_running(reload) || !is_as_compared(reload)) return;
    reload_id_make(sandbox, reload->build.digest, reload->id);
    sandbox->reload = &reload->job;
    call_reload(reload); /* first: what it wakes has the longer way */
    sandbox_set_status(sandbox, STATUS_RELOADING, NULL);
}

/* ---- beginning ---- */

static void start(struct job *job) {
    struct reload_job *reload = (struct reload_job *)job;
    loop_note(engine_of(reload)->loop, "reload", job->sandbox->id);
    if (!is_running(reload)) return;
    if (reload->is_rollback)
        reload_begin_comparing(reload);
    else
        reload_gather(reload);
}

static int check(const struct sandbox *sandbox, const struct request *request, bool is_rollback,
                 json_t **ret_migrations, struct error *reterr) {
    const char *language = json_string_value(json_object_get(request->params, "language"));
    const char *own = json_string_value(json_object_get(sandbox->build.facts, "language"));
    if (sandbox->engine->closing) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    int result = is_rollback ? 0 : reload_check_sources(request, reterr);
    if (result < 0) return result;
    if (!language) language = own ? own : "erlang";
    result = migrations_read(json_object_get(request->params, "migrate"), language, ret_migrations, reterr);
    return result < 0 ? error_prefix(reterr, "migrate") : 0;
}

static struct reload_job *submit(struct engine *engine, struct request *request, bool is_rollback) {
    struct error error;
    json_t *migrations = NULL;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox || check(sandbox, request, is_rollback, &migrations, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return NULL;
    }
    struct reload_job *reload = calloc(1, sizeof *reload);
    if (!reload) abort(); /* as in node_call */
    reload->migrations = migrations;
    reload->is_rollback = is_rollback;
    reload->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = on_abort};
    return reload;
}

void reload_call_off(struct sandbox *sandbox, const struct request *request, const struct error *why) {
    struct job *job = sandbox->jobs;
    while (job && (job->request != request || job->start != start)) job = job->next;
    if (job && ((struct reload_job *)job)->stage != RELOAD_CALLING) job->abort(job, why);
}

/* ---- the same once more ---- */

/* The last that will change the sandbox, if it is a reload that has not begun. */
static struct reload_job *find_waiting(struct sandbox *sandbox) {
    struct job *last = NULL;
    for (struct job *job = sandbox->jobs; job; job = job->next)
        if (job->exclusive) last = job;
    return last && !last->running && last->start == start ? (struct reload_job *)last : NULL;
}

/* Whoever asks for what is asked for already, before that has looked at the sources, gets the same answer. */
static bool follow(struct engine *engine, struct request *request) {
    struct sandbox *sandbox = sandbox_find(engine, request, NULL);
    struct reload_job *waiting = sandbox ? find_waiting(sandbox) : NULL;
    if (!waiting || waiting->is_rollback || waiting->follower_count == JOBS_MAX ||
        waiting->job.request->caller.uid != request->caller.uid ||
        !json_equal(waiting->job.request->params, request->params))
        return false;
    struct request **grown = reallocarray(waiting->followers, waiting->follower_count + 1, sizeof *grown);
    if (!grown) return false;
    waiting->followers = grown;
    waiting->followers[waiting->follower_count++] = request;
    return true;
}

void engine_reload(struct engine *engine, struct request *request) {
    if (follow(engine, request)) return;
    struct reload_job *reload = submit(engine, request, false);
    if (reload) job_submit(&reload->job);
}

void engine_rollback(struct engine *engine, struct request *request) {
    struct reload_job *reload = submit(engine, request, true);
    if (!reload) return;
    term_module_atom(json_string_value(reload_param(reload, "module")), &reload->module);
    reload->wanted_version = (uint32_t)json_integer_value(reload_param(reload, "to"));
    job_submit(&reload->job);
}

void reload_to_build(struct engine *engine, struct request *request, const char *digest) {
    struct reload_job *reload = submit(engine, request, true);
    struct error error;
    int result = 0;
    if (!reload) return;
    if (!digest[0]) result = error_set(&error, E_NOT_FOUND, "there is no code from before");
    snprintf(reload->target.digest, sizeof reload->target.digest, "%s", digest);
    if (result == 0) result = store_build_path(engine->store, digest, reload->target_path, PATH_MAX, &error);
    if (result == 0) {
        job_submit(&reload->job);
        return;
    }
    answer_error(engine, request, &error, NULL);
    json_decref(reload->migrations);
    free(reload);
}
