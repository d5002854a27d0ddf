/* run and mix: a sandbox that lives as long as its caller listens. Made of create, logs, eval and destroy. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/run/program.h"
#include "core/sandbox/sandbox.h"

struct run {
    struct engine *engine;
    struct request *request; /* the caller's */
    char id[SANDBOX_ID_BYTES];
    struct request create, logs, events, eval;
    uint64_t since; /* the last event before it */
    bool cancelled;
    bool has_program;
    bool ending;
    unsigned open; /* requests to the engine that are not answered yet, the destroying among them */
    json_t *result;
    struct error error;
};

static void maybe_over(struct run *run) {
    if (!run->ending || run->open > 0) return;
    bool failed = run->error.code != E_NONE;
    if (failed)
        answer_error(run->engine, run->request, &run->error, take_ptr(run->result));
    else
        answer_ok(run->engine, run->request, take_ptr(run->result));
    json_decref(run->create.params);
    json_decref(run->logs.params);
    json_decref(run->events.params);
    json_decref(run->eval.params);
    free(run);
}

static void stop_following(struct request *request) {
    if (request->cancel) request->cancel(request);
}

static void on_run_destroyed(void *data, const struct error *error) {
    struct run *run = data;
    (void)error;
    run->open--;
    stop_following(&run->events);
    maybe_over(run);
}

static void end_run(struct run *run) {
    struct sandbox *sandbox = run->ending ? NULL : map_get(&run->engine->sandboxes, run->id);
    run->ending = true;
    if (sandbox) {
        run->open++;
        sandbox_destroy(sandbox, "its run is over", on_run_destroyed, run);
    } else {
        stop_following(&run->events);
    }
    maybe_over(run);
}

static void fail_run(struct run *run, const struct error *error, json_t *result) {
    if (run->error.code == E_NONE) run->error = *error;
    json_decref(run->result);
    run->result = result;
    end_run(run);
}

/* ---- what the sandbox says ---- */

static void on_log_item(struct request *request, json_t *item) {
    struct run *run = request->transport;
    if (run->cancelled)
        json_decref(item);
    else
        run->request->item(run->request, item);
}

/* The log goes as fast as the caller takes it. */
static bool has_room_for_log(struct request *request) {
    const struct run *run = request->transport;
    return run->cancelled || !run->request->has_room || run->request->has_room(run->request);
}

static void on_more(struct request *request) {
    struct run *run = request->state;
    if (run->logs.more) run->logs.more(&run->logs);
}

static void on_logs_over(struct request *request, json_t *result, const struct error *error) {
    struct run *run = request->transport;
    (void)error;
    json_decref(result);
    run->open--;
    maybe_over(run);
}

/* What became of a save is told between the application's own words. */
static void tell_watch(struct run *run, const char *kind, json_t *event) {
    if (run->ending || run->cancelled || !kind) return;
    if (!string_starts(kind, "watch") && strcmp(kind, "rolled_back") != 0) return;
    run->request->item(run->request, json_pack("{s:s, s:O}", "sandbox_id", run->id, "event", event));
}

/* The status with which a program ended the VM; -1: it was ended otherwise. */
static int exit_status(const struct run *run) {
    const struct sandbox *sandbox = map_get(&run->engine->sandboxes, run->id);
    return sandbox && run->has_program ? sandbox->tree.exit_status : -1;
}

static void end_as_program(struct run *run, int status) {
    json_object_set_new(run->result, "status", json_string("stopped"));
    json_object_set_new(run->result, "exit_status", json_integer(status));
    end_run(run);
}

/* Its own end, told as a transition. */
static void on_event_item(struct request *request, json_t *item) {
    struct run *run = request->transport;
    json_t *data = json_object_get(item, "data");
    const char *to = json_string_value(json_object_get(data, "to"));
    const char *reason = json_string_value(json_object_get(data, "reason"));
    struct error error;
    const char *kind = json_string_value(json_object_get(item, "kind"));
    tell_watch(run, kind, item);
    if (!run->ending && string_equal(kind, "expired")) {
        error_set(&error, E_TIMEOUT, "the run took longer than its limit allows");
        fail_run(run, &error, NULL);
    } else if (!run->ending && string_equal(kind, "destroyed")) {
        error_set(&error, E_CONFLICT, "the sandbox was destroyed");
        fail_run(run, &error, NULL);
    } else if (!run->ending && (string_equal(to, "stopped") || string_equal(to, "error")) && exit_status(run) >= 0) {
        end_as_program(run, exit_status(run));
    } else if (!run->ending && string_equal(to, "stopped")) {
        json_object_set_new(run->result, "status", json_string("stopped"));
        end_run(run);
    } else if (!run->ending && string_equal(to, "error")) {
        error_set(&error, E_RUNTIME, "%s", reason ? reason : "the sandbox failed");
        fail_run(run, &error, NULL);
    }
    json_decref(item);
}

static void on_events_over(struct request *request, json_t *result, const struct error *error) {
    struct run *run = request->transport;
    struct error ended;
    json_decref(result);
    run->open--;
    error_set(&ended, E_SHUTDOWN, "the service is shutting down");
    if (!run->ending)
        fail_run(run, error ? error : &ended, NULL);
    else
        maybe_over(run);
}

static void on_evaluated(struct request *request, json_t *result, const struct error *error) {
    struct run *run = request->transport;
    run->open--;
    if (error) {
        fail_run(run, error, result);
        return;
    }
    json_object_set_new(run->result, "eval", result);
    json_object_set_new(run->result, "status", json_string("stopped"));
    end_run(run);
}

/* The VM's end is told by its transition. */
static void on_program(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct run *run = data;
    (void)result, (void)reason;
    run->open--;
    if (error && error->code != E_NODE && !run->ending)
        fail_run(run, error, NULL);
    else
        maybe_over(run);
}

/* ---- starting ---- */

static void ask(struct run *run, struct request *request, json_t *params, engine_fn *function) {
    request->params = params;
    request->caller = run->request->caller;
    request->transport = run;
    run->open++;
    function(run->engine, request);
}

/* Before the application's own words, as a compiler would. */
static void tell_warnings(struct run *run, json_t *compilation) {
    if (json_array_size(json_object_get(compilation, "warnings")) == 0) return;
    run->request->item(run->request, json_pack("{s:s, s:O}", "sandbox_id", run->id, "compilation", compilation));
}

/* Where its ports are reached, which the caller may not have chosen. */
static void tell_ports(struct run *run, json_t *sandbox) {
    json_t *published = json_object_get(sandbox, "published"), *connects = json_object_get(sandbox, "connects");
    if (json_array_size(published) + json_array_size(connects) == 0) return;
    run->request->item(run->request, json_pack("{s:s, s:O, s:O}", "sandbox_id", run->id, "published", published,
                                               "connects", connects));
}

/* False: the run is ending, and may be gone. */
static bool begin_program(struct run *run) {
    struct sandbox *sandbox = map_get(&run->engine->sandboxes, run->id);
    struct error error;
    if (run->ending) return false;
    if (!sandbox || !sandbox->node) return true;
    if (program_find(sandbox, run->request->params, &run->has_program, &error) < 0) {
        fail_run(run, &error, NULL);
        return false;
    }
    if (!run->has_program) return true;
    run->open++;
    program_start(sandbox, run->request->params, on_program, run);
    return true;
}

static void follow(struct run *run) {
    run->logs = (struct request){.item = on_log_item, .has_room = has_room_for_log, .done = on_logs_over};
    run->events = (struct request){.item = on_event_item, .done = on_events_over, .is_prompt = true};
    ask(run, &run->logs, json_pack("{s:s, s:b}", "id", run->id, "follow", 1), engine_logs);
    ask(run, &run->events,
        json_pack("{s:s, s:b, s:I}", "sandbox_id", run->id, "follow", 1, "since", (json_int_t)run->since),
        engine_events);
}

/* What the code prints goes to the log, which the caller follows. */
static void begin_eval(struct run *run) {
    json_t *code = json_object_get(run->request->params, "eval");
    json_t *language = json_object_get(run->request->params, "language");
    if (!code) return;
    run->eval = (struct request){.done = on_evaluated};
    json_t *params = json_pack("{s:s, s:O, s:b}", "id", run->id, "code", code, "capture", 0);
    if (language) json_object_set(params, "language", language);
    ask(run, &run->eval, params, engine_eval);
}

static void say_why_ended(const struct run *run, struct error *ret) {
    if (run->engine->closing.is_begun)
        error_set(ret, E_SHUTDOWN, "the service is shutting down");
    else
        error_set(ret, E_TIMEOUT, "the caller has gone");
}

static void on_created(struct request *request, json_t *result, const struct error *error) {
    struct run *run = request->transport;
    run->open--;
    if (error || run->cancelled || run->engine->closing.is_begun) {
        struct error gone;
        say_why_ended(run, &gone);
        fail_run(run, error ? error : &gone, result);
        return;
    }
    tell_warnings(run, json_object_get(result, "compilation"));
    tell_ports(run, result);
    json_decref(result);
    follow(run);
    if (begin_program(run)) begin_eval(run);
}

static void on_cancel(struct request *request) {
    struct run *run = request->state;
    struct error error;
    run->cancelled = true;
    stop_following(&run->logs); /* it may wait for a reader that is gone */
    say_why_ended(run, &error);
    fail_run(run, &error, NULL);
}

/* A run lives as long as its caller listens, unless the caller bounds it: by its life or as one run. The profile's
   bound is for evaluations. */
static void bound_life(json_t *params) {
    json_t *max_run = json_object_get(params, "max_run_ms"), *ttl = json_object_get(params, "ttl_ms");
    json_int_t max_run_ms = json_integer_value(max_run), ttl_ms = json_integer_value(ttl);
    if (max_run_ms > 0 && (ttl_ms == 0 || max_run_ms < ttl_ms)) json_object_set(params, "ttl_ms", max_run);
}

void engine_run(struct engine *engine, struct request *request) {
    struct error error;
    if (program_check(request->params, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct run *run = new_or_abort(struct run);
    *run = (struct run){
        .engine = engine, .request = request, .since = engine->events->next_seq - 1, .result = json_object()};
    snprintf(run->id, sizeof run->id, "run-%llx-%llu", (unsigned long long)engine->started_at_ms,
             (unsigned long long)++engine->run_count);
    json_object_set_new(run->result, "id", json_string(run->id));
    json_t *params = json_copy(request->params);
    json_object_set_new(params, "id", json_string(run->id));
    json_object_set_new(params, "restart", json_string("never"));
    json_object_set_new(params, "ephemeral", json_true());
    bound_life(params);
    program_replace_source(params);
    request->state = run;
    request->cancel = on_cancel;
    request->more = on_more;
    run->create = (struct request){.done = on_created};
    ask(run, &run->create, params, engine_create);
    /* Its name before anything else, so that a caller who leaves at once can wait for its end. */
    if (map_get(&engine->sandboxes, run->id)) request->item(request, json_pack("{s:s}", "sandbox_id", run->id));
}

void engine_mix(struct engine *engine, struct request *request) {
    engine_run(engine, request);
}
