/* create: open the project with the caller's rights, compile it, jail it, start it. A create that fails leaves no
   sandbox. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/jobs/source_text.h"
#include "core/jobs/steps.h"
#include "core/jobs/withs.h"
#include "core/policy/containment.h"
#include "core/queue.h"
#include "core/sandbox/logs.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/toolchains/choice.h"
#include "core/toolchains/own.h"
#include "core/volumes/volumes.h"
#include "core/watch/watching.h"

struct create_job {
    struct job job;
    struct steps steps;
    struct compile_turn turn;
    struct compile_job *compile;
    struct link_project project; /* open from its step to the compilation; fd -1 */
    char token[64];              /* of the open project; "" */
    char file_name[NAME_MAX + 1];
    struct toolchain_choice choice;
    struct withs withs;
    json_t *report; /* of the compilation */

    uv_work_t work; /* the scan */
    char build[PATH_MAX];
    struct guard_profile scanned; /* what the code is scanned for */
    json_t *scan;
    struct error scan_error;
};

static void open_ports(void *job);
static void take_turn(void *job);
static void abort_turn(void *job);
static void open_withs(void *job);
static void grant_volumes(void *job);
static void open_project(void *job);
static void choose_toolchain(void *job);
static void compile_project(void *job);
static void abort_compiling(void *job);
static void scan_build_made(void *job);
static void await_data(void *job);
static void start_application(void *job);
static void abort_starting(void *job);
static void save_sandbox(void *job);

static const struct step create_steps[] = {
    {"ports", open_ports, NULL},     /* first: one that is taken costs nothing else */
    {"turn", take_turn, abort_turn}, /* among its owner's compilations */
    {"with", open_withs, NULL},
    {"volumes", grant_volumes, NULL},
    {"open", open_project, NULL},
    {"toolchain", choose_toolchain, NULL},
    {"compile", compile_project, abort_compiling},
    {"scan", scan_build_made, NULL},
    {"data", await_data, NULL},
    {"start", start_application, abort_starting},
    {"save", save_sandbox, NULL},
};

static void undo_create(void *job);
static void end_create(void *job);

static const struct steps_plan create_plan = {create_steps, ARRAY_SIZE(create_steps), undo_create, end_create, free};

static struct engine *engine_of(const struct create_job *create) {
    return create->job.sandbox->engine;
}

/* ---- ports: the host's side of them, which the caller has a right to or not ---- */

static void on_ports(void *data, const struct error *error) {
    struct create_job *create = data;
    step_done(&create->steps, error);
}

static void open_ports(void *job) {
    struct create_job *create = job;
    ports_open(create->job.sandbox, create->job.request->caller.peer_fd, 0, on_ports, create);
}

/* ---- turn: the launcher has few entries for all users, so a project is opened when it can be compiled ---- */

static void on_turn(struct compile_turn *turn, const struct error *error) {
    struct create_job *create = (struct create_job *)((char *)turn - offsetof(struct create_job, turn));
    step_done(&create->steps, error);
}

static void take_turn(void *job) {
    struct create_job *create = job;
    compile_turn_take(engine_of(create)->compiler, create->job.sandbox->owner, &create->turn, on_turn);
}

static void abort_turn(void *job) {
    struct create_job *create = job;
    compile_turn_give(&create->turn);
    step_aborted(&create->steps);
}

/* ---- open: what is handed over with the project, then that itself ---- */

static void on_withs(void *data, const struct error *error) {
    struct create_job *create = data;
    step_done(&create->steps, error);
}

static void open_withs(void *job) {
    struct create_job *create = job;
    withs_open(&create->withs, engine_of(create), &create->job.request->caller, create->job.sandbox->config.with,
               on_withs, create);
}

/* Before what takes long, and with the caller at hand. */
static void grant_volumes(void *job) {
    struct create_job *create = job;
    volumes_grant(create->job.sandbox, &create->job.request->caller, on_withs, create);
}

static void close_project(struct create_job *create) {
    create->project.fd = fd_close(create->project.fd);
}

static void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct create_job *create = data;
    if (error) {
        step_done(&create->steps, error);
        return;
    }
    create_timing_mark(&create->job.sandbox->tree.timing, CREATE_OPENED);
    snprintf(create->token, sizeof create->token, "%s", project->token);
    snprintf(create->file_name, sizeof create->file_name, "%s", project->name ? project->name : "");
    create->project = *project;
    create->project.token = create->token;
    create->project.name = create->file_name;
    step_done(&create->steps, NULL);
}

/* Source text that the engine itself hands in. */
static void open_text(struct create_job *create) {
    struct link_project project;
    struct error error;
    if (source_text_open(create->job.request->params, &project, &error) < 0)
        step_done(&create->steps, &error);
    else
        on_project(create, &project, NULL);
}

static void open_project(void *job) {
    struct create_job *create = job;
    if (json_object_get(create->job.request->params, "code")) {
        open_text(create);
        return;
    }
    link_open_project(engine_of(create)->host.link, create->job.request->caller.peer_fd,
                      create->job.sandbox->config.source, on_project, create);
}

/* ---- toolchain: which one, found and probed ---- */

static int keep_toolchain(struct sandbox *sandbox, struct toolchain_entry *entry, struct error *reterr) {
    char *name = strdup(entry->name);
    if (!name) return error_set(reterr, E_NO_MEMORY, "no memory for a toolchain's name");
    free(sandbox->config.toolchain);
    sandbox->config.toolchain = name;
    sandbox->config.own_toolchain = entry->own ? own_to_json(entry) : NULL;
    toolchain_hold(&sandbox->toolchain, entry);
    return 0;
}

static void on_chosen(struct toolchain_choice *choice, const struct error *error) {
    struct create_job *create = choice->data;
    struct error failure;
    if (!error && keep_toolchain(create->job.sandbox, choice->entry, &failure) < 0) error = &failure;
    toolchain_hold(&choice->entry, NULL);
    step_done(&create->steps, error);
}

static void choose_toolchain(void *job) {
    struct create_job *create = job;
    struct sandbox *sandbox = create->job.sandbox;
    const struct request *request = create->job.request;
    create->choice = (struct toolchain_choice){.engine = sandbox->engine,
                                               .caller = &request->caller,
                                               .name = json_string_value(json_object_get(request->params, "toolchain")),
                                               .home = json_string_value(json_object_get(request->params, "user_home")),
                                               .done = on_chosen,
                                               .data = create};
    toolchain_choose(&create->choice, &create->project);
}

/* ---- compile ---- */

static void release_project(struct create_job *create) {
    if (create->token[0]) link_release_project(engine_of(create)->host.link, create->token);
    create->token[0] = '\0';
    withs_release(&create->withs);
}

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    struct compile_job *compile = take_ptr(create->compile);
    create->report = report;
    release_project(create);
    compile_turn_give(&create->turn);
    charge_give(sandbox->engine, &sandbox->charge, QUOTA_PROJECTS);
    if (!error) {
        snprintf(sandbox->code.build.digest, sizeof sandbox->code.build.digest, "%s", digest);
        sandbox->code.build.facts = compile_take_facts(compile);
        create_timing_mark(&sandbox->tree.timing, CREATE_COMPILED);
    }
    step_done(&create->steps, error);
}

static void on_compiler_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct create_job *create = data;
    tree_violation(create->job.sandbox, node, what, detail);
}

static void compile_project(void *job) {
    struct create_job *create = job;
    struct sandbox *sandbox = create->job.sandbox;
    struct compile_request request = {
        .compiler = sandbox->engine->compiler,
        .toolchain = &sandbox->toolchain->toolchain,
        .project = &create->project,
        .owner = sandbox->owner,
        .subject = sandbox->id,
        .source = sandbox->config.source,
        .withs = create->withs.opened,
        .with_count = create->withs.count,
        .mix_env = sandbox->config.mix_env,
        .extra = sandbox->config.extra,
        .has_turn = true,
        .violation = on_compiler_violation,
    };
    compile_bounds_apply(sandbox->engine, &sandbox->config.compile_bounds, &request);
    sandbox_set_status(sandbox, STATUS_COMPILING, NULL);
    create->compile = compile_start(&request, on_compiled, create);
    close_project(create); /* the compilation has a descriptor of its own */
}

static void abort_compiling(void *job) {
    struct create_job *create = job;
    compile_abort(create->compile);
}

/* ---- scan: none of what was compiled has run yet ---- */

static void scan(uv_work_t *work) {
    struct create_job *create = work->data;
    containment_scan_build(&create->scanned, create->build, &create->steps.is_called_off, &create->scan,
                           &create->scan_error);
}

static void on_scanned(uv_work_t *work, int status) {
    struct create_job *create = work->data;
    struct sandbox *sandbox = create->job.sandbox;
    const struct error *error = create->scan_error.code != E_NONE ? &create->scan_error : NULL;
    (void)status;
    if (create->scan) json_object_set_new(create->report, "scan", create->scan);
    if (!create->steps.is_called_off && !error)
        containment_remember_scan(sandbox->engine, &create->scanned, sandbox->code.build.digest, create->scan);
    else if (!create->steps.is_called_off && create->scan_error.code == E_POLICY)
        containment_refused(sandbox, error);
    step_done(&create->steps, error);
}

static void begin_scan(struct create_job *create) {
    struct sandbox *sandbox = create->job.sandbox;
    struct error error;
    if (store_build_path(sandbox->engine->store, sandbox->code.build.digest, create->build, PATH_MAX, &error) < 0) {
        step_done(&create->steps, &error);
        return;
    }
    create->work.data = create;
    host_work(&sandbox->engine->host, sandbox->owner, &create->work, scan, on_scanned);
}

static void scan_build_made(void *job) {
    struct create_job *create = job;
    struct sandbox *sandbox = create->job.sandbox;
    const struct guard_profile *profile = &create->scanned;
    create->scanned = containment_profile(sandbox);
    bool is_off = profile->scan == GUARD_SCAN_OFF;
    json_t *known = is_off ? NULL : containment_known_scan(sandbox->engine, profile, sandbox->code.build.digest);
    if (known) json_object_set_new(create->report, "scan", known);
    if (known || is_off)
        step_done(&create->steps, NULL);
    else
        begin_scan(create);
}

/* ---- data: made while the project was opened and compiled ---- */

static void await_data(void *job) {
    struct create_job *create = job;
    volumes_await_data(create->job.sandbox, on_withs, create);
}

/* ---- start ---- */

static void on_started(void *data, const struct error *error) {
    struct create_job *create = data;
    if (!error) create_settled(create->job.sandbox);
    step_done(&create->steps, error);
}

static void start_application(void *job) {
    struct create_job *create = job;
    struct sandbox *sandbox = create->job.sandbox;
    create_timing_mark(&sandbox->tree.timing, CREATE_SCANNED);
    sandbox_set_status(sandbox, STATUS_STARTING, NULL);
    sandbox->tree.settle_ms = create_settle_ms(sandbox, create->job.request);
    tree_start(sandbox, NULL, on_started, create);
}

/* Undoing ends the tree. */
static void abort_starting(void *job) {
    struct create_job *create = job;
    step_aborted(&create->steps);
}

/* ---- save: the registry first, then the standing permission to watch ---- */

/* Without the permission the sandbox is watched no less than without the source: watching says so. */
static void on_granted(void *data, const struct error *error) {
    struct create_job *create = data;
    (void)error;
    step_done(&create->steps, NULL);
}

static void on_saved(void *data, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    if (error) sandbox->persistent = false;
    if (error || !sandbox->config.watch)
        step_done(&create->steps, error);
    else
        link_grant(engine_of(create)->host.link, create->job.request->caller.peer_fd, sandbox->id,
                   sandbox->config.source, on_granted, create);
}

static void save_sandbox(void *job) {
    struct create_job *create = job;
    struct sandbox *sandbox = create->job.sandbox;
    create_timing_mark(&sandbox->tree.timing, CREATE_STARTED);
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    sandbox_save(sandbox, on_saved, create);
}

/* ---- the end ---- */

static void tell_timing(struct create_job *create, json_t *result) {
    struct sandbox *sandbox = create->job.sandbox;
    if (!json_is_true(json_object_get(create->job.request->params, "timing"))) return;
    create_timing_mark(&sandbox->tree.timing, CREATE_SAVED);
    json_t *timing = create_timing_to_json(&sandbox->tree.timing);
    json_object_set_new(timing, "node", json_string(sandbox->tree.is_warm ? "warm" : "booted"));
    json_object_set_new(result, "timing", timing);
}

static void answer_created(struct create_job *create) {
    struct sandbox *sandbox = create->job.sandbox;
    struct engine *engine = sandbox->engine;
    sandbox_start_ttl(sandbox);
    const char *warning = create->choice.warning[0] ? create->choice.warning : NULL;
    json_t *told = json_pack("{s:s, s:s, s:s}", "source", sandbox->config.source, "profile",
                             sandbox->config.profile->jail.name, "toolchain", sandbox->toolchain->name);
    if (warning) json_object_set_new(told, "warning", json_string(warning));
    engine_event(engine, EVENT_CREATED, sandbox->id, told);
    for (size_t i = 0; i < sandbox->config.ports.count; i++) ports_tell_opened(sandbox, i);
    json_t *result = sandbox_to_json(sandbox);
    json_object_set_new(result, "compilation", take_ptr(create->report));
    if (warning) json_object_set_new(result, "warnings", json_pack("[s]", warning));
    tell_timing(create, result);
    answer_ok(engine, create->job.request, result);
    if (sandbox->config.watch) watching_begin(sandbox);
}

/* The log goes with the sandbox, so the answer has the end of it. */
static json_t *failed_report(struct create_job *create) {
    json_t *report = take_ptr(create->report);
    json_t *output = log_tail(create->job.sandbox);
    if (json_string_length(output) == 0) {
        json_decref(output);
        return report;
    }
    if (!report) report = json_object();
    json_object_set_new(report, "output", output);
    return report;
}

/* The jobs that waited for the sandbox fail with it. */
static void answer_failed(struct create_job *create, const struct error *error) {
    struct sandbox *sandbox = create->job.sandbox;
    struct engine *engine = sandbox->engine;
    if (!sandbox->ending.is_destroying) sandbox->ending.is_destroying = sandbox->ending.is_stillborn = true;
    engine_event(engine, EVENT_CREATE_FAILED, sandbox->id, problem_json(error));
    answer_error(engine, create->job.request, error, failed_report(create));
    close_project(create);
    release_project(create);
    jobs_abort_all(sandbox, error);
}

static void on_data_awaited(void *data, const struct error *error) {
    struct create_job *create = data;
    (void)error;
    steps_undone(&create->steps);
}

/* A volume that is being made can not be removed yet. */
static void on_ports_closed(void *data, const struct error *error) {
    struct create_job *create = data;
    (void)error;
    volumes_await_data(create->job.sandbox, on_data_awaited, create);
}

static void on_failed_tree_ended(void *data) {
    struct create_job *create = data;
    ports_close_all(create->job.sandbox, on_ports_closed, create);
}

static void undo_create(void *job) {
    struct create_job *create = job;
    compile_turn_give(&create->turn);
    tree_end(create->job.sandbox, on_failed_tree_ended, create);
}

/* A sandbox that was called off after it was saved is whole, and stays unless it is being destroyed. */
static void end_create(void *job) {
    struct create_job *create = job;
    if (create->steps.error.code != E_NONE)
        answer_failed(create, &create->steps.error);
    else if (create->job.sandbox->ending.is_destroying)
        answer_failed(create, &create->steps.why);
    else
        answer_created(create);
    job_finish(&create->job);
}

/* ---- the beginning ---- */

static void start(struct job *job) {
    steps_begin(&((struct create_job *)job)->steps);
}

static void call_off(struct job *job, const struct error *why) {
    steps_call_off(&((struct create_job *)job)->steps, why);
}

/* In the map and charged, or not at all. */
static struct sandbox *make(struct engine *engine, struct request *request, struct sandbox_config *config,
                            struct error *reterr) {
    struct charge charge;
    struct toolchain_entry *toolchain = toolchains_default(engine); /* until it is chosen */
    if (create_check(engine, request, config, reterr) < 0) return NULL;
    bool is_own = config->toolchain && own_manager_of(config->toolchain) < OWN_MANAGERS;
    if (!is_own && toolchains_find(engine, config->toolchain, &toolchain, reterr) < 0) return NULL;
    if (charge_create(engine, request->caller.uid, &config->limits, &charge, reterr) < 0) return NULL;
    if (charge_ports(engine, &charge, config->ports.count, false, reterr) < 0) {
        charge_give_all(engine, &charge);
        return NULL;
    }
    struct sandbox *sandbox = sandbox_new(engine, json_string_value(json_object_get(request->params, "id")), reterr);
    if (!sandbox) {
        charge_give_all(engine, &charge);
        return NULL;
    }
    sandbox->charge = charge;
    toolchain_hold(&sandbox->toolchain, toolchain);
    return sandbox;
}

void engine_create(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox_config config = {0};
    struct create_job *create = calloc(1, sizeof *create);
    struct sandbox *sandbox = NULL;
    if (!create)
        error_set(&error, E_NO_MEMORY, "no memory for a request");
    else
        sandbox = make(engine, request, &config, &error);
    if (!sandbox) {
        sandbox_config_free(&config);
        free(create);
        answer_error(engine, request, &error, NULL);
        return;
    }
    create_timing_begin(&sandbox->tree.timing);
    sandbox->config = config;
    sandbox->owner = request->caller.uid;
    restart_policy_parse(config.restart ? config.restart : "never", &sandbox->restarts.policy);
    engine_event(engine, EVENT_STATUS, sandbox->id,
                 json_pack("{s:n, s:s}", "from", "to", status_name(STATUS_INITIALIZING)));
    create->project.fd = -1;
    create->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = call_off};
    steps_init(&create->steps, &create_plan, create);
    job_submit(&create->job);
}
