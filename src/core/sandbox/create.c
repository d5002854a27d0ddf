/* create: open the project with the caller's rights, compile it, jail it, start it. What fails leaves no sandbox. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/policy/containment.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/watch/watching.h"

enum { SANDBOXES_KEPT_FREE = 32 }; /* for those whom no quota binds */

enum stage {
    STAGE_WAITING,
    STAGE_TOOLCHAIN,
    STAGE_TURN, /* it waits for one among its owner's compilations */
    STAGE_PROJECT,
    STAGE_COMPILE,
    STAGE_SCAN,
    STAGE_START,
    STAGE_SAVE,
    STAGE_FAILING
};

struct create_job {
    struct job job;
    enum stage stage;
    struct compile_turn turn;
    struct compile_job *compile;
    char token[64];
    bool aborted;
    struct error error;
    json_t *report;

    uv_work_t work; /* the scan */
    char build[PATH_MAX];
    atomic_bool call_off;
    json_t *scan;
    struct error scan_error;
};

struct sandbox_owner {
    struct engine *engine;
    uid_t uid;
};

static struct engine *engine_of(struct create_job *create) {
    return create->job.sandbox->engine;
}

/* The sandbox's exclusive job is the one being created. */
static struct create_job *create_of(struct sandbox *sandbox) {
    return (struct create_job *)sandbox->jobs;
}

/* ---- failing ---- */

static void on_failed_ended(struct sandbox *sandbox) {
    struct create_job *create = create_of(sandbox);
    struct engine *engine = sandbox->engine;
    if (!sandbox->destroying) sandbox->destroying = sandbox->stillborn = true;
    engine_event(engine, EVENT_CREATE_FAILED, sandbox->id, problem_json(&create->error));
    answer_error(engine, create->job.request, &create->error, take_ptr(create->report));
    if (create->token[0]) link_release_project(engine->host.link, create->token);
    jobs_abort_all(sandbox, &create->error); /* those that waited for it */
    job_finish(&create->job);
    free(create);
}

static void fail(struct create_job *create, const struct error *error) {
    if (create->error.code == E_NONE) create->error = *error;
    create->stage = STAGE_FAILING;
    compile_turn_give(&create->turn);
    tree_end(create->job.sandbox, on_failed_ended);
}

/* Between two steps: whether someone has called it off. */
static bool called_off(struct create_job *create) {
    if (create->aborted) fail(create, &create->error);
    return create->aborted;
}

static void on_abort(struct job *job, const struct error *why) {
    struct create_job *create = (struct create_job *)job;
    if (create->aborted || create->stage == STAGE_FAILING) return;
    create->aborted = true;
    create->error = *why;
    atomic_store(&create->call_off, true);
    if (create->stage == STAGE_COMPILE)
        compile_abort(create->compile);
    else if (create->stage == STAGE_START || create->stage == STAGE_WAITING || create->stage == STAGE_TURN)
        fail(create, why);
}

/* ---- the steps, last first ---- */

static void tell_timing(struct create_job *create, json_t *result) {
    struct sandbox *sandbox = create->job.sandbox;
    if (!json_is_true(json_object_get(create->job.request->params, "timing"))) return;
    create_timing_mark(&sandbox->timing, CREATE_SAVED);
    json_t *timing = create_timing_to_json(&sandbox->timing);
    json_object_set_new(timing, "node", json_string(sandbox->is_warm ? "warm" : "booted"));
    json_object_set_new(result, "timing", timing);
}

static void finish_created(struct create_job *create) {
    struct sandbox *sandbox = create->job.sandbox;
    struct engine *engine = sandbox->engine;
    if (sandbox->destroying && called_off(create)) return; /* otherwise it is whole, and stays */
    sandbox_start_ttl(sandbox);
    engine_event(engine, EVENT_CREATED, sandbox->id,
                 json_pack("{s:s, s:s}", "source", sandbox->config.source, "profile", sandbox->config.profile->name));
    json_t *result = sandbox_to_json(sandbox);
    json_object_set_new(result, "compilation", take_ptr(create->report));
    tell_timing(create, result);
    answer_ok(engine, create->job.request, result);
    if (sandbox->config.watch) watching_begin(sandbox);
    job_finish(&create->job);
    free(create);
}

/* Without the permission it is watched no less than without the source: watching says so. */
static void on_granted(void *data, const struct error *error) {
    (void)error;
    finish_created(data);
}

static void on_saved(void *data, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    if (error) {
        sandbox->persistent = false;
        fail(create, error);
    } else if (sandbox->config.watch) {
        link_grant(engine_of(create)->host.link, create->job.request->caller.peer_fd, sandbox->id,
                   sandbox->config.source, on_granted, create);
    } else {
        finish_created(create);
    }
}

static void on_started(struct sandbox *sandbox, const struct error *error) {
    struct create_job *create = create_of(sandbox);
    if (error) {
        fail(create, error);
        return;
    }
    create->stage = STAGE_SAVE;
    create_timing_mark(&sandbox->timing, CREATE_STARTED);
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    sandbox_save(sandbox, on_saved, create);
}

static void start_tree(struct create_job *create) {
    struct sandbox *sandbox = create->job.sandbox;
    create_timing_mark(&create->job.sandbox->timing, CREATE_SCANNED);
    create->stage = STAGE_START;
    sandbox_set_status(sandbox, STATUS_STARTING, NULL);
    tree_start(sandbox, on_started);
}

static void scan(uv_work_t *work) {
    struct create_job *create = work->data;
    const struct guard_profile *profile = guard_profile_of(create->job.sandbox->config.profile);
    containment_scan_build(profile, create->build, &create->call_off, &create->scan, &create->scan_error);
}

static void on_scanned(uv_work_t *work, int status) {
    struct create_job *create = work->data;
    struct sandbox *sandbox = create->job.sandbox;
    (void)status;
    if (create->scan) json_object_set_new(create->report, "scan", create->scan);
    if (called_off(create)) return;
    if (create->scan_error.code == E_NONE) {
        containment_remember_scan(sandbox->engine, guard_profile_of(sandbox->config.profile), sandbox->build.digest,
                                  create->scan);
        start_tree(create);
        return;
    }
    if (create->scan_error.code == E_POLICY) containment_refused(sandbox, &create->scan_error);
    fail(create, &create->scan_error);
}

/* What was compiled is scanned before any of it runs. */
static int begin_scan(struct create_job *create, struct error *reterr) {
    struct sandbox *sandbox = create->job.sandbox;
    const struct guard_profile *profile = guard_profile_of(sandbox->config.profile);
    json_t *known = containment_known_scan(sandbox->engine, profile, sandbox->build.digest);
    if (known) {
        json_object_set_new(create->report, "scan", known);
        start_tree(create);
        return 0;
    }
    int result = store_build_path(sandbox->engine->store, sandbox->build.digest, create->build, PATH_MAX, reterr);
    if (result < 0) return result;
    create->stage = STAGE_SCAN;
    create->work.data = create;
    host_work(&sandbox->engine->host, sandbox->owner, &create->work, scan, on_scanned);
    return 0;
}

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    struct error problem;
    struct compile_job *compile = take_ptr(create->compile);
    create->report = report;
    link_release_project(engine_of(create)->host.link, create->token);
    create->token[0] = '\0';
    compile_turn_give(&create->turn);
    charge_give(sandbox->engine, &sandbox->charge, QUOTA_PROJECTS);
    if (error) {
        fail(create, error);
        return;
    }
    snprintf(sandbox->build.digest, sizeof sandbox->build.digest, "%s", digest);
    sandbox->build.facts = compile_take_facts(compile);
    if (called_off(create)) return;
    create_timing_mark(&sandbox->timing, CREATE_COMPILED);
    if (guard_profile_of(sandbox->config.profile)->scan == GUARD_SCAN_OFF)
        start_tree(create);
    else if (begin_scan(create, &problem) < 0)
        fail(create, &problem);
}

static void on_compiler_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct create_job *create = data;
    tree_violation(create->job.sandbox, node, what, detail);
}

static void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    if (error) {
        fail(create, error);
        return;
    }
    create_timing_mark(&sandbox->timing, CREATE_OPENED);
    snprintf(create->token, sizeof create->token, "%s", project->token);
    if (!called_off(create)) {
        struct compile_request request = {
            .compiler = sandbox->engine->compiler,
            .project = project,
            .owner = sandbox->owner,
            .subject = sandbox->id,
            .source = sandbox->config.source,
            .has_turn = true,
            .deadline_ms = sandbox->engine->config.compile_deadline_ms,
            .violation = on_compiler_violation,
        };
        create->stage = STAGE_COMPILE;
        sandbox_set_status(sandbox, STATUS_COMPILING, NULL);
        create->compile = compile_start(&request, on_compiled, create);
    }
    fd_close(project->fd);
}

static void on_turn(struct compile_turn *turn, const struct error *error) {
    struct create_job *create = (struct create_job *)((char *)turn - offsetof(struct create_job, turn));
    const struct request *request = create->job.request;
    if (error) {
        fail(create, error);
        return;
    }
    create->stage = STAGE_PROJECT;
    link_open_project(engine_of(create)->host.link, request->caller.peer_fd, create->job.sandbox->config.source,
                      on_project, create);
}

/* The project is opened when it can be compiled: the launcher has few entries for all users. */
static void on_toolchain(void *data, const struct error *error) {
    struct create_job *create = data;
    struct sandbox *sandbox = create->job.sandbox;
    if (error) fail(create, error);
    if (error || called_off(create)) return;
    create->stage = STAGE_TURN;
    compile_turn_take(sandbox->engine->compiler, sandbox->owner, &create->turn, on_turn);
}

static void start(struct job *job) {
    struct create_job *create = (struct create_job *)job;
    create->stage = STAGE_TOOLCHAIN;
    engine_need_toolchain(engine_of(create), on_toolchain, create);
}

/* ---- checking what was asked for ---- */

static int check_required(const struct engine *engine, const struct jail_profile *profile, json_t *names,
                          struct error *reterr) {
    uint32_t given = jail_guarantees_of(&engine->host.features, profile);
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) {
        enum jail_guarantee guarantee;
        if (jail_guarantee_find(json_string_value(name), &guarantee) < 0)
            return error_set(reterr, E_INVALID, "there is no guarantee '%.60s'; `sandbox doctor` lists them",
                             json_string_value(name));
        if (!(given & 1u << guarantee))
            return error_set(reterr, E_GUARANTEE, "this host can't give the guarantee '%s' (%s)",
                             json_string_value(name), jail_guarantee_meaning(guarantee));
    }
    return 0;
}

/* Whoever may connect runs without it too, and is told; whoever lists hosts has something to reach. */
static int check_way_out(const struct engine *engine, const struct jail_profile *profile, struct error *reterr) {
    const struct jail_egress *egress = &profile->egress;
    bool has_hosts = profile->network == JAIL_NETWORK_OUTGOING && egress->host_count + egress->name_count > 0;
    if (!has_hosts || engine->host.features.guarantees & 1u << JAIL_GUARANTEE_EGRESS) return 0;
    return error_set(
        reterr, E_GUARANTEE,
        "the profile '%s' lists hosts to reach, and there is no way out of a sandbox here: %s, or choose a "
        "profile that lists none",
        profile->name,
        engine->host.features.root ? "install slirp4netns, and see that the kernel has nftables and "
                                     "/dev/net/tun"
                                   : "it takes rights that root alone has; start the service as root");
}

static bool is_in_group(void *data, gid_t gid) {
    const struct sandbox_owner *owner = data;
    return quotas_in_group(owner->engine->config.quotas, owner->uid, gid);
}

static int check_access(struct engine *engine, const struct caller *caller, const struct jail_profile *profile,
                        struct error *reterr) {
    struct sandbox_owner owner = {engine, caller->uid};
    if (caller->role == ROLE_ADMIN) return 0;
    if (guard_access_allows(&guard_profile_of(profile)->access, caller->uid, is_in_group, &owner)) return 0;
    return error_set(reterr, E_FORBIDDEN,
                     "the profile '%s' is for certain users and groups, and uid %u is none of them; `sandbox profiles` "
                     "shows whom each is for",
                     profile->name, caller->uid);
}

static int check_room(const struct engine *engine, const struct caller *caller, struct error *reterr) {
    uint64_t max = quotas_share(engine->config.quotas, caller->uid, engine->config.sandboxes_max, SANDBOXES_KEPT_FREE);
    if (engine->sandboxes.count < max) return 0;
    return error_set(reterr, E_LIMIT, "there are %zu sandboxes already, as many as this service takes",
                     engine->sandboxes.count);
}

static int check(struct engine *engine, struct request *request, struct sandbox_config *config, struct error *reterr) {
    if (engine->closing) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (!engine->ready) return error_set(reterr, E_LAUNCHER, "the service is still starting");
    if (map_get(&engine->sandboxes, json_string_value(json_object_get(request->params, "id"))))
        return error_set(reterr, E_EXISTS, "there is a sandbox '%s' already; destroy it first, or choose another id",
                         json_string_value(json_object_get(request->params, "id")));
    int result = check_room(engine, &request->caller, reterr);
    if (result < 0) return result;
    if (request->caller.peer_fd < 0)
        return error_set(reterr, E_INVALID, "only callers on the unix socket may name a path of this host");
    result = sandbox_config_from_json(&engine->profiles, request->params, config, reterr);
    if (result == 0) result = check_access(engine, &request->caller, config->profile, reterr);
    if (result == 0)
        result = check_required(engine, config->profile, json_object_get(request->params, "require"), reterr);
    if (result == 0) result = check_way_out(engine, config->profile, reterr);
    return result;
}

/* In the map and charged, or not at all. */
static struct sandbox *make(struct engine *engine, struct request *request, struct sandbox_config *config,
                            struct error *reterr) {
    struct charge charge;
    if (check(engine, request, config, reterr) < 0) return NULL;
    if (charge_create(engine, request->caller.uid, &config->limits, &charge, reterr) < 0) return NULL;
    struct sandbox *sandbox = sandbox_new(engine, json_string_value(json_object_get(request->params, "id")), reterr);
    if (sandbox)
        sandbox->charge = charge;
    else
        charge_give_all(engine, &charge);
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
    create_timing_begin(&sandbox->timing);
    sandbox->config = config;
    sandbox->owner = request->caller.uid;
    restart_policy_parse(config.restart ? config.restart : "never", &sandbox->policy);
    engine_event(engine, EVENT_STATUS, sandbox->id,
                 json_pack("{s:n, s:s}", "from", "to", status_name(STATUS_INITIALIZING)));
    create->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = on_abort};
    job_submit(&create->job);
}
