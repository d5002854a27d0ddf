/* eval: an expression inside a sandbox, with a deadline. */
#include <string.h>

#include "core/core_internal.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"

enum {
    ANSWER_SLACK_MS = 2000, /* the agent ends the evaluation itself; past this it is not answering at all */
    CORE_PERCENT = 100,
};

struct eval_job {
    struct job job;
    uint64_t call_id; /* 0 while none is under way */
    uint64_t timeout_ms;
    bool busy_waits; /* the node, after the answer */
};

static void finish(struct eval_job *eval) {
    job_finish(&eval->job);
    free(eval);
}

static void on_abort(struct job *job, const struct error *why) {
    struct eval_job *eval = (struct eval_job *)job;
    struct sandbox *sandbox = job->sandbox;
    if (eval->call_id && sandbox->node) node_cancel(sandbox->node, eval->call_id);
    answer_error(sandbox->engine, job->request, why, NULL);
    finish(eval);
}

static void on_cancel(struct request *request) {
    struct error error;
    error_set(&error, E_TIMEOUT, "the caller has gone");
    on_abort(request->state, &error);
}

/* NULL where the node sent none, or none that is text. */
static json_t *text_at(const struct term *map, const char *key) {
    CLEANUP_FREE char *text = NULL;
    const struct term *value = term_map_get(map, key);
    return value && term_to_string(value, &text) ? json_string(text) : NULL;
}

static json_t *output_of(const struct term *map) {
    json_t *output = text_at(map, "output");
    return output ? output : json_string("");
}

/* This and failure_json run on a thread of the pool where the answer is large. */
static void *result_json(const struct term *result) {
    bool natural = false;
    uint64_t duration_us = 0;
    const struct term *term = term_map_get(result, "term");
    const struct term *duration = term_map_get(result, "duration_us");
    json_t *value = term ? term_to_json(term, &natural) : NULL;
    if (!natural) {
        json_decref(value);
        value = NULL;
    }
    if (duration) term_to_uint64(duration, &duration_us);
    json_t *text = text_at(result, "text");
    return json_pack("{s:o, s:o, s:o, s:I}", "output", output_of(result), "result", value ? value : json_null(), "text",
                     text ? text : json_null(), "duration_us", (json_int_t)duration_us);
}

/* What it printed before it failed. */
static void *failure_json(const struct term *reason) {
    return json_pack("{s:o}", "output", output_of(reason));
}

static void release_json(void *value) {
    json_decref(value);
}

static const struct node_preparation as_json = {
    .make = result_json, .make_of_failure = failure_json, .release = release_json};

/* The limit's time, not a shorter one of the caller's own. The evaluation is killed in any case. */
static bool ran_too_long(const struct eval_job *eval, const struct error *error) {
    return error && error->code == E_TIMEOUT && eval->timeout_ms == eval->job.sandbox->config.limits.max_run_ms;
}

static void on_evaluated(void *data, void *result, const struct term *reason, const struct error *error) {
    struct eval_job *eval = data;
    struct sandbox *sandbox = eval->job.sandbox;
    (void)reason;
    if (error)
        answer_error(sandbox->engine, eval->job.request, error, result);
    else
        answer_ok(sandbox->engine, eval->job.request, result);
    if (eval->busy_waits) busy_wait_begin(&sandbox->metering.busy_wait, uv_hrtime());
    bool is_over_limit = ran_too_long(eval, error) && !sandbox->ending.is_destroying;
    uint64_t limit_ms = eval->timeout_ms;
    finish(eval); /* before its sandbox is ended for it, which would call it off */
    if (is_over_limit) limit_reached(sandbox, JAIL_LIMIT_MAX_RUN, limit_ms, limit_ms, 1);
}

static const char *language_of(const struct sandbox *sandbox, json_t *params) {
    const char *asked = json_string_value(json_object_get(params, "language"));
    const char *own = json_string_value(json_object_get(sandbox->code.build.facts, "language"));
    return asked ? asked : own ? own : "erlang";
}

/* Its node stays awake for a moment after the answer where the next question follows at once, no other process needs
   the processor, and it may use all of one and doesn't. */
static bool decide_to_busy_wait(const struct job *job) {
    struct sandbox *sandbox = job->sandbox;
    struct engine *engine = sandbox->engine;
    uint64_t cpu_percent = limits_in_force(sandbox, &sandbox->config.limits).cpu_percent;
    bool is_back_to_back = back_to_back_note(&engine->evals, sandbox, uv_now(engine->loop));
    bool is_alone =
        sandbox->queue.jobs == job && !job->next && engine->cpu_watch.workers <= sandbox->metering.is_counted;
    return is_back_to_back && is_alone && !sandbox->metering.busy_wait.is_held_up &&
           (cpu_percent == 0 || cpu_percent >= CORE_PERCENT);
}

static void start(struct job *job) {
    struct eval_job *eval = (struct eval_job *)job;
    struct sandbox *sandbox = job->sandbox;
    struct error error;
    if (sandbox_check_runs(sandbox, &error) < 0) {
        on_abort(job, &error);
        return;
    }
    eval->busy_waits = decide_to_busy_wait(job);
    busy_wait_end(&sandbox->metering.busy_wait, uv_hrtime());
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    term_map_bool(&map, "capture", !json_is_false(json_object_get(job->request->params, "capture")));
    term_map_atom(&map, "language", language_of(sandbox, job->request->params));
    term_map_text(&map, "code", json_string_value(json_object_get(job->request->params, "code")));
    term_map_number(&map, "timeout_ms", eval->timeout_ms);
    term_map_number(&map, "busy_wait_us", eval->busy_waits ? BUSY_WAIT_US : 0);
    term_map_end(&map);
    job->request->cancel = on_cancel;
    eval->call_id = node_call_prepared(sandbox->node, "eval", &args, eval->timeout_ms + ANSWER_SLACK_MS, &as_json,
                                       on_evaluated, eval);
}

static uint64_t timeout_of(const struct sandbox *sandbox, json_t *params) {
    uint64_t max_ms = sandbox->config.limits.max_run_ms ? sandbox->config.limits.max_run_ms : 24 * 3600000ULL;
    json_t *asked = json_object_get(params, "timeout_ms");
    uint64_t asked_ms = json_is_integer(asked) ? (uint64_t)json_integer_value(asked) : max_ms;
    return asked_ms < max_ms ? asked_ms : max_ms;
}

void engine_eval(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    struct eval_job *eval = sandbox && !engine->closing.is_begun ? calloc(1, sizeof *eval) : NULL;
    if (sandbox && engine->closing.is_begun)
        error_set(&error, E_SHUTDOWN, "the service is shutting down");
    else if (sandbox && !eval)
        error_set(&error, E_NO_MEMORY, "no memory for a request");
    if (!eval) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    eval->job = (struct job){.sandbox = sandbox, .request = request, .start = start, .abort = on_abort};
    eval->timeout_ms = timeout_of(sandbox, request->params);
    request->state = eval;
    request->cancel = on_cancel;
    job_submit(&eval->job);
}
