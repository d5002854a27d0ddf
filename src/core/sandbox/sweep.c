/* What no sandbox needs any more goes: builds, and the bytes of versions. At the start, and while it runs whenever so
   many builds were written: a project that is watched makes one with each save. */
#include <string.h>

#include "core/core_internal.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"

enum {
    BYTES_KEPT_S = 3600,     /* bytes may be kept a while before a history names them */
    UNHEARD_OF_MAX_S = 3600, /* a node may run a build that the daemon before wrote, and that only the node tells of */
};

/* ---- builds ---- */

/* A user who has no room left keeps what its sandboxes run, and nothing else. */
static void count_cached(struct engine *engine, const struct cached_build *cached, const char **keep, size_t *count) {
    if (ledger_is_short(&engine->ledger, cached->owner)) return;
    keep[(*count)++] = cached->digest;
    if (cached->bytes > 0) ledger_add(&engine->ledger, cached->owner, cached->digest, cached->bytes, false);
}

/* What sandboxes run, and what was compiled lately, which need not be compiled again. A node sees the build that it was
   booted with, whatever was loaded since: it loads from there what it never ran before. */
static void sweep_builds(struct engine *engine, int64_t min_age_s) {
    size_t count = 0, at = 0;
    void *value;
    CLEANUP_FREE struct cached_build *cached = calloc(CACHED_BUILDS_KEPT, sizeof *cached);
    CLEANUP_FREE const char **keep = calloc(4 * engine->sandboxes.count + CACHED_BUILDS_KEPT + 1, sizeof *keep);
    if (!cached || !keep) return;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox->build.digest[0]) keep[count++] = sandbox->build.digest;
        if (sandbox->booted_build[0]) keep[count++] = sandbox->booted_build;
        if (sandbox->previous_build[0]) keep[count++] = sandbox->previous_build; /* as containment */
        if (sandbox->probation.id[0]) keep[count++] = sandbox->probation.build;  /* it may be taken back to that */
    }
    size_t cached_count = cache_builds(engine->config.home, cached, CACHED_BUILDS_KEPT);
    for (size_t i = 0; i < cached_count; i++) count_cached(engine, &cached[i], keep, &count);
    ledger_swept(&engine->ledger, keep);
    store_sweep_builds(engine->store, keep, min_age_s, NULL, NULL);
    engine->builds_at_sweep = store_builds_written(engine->store);
}

/* ---- bytes of versions, on the pool ---- */

struct beam_sweep {
    uv_work_t work;
    char *home;
    struct shared_history **histories;
    size_t count;
    int64_t min_age_s;
};

static void beam_sweep_free(struct beam_sweep *sweep) {
    for (size_t i = 0; i < sweep->count; i++) history_let_go(sweep->histories[i]);
    free(sweep->histories);
    free(sweep->home);
    free(sweep);
}

static void run_beam_sweep(uv_work_t *work) {
    struct beam_sweep *sweep = work->data;
    CLEANUP(map_free) struct map used = MAP_INIT;
    bool are_named = true;
    for (size_t i = 0; are_named && i < sweep->count; i++)
        are_named = history_name_beams(history_of(sweep->histories[i]), &used);
    if (are_named) code_beams_sweep(sweep->home, &used, sweep->min_age_s);
    while (sweep->count > 0) history_let_go(sweep->histories[--sweep->count]); /* may be the last that has it */
}

static void on_beams_swept(uv_work_t *work, int status) {
    (void)status;
    beam_sweep_free(work->data);
}

/* NULL without memory: another time. */
static struct beam_sweep *new_beam_sweep(struct engine *engine, int64_t min_age_s) {
    struct beam_sweep *sweep = calloc(1, sizeof *sweep);
    size_t at = 0;
    void *value;
    if (!sweep) return NULL;
    sweep->work.data = sweep;
    sweep->home = strdup(engine->config.home);
    sweep->min_age_s = min_age_s;
    sweep->histories = calloc(engine->sandboxes.count + 1, sizeof *sweep->histories);
    while (sweep->histories && map_next(&engine->sandboxes, &at, NULL, &value)) {
        struct shared_history *history = ((struct sandbox *)value)->history;
        if (history) sweep->histories[sweep->count++] = history_hold(history);
    }
    if (sweep->home && sweep->histories) return sweep;
    beam_sweep_free(sweep);
    return NULL;
}

static void begin_beam_sweep(struct engine *engine) {
    struct beam_sweep *sweep = new_beam_sweep(engine, BYTES_KEPT_S + wall_clock_forward_ms(engine) / 1000);
    if (sweep && loop_queue_work(engine->loop, &sweep->work, run_beam_sweep, on_beams_swept) < 0)
        beam_sweep_free(sweep);
}

/* ---- when ---- */

void sweep_at_start(struct engine *engine) {
    struct beam_sweep *sweep = new_beam_sweep(engine, 0);
    sweep_builds(engine, UNHEARD_OF_MAX_S + wall_clock_forward_ms(engine) / 1000);
    if (!sweep) return;
    run_beam_sweep(&sweep->work);
    beam_sweep_free(sweep);
}

/* Whoever is at work may have found a build that nothing names yet. */
static bool is_at_work(struct engine *engine) {
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value))
        if (((struct sandbox *)value)->jobs) return true;
    return engine->oneshots != NULL;
}

void sweep_if_due(struct engine *engine) {
    if (!engine->ready || engine->closing) return;
    uint64_t written = store_builds_written(engine->store) - engine->builds_at_sweep;
    if ((written < CACHED_BUILDS_KEPT && engine->ledger.refused.count == 0) || is_at_work(engine)) return;
    sweep_builds(engine, 0);
    begin_beam_sweep(engine);
}
