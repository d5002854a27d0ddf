/* What a reload changes: the code that runs and the code that comes, compared on the pool; and the build that runs
   then. */
#include "core/reload/reload_job.h"

#include "core/core_internal.h"
#include "core/policy/containment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULES_TOLD = 100 }; /* of a change, in an event: it is kept for long */

void comparison_free(struct comparison *comparison) {
    json_decref(comparison->from_facts);
    history_let_go(comparison->history);
    change_set_free(&comparison->changes);
    composed_free(&comparison->composed);
    adoption_free(&comparison->adoption);
    buf_free(&comparison->call);
    json_decref(comparison->told);
    json_decref(comparison->told_first);
}

static void release(void *comparison) {
    comparison_free(comparison);
    free(comparison);
}

void reload_forget_comparison(struct reload_job *reload) {
    uv_loop_t *loop = reload->loop;
    struct comparison *old = new_or_abort(struct comparison);
    *old = reload->compared;
    reload->compared = (struct comparison){0};
    loop_discard(loop, release, old);
    build_discard(loop, &reload->build);
}

/* ---- on the pool ---- */

static int changes_to_target(struct reload_job *reload, const struct change_base *base, struct error *reterr) {
    json_t *facts = NULL;
    int result = build_read_facts(reload->target_path, &facts, reterr);
    if (result < 0) return result;
    if (!reload->target.facts) reload->target.facts = build_brief(facts);
    result = changes_to_build(base, reload->target_path, facts, &reload->compared.changes, reterr);
    json_decref(facts);
    return result;
}

static int find_changes(struct reload_job *reload, struct error *reterr) {
    struct comparison *compared = &reload->compared;
    struct change_base base = {&reload->beams, history_of(compared->history), reload->from_path, NULL};
    int result = build_read_facts(reload->from_path, &compared->from_facts, reterr);
    base.facts = compared->from_facts;
    if (result < 0) return result;
    if (reload->target.digest[0]) return changes_to_target(reload, &base, reterr);
    if (reload->is_rollback)
        return changes_to_version(&base, buf_string(&reload->module), reload->wanted_version, &compared->changes,
                                  reterr);
    result = reload_join_parts(reload, reterr);
    if (result < 0) return result;
    return changes_to_modules(&base, &reload->wanted, reload->is_whole, &compared->changes, reterr);
}

/* Code that ran before may run again. */
static int scan(struct reload_job *reload, struct error *reterr) {
    const struct guard_profile *profile = reload->job.sandbox->config.profile;
    if (reload->is_rollback || profile->scan == GUARD_SCAN_OFF || reload->compared.changes.count == 0) return 0;
    json_decref(take_ptr(reload->scan)); /* of an earlier try */
    return containment_scan_changes(profile, &reload->compared.changes, &reload->scan, reterr);
}

/* The build that runs afterwards, where there is one already; NULL: it is composed. */
static const struct build *whole_build(const struct reload_job *reload) {
    if (reload->target.digest[0]) return &reload->target;
    return reload_is_project(reload) ? &reload->parts[0].build : NULL;
}

static int make_build(struct reload_job *reload, struct error *reterr) {
    struct comparison *compared = &reload->compared;
    int result = compose(&reload->beams, reload->from_path, compared->from_facts, &compared->changes,
                         &compared->composed, reterr);
    if (result < 0 || !reload->put) return result;
    return store_put_write(reload->put, reload->from_build, compared->composed.files, compared->composed.count,
                           reload->composed_digest, reterr);
}

static json_t *first_of(const json_t *list, size_t max) {
    json_t *first = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < max; i++) json_array_append(first, json_array_get(list, i));
    return first;
}

/* What the agent is asked and what follows from its word, before it is asked: afterwards the loop has no time for it.
 */
static int prepare_transaction(struct reload_job *reload, struct error *reterr) {
    struct comparison *compared = &reload->compared;
    const struct adopter *adopter = &reload->adopter;
    compared->call_map = transaction_begin(&compared->call, &compared->changes, reload->migrations);
    compared->told = transaction_changes(&compared->changes);
    compared->told_first = first_of(compared->told, MODULES_TOLD);
    if (reload_is_dry(reload)) return 0;
    int result = adoption_make(history_of(compared->history), &compared->changes, adopter, &compared->adoption, reterr);
    if (result == 0) compared->adoption.back->facts = build_brief(compared->from_facts);
    return result;
}

/* The caller may migrate the states of a module whose code stays as it is. */
static bool migrates_alone(const struct reload_job *reload) {
    return reload->compared.changes.count == 0 && migrations_name_modules(reload->migrations);
}

void reload_work_comparing(struct reload_job *reload) {
    int result = find_changes(reload, &reload->work_error);
    reload->is_other_config =
        reload_is_project(reload) && reload_config_differs(reload->from_path, reload->parts[0].build_path);
    if (result == 0) result = scan(reload, &reload->work_error);
    bool has_changes = result == 0 && reload->compared.changes.count > 0;
    if (has_changes && !whole_build(reload) && !reload_is_dry(reload)) result = make_build(reload, &reload->work_error);
    if ((has_changes || migrates_alone(reload)) && result == 0) prepare_transaction(reload, &reload->work_error);
}

/* ---- compare ---- */

static uint64_t part_bytes(const struct reload_part *part) {
    uint64_t bytes = build_bytes(part->build.facts);
    for (size_t i = 0; i < part->beams.count; i++) bytes += part->beams.items[i].beam_size;
    return bytes;
}

/* What it may write at most: the code that comes as bytes of versions, and the build where one is composed. */
static uint64_t bytes_at_most(const struct reload_job *reload) {
    uint64_t bytes = whole_build(reload) ? 0 : build_bytes(reload->job.sandbox->code.build.facts);
    if (reload_is_dry(reload)) return 0;
    for (size_t i = 0; i < reload->part_count; i++) bytes += part_bytes(&reload->parts[i]);
    return bytes;
}

static void settle_admitted(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    ledger_give_back(&sandbox->engine->builds.ledger, sandbox->owner, reload->admitted_bytes);
    ledger_beams_written(&sandbox->engine->builds.ledger, sandbox->owner, reload->beams.written_bytes);
    reload->admitted_bytes = reload->beams.written_bytes = 0;
}

int reload_prepare_comparing(struct reload_job *reload, struct error *reterr) {
    struct sandbox *sandbox = reload->job.sandbox;
    int result =
        store_build_path(sandbox->engine->store, sandbox->code.build.digest, reload->from_path, PATH_MAX, reterr);
    if (result < 0) return result;
    uint64_t bytes = bytes_at_most(reload);
    result = ledger_admit(&sandbox->engine->builds.ledger, sandbox->owner, bytes, reterr);
    if (result < 0) return result;
    reload->admitted_bytes = bytes;
    reload->beams = (struct beam_store){
        .home = sandbox->engine->config.home, .owner = sandbox->owner, .is_dry = reload_is_dry(reload)};
    reload->put = store_put_begin(sandbox->engine->store);
    reload->composed_digest[0] = '\0';
    memcpy(reload->from_build, sandbox->code.build.digest, sizeof reload->from_build);
    reload->compared.history = history_hold(sandbox->code.history);
    reload->adopter =
        (struct adopter){sandbox->id, sandbox->times.started_at_ms, sandbox->owner, reload->job.request->caller.uid};
    reload->work.data = reload;
    return 0;
}

/* It is on the disk, whether or not the reload goes on. */
static void count_composed(struct reload_job *reload, const char *digest) {
    struct sandbox *sandbox = reload->job.sandbox;
    ledger_add(&sandbox->engine->builds.ledger, sandbox->owner, digest, build_bytes(reload->compared.composed.brief),
               false);
}

void reload_take_comparison(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    const struct error *error = reload->work_error.code != E_NONE ? &reload->work_error : NULL;
    loop_note(sandbox->engine->loop, "reload", sandbox->id);
    if (reload->put) store_put_end(take_ptr(reload->put));
    settle_admitted(reload);
    if (reload->composed_digest[0]) count_composed(reload, reload->composed_digest);
    if (reload->scan && reload->report) json_object_set(reload->report, "scan", reload->scan);
    if (error && error->code == E_POLICY && !reload->steps.is_called_off) containment_refused(sandbox, error);
    if (error)
        step_done(&reload->steps, error);
    else
        step_go(&reload->steps, RELOAD_KEEP);
}

static void work(uv_work_t *work) {
    reload_work_comparing(work->data);
}

static void on_worked(uv_work_t *work, int status) {
    (void)status;
    reload_take_comparison(work->data);
}

void reload_compare(void *job) {
    struct reload_job *reload = job;
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    if (!reload->is_at_rest && !live_code_is_known(sandbox)) {
        error_set(&error, E_CONFLICT, "a change of the code of '%s' is not settled yet; try again", sandbox->id);
        reload_try_once_settled(reload, &error);
    } else if (reload_prepare_comparing(reload, &error) < 0) {
        step_done(&reload->steps, &error);
    } else {
        host_work(&sandbox->engine->host, sandbox->owner, &reload->work, work, on_worked);
    }
}

/* ---- keep ---- */

static void take_build(struct reload_job *reload, const char *digest, json_t *facts) {
    snprintf(reload->build.digest, sizeof reload->build.digest, "%s", digest);
    reload->build.facts = json_incref(facts);
}

static void on_composed_kept(void *data, const char *digest, const struct error *error) {
    struct reload_job *reload = data;
    if (!error) count_composed(reload, digest);
    if (!error && !reload->steps.is_called_off) take_build(reload, digest, reload->compared.composed.brief);
    step_done(&reload->steps, error);
}

static void on_unchanged_kept(void *data, const struct error *error) {
    struct reload_job *reload = data;
    if (error) {
        step_done(&reload->steps, error);
        return;
    }
    reload->result = transaction_no_change();
    step_go(&reload->steps, RELOAD_CONFIGURE);
}

/* Another build has configuration or files for the next start. No node knows of them: they are in the registry before
   the caller is told. */
static void keep_unchanged(struct reload_job *reload) {
    bool is_other = reload->build.digest[0] && strcmp(reload->build.digest, reload->from_build) != 0;
    if (is_other && !reload_is_dry(reload))
        live_code_set_build(reload->job.sandbox, &reload->build, on_unchanged_kept, reload);
    else
        on_unchanged_kept(reload, NULL);
}

/* No build is made: the transaction goes by the name of the one that runs. */
static void keep_dry(struct reload_job *reload) {
    snprintf(reload->build.digest, sizeof reload->build.digest, "%s", reload->from_build);
    step_done(&reload->steps, NULL);
}

static void keep_running(struct reload_job *reload) {
    if (!reload->build.digest[0]) take_build(reload, reload->from_build, reload->job.sandbox->code.build.facts);
    step_done(&reload->steps, NULL);
}

void reload_keep(void *job) {
    struct reload_job *reload = job;
    const struct build *whole = whole_build(reload);
    if (whole) take_build(reload, whole->digest, whole->facts);
    if (migrates_alone(reload))
        keep_running(reload);
    else if (reload->compared.changes.count == 0)
        keep_unchanged(reload);
    else if (whole)
        step_done(&reload->steps, NULL);
    else if (reload_is_dry(reload))
        keep_dry(reload);
    else if (reload->composed_digest[0])
        on_composed_kept(reload, reload->composed_digest, NULL);
    else
        store_put_build(reload->job.sandbox->engine->store, reload->from_build, reload->compared.composed.files,
                        reload->compared.composed.count, on_composed_kept, reload);
}
