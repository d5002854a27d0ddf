/* The steps that one-shot jobs share: begin, open the path, compile, work on the thread pool, answer. */
#include "core/jobs/oneshot.h"
#include "core/sandbox/sandbox.h"
#include "core/toolchains/own.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- beginning and ending ---- */

/* With one more. */
static struct share share_of(const struct engine *engine, uid_t uid) {
    const struct quotas *quotas = engine->config.quotas;
    struct share share = {.all = ONESHOTS_MAX, .used = 1, .own = 1};
    for (const struct oneshot *oneshot = engine->oneshots.first; oneshot; oneshot = oneshot->next) {
        share.used++;
        share.own += quotas_principal(quotas, oneshot->uid) == quotas_principal(quotas, uid);
    }
    return share;
}

static int check(const struct engine *engine, const struct request *request, struct error *reterr) {
    struct quotas *quotas = engine->config.quotas;
    uid_t uid = request->caller.uid;
    struct share share = share_of(engine, uid);
    if (engine->closing.is_begun) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (!engine->ready) return error_set(reterr, E_LAUNCHER, "the service is still starting");
    if (!quotas_is_fair(quotas, uid, &share))
        return error_set(
            reterr, E_LIMIT,
            "%d compilations and the like are under way, %d of them for this user, and no more are begun for it",
            (int)share.used - 1, (int)share.own - 1);
    struct compile_bounds bounds = {0};
    compile_bounds_take(request->params, &bounds);
    int result = compile_bounds_check(engine, &bounds, reterr);
    return result < 0 ? result : quotas_take(quotas, uid, QUOTA_PROJECTS, 1, reterr);
}

static void call_off(struct oneshot *oneshot, const struct error *why) {
    if (oneshot->why.code != E_NONE) return;
    oneshot->why = *why;
    atomic_store(&oneshot->call_off, true);
    if (oneshot->compile) compile_abort(oneshot->compile);
    if (oneshot->waiting) oneshot->waiting(oneshot);
}

static void on_cancel(struct request *request) {
    struct error error;
    error_set(&error, E_TIMEOUT, "the caller has gone");
    call_off(request->state, &error);
}

struct oneshot *oneshot_begin(struct engine *engine, struct request *request, size_t size) {
    struct error error;
    struct oneshot *oneshot = NULL;
    struct toolchain_entry *toolchain = toolchains_default(engine); /* until it is chosen */
    const char *name = json_string_value(json_object_get(request->params, "toolchain"));
    bool is_own = name && own_manager_of(name) < OWN_MANAGERS;
    if ((is_own || toolchains_find(engine, name, &toolchain, &error) == 0) && check(engine, request, &error) == 0)
        oneshot = zeroed_or_abort(1, size);
    if (!oneshot) {
        answer_error(engine, request, &error, NULL);
        return NULL;
    }
    oneshot->engine = engine;
    oneshot->project.fd = -1;
    toolchain_hold(&oneshot->toolchain, toolchain);
    oneshot->request = request;
    oneshot->uid = oneshot->reads_of = request->caller.uid;
    oneshot->next = engine->oneshots.first;
    engine->oneshots.first = oneshot;
    request->state = oneshot;
    request->cancel = on_cancel;
    return oneshot;
}

static void end(struct oneshot *oneshot) {
    struct engine *engine = oneshot->engine;
    struct oneshot **at = &engine->oneshots.first;
    while (*at != oneshot) at = &(*at)->next;
    *at = oneshot->next;
    quotas_give(engine->config.quotas, oneshot->uid, QUOTA_PROJECTS, 1);
    if (oneshot->token[0]) link_release_project(engine->host.link, oneshot->token);
    withs_release(&oneshot->withs);
    compile_turn_give(&oneshot->turn);
    toolchain_hold(&oneshot->toolchain, NULL);
    json_decref(oneshot->report);
    free(oneshot);
    sweep_if_due(engine);
}

void oneshot_answer(struct oneshot *oneshot, json_t *result) {
    answer_ok(oneshot->engine, oneshot->request, result);
    end(oneshot);
}

void oneshot_fail(struct oneshot *oneshot, const struct error *error, json_t *result) {
    answer_error(oneshot->engine, oneshot->request, error, result);
    end(oneshot);
}

void oneshot_release(struct oneshot *oneshot) {
    oneshot->request->cancel = NULL;
    oneshot->request->state = NULL;
    end(oneshot);
}

void oneshots_call_off(struct engine *engine, const struct error *why) {
    struct oneshot *next;
    for (struct oneshot *oneshot = engine->oneshots.first; oneshot; oneshot = next) {
        next = oneshot->next; /* one that waits ends here */
        call_off(oneshot, why);
    }
}

/* Between two steps: whether it goes on. */
static bool ended_early(struct oneshot *oneshot, const struct error *error) {
    bool called_off = oneshot->why.code != E_NONE;
    if (called_off || error) oneshot_fail(oneshot, called_off ? &oneshot->why : error, NULL);
    return called_off || error;
}

/* ---- opening, and choosing the toolchain by what was opened ---- */

static void on_chosen(struct toolchain_choice *choice, const struct error *error) {
    struct oneshot *oneshot = choice->data;
    bool has_project = oneshot->project.fd >= 0;
    int fd = take_fd(&oneshot->project.fd);
    if (!error) toolchain_hold(&oneshot->toolchain, choice->entry);
    toolchain_hold(&choice->entry, NULL);
    struct link_project project = oneshot->project;
    project.fd = fd;
    char file_name[sizeof oneshot->file_name], token[sizeof oneshot->token];
    memcpy(file_name, oneshot->file_name, sizeof file_name);
    memcpy(token, oneshot->token, sizeof token);
    project.name = file_name;
    project.token = token;
    if (!ended_early(oneshot, error)) oneshot->opened(oneshot, has_project ? &project : NULL);
    fd_close(fd);
}

static void choose(struct oneshot *oneshot, const struct link_project *project) {
    const struct request *request = oneshot->request;
    oneshot->choice = (struct toolchain_choice){
        .engine = oneshot->engine,
        .caller = &request->caller,
        .name = json_string_value(json_object_get(request->params, "toolchain")),
        .home = json_string_value(json_object_get(request->params, "user_home")),
        .done = on_chosen,
        .data = oneshot,
    };
    toolchain_choose(&oneshot->choice, project);
}

static void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct oneshot *oneshot = data;
    if (!error) snprintf(oneshot->token, sizeof oneshot->token, "%s", project->token);
    if (ended_early(oneshot, error)) {
        if (!error) fd_close(project->fd);
        return;
    }
    snprintf(oneshot->file_name, sizeof oneshot->file_name, "%s", project->name ? project->name : "");
    oneshot->project = *project;
    choose(oneshot, project);
}

static void on_withs(void *data, const struct error *error) {
    struct oneshot *oneshot = data;
    if (!ended_early(oneshot, error))
        link_open_project(oneshot->engine->host.link, oneshot->request->caller.peer_fd, oneshot->source, on_project,
                          oneshot);
}

static void open_now(struct oneshot *oneshot) {
    json_t *paths = oneshot->compiles ? json_object_get(oneshot->request->params, "with") : NULL;
    if (oneshot->source && paths)
        withs_open(&oneshot->withs, oneshot->engine, &oneshot->request->caller, paths, on_withs, oneshot);
    else if (oneshot->source)
        link_open_project(oneshot->engine->host.link, oneshot->request->caller.peer_fd, oneshot->source, on_project,
                          oneshot);
    else
        choose(oneshot, NULL);
}

static void on_turn(struct compile_turn *turn, const struct error *error) {
    struct oneshot *oneshot = (struct oneshot *)((char *)turn - offsetof(struct oneshot, turn));
    oneshot->waiting = NULL;
    if (!ended_early(oneshot, error)) open_now(oneshot);
}

static void on_called_off(struct oneshot *oneshot) {
    oneshot_fail(oneshot, &oneshot->why, NULL);
}

static void begin(struct oneshot *oneshot) {
    if (!oneshot->compiles) {
        open_now(oneshot);
        return;
    }
    oneshot->waiting = on_called_off;
    compile_turn_take(oneshot->engine->compiler, oneshot->uid, &oneshot->turn, on_turn);
}

void oneshot_open(struct oneshot *oneshot, const char *path, oneshot_opened_fn *opened) {
    struct error error;
    oneshot->source = path;
    oneshot->opened = opened;
    if (oneshot->request->caller.peer_fd >= 0) {
        begin(oneshot);
        return;
    }
    error_set(&error, E_INVALID, "only callers on the unix socket may name a path of this host");
    oneshot_fail(oneshot, &error, NULL);
}

void oneshot_open_to_compile(struct oneshot *oneshot, const char *path, oneshot_opened_fn *opened) {
    oneshot->compiles = true;
    oneshot_open(oneshot, path, opened);
}

void oneshot_prepare_to_compile(struct oneshot *oneshot, oneshot_opened_fn *opened) {
    oneshot->compiles = true;
    oneshot->opened = opened;
    begin(oneshot);
}

/* ---- compiling ---- */

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct oneshot *oneshot = data;
    oneshot->compile = NULL;
    oneshot->report = report;
    oneshot->compiles = false;
    compile_turn_give(&oneshot->turn);
    if (oneshot->why.code != E_NONE)
        oneshot_fail(oneshot, &oneshot->why, NULL);
    else if (error)
        oneshot_fail(oneshot, error, take_ptr(oneshot->report));
    else
        oneshot->compiled(oneshot, digest);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct oneshot *oneshot = data;
    alarm_violation_of(oneshot->engine, &oneshot->engine->oneshots.alarms, oneshot->request->caller.uid, node, what,
                       detail);
}

void oneshot_compile(struct oneshot *oneshot, const struct link_project *project, oneshot_compiled_fn *compiled) {
    struct engine *engine = oneshot->engine;
    struct compile_request request = {
        .compiler = engine->compiler,
        .toolchain = &oneshot->toolchain->toolchain,
        .subject = "",
        .project = project,
        .owner = oneshot->request->caller.uid,
        .source = oneshot->source,
        .withs = oneshot->withs.opened,
        .with_count = oneshot->withs.count,
        .mix_env = json_string_value(json_object_get(oneshot->request->params, "mix_env")),
        .has_turn = true,
        .violation = on_violation,
    };
    struct compile_bounds bounds = {0};
    compile_bounds_take(oneshot->request->params, &bounds);
    compile_bounds_apply(engine, &bounds, &request);
    oneshot->compiled = compiled;
    oneshot->compile = compile_start(&request, on_compiled, oneshot);
}

/* ---- the thread pool ---- */

static void do_work(uv_work_t *work) {
    struct oneshot *oneshot = work->data;
    oneshot->run(oneshot, &oneshot->work_error);
}

static void on_worked(uv_work_t *work, int status) {
    struct oneshot *oneshot = work->data;
    (void)status;
    oneshot->worked(oneshot, oneshot->work_error.code != E_NONE ? &oneshot->work_error : NULL);
}

void oneshot_work(struct oneshot *oneshot, int (*run)(struct oneshot *oneshot, struct error *reterr),
                  oneshot_worked_fn *worked) {
    oneshot->run = run;
    oneshot->worked = worked;
    oneshot->work.data = oneshot;
    host_work(&oneshot->engine->host, oneshot->request->caller.uid, &oneshot->work, do_work, on_worked);
}
