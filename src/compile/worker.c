/* Compiler nodes: started, warmed up, lent to one compilation after another, kept while idle, ended. */
#include "compile/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/compile_internal.h"

enum {
    SPARES_MAX = 3, /* of all toolchains together */
    WARM_UP_DEADLINE_MS = 30000,
    END_PATIENCE_MS = 1000,
    SPARE_WEIGHT_PERCENT = 2, /* of the CPU, beside workers with a user */
};

/* ---- what it has ---- */

static bool module_key(const char *app, const char *module, char ret[512]) {
    int length = snprintf(ret, 512, "%s/%s", app, module);
    return length > 0 && length < 512;
}

void worker_set_module(struct worker *worker, const char *app, const char *module, const char *checksum) {
    char key[512];
    if (!module_key(app, module, key)) return;
    free(map_remove(&worker->modules, key));
    char *copy = checksum ? strdup(checksum) : NULL;
    if (copy && !map_set(&worker->modules, key, copy)) free(copy);
}

const char *worker_module(const struct worker *worker, const char *app, const char *module) {
    char key[512];
    return module_key(app, module, key) ? map_get(&worker->modules, key) : NULL;
}

static void free_modules(struct map *modules) {
    size_t at = 0;
    void *checksum;
    while (map_next(modules, &at, NULL, &checksum)) free(checksum);
    map_free(modules);
}

/* ---- its life ---- */

static void release_worker(void *data) {
    struct worker *worker = data;
    model_free(&worker->model);
    free_modules(&worker->modules);
    free(worker);
}

static void on_closed(uv_handle_t *handle) {
    struct worker *worker = handle->data;
    struct compiler *compiler = worker->compiler;
    loop_note(handle->loop, "compiler node", "its end");
    struct worker **at = &compiler->workers;
    while (*at != worker) at = &(*at)->next;
    *at = worker->next;
    loop_discard(compiler->host->loop, release_worker, worker);
    compiler->wake(compiler->wake_data);
}

static void on_gone(void *data, struct node *node, const struct node_end *end) {
    (void)node;
    struct worker *worker = data;
    worker->node = NULL;
    quotas_give(worker->compiler->settings.quotas, worker->owner, QUOTA_MEMORY, worker->charged_bytes);
    worker->charged_bytes = 0;
    worker->is_ending = true;
    compiler_worker_gone(worker->compiler, worker);
    if (worker->user)
        worker->user->gone(worker->user_data, &end->error);
    else
        uv_close((uv_handle_t *)&worker->idle, on_closed);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct worker *worker = data;
    worker->is_doubtful = true;
    if (!worker->user)
        worker_kill(worker, "it tried what is refused while it had nothing to do");
    else if (worker->user->violation)
        worker->user->violation(worker->user_data, node, what, detail);
}

static void tell_ready(struct worker *worker) {
    worker->is_ready = true;
    if (worker->user && !worker->is_being_weighted) worker->user->ready(worker->user_data, worker);
}

/* A spare that can't compile is none. A user that has taken it already sees whether it can: its own project is another.
 */
static void on_warmed_up(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct worker *worker = data;
    (void)result, (void)reason;
    if (worker->is_ending) return;
    if (error && (!worker->user || error->code == E_TIMEOUT))
        worker_kill(worker, "it could not be warmed up");
    else
        tell_ready(worker);
}

static void on_ready(void *data, struct node *node) {
    struct worker *worker = data;
    struct buf args = BUF_INIT;
    if (worker->is_ready || worker->is_ending) {
        worker->is_doubtful = true; /* it greets again: its connection broke */
        if (!worker->user) worker_kill(worker, "its connection broke");
        return;
    }
    if (!worker->is_spare) {
        tell_ready(worker);
        return;
    }
    struct term_map map = term_map_begin(&args);
    term_map_bool(&map, "elixir", worker->toolchain->elixir_lib[0] != '\0');
    term_map_end(&map);
    node_call(node, "warm_up", &args, WARM_UP_DEADLINE_MS, on_warmed_up, worker);
}

uint64_t worker_default_memory(void) {
    return jail_profile_find("compiler")->limits.memory_bytes;
}

static struct jail_limits limits_of(uint64_t memory_bytes) {
    struct jail_limits limits = jail_profile_find("compiler")->limits;
    limits.memory_bytes = memory_bytes;
    return limits;
}

static struct worker *start(struct compiler *compiler, const struct toolchain *toolchain, uint64_t memory_bytes,
                            bool is_spare, struct error *reterr) {
    static const struct node_handler handler = {.ready = on_ready, .violation = on_violation, .gone = on_gone};
    struct node_spec spec = {.kind = NODE_COMPILER,
                             .toolchain = toolchain,
                             .profile = jail_profile_find("compiler"),
                             .limits = limits_of(memory_bytes)};
    struct worker *worker = new_or_abort(struct worker);
    if (is_spare) spec.limits.cpu_weight_percent = SPARE_WEIGHT_PERCENT;
    *worker = (struct worker){
        .compiler = compiler, .toolchain = toolchain, .memory_bytes = memory_bytes, .is_spare = is_spare};
    toolchain_find_rebar3(toolchain, &worker->rebar3);
    if (node_start(compiler->host, &spec, &handler, worker, &worker->node, reterr) < 0) {
        free(worker);
        return NULL;
    }
    uv_timer_init(compiler->host->loop, &worker->idle);
    worker->idle.data = worker;
    worker->next = compiler->workers;
    compiler->workers = worker;
    return worker;
}

void worker_kill(struct worker *worker, const char *why) {
    if (worker->is_ending) return;
    worker->is_ending = true;
    uv_timer_stop(&worker->idle);
    node_kill(worker->node, why);
}

/* ---- spares ---- */

static bool is_spare(const struct worker *worker) {
    return worker->is_spare && !worker->is_ending;
}

static struct worker *find_spare(const struct compiler *compiler, const struct toolchain *toolchain) {
    for (struct worker *worker = compiler->workers; worker; worker = worker->next)
        if (is_spare(worker) && worker->toolchain == toolchain) return worker;
    return NULL;
}

/* Spares of toolchains that were not used lately go first. */
static void bound_spares(struct compiler *compiler) {
    unsigned count = 0;
    for (struct worker *worker = compiler->workers; worker; worker = worker->next)
        if (is_spare(worker) && ++count > SPARES_MAX) worker_kill(worker, "other toolchains are used more");
}

void worker_refill(struct compiler *compiler, const struct toolchain *toolchain) {
    /* A user's own gets none: spares are few, and all users share them. */
    if (compiler->quiescing || compiler->settings.spares == 0 || toolchain->is_own || find_spare(compiler, toolchain))
        return;
    struct error ignored; /* the next job that needs a worker reports it */
    start(compiler, toolchain, worker_default_memory(), true, &ignored);
    bound_spares(compiler);
}

/* ---- using it ---- */

static void on_take_timer(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    if (worker->user && !worker->is_ending) worker->user->ready(worker->user_data, worker);
}

void worker_take_again(struct worker *worker, const struct worker_user *user, void *data) {
    uv_timer_stop(&worker->idle);
    worker->user = user;
    worker->user_data = data;
    worker->uses++;
    if (worker->is_ready && !worker->is_being_weighted) uv_timer_start(&worker->idle, on_take_timer, 0, 0);
}

/* One that keeps a spare's share of the CPU would hold up its user. */
static void on_weighted(void *data, const struct error *error) {
    struct worker *worker = data;
    worker->is_being_weighted = false;
    if (error)
        worker_kill(worker, error->detail);
    else if (worker->is_ready && worker->user && !worker->is_ending)
        worker->user->ready(worker->user_data, worker);
}

bool worker_is_outdated(const struct worker *worker) {
    struct toolchain_rebar3 now = {0};
    const struct toolchain_rebar3 *then = &worker->rebar3;
    toolchain_find_rebar3(worker->toolchain, &now);
    return now.size != then->size || now.modified_ns != then->modified_ns || strcmp(now.path, then->path) != 0;
}

/* A spare has the usual memory, and a small share of the CPU. */
static void fit(struct worker *worker, uint64_t memory_bytes) {
    struct jail_limits limits = limits_of(memory_bytes);
    worker->was_spare = worker->is_being_weighted = worker->is_spare;
    if (worker->is_spare) node_limit(worker->node, &limits, on_weighted, worker);
    worker->is_spare = false;
    worker->memory_bytes = memory_bytes;
}

struct worker *worker_take(struct compiler *compiler, const struct worker_needs *needs, const struct worker_user *user,
                           void *data, struct error *reterr) {
    struct quotas *quotas = compiler->settings.quotas;
    uint64_t usual = worker_default_memory(), more = needs->memory_bytes > usual ? needs->memory_bytes - usual : 0;
    struct worker *worker = find_spare(compiler, needs->toolchain);
    if (quotas_take(quotas, needs->owner, QUOTA_MEMORY, more, reterr) < 0) return NULL;
    if (worker && worker_is_outdated(worker)) {
        worker_kill(worker, "another rebar3 was installed");
        worker = NULL;
    }
    if (!worker) worker = start(compiler, needs->toolchain, needs->memory_bytes, false, reterr);
    if (!worker) {
        quotas_give(quotas, needs->owner, QUOTA_MEMORY, more);
        return NULL;
    }
    fit(worker, needs->memory_bytes);
    worker->owner = needs->owner;
    node_set_owner(worker->node, needs->owner);
    worker->charged_bytes = more;
    worker_take_again(worker, user, data);
    return worker;
}

static void on_idle_long(uv_timer_t *timer) {
    loop_note(timer->loop, "compiler node", "idle for long");
    worker_kill(timer->data, "nothing was compiled in it for a while");
}

static void on_end_overdue(uv_timer_t *timer) {
    worker_kill(timer->data, "it closed its control channel");
}

void worker_await_end(struct worker *worker) {
    uv_timer_start(&worker->idle, on_end_overdue, END_PATIENCE_MS, 0);
}

static bool is_idle(const struct worker *worker) {
    return !worker->user && !worker->is_spare && !worker->is_ending;
}

/* Of too many idle ones, that which was idle for the longest time goes. */
static void bound_idle(struct compiler *compiler) {
    size_t count = 0;
    struct worker *oldest = NULL;
    for (struct worker *worker = compiler->workers; worker; worker = worker->next) {
        if (!is_idle(worker)) continue;
        count++;
        if (!oldest || worker->idle_since_ms < oldest->idle_since_ms) oldest = worker;
    }
    if (oldest && count > compiler->settings.warm_max) worker_kill(oldest, "others were used since");
}

void worker_rest(struct worker *worker) {
    struct compiler *compiler = worker->compiler;
    worker->user = NULL;
    uv_timer_stop(&worker->idle);
    if (!worker->node) {
        uv_close((uv_handle_t *)&worker->idle, on_closed);
        return;
    }
    if (worker->is_doubtful || worker->uses >= WORKER_USES_MAX || compiler->quiescing)
        worker_kill(worker, "the compilation is over");
    if (worker->is_ending) return;
    worker->idle_since_ms = uv_now(compiler->host->loop);
    uv_timer_start(&worker->idle, on_idle_long, compiler->settings.idle_ms, 0);
    bound_idle(compiler);
}
