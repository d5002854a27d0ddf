#include "core/jobs/oneshot.h"

#include <stddef.h>
#include <stdio.h>

/* ---- beginning and ending ---- */

/* With one more. */
static struct share share_of(const struct engine *engine, uid_t uid) {
    struct share share = {.all = ERRANDS_MAX, .used = 1, .own = 1};
    for (const struct errand *errand = engine->errands; errand; errand = errand->next) {
        share.used++;
        share.own += errand->uid == uid;
    }
    return share;
}

static int check(const struct engine *engine, const struct request *request, struct error *reterr) {
    struct quotas *quotas = engine->config.quotas;
    uid_t uid = request->caller.uid;
    struct share share = share_of(engine, uid);
    if (engine->closing) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (!engine->ready) return error_set(reterr, E_LAUNCHER, "the service is still starting");
    if (!quotas_is_fair(quotas, uid, &share))
        return error_set(
            reterr, E_LIMIT,
            "%d compilations and the like are under way, %d of them for this user, and no more are begun for it",
            (int)share.used - 1, (int)share.own - 1);
    return quotas_take(quotas, uid, QUOTA_PROJECTS, 1, reterr);
}

static void call_off(struct errand *errand, const struct error *why) {
    if (errand->why.code != E_NONE) return;
    errand->why = *why;
    atomic_store(&errand->call_off, true);
    if (errand->compile) compile_abort(errand->compile);
    if (errand->waiting) errand->waiting(errand);
}

static void on_cancel(struct request *request) {
    struct error error;
    error_set(&error, E_TIMEOUT, "the caller has gone");
    call_off(request->state, &error);
}

struct errand *errand_begin(struct engine *engine, struct request *request, size_t size) {
    struct error error;
    struct errand *errand = NULL;
    if (check(engine, request, &error) == 0) {
        errand = calloc(1, size);
        if (!errand) abort(); /* as in answers.c */
    }
    if (!errand) {
        answer_error(engine, request, &error, NULL);
        return NULL;
    }
    errand->engine = engine;
    errand->request = request;
    errand->uid = request->caller.uid;
    errand->next = engine->errands;
    engine->errands = errand;
    request->state = errand;
    request->cancel = on_cancel;
    return errand;
}

static void end(struct errand *errand) {
    struct engine *engine = errand->engine;
    struct errand **at = &engine->errands;
    while (*at != errand) at = &(*at)->next;
    *at = errand->next;
    quotas_give(engine->config.quotas, errand->uid, QUOTA_PROJECTS, 1);
    if (errand->token[0]) link_release_project(engine->host.link, errand->token);
    compile_turn_give(&errand->turn);
    json_decref(errand->report);
    free(errand);
    sweep_if_due(engine);
}

void errand_answer(struct errand *errand, json_t *result) {
    answer_ok(errand->engine, errand->request, result);
    end(errand);
}

void errand_fail(struct errand *errand, const struct error *error, json_t *result) {
    answer_error(errand->engine, errand->request, error, result);
    end(errand);
}

void errand_release(struct errand *errand) {
    errand->request->cancel = NULL;
    errand->request->state = NULL;
    end(errand);
}

void errands_call_off(struct engine *engine, const struct error *why) {
    struct errand *next;
    for (struct errand *errand = engine->errands; errand; errand = next) {
        next = errand->next; /* one that waits ends here */
        call_off(errand, why);
    }
}

/* Between two steps: whether it goes on. */
static bool ended_early(struct errand *errand, const struct error *error) {
    bool called_off = errand->why.code != E_NONE;
    if (called_off || error) errand_fail(errand, called_off ? &errand->why : error, NULL);
    return called_off || error;
}

/* ---- opening ---- */

static void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct errand *errand = data;
    if (!error) snprintf(errand->token, sizeof errand->token, "%s", project->token);
    if (!ended_early(errand, error)) errand->opened(errand, project);
    if (!error) fd_close(project->fd);
}

static void open_now(struct errand *errand) {
    if (errand->source)
        link_open_project(errand->engine->host.link, errand->request->caller.peer_fd, errand->source, on_project,
                          errand);
    else
        errand->opened(errand, NULL);
}

static void on_turn(struct compile_turn *turn, const struct error *error) {
    struct errand *errand = (struct errand *)((char *)turn - offsetof(struct errand, turn));
    errand->waiting = NULL;
    if (!ended_early(errand, error)) open_now(errand);
}

static void on_called_off(struct errand *errand) {
    errand_fail(errand, &errand->why, NULL);
}

static void on_toolchain(void *data, const struct error *error) {
    struct errand *errand = data;
    if (ended_early(errand, error)) return;
    if (!errand->compiles) {
        open_now(errand);
        return;
    }
    errand->waiting = on_called_off;
    compile_turn_take(errand->engine->compiler, errand->uid, &errand->turn, on_turn);
}

void errand_open(struct errand *errand, const char *path, errand_opened_fn *opened) {
    struct error error;
    errand->source = path;
    errand->opened = opened;
    if (errand->request->caller.peer_fd >= 0) {
        engine_need_toolchain(errand->engine, on_toolchain, errand);
        return;
    }
    error_set(&error, E_INVALID, "only callers on the unix socket may name a path of this host");
    errand_fail(errand, &error, NULL);
}

void errand_open_to_compile(struct errand *errand, const char *path, errand_opened_fn *opened) {
    errand->compiles = true;
    errand_open(errand, path, opened);
}

void errand_prepare_to_compile(struct errand *errand, errand_opened_fn *opened) {
    errand->compiles = true;
    errand->opened = opened;
    engine_need_toolchain(errand->engine, on_toolchain, errand);
}

/* ---- compiling ---- */

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct errand *errand = data;
    errand->compile = NULL;
    errand->report = report;
    errand->compiles = false;
    compile_turn_give(&errand->turn);
    if (errand->why.code != E_NONE)
        errand_fail(errand, &errand->why, NULL);
    else if (error)
        errand_fail(errand, error, take_ptr(errand->report));
    else
        errand->compiled(errand, digest);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct errand *errand = data;
    alarm_violation_of(errand->engine, &errand->engine->errand_alarms, errand->request->caller.uid, node, what, detail);
}

void errand_compile(struct errand *errand, const struct link_project *project, errand_compiled_fn *compiled) {
    struct engine *engine = errand->engine;
    struct compile_request request = {
        .compiler = engine->compiler,
        .subject = "",
        .project = project,
        .owner = errand->request->caller.uid,
        .source = errand->source,
        .has_turn = true,
        .deadline_ms = engine->config.compile_deadline_ms,
        .violation = on_violation,
    };
    errand->compiled = compiled;
    errand->compile = compile_start(&request, on_compiled, errand);
}

/* ---- the thread pool ---- */

static void do_work(uv_work_t *work) {
    struct errand *errand = work->data;
    errand->run(errand, &errand->work_error);
}

static void on_worked(uv_work_t *work, int status) {
    struct errand *errand = work->data;
    (void)status;
    errand->worked(errand, errand->work_error.code != E_NONE ? &errand->work_error : NULL);
}

void errand_work(struct errand *errand, int (*run)(struct errand *errand, struct error *reterr),
                 errand_worked_fn *worked) {
    errand->run = run;
    errand->worked = worked;
    errand->work.data = errand;
    host_work(&errand->engine->host, errand->request->caller.uid, &errand->work, do_work, on_worked);
}
