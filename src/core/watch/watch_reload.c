/* What changed on disk brought into the code that runs, by a reload as any caller's; its outcome told in one event. */
#include "core/watch/watching.h"

#include <string.h>

enum { ATTEMPT_PAUSE_MS = 100, BUSY_RETRIES = 2 };

static json_t *first_of(json_t *list, size_t max) {
    json_t *first = json_array(), *item;
    size_t i;
    json_array_foreach(list, i, item) {
        if (i == max) break;
        json_array_append(first, item);
    }
    return first;
}

static json_t *names_of(json_t *modules) {
    json_t *names = json_array(), *module;
    size_t i;
    json_array_foreach(modules, i, module) {
        if (i == WATCH_MODULES_TOLD) break;
        json_array_append(names, json_object_get(module, "module"));
    }
    return names;
}

/* ---- reporting ---- */

/* Lists are cut, with their lengths beside them: an event is kept for long. */
static json_t *outcome_json(const struct watching *watching, json_t *result) {
    uint64_t now_us = clock_monotonic_us();
    json_t *compilation = json_object_get(result, "compilation");
    json_t *compiled = json_object_get(compilation, "compiled"), *modules = json_object_get(result, "modules");
    return json_pack("{s:O, s:I, s:o, s:I, s:o, s:I, s:I, s:O?, s:I, s:I, s:O?}", "files", watching->bringing,
                     "file_count", (json_int_t)watching->bringing_count, "compiled",
                     first_of(compiled, WATCH_PATHS_TOLD), "compiled_count", (json_int_t)json_array_size(compiled),
                     "modules", names_of(modules), "module_count", (json_int_t)json_array_size(modules), "processes",
                     (json_int_t)json_array_size(json_object_get(result, "processes")), "pause_us",
                     json_object_get(result, "pause_us"), "since_save_us", (json_int_t)(now_us - watching->noticed_us),
                     "duration_us", (json_int_t)(now_us - watching->began_us), "compilation_time_ms",
                     json_object_get(compilation, "compilation_time_ms"));
}

static bool is_removed(json_t *module) {
    return json_is_null(json_object_get(module, "to_version"));
}

static json_int_t removed_count(json_t *modules) {
    json_t *module;
    size_t i;
    json_int_t count = 0;
    json_array_foreach(modules, i, module) count += is_removed(module);
    return count;
}

static void tell_good(struct watching *watching, json_t *result) {
    json_t *outcome = outcome_json(watching, result);
    json_t *warnings = json_object_get(json_object_get(result, "compilation"), "warnings");
    bool is_configured = json_object_get(result, "configuration") != NULL; /* otherwise than the VM was */
    bool had_failed = watching->failure != NULL, is_change = json_array_size(json_object_get(result, "modules")) > 0;
    json_object_set(outcome, "status", json_object_get(result, "status"));
    json_object_set_new(outcome, "removed_count", json_integer(removed_count(json_object_get(result, "modules"))));
    if (is_configured) json_object_set_new(outcome, "configuration", json_string("changed"));
    json_object_set_new(outcome, "warnings", first_of(is_change ? warnings : NULL, WATCH_DIAGNOSTICS_TOLD));
    json_object_set_new(outcome, "reload_warnings",
                        first_of(json_object_get(result, "warnings"), WATCH_DIAGNOSTICS_TOLD));
    json_decref(take_ptr(watching->failure));
    if (is_change) watching->reload_count++;
    if (is_change || is_configured || had_failed || watching->bringing_count > 0) {
        engine_event(watching->engine, EVENT_WATCH_RELOADED, watching->id, json_incref(outcome));
        json_decref(watching->last);
        watching->last = json_incref(outcome);
    }
    json_decref(outcome);
}

static json_t *failure_json(const struct watching *watching, const struct error *error, json_t *result) {
    json_t *failure = problem_json(error);
    json_object_set(failure, "files", watching->bringing);
    json_object_set_new(failure, "file_count", json_integer((json_int_t)watching->bringing_count));
    json_object_set_new(failure, "errors", first_of(json_object_get(result, "errors"), WATCH_DIAGNOSTICS_TOLD));
    json_object_set_new(failure, "warnings", first_of(json_object_get(result, "warnings"), WATCH_DIAGNOSTICS_TOLD));
    return failure;
}

static void tell_bad(struct watching *watching, const struct error *error, json_t *result) {
    json_decref(watching->failure);
    watching->failure = failure_json(watching, error, result);
    watching->failure_count++;
    engine_event(watching->engine, EVENT_WATCH_FAILED, watching->id, json_incref(watching->failure));
}

void watching_taken_back(struct sandbox *sandbox, const struct error *why) {
    struct watching *watching = sandbox->watching;
    if (!watching) return;
    json_decref(watching->failure);
    watching->failure = failure_json(watching, why, NULL);
    watching->failure_count++;
}

/* ---- after a reload ---- */

static void on_again(uv_timer_t *timer) {
    struct watching *watching = timer->data;
    watching_bring(watching);
}

/* What has nothing to do with what was saved, and how often it is tried again: seldom where it takes long to fail, or
   may be of the code's doing after all. */
static const unsigned attempts_max[E_COUNT] = {
    [E_CONFLICT] = 20,  [E_LAUNCHER] = 20, [E_LIMIT] = 20, [E_NO_MEMORY] = 20,
    [E_DISK_FULL] = 20, [E_SYSTEM] = 5,    [E_NODE] = 3,   [E_TIMEOUT] = 1,
};

static bool is_passing(const struct watching *watching, const struct error *error) {
    const struct sandbox *sandbox = watching->sandbox;
    if (sandbox->ending.is_destroying || sandbox->status != STATUS_RUNNING) return true;
    return watching->attempts < attempts_max[error->code];
}

static void add_paths(json_t *list, json_t *more) {
    json_t *path;
    size_t i;
    json_array_foreach(more, i, path) {
        if (json_array_size(list) < WATCH_PATHS_TOLD) json_array_append(list, path);
    }
}

/* While the source is looked for, the timer is that one's, and what is found then is brought in anyway. */
static void try_again(struct watching *watching, const struct error *error) {
    watching->is_due = true;
    watching->attempts++;
    watching->passing = *error;
    add_paths(watching->changed, watching->bringing);
    watching->changed_count += watching->bringing_count;
    if (watching->sandbox->status == STATUS_RUNNING && watching->watch)
        uv_timer_start(&watching->timer, on_again, (uint64_t)ATTEMPT_PAUSE_MS * watching->attempts, 0);
}

static void take_outcome(struct watching *watching, json_t *result, const struct error *error) {
    if (error && is_passing(watching, error)) {
        try_again(watching, error);
    } else if (error && (error->code == E_NOT_FOUND || error->code == E_FORBIDDEN)) {
        watching_reopen(watching, error);
    } else {
        watching->attempts = 0;
        if (error)
            tell_bad(watching, error, result);
        else
            tell_good(watching, result);
    }
    json_decref(take_ptr(watching->bringing));
    watching->bringing_count = 0;
    if (watching->watch) watch_hold(watching->watch, false);
    if (watching->attempts == 0) watching_bring(watching);
}

static void release_result(void *result) {
    json_decref(result);
}

static void on_reloaded(struct request *request, json_t *result, const struct error *error) {
    struct watching *watching = request->transport;
    watching->is_working = false;
    json_decref(take_ptr(watching->reload.params));
    if (watching->sandbox && !watching->engine->closing.is_begun)
        take_outcome(watching, result, error);
    else if (!error)
        tell_good(watching, result); /* it runs, whatever became of the wish for it */
    if (watching->stopped) watching->stopped(watching->stopped_data);
    if (result) loop_discard(watching->engine->loop, release_result, result);
    watching_release(watching);
}

/* ---- beginning one ---- */

static bool can_begin(const struct watching *watching) {
    const struct sandbox *sandbox = watching->sandbox;
    return watching->is_due && !watching->is_working && watching->has_looked && watching->paused.code == E_NONE &&
           sandbox->status == STATUS_RUNNING && !sandbox->ending.is_destroying && !watching->engine->closing.is_begun &&
           sandbox->node && !node_is_frozen(sandbox->node);
}

void watching_bring(struct watching *watching) {
    if (!can_begin(watching)) return;
    watching->is_due = false;
    watching->is_working = true;
    watching->began_us = clock_monotonic_us();
    watching->bringing = watching->changed;
    watching->bringing_count = watching->changed_count;
    watching->changed = json_array();
    watching->changed_count = 0;
    if (watching->bringing_count == 0) watching->noticed_us = watching->began_us;
    if (watching->watch) watch_hold(watching->watch, true); /* what is saved meanwhile is one change more, not many */
    watching->reload = (struct request){
        .params = json_pack("{s:s, s:i, s:O?}", "id", watching->id, "retries", BUSY_RETRIES, "migrate",
                            watching->sandbox->config.migrate),
        .caller = {.uid = watching->sandbox->owner, .role = ROLE_OPERATOR, .peer_fd = -1, .grant = watching->id},
        .done = on_reloaded,
        .transport = watching,
    };
    watching_use(watching);
    /* What was checked above may have changed once the audit trail has it: the reload looks for itself. */
    engine_carry_out(watching->engine, &(struct audit_subject){.op = "reload", .kind = AUDIT_WRITES}, &watching->reload,
                     engine_reload);
}
