/* What no sandbox needs any more goes: builds, and the bytes of versions. At the start, and while it runs whenever so
   many builds were written: a project that is watched makes one with each save. */
#include <stdlib.h>

#include "core/core_internal.h"
#include "core/jobs/oneshot.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"

enum {
    BYTES_KEPT_S = 3600,     /* bytes may be kept a while before a history names them */
    UNHEARD_OF_MAX_S = 3600, /* a node may run a build that the daemon before wrote, and that only the node tells of */
};

/* ---- builds that nothing needs ---- */

enum { NAMED_MAX = 4 }; /* builds that a sandbox may run, or go back to */

/* A node sees the build that it was booted with, whatever was loaded since: it loads from there what it never ran
   before. */
static size_t named_by(const struct sandbox *sandbox, const char *ret[NAMED_MAX]) {
    size_t count = 0;
    if (sandbox->code.build.digest[0]) ret[count++] = sandbox->code.build.digest;
    if (sandbox->code.booted_build[0]) ret[count++] = sandbox->code.booted_build;
    if (sandbox->code.previous_build[0]) ret[count++] = sandbox->code.previous_build; /* as containment */
    if (sandbox->code.probation.id[0]) ret[count++] = sandbox->code.probation.build;  /* it may be taken back to that */
    return count;
}

struct build_sweep {
    uv_work_t work;
    struct engine *engine;
    size_t count;
    struct cached_build cached[CACHED_BUILDS_KEPT];
};

/* The cache may have thousands of entries: each is read, and most are removed. */
static void read_cache(uv_work_t *work) {
    struct build_sweep *sweep = work->data;
    sweep->count = cache_builds(sweep->engine->config.home, sweep->cached, CACHED_BUILDS_KEPT);
}

static struct build_sweep *new_build_sweep(struct engine *engine) {
    struct build_sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep) return NULL;
    sweep->engine = engine;
    sweep->work.data = sweep;
    return sweep;
}

/* An entry outlives its build where that was removed for want of room. */
static bool count_cached(struct engine *engine, const struct cached_build *cached) {
    if (!store_build_stays(engine->store, cached->digest)) return false;
    if (cached->bytes > 0) ledger_add(&engine->builds.ledger, cached->owner, cached->digest, cached->bytes, false);
    return true;
}

/* All but what sandboxes run, and what was compiled lately, which need not be compiled again. */
static void sweep_builds(struct engine *engine, const struct build_sweep *sweep, int64_t min_age_s) {
    size_t count = 0, at = 0;
    void *value;
    CLEANUP_FREE const char **keep = calloc(NAMED_MAX * engine->sandboxes.count + CACHED_BUILDS_KEPT + 1, sizeof *keep);
    if (!keep) return;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) count += named_by(value, keep + count);
    for (size_t i = 0; i < sweep->count; i++)
        if (count_cached(engine, &sweep->cached[i])) keep[count++] = sweep->cached[i].digest;
    ledger_swept(&engine->builds.ledger, keep);
    store_sweep_builds(engine->store, keep, min_age_s, NULL, NULL);
    engine->builds.at_sweep = store_builds_written(engine->store);
}

/* ---- builds of users who have no room ---- */

/* A user who has no room left keeps what its sandboxes run, and nothing else. Only that user's own work can have found
   one of its builds that nothing names yet: the cache's keys name their owner. So another user's work is not waited
   for. False without memory. */
static bool name_busy(struct engine *engine, struct map *ret_users) {
    size_t at = 0;
    void *value;
    bool good = true;
    while (good && map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox->queue.jobs) good = ledger_name_user(ret_users, sandbox->owner);
    }
    for (const struct oneshot *oneshot = engine->oneshots.first; good && oneshot; oneshot = oneshot->next)
        good = ledger_name_user(ret_users, oneshot->uid) && ledger_name_user(ret_users, oneshot->reads_of);
    return good;
}

static void leave_out_named(struct engine *engine, struct map *digests) {
    const char *named[NAMED_MAX];
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value))
        for (size_t i = named_by(value, named); i > 0; i--) map_remove(digests, named[i - 1]);
}

/* They are in the ledger until they are gone: one that was put again meanwhile stays in both. */
static void on_removed(void *data, const struct map *digests) {
    struct engine *engine = data;
    ledger_removed(&engine->builds.ledger, digests);
    engine->builds.is_removing = false;
    sweep_if_due(engine); /* others may have been refused meanwhile */
}

/* ---- bytes of versions, on the pool ---- */

/* The bytes of one owner, or of several. An owner's sandboxes name bytes of that owner only, so other users' work is
   not waited for. */
struct beam_sweep {
    uv_work_t work;
    struct engine *engine;
    struct shared_history **histories; /* of all sandboxes */
    size_t history_count;
    struct beam_owner {
        struct beam_store beams;
        int64_t min_age_s;
        uint64_t removed_bytes, left_bytes;
    } * owners;
    size_t owner_count;
};

static void beam_sweep_free(struct beam_sweep *sweep) {
    for (size_t i = 0; i < sweep->history_count; i++) history_let_go(sweep->histories[i]);
    free(sweep->histories);
    free(sweep->owners);
    free(sweep);
}

static bool name_used(const struct beam_sweep *sweep, struct map *ret) {
    bool are_named = true;
    for (size_t i = 0; are_named && i < sweep->history_count; i++)
        are_named = history_name_beams(history_of(sweep->histories[i]), ret);
    return are_named;
}

static void sweep_owners(struct beam_sweep *sweep, const struct map *used) {
    for (size_t i = 0; i < sweep->owner_count; i++) {
        struct beam_owner *owner = &sweep->owners[i];
        code_beams_sweep(&owner->beams, used, owner->min_age_s, &owner->removed_bytes, &owner->left_bytes);
    }
}

static void run_beam_sweep(uv_work_t *work) {
    struct beam_sweep *sweep = work->data;
    CLEANUP(map_free) struct map used = MAP_INIT;
    if (name_used(sweep, &used)) sweep_owners(sweep, &used);
    while (sweep->history_count > 0) history_let_go(sweep->histories[--sweep->history_count]); /* may be the last */
}

static void on_beams_swept(uv_work_t *work, int status) {
    struct beam_sweep *sweep = work->data;
    struct engine *engine = sweep->engine;
    (void)status;
    loop_note(engine->loop, "sweep", NULL);
    for (size_t i = 0; i < sweep->owner_count; i++)
        ledger_beams_removed(&engine->builds.ledger, sweep->owners[i].beams.owner, sweep->owners[i].removed_bytes);
    beam_sweep_free(sweep);
    engine->builds.is_sweeping_beams = false;
    engine_wake(engine);
}

/* NULL without memory: another time. */
static struct beam_sweep *new_beam_sweep(struct engine *engine, size_t owners_max) {
    struct beam_sweep *sweep = calloc(1, sizeof *sweep);
    size_t at = 0;
    void *value;
    if (!sweep) return NULL;
    sweep->work.data = sweep;
    sweep->engine = engine;
    sweep->owners = calloc(owners_max + 1, sizeof *sweep->owners);
    sweep->histories = calloc(engine->sandboxes.count + 1, sizeof *sweep->histories);
    while (sweep->histories && map_next(&engine->sandboxes, &at, NULL, &value)) {
        struct shared_history *history = ((struct sandbox *)value)->code.history;
        if (history) sweep->histories[sweep->history_count++] = history_hold(history);
    }
    if (sweep->owners && sweep->histories) return sweep;
    beam_sweep_free(sweep);
    return NULL;
}

static void add_owner(struct beam_sweep *sweep, uid_t owner, int64_t min_age_s) {
    sweep->owners[sweep->owner_count++] =
        (struct beam_owner){.beams = {.home = sweep->engine->config.home, .owner = owner}, .min_age_s = min_age_s};
}

/* Bytes that no history names yet belong to work under way, or to code that the node has to be asked for. */
static bool name_unsettled(struct engine *engine, struct map *ret_users) {
    size_t at = 0;
    void *value;
    bool good = true;
    while (good && map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox->node && !sandbox->code.is_known) good = ledger_name_user(ret_users, sandbox->owner);
    }
    return good;
}

/* Of users who are not busy. A user who was refused room gets it at once; others' bytes go when they are old. */
static void begin_beam_sweep(struct engine *engine, struct map *busy) {
    int64_t min_age_s = BYTES_KEPT_S + wall_clock_forward_ms(engine) / 1000;
    const char *user;
    size_t at = 0;
    if (engine->builds.is_sweeping_beams || !name_unsettled(engine, busy)) return;
    struct beam_sweep *sweep = new_beam_sweep(engine, engine->builds.ledger.beams.count);
    while (sweep && map_next(&engine->builds.ledger.beams, &at, &user, NULL))
        if (!map_get(busy, user))
            add_owner(sweep, (uid_t)strtoul(user, NULL, 10),
                      map_get(&engine->builds.ledger.refused, user) ? 0 : min_age_s);
    if (!sweep) return;
    engine->builds.is_sweeping_beams =
        sweep->owner_count > 0 && loop_queue_work(engine->loop, &sweep->work, run_beam_sweep, on_beams_swept) == 0;
    if (!engine->builds.is_sweeping_beams) beam_sweep_free(sweep);
}

/* Counts what is left. Nothing runs yet. */
static void sweep_beams_at_start(struct engine *engine) {
    CLEANUP(map_free) struct map used = MAP_INIT;
    size_t count;
    CLEANUP_FREE uint32_t *owners = code_beams_owners(engine->config.home, &count);
    struct beam_sweep *sweep = owners ? new_beam_sweep(engine, count) : NULL;
    if (!sweep) return;
    for (size_t i = 0; i < count; i++) add_owner(sweep, owners[i], 0);
    if (name_used(sweep, &used)) {
        sweep_owners(sweep, &used);
        code_beams_sweep_old(engine->config.home, &used);
    }
    for (size_t i = 0; i < count; i++)
        ledger_beams_written(&engine->builds.ledger, owners[i], sweep->owners[i].left_bytes);
    beam_sweep_free(sweep);
}

/* ---- room for users who have none ---- */

static void make_room(struct engine *engine) {
    CLEANUP(map_free) struct map busy = MAP_INIT, spare = MAP_INIT;
    if (engine->builds.is_removing || !name_busy(engine, &busy)) return;
    begin_beam_sweep(engine, &busy);
    ledger_take_spare(&engine->builds.ledger, &busy, &spare);
    leave_out_named(engine, &spare);
    if (spare.count == 0) return;
    engine->builds.is_removing = true;
    store_remove_builds(engine->store, &spare, on_removed, engine);
}

/* ---- when ---- */

void sweep_at_start(struct engine *engine) {
    struct build_sweep *builds = new_build_sweep(engine);
    if (builds) {
        read_cache(&builds->work);
        sweep_builds(engine, builds, UNHEARD_OF_MAX_S + wall_clock_forward_ms(engine) / 1000);
        free(builds);
    }
    sweep_beams_at_start(engine);
}

/* Work under way may have found a build that nothing names yet. */
static bool is_at_work(struct engine *engine) {
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value))
        if (((struct sandbox *)value)->queue.jobs) return true;
    return engine->oneshots.first != NULL;
}

/* Work that has begun since may have found what the pool forgot after that: the end of this work sweeps again. */
static void on_cache_read(uv_work_t *work, int status) {
    struct build_sweep *sweep = work->data;
    struct engine *engine = sweep->engine;
    (void)status;
    loop_note(engine->loop, "sweep", NULL);
    engine->builds.is_sweeping = false;
    if (!engine->closing.is_begun && !is_at_work(engine)) {
        CLEANUP(map_free) struct map none = MAP_INIT; /* are busy */
        sweep_builds(engine, sweep, 0);
        begin_beam_sweep(engine, &none);
    }
    free(sweep);
    engine_wake(engine);
}

static void begin_sweep(struct engine *engine) {
    struct build_sweep *sweep = new_build_sweep(engine);
    engine->builds.is_sweeping = sweep && loop_queue_work(engine->loop, &sweep->work, read_cache, on_cache_read) == 0;
    if (!engine->builds.is_sweeping) free(sweep);
}

void sweep_if_due(struct engine *engine) {
    if (!engine->ready || engine->closing.is_begun) return;
    if (engine->builds.ledger.refused.count > 0) make_room(engine);
    bool is_due = store_builds_written(engine->store) - engine->builds.at_sweep >= CACHED_BUILDS_KEPT;
    if (is_due && !engine->builds.is_sweeping && !is_at_work(engine)) begin_sweep(engine);
}
