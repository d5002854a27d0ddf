/* Leading one transaction: compile, compare with what runs, let the agent change it, and keep what came of it. */
#include "core/reload.h"

#include <stdio.h>
#include <string.h>

enum { CALL_SLACK_MS = 5000 };

enum stage { STAGE_WAITING, STAGE_TOOLCHAIN, STAGE_PROJECT, STAGE_COMPILE, STAGE_WORK, STAGE_CALL, STAGE_PROBATION };

struct reload_job {
    struct job job;
    enum stage stage;
    bool is_called_off;
    struct error why;

    char token[64];
    struct compile_job *compile;
    json_t *report;     /* of the compilation */
    struct build build; /* to run */
    bool is_rollback;
    bool is_part; /* only some modules: what is not in it stays */
    uint32_t wanted_version;
    struct buf module; /* of a rollback, as the VM has it */

    uv_work_t work;
    struct error work_error;
    char from_path[PATH_MAX], to_path[PATH_MAX];
    char from_build[STORE_DIGEST_BYTES];
    json_t *from_facts; /* of what runs, as it was when it was compared; as is the next */
    struct history history;
    struct change_set changes;
    struct composed composed;
    char id[RELOAD_ID_BYTES];
    uint64_t call_id;
    json_t *result;
    uv_timer_t timer; /* of a probation that is waited for */
    bool has_timer;
};

static struct engine *engine_of(const struct reload_job *reload) {
    return reload->job.sandbox->engine;
}

static json_t *param(const struct reload_job *reload, const char *name) {
    return json_object_get(reload->job.request->params, name);
}

static uint64_t duration(const struct reload_job *reload, const char *name, uint64_t fallback) {
    json_t *value = param(reload, name);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : fallback;
}

/* ---- ending ---- */

static void on_timer_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void finish(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    if (reload->token[0]) jail_link_release_project(sandbox->engine->host.link, reload->token);
    if (sandbox->status == STATUS_RELOADING) sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    if (sandbox->reload == &reload->job) sandbox->reload = NULL;
    change_set_free(&reload->changes);
    history_free(&reload->history);
    json_decref(reload->from_facts);
    composed_free(&reload->composed);
    build_free(&reload->build);
    buf_free(&reload->module);
    json_decref(reload->report);
    json_decref(reload->result);
    job_finish(&reload->job);
    if (reload->has_timer)
        uv_close((uv_handle_t *)&reload->timer, on_timer_closed);
    else
        free(reload);
}

static void answer(struct reload_job *reload) {
    if (reload->report) json_object_set(reload->result, "compilation", reload->report);
    answer_ok(engine_of(reload), reload->job.request, take_ptr(reload->result));
    finish(reload);
}

static void fail(struct reload_job *reload, const struct error *error, json_t *result) {
    answer_error(engine_of(reload), reload->job.request, error, result);
    finish(reload);
}

/* Between two steps: whether it was called off. */
static bool ended_early(struct reload_job *reload, const struct error *error) {
    if (!reload->is_called_off && !error) return false;
    fail(reload, reload->is_called_off ? &reload->why : error, take_ptr(reload->report));
    return true;
}

static void on_abort(struct job *job, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)job;
    if (reload->is_called_off) return;
    reload->is_called_off = true;
    reload->why = *why;
    if (reload->stage == STAGE_COMPILE) {
        compile_abort(reload->compile);
    } else if (reload->stage == STAGE_WAITING || reload->stage == STAGE_CALL || reload->stage == STAGE_PROBATION) {
        if (reload->call_id && job->sandbox->node) node_cancel(job->sandbox->node, reload->call_id);
        fail(reload, why, NULL);
    }
}

/* ---- asking the agent ---- */

void reload_settled(struct sandbox *sandbox, bool committed, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)sandbox->reload;
    if (!reload || reload->stage != STAGE_PROBATION) return;
    if (committed) {
        answer(reload);
        return;
    }
    json_object_set_new(reload->result, "status", json_string("rolled_back"));
    fail(reload, why, take_ptr(reload->result));
}

void reload_lost(struct sandbox *sandbox, const struct error *why) {
    struct reload_job *reload = (struct reload_job *)sandbox->reload;
    if (reload && reload->stage == STAGE_PROBATION) fail(reload, why, NULL);
}

/* The agent has not said how it ended, though it answers: what it would say is not waited for any longer. */
static void on_probation_overdue(uv_timer_t *timer) {
    struct error error;
    error_set(&error, E_TIMEOUT, "the node did not say how the probation ended");
    fail(timer->data, &error, NULL);
}

static void wait_for_probation(struct reload_job *reload) {
    reload->stage = STAGE_PROBATION;
    reload->has_timer = true;
    uv_timer_init(engine_of(reload)->loop, &reload->timer);
    reload->timer.data = reload;
    uv_timer_start(&reload->timer, on_probation_overdue, duration(reload, "probation_ms", 2000) + CALL_SLACK_MS, 0);
}

static void on_reloaded(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct reload_job *reload = data;
    struct sandbox *sandbox = reload->job.sandbox;
    reload->call_id = 0;
    if (error) {
        fail(reload, error, reason ? transaction_failure(reason) : NULL);
        return;
    }
    reload->result = transaction_result(result, &reload->changes);
    if (json_is_true(param(reload, "dry_run"))) {
        answer(reload);
        return;
    }
    json_t *told = json_pack("{s:O, s:O, s:O}", "modules", json_object_get(reload->result, "modules"), "pause_us",
                             json_object_get(reload->result, "pause_us"), "duration_us",
                             json_object_get(reload->result, "duration_us"));
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL); /* before the registry hears of it */
    running_adopt(sandbox, reload->id, &reload->changes, &reload->build, reload->job.request->caller.uid);
    sandbox_set_error(sandbox, NULL);
    engine_event(sandbox->engine, EVENT_RELOADED, sandbox->id, told);
    if (json_is_true(param(reload, "wait")))
        wait_for_probation(reload);
    else
        answer(reload);
}

/* "EXPR" for every module, or "Module=EXPR" for one. */
static json_t *migrations_of(json_t *texts) {
    json_t *migrations = json_object(), *text;
    size_t i;
    json_array_foreach(texts, i, text) {
        const char *code = json_string_value(text);
        size_t length = strspn(code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@");
        bool is_named = length > 0 && code[length] == '=' && code[length + 1] != '=' && code[length + 1] != '>';
        CLEANUP_FREE char *name = is_named ? strndup(code, length) : strdup("*");
        if (name) json_object_set_new(migrations, name, json_string(is_named ? code + length + 1 : code));
    }
    return migrations;
}

static void call_reload(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct buf args = BUF_INIT;
    const char *language = json_string_value(param(reload, "language"));
    const char *own = json_string_value(json_object_get(sandbox->build.facts, "language"));
    const char *on_busy = json_string_value(param(reload, "on_busy"));
    json_t *migrations = migrations_of(param(reload, "migrate"));
    struct reload_options options = {
        .id = reload->id,
        .is_rollback = reload->is_rollback,
        .restart_changed = json_is_true(param(reload, "restart_changed")),
        .run_start = json_is_true(param(reload, "run_start")),
        .dry_run = json_is_true(param(reload, "dry_run")),
        .on_busy = on_busy ? on_busy : "wait",
        .busy_timeout_ms = duration(reload, "busy_timeout_ms", 5000),
        .suspend_timeout_ms = duration(reload, "suspend_timeout_ms", 5000),
        .migrate_timeout_ms = duration(reload, "migrate_timeout_ms", 5000),
        .probation_ms = duration(reload, "probation_ms", 2000),
        .migrations = migrations,
        .language = language ? language
                    : own    ? own
                             : "erlang",
    };
    uint64_t deadline_ms =
        options.busy_timeout_ms + options.suspend_timeout_ms + options.migrate_timeout_ms + 2ULL * CALL_SLACK_MS;
    transaction_put(&args, &reload->changes, &options);
    json_decref(migrations);
    reload->stage = STAGE_CALL;
    reload->call_id = node_call(sandbox->node, "reload", &args, deadline_ms, on_reloaded, reload);
}

/* Whether what was compared still runs. */
static bool is_as_compared(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    if (strcmp(sandbox->build.digest, reload->from_build) == 0) return true;
    error_set(&error, E_CONFLICT, "the code of '%s' was taken back meanwhile; try again", sandbox->id);
    fail(reload, &error, NULL);
    return false;
}

/* The one before is good enough by now: it is not taken back any more, unless it just was. */
static void on_previous_settled(void *data, const struct term *result, const struct term *reason,
                                const struct error *error) {
    struct reload_job *reload = data;
    struct error taken_back;
    (void)reason;
    reload->call_id = 0;
    const struct term *outcome = error ? NULL : term_map_get(result, "outcome");
    if (error && error->code != E_RUNTIME && error->code != E_CONFLICT) {
        fail(reload, error, NULL);
    } else if (outcome && term_is_atom(outcome, "rolled_back")) { /* the event that tells of it is under way */
        error_set(&taken_back, E_CONFLICT, "the code of '%s' is being taken back; try again", reload->job.sandbox->id);
        fail(reload, &taken_back, NULL);
    } else if (is_as_compared(reload)) {
        running_forget(reload->job.sandbox);
        call_reload(reload);
    }
}

static void begin_transaction(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct buf args = BUF_INIT;
    struct error error;
    if (!sandbox->node || sandbox->status != STATUS_RUNNING) {
        error_set(&error, E_CONFLICT, "the sandbox '%s' is %s, not running", sandbox->id, status_name(sandbox->status));
        fail(reload, &error, NULL);
        return;
    }
    if (!is_as_compared(reload)) return;
    reload_id_make(sandbox, reload->build.digest, reload->id);
    sandbox_set_status(sandbox, STATUS_RELOADING, NULL);
    sandbox->reload = &reload->job;
    reload->stage = STAGE_CALL;
    if (!sandbox->probation.id[0]) {
        call_reload(reload);
        return;
    }
    term_put_map(&args, 2);
    term_put_atom(&args, "id");
    term_put_string(&args, sandbox->probation.id);
    term_put_atom(&args, "how");
    term_put_atom(&args, "commit");
    reload->call_id = node_call(sandbox->node, "reload_settle", &args, CALL_SLACK_MS, on_previous_settled, reload);
}

/* ---- comparing, off the loop's thread ---- */

static void drop_deletions(struct change_set *set) {
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (!set->items[i].is_deletion) {
            set->items[kept++] = set->items[i];
            continue;
        }
        struct change_set gone = {.items = calloc(1, sizeof *gone.items), .count = 1};
        if (!gone.items) abort();
        gone.items[0] = set->items[i];
        change_set_free(&gone);
    }
    set->count = kept;
}

static void compare(uv_work_t *work) {
    struct reload_job *reload = work->data;
    const char *home = engine_of(reload)->config.home;
    struct error *error = &reload->work_error;
    int result;
    if (reload->is_rollback)
        result = changes_to_version(home, &reload->history, reload->from_path, reload->from_facts,
                                    buf_string(&reload->module), reload->wanted_version, &reload->changes, error);
    else
        result = changes_between_builds(home, &reload->history, reload->from_path, reload->from_facts, reload->to_path,
                                        reload->build.facts, &reload->changes, error);
    if (result < 0) return;
    if (reload->is_part) drop_deletions(&reload->changes);
    if (reload->is_part && reload->changes.count > 0)
        compose(reload->from_path, reload->from_facts, &reload->changes, &reload->composed, error);
}

static void on_composed_kept(void *data, const char *digest, const struct error *error) {
    struct reload_job *reload = data;
    struct error bad;
    if (ended_early(reload, error)) return;
    build_free(&reload->build);
    cache_keep(engine_of(reload)->config.home, digest, digest); /* or a daemon that starts meanwhile would sweep it */
    if (build_read(engine_of(reload)->store, digest, &reload->build, &bad) < 0)
        fail(reload, &bad, NULL);
    else
        begin_transaction(reload);
}

static void on_compared(uv_work_t *work, int status) {
    struct reload_job *reload = work->data;
    (void)status;
    if (ended_early(reload, reload->work_error.code != E_NONE ? &reload->work_error : NULL)) return;
    if (reload->changes.count == 0) {
        bool is_other = !reload->is_part && strcmp(reload->build.digest, reload->from_build) != 0;
        if (is_other && !json_is_true(param(reload, "dry_run"))) /* configuration or files, for the next start */
            running_set_build(reload->job.sandbox, &reload->build);
        reload->result = transaction_no_change();
        answer(reload);
    } else if (reload->is_part) {
        store_put_build(engine_of(reload)->store, reload->composed.files, reload->composed.count, on_composed_kept,
                        reload);
    } else {
        begin_transaction(reload);
    }
}

static void begin_comparing(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct store *store = sandbox->engine->store;
    struct error error;
    int result = store_build_path(store, sandbox->build.digest, reload->from_path, PATH_MAX, &error);
    if (result == 0 && !reload->is_rollback)
        result = store_build_path(store, reload->build.digest, reload->to_path, PATH_MAX, &error);
    if (ended_early(reload, result < 0 ? &error : NULL)) return;
    memcpy(reload->from_build, sandbox->build.digest, sizeof reload->from_build);
    reload->from_facts = json_incref(sandbox->build.facts);
    running_copy_history(sandbox, &reload->history);
    reload->stage = STAGE_WORK;
    reload->work.data = reload;
    uv_queue_work(sandbox->engine->loop, &reload->work, compare, on_compared);
}

/* ---- compiling ---- */

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct reload_job *reload = data;
    struct error bad;
    reload->compile = NULL;
    reload->report = report;
    if (ended_early(reload, error)) return;
    if (build_read(engine_of(reload)->store, digest, &reload->build, &bad) < 0)
        fail(reload, &bad, NULL);
    else
        begin_comparing(reload);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct reload_job *reload = data;
    tree_violation(reload->job.sandbox, node, what, detail);
}

static const char *source_of(const struct reload_job *reload) {
    const char *path = json_string_value(param(reload, "path"));
    return path ? path : reload->job.sandbox->config.source;
}

static void on_project(void *data, const struct jail_project *project, const struct error *error) {
    struct reload_job *reload = data;
    struct sandbox *sandbox = reload->job.sandbox;
    if (!error) snprintf(reload->token, sizeof reload->token, "%s", project->token);
    if (!ended_early(reload, error)) {
        struct compile_request request = {
            .compiler = sandbox->engine->compiler,
            .project = project,
            .owner = sandbox->owner,
            .subject = sandbox->id,
            .source = source_of(reload),
            .deadline_ms = sandbox->engine->config.compile_deadline_ms,
            .violation = on_violation,
        };
        reload->stage = STAGE_COMPILE;
        reload->is_part = !string_equal(source_of(reload), sandbox->config.source);
        reload->compile = compile_start(&request, on_compiled, reload);
    }
    if (!error) fd_close(project->fd);
}

static void on_toolchain(void *data, const struct error *error) {
    struct reload_job *reload = data;
    if (ended_early(reload, error)) return;
    reload->stage = STAGE_PROJECT;
    jail_link_open_project(engine_of(reload)->host.link, reload->job.request->caller.peer_fd, source_of(reload),
                           on_project, reload);
}

/* ---- beginning ---- */

static void start(struct job *job) {
    struct reload_job *reload = (struct reload_job *)job;
    struct sandbox *sandbox = job->sandbox;
    struct error error;
    if (sandbox->status != STATUS_RUNNING || !sandbox->node || node_is_frozen(sandbox->node)) {
        error_set(&error, E_CONFLICT, "the sandbox '%s' is %s, not running", sandbox->id,
                  sandbox->node && node_is_frozen(sandbox->node) ? "frozen" : status_name(sandbox->status));
        fail(reload, &error, NULL);
        return;
    }
    if (reload->is_rollback) {
        begin_comparing(reload);
        return;
    }
    reload->stage = STAGE_TOOLCHAIN;
    engine_need_toolchain(sandbox->engine, on_toolchain, reload);
}

static int check(struct engine *engine, struct request *request, bool needs_path, struct error *reterr) {
    if (engine->closing) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (needs_path && request->caller.peer_fd < 0)
        return error_set(reterr, E_INVALID, "only callers on the unix socket may have a path of this host read");
    return 0;
}

static struct reload_job *submit(struct engine *engine, struct request *request, bool is_rollback) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    struct reload_job *reload = NULL;
    if (sandbox && check(engine, request, !is_rollback, &error) == 0) {
        reload = calloc(1, sizeof *reload);
        if (!reload) error_set(&error, E_NO_MEMORY, "no memory for a request");
    }
    if (!reload) {
        answer_error(engine, request, &error, NULL);
        return NULL;
    }
    reload->is_rollback = reload->is_part = is_rollback;
    reload->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = on_abort};
    return reload;
}

void engine_reload(struct engine *engine, struct request *request) {
    struct reload_job *reload = submit(engine, request, false);
    if (reload) job_submit(&reload->job);
}

void engine_rollback(struct engine *engine, struct request *request) {
    struct reload_job *reload = submit(engine, request, true);
    if (!reload) return;
    term_module_atom(json_string_value(param(reload, "module")), &reload->module);
    reload->wanted_version = (uint32_t)json_integer_value(param(reload, "to"));
    job_submit(&reload->job);
}

/* ---- versions ---- */

/* What runs and was never changed since the sandbox began: its first version. */
static void add_first_versions(json_t *list, const struct sandbox *sandbox, const char *only) {
    json_t *sources = json_object_get(sandbox->build.facts, "sources"), *source, *module;
    char time[RFC3339_BYTES];
    size_t i, k;
    clock_rfc3339(sandbox->started_at_ms ? sandbox->started_at_ms : sandbox->created_at_ms, time);
    json_array_foreach(sources, i, source) {
        json_array_foreach(json_object_get(source, "modules"), k, module) {
            const char *name = json_string_value(json_object_get(module, "module"));
            if (!name || (only && strcmp(only, name) != 0) || map_get(&sandbox->history.modules, name)) continue;
            json_array_append_new(list,
                                  json_pack("{s:s, s:i, s:O, s:s, s:O?, s:b}", "module", term_module_name(name),
                                            "version", 1, "checksum", json_object_get(module, "checksum"), "loaded_at",
                                            time, "dependencies", json_object_get(source, "runtime"), "current", 1));
        }
    }
}

void engine_versions(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    const char *written = json_string_value(json_object_get(request->params, "module"));
    CLEANUP(buf_free) struct buf module = BUF_INIT;
    if (written) term_module_atom(written, &module);
    json_t *list = json_array();
    size_t at = 0;
    const char *name;
    while (map_next(&sandbox->history.modules, &at, &name, NULL)) {
        if (written && strcmp(name, buf_string(&module)) != 0) continue;
        json_t *versions = history_to_json(&sandbox->history, name);
        json_array_extend(list, versions);
        json_decref(versions);
    }
    add_first_versions(list, sandbox, written ? buf_string(&module) : NULL);
    if (json_array_size(list) > 0 || !written) {
        answer_ok(engine, request, list);
        return;
    }
    json_decref(list);
    answer_fail(engine, request, E_NOT_FOUND, "the sandbox '%s' has no module %s", sandbox->id, written);
}
