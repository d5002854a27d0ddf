/* Leading one change of a sandbox's code: the steps, the transaction with the agent, and its outcome. */
#include "core/queue.h"
#include "core/reload/reload_job.h"
#include "core/sandbox/sandbox.h"

#include <stdio.h>
#include <string.h>

/* The table has them too; these are for reloads that the service begins by itself. */
enum { PROBATION_DEFAULT_MS = 2000, PATIENCE_DEFAULT_MS = 5000 };

enum {
    CALL_SLACK_MS = 5000,
    FIRST_REST_MS = 100, /* then twice as long each time */
    MOST_REST_MS = 60000,
    UNSETTLED_REST_MIN_MS = 10,
    UNSETTLED_REST_MAX_MS = 640,
    UNSETTLED_MAX_MS = 15000, /* all told */
    WARNINGS_TOLD = 20,       /* in an event */
};

static void check_sandbox(void *job);
static void rest(void *job);
static void abort_rest(void *job);
static void call_agent(void *job);
static void abort_call(void *job);
static void wait_for_probation(void *job);
static void abort_probation(void *job);

static const struct step reload_steps[RELOAD_STEPS] = {
    [RELOAD_CHECK] = {"check", check_sandbox, NULL},
    [RELOAD_TOOLCHAIN] = {"toolchain", reload_find_toolchain, NULL},
    [RELOAD_OPEN] = {"open", reload_open_part, NULL},
    [RELOAD_COMPILE] = {"compile", reload_compile_part, reload_abort_compiling},
    [RELOAD_READ] = {"read", reload_read_part, NULL},
    [RELOAD_REST] = {"rest", rest, abort_rest},
    [RELOAD_COMPARE] = {"compare", reload_compare, NULL},
    [RELOAD_KEEP] = {"keep", reload_keep, NULL},
    [RELOAD_CALL] = {"call", call_agent, abort_call},
    [RELOAD_PROBATION] = {"probation", wait_for_probation, abort_probation},
    [RELOAD_CONFIGURE] = {"configure", reload_configure, reload_abort_configuring},
};

static void end_reload(void *job);
static void release_reload(void *job);

static const struct steps_plan reload_plan = {reload_steps, RELOAD_STEPS, NULL, end_reload, release_reload};

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

/* ---- check ---- */

int reload_check(const struct reload_job *reload, struct error *reterr) {
    const struct sandbox *sandbox = reload->job.sandbox;
    if (!reload->is_at_rest) return sandbox_check_runs(sandbox, reterr);
    return sandbox->node ? error_set(reterr, E_CONFLICT, "the sandbox '%s' has been started meanwhile", sandbox->id)
                         : 0;
}

/* A rollback brings nothing. */
static void check_sandbox(void *job) {
    struct reload_job *reload = job;
    struct error error;
    loop_note(reload->loop, "reload", reload->job.sandbox->id);
    if (reload_check(reload, &error) < 0)
        step_done(&reload->steps, &error);
    else
        step_go(&reload->steps, reload->is_rollback ? RELOAD_COMPARE : RELOAD_TOOLCHAIN);
}

/* ---- rest ---- */

/* The sandbox is free for others, though the job may not be over yet. */
static void leave_sandbox(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    if (sandbox->status == STATUS_RELOADING) sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    if (sandbox->code.reload == reload) sandbox->code.reload = NULL;
    reload_release_project(reload);
}

static void on_rested(void *job) {
    struct reload_job *reload = job;
    struct error error;
    int result = reload_check(reload, &error);
    loop_note(reload->loop, "reload", reload->job.sandbox->id);
    reload_forget_comparison(reload); /* the code that runs may have changed by now */
    step_done(&reload->steps, result < 0 ? &error : NULL);
}

static void rest(void *job) {
    struct reload_job *reload = job;
    leave_sandbox(reload);
    step_wait(&reload->steps, reload->loop, reload->rest_ms, on_rested);
}

static void abort_rest(void *job) {
    struct reload_job *reload = job;
    step_aborted(&reload->steps);
}

static void try_after(struct reload_job *reload, uint64_t rest_ms) {
    reload->rest_ms = rest_ms;
    step_go(&reload->steps, RELOAD_REST);
}

void reload_try_once_settled(struct reload_job *reload, const struct error *error) {
    uint64_t rest_ms = reload->unsettled_ms;
    if (rest_ms > UNSETTLED_MAX_MS) {
        step_done(&reload->steps, error);
        return;
    }
    if (rest_ms < UNSETTLED_REST_MIN_MS) rest_ms = UNSETTLED_REST_MIN_MS;
    if (rest_ms > UNSETTLED_REST_MAX_MS) rest_ms = UNSETTLED_REST_MAX_MS;
    reload->unsettled_ms += rest_ms;
    try_after(reload, rest_ms);
}

/* ---- call: the transaction ---- */

/* Only a failure that left everything as it was, and has a cause that passes: a process was busy, or still used old
   code while the caller would wait. A caller that has processes killed for it does not have more killed. */
static bool may_pass(const struct reload_job *reload, const struct term *reason) {
    const struct term *step = reason ? term_map_get(reason, "step") : NULL;
    const char *on_busy = json_string_value(reload_param(reload, "on_busy"));
    if (!step || string_equal(on_busy, "kill")) return false;
    if (term_is_atom(step, "suspend")) return true;
    return string_equal(on_busy, "wait") && (term_is_atom(step, "busy") || term_is_atom(step, "old_code"));
}

static void on_call_failed(struct reload_job *reload, json_t *failure, const struct term *reason,
                           const struct error *error) {
    struct sandbox *sandbox = reload->job.sandbox;
    bool tries_again = may_pass(reload, reason) && reload->failures < duration(reload, "retries", 0);
    loop_note(reload->loop, "reload", sandbox->id);
    if (error->code != E_RELOAD)
        sandbox->code.is_known = false; /* another transaction is under way, or this one goes on: only the node knows */
    else if (!reload_is_dry(reload))
        live_code_forget(sandbox); /* the one before is final all the same */
    if (error->code == E_CONFLICT || tries_again)
        json_decref(failure);
    else
        reload->failure = failure;
    if (error->code == E_CONFLICT)
        reload_try_once_settled(reload, error);
    else if (tries_again)
        try_after(reload, backoff_ms(FIRST_REST_MS, MOST_REST_MS, reload->failures++));
    else
        step_done(&reload->steps, error);
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

/* No process has a state that was to be migrated, and no code changed. */
static bool found_nothing(const struct reload_job *reload) {
    const char *status = json_string_value(json_object_get(reload->result, "status"));
    return reload->compared.changes.count == 0 && string_equal(status, "no_change");
}

static json_t *first_warnings(const struct reload_job *reload) {
    const json_t *warnings = json_object_get(reload->result, "warnings");
    json_t *first = json_array();
    for (size_t i = 0; i < json_array_size(warnings) && i < WARNINGS_TOLD; i++)
        json_array_append(first, json_array_get(warnings, i));
    return first;
}

/* They are the sandbox's code from now on. id is the transaction's; "" without one. */
static void keep_changes(struct reload_job *reload, const char *id) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct comparison *compared = &reload->compared;
    json_t *told =
        json_pack("{s:O, s:I, s:O, s:O, s:o}", "modules", compared->told_first, "module_count",
                  (json_int_t)compared->changes.count, "pause_us", json_object_get(reload->result, "pause_us"),
                  "duration_us", json_object_get(reload->result, "duration_us"), "warnings", first_warnings(reload));
    live_code_adopt(sandbox, id, &compared->adoption, &reload->build);
    engine_event(sandbox->engine, EVENT_RELOADED, sandbox->id, told);
    reload_sync(sandbox, &compared->changes);
}

static void keep_what_runs(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL); /* before the registry hears of it */
    sandbox_set_error(sandbox, NULL);
    keep_changes(reload, reload->id);
}

/* There is no process to change, and none whose crash would take it back. */
static void keep_for_next_start(struct reload_job *reload) {
    reload->result = transaction_no_change();
    json_object_set(reload->result, "modules", reload->compared.told);
    keep_changes(reload, "");
    live_code_forget(reload->job.sandbox);
    step_done(&reload->steps, NULL);
}

static void on_reloaded(void *data, void *told_result, const struct term *reason, const struct error *error) {
    struct reload_job *reload = data;
    reload->call_id = 0;
    if (error) {
        on_call_failed(reload, told_result, reason, error);
        return;
    }
    loop_note(reload->loop, "reload", reload->job.sandbox->id);
    reload->result = told_result;
    json_object_set(reload->result, "modules", reload->compared.told);
    if (!reload_is_dry(reload) && found_nothing(reload))
        live_code_forget(reload->job.sandbox); /* the one before is final all the same */
    else if (!reload_is_dry(reload))
        keep_what_runs(reload);
    step_done(&reload->steps, NULL);
}

static void begin_transaction(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct buf args = reload->compared.call;
    const char *on_busy = json_string_value(reload_param(reload, "on_busy"));
    struct reload_options options = {
        .id = reload->id,
        .follows = sandbox->code.probation.id[0] && !reload_is_dry(reload) ? sandbox->code.probation.id : NULL,
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
    reload->compared.call_map.buf = &args;
    transaction_end(&reload->compared.call_map, &options);
    reload->call_id = node_call_prepared(sandbox->node, "reload", &args, deadline_ms, &as_json, on_reloaded, reload);
}

/* Whether the code that was compared with still runs. */
static int check_compared(const struct reload_job *reload, struct error *reterr) {
    const struct sandbox *sandbox = reload->job.sandbox;
    if (strcmp(sandbox->code.build.digest, reload->from_build) == 0) return 0;
    return error_set(reterr, E_CONFLICT, "the code of '%s' has changed meanwhile; try again", sandbox->id);
}

static void call_agent(void *job) {
    struct reload_job *reload = job;
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    if (reload_check(reload, &error) < 0) {
        step_done(&reload->steps, &error);
    } else if (check_compared(reload, &error) < 0) {
        reload_try_once_settled(reload, &error);
    } else if (reload->is_at_rest) {
        keep_for_next_start(reload);
    } else {
        reload_id_make(sandbox, reload->build.digest, reload->id);
        sandbox->code.reload = reload;
        begin_transaction(reload); /* first: it wakes the node, which has the longer way */
        sandbox_set_status(sandbox, STATUS_RELOADING, NULL);
    }
}

static void abort_call(void *job) {
    struct reload_job *reload = job;
    struct node *node = reload->job.sandbox->node;
    if (reload->call_id && node) node_cancel(node, reload->call_id);
    step_aborted(&reload->steps);
}

/* ---- probation ---- */

/* The agent answers, but has not said how the probation ended: the reload does not wait any longer. */
static void on_probation_overdue(void *job) {
    struct reload_job *reload = job;
    struct error error;
    error_set(&error, E_TIMEOUT, "the node did not say how the probation ended");
    step_done(&reload->steps, &error);
}

static void wait_for_probation(void *job) {
    struct reload_job *reload = job;
    if (reload_is_dry(reload) || !json_is_true(reload_param(reload, "wait"))) {
        step_go(&reload->steps, RELOAD_CONFIGURE);
        return;
    }
    reload_release_project(reload);
    uint64_t allowed_ms = duration(reload, "probation_ms", PROBATION_DEFAULT_MS) + CALL_SLACK_MS;
    step_wait(&reload->steps, reload->loop, allowed_ms, on_probation_overdue);
}

static void abort_probation(void *job) {
    struct reload_job *reload = job;
    step_aborted(&reload->steps);
}

void reload_settled(struct sandbox *sandbox, bool committed, const struct error *why) {
    struct reload_job *reload = sandbox->code.reload;
    if (!reload || !steps_are_at(&reload->steps, RELOAD_PROBATION)) return;
    if (!committed) {
        json_object_set_new(reload->result, "status", json_string("rolled_back"));
        reload->failure = take_ptr(reload->result);
    }
    step_done(&reload->steps, committed ? NULL : why);
}

void reload_lost(struct sandbox *sandbox, const struct error *why) {
    struct reload_job *reload = sandbox->code.reload;
    if (reload && steps_are_at(&reload->steps, RELOAD_PROBATION)) step_done(&reload->steps, why);
}

/* ---- the end ---- */

static void answer_reloaded(struct reload_job *reload) {
    struct engine *engine = engine_of(reload);
    if (reload->report) json_object_set(reload->result, "compilation", reload->report);
    for (size_t i = 0; i < reload->follower_count; i++)
        answer_ok(engine, reload->followers[i], json_incref(reload->result));
    answer_ok(engine, reload->job.request, take_ptr(reload->result));
}

/* A failure before the transaction has the report of the compilation. */
static void answer_failed(struct reload_job *reload) {
    struct engine *engine = engine_of(reload);
    const struct error *error = &reload->steps.error;
    bool has_report = reload->steps.at <= RELOAD_KEEP && reload->steps.at != RELOAD_REST;
    json_t *result = has_report ? take_ptr(reload->report) : take_ptr(reload->failure);
    for (size_t i = 0; i < reload->follower_count; i++)
        answer_error(engine, reload->followers[i], error, json_incref(result));
    answer_error(engine, reload->job.request, error, result);
}

static void end_reload(void *job) {
    struct reload_job *reload = job;
    if (reload->steps.error.code == E_NONE)
        answer_reloaded(reload);
    else
        answer_failed(reload);
    leave_sandbox(reload);
    job_finish(&reload->job);
}

/* On the pool. */
static void free_reload(void *data) {
    struct reload_job *reload = data;
    comparison_free(&reload->compared);
    reload_free_parts(reload);
    build_free(&reload->build);
    build_free(&reload->target);
    free(reload->followers);
    buf_free(&reload->module);
    json_decref(reload->migrations);
    json_decref(reload->result);
    json_decref(reload->failure);
    json_decref(reload->scan);
    free(reload);
}

static void release_reload(void *job) {
    struct reload_job *reload = job;
    reload_room_give(reload);
    loop_discard(reload->loop, free_reload, reload);
}

/* ---- the beginning ---- */

static void start(struct job *job) {
    steps_begin(&((struct reload_job *)job)->steps);
}

static void call_off(struct job *job, const struct error *why) {
    steps_call_off(&((struct reload_job *)job)->steps, why);
}

struct reload_job *reload_new(struct sandbox *sandbox, struct request *request) {
    struct reload_job *reload = new_or_abort(struct reload_job);
    reload->loop = sandbox->engine->loop;
    reload->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = call_off};
    steps_init(&reload->steps, &reload_plan, reload);
    return reload;
}

static int check(const struct sandbox *sandbox, const struct request *request, bool is_rollback,
                 json_t **ret_migrations, struct error *reterr) {
    const char *language = json_string_value(json_object_get(request->params, "language"));
    const char *own = json_string_value(json_object_get(sandbox->code.build.facts, "language"));
    if (sandbox->engine->closing.is_begun) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    int result = is_rollback ? 0 : reload_check_sources(request, reterr);
    if (result < 0) return result;
    struct compile_bounds bounds = {0};
    compile_bounds_take(request->params, &bounds);
    result = compile_bounds_check(sandbox->engine, &bounds, reterr);
    if (result < 0) return result;
    if (!language) language = own ? own : "erlang";
    result = migrations_read(json_object_get(request->params, "migrate"), language, ret_migrations, reterr);
    return result < 0 ? error_prefix(reterr, "migrate") : 0;
}

static struct reload_job *prepare(struct engine *engine, struct request *request, bool is_rollback) {
    struct error error;
    json_t *migrations = NULL;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox || check(sandbox, request, is_rollback, &migrations, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return NULL;
    }
    struct reload_job *reload = reload_new(sandbox, request);
    if (compile_bounds_take(request->params, &sandbox->config.compile_bounds)) sandbox_save(sandbox, NULL, NULL);
    reload->migrations = migrations;
    reload->is_rollback = is_rollback;
    return reload;
}

void reload_call_off(struct sandbox *sandbox, const struct request *request, const struct error *why) {
    struct job *job = sandbox->queue.jobs;
    while (job && (job->request != request || job->start != start)) job = job->next;
    if (job && !steps_are_at(&((struct reload_job *)job)->steps, RELOAD_CALL)) job->abort(job, why);
}

/* ---- the same once more ---- */

/* The last job that will change the sandbox, if it is a reload that has not begun. */
static struct reload_job *find_waiting(struct sandbox *sandbox) {
    struct job *last = NULL;
    for (struct job *job = sandbox->queue.jobs; job; job = job->next)
        if (job->exclusive) last = job;
    struct reload_job *reload = last && !last->running && last->start == start ? (struct reload_job *)last : NULL;
    return reload && !reload->is_at_rest ? reload : NULL;
}

/* A request for a reload that waits already, and so has not looked at the sources, shares its answer. */
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
    struct reload_job *reload = prepare(engine, request, false);
    if (reload) job_submit(&reload->job);
}

void reload_at_rest(struct engine *engine, struct request *request) {
    struct reload_job *reload = prepare(engine, request, false);
    if (!reload) return;
    reload->is_at_rest = true;
    job_submit(&reload->job);
}

void engine_rollback(struct engine *engine, struct request *request) {
    struct reload_job *reload = prepare(engine, request, true);
    if (!reload) return;
    term_module_atom(json_string_value(reload_param(reload, "module")), &reload->module);
    reload->wanted_version = (uint32_t)json_integer_value(reload_param(reload, "to"));
    job_submit(&reload->job);
}

void reload_to_build(struct engine *engine, struct request *request, const char *digest) {
    struct reload_job *reload = prepare(engine, request, true);
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
