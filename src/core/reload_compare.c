/* What a reload changes: what runs and what comes, compared off the loop's thread, and the build that runs then. */
#include "core/reload_job.h"

#include "core/containment.h"

#include <stdio.h>
#include <string.h>

static int find_changes(struct reload_job *reload, struct error *reterr) {
    struct change_base base = {reload->job.sandbox->engine->config.home, &reload->history, reload->from_path,
                               reload->from_facts};
    if (reload->target.digest[0])
        return changes_to_build(&base, reload->target_path, reload->target.facts, &reload->changes, reterr);
    if (reload->is_rollback)
        return changes_to_version(&base, buf_string(&reload->module), reload->wanted_version, &reload->changes, reterr);
    int result = reload_join_parts(reload, reterr);
    if (result < 0) return result;
    return changes_to_modules(&base, &reload->wanted, reload->is_whole, &reload->changes, reterr);
}

/* What ran before may run again. */
static int scan(struct reload_job *reload, struct error *reterr) {
    const struct guard_profile *profile = guard_profile_of(reload->job.sandbox->config.profile);
    if (reload->is_rollback || profile->scan == GUARD_SCAN_OFF || reload->changes.count == 0) return 0;
    json_decref(take_ptr(reload->scan)); /* of an earlier try */
    return containment_scan_changes(profile, &reload->changes, &reload->scan, reterr);
}

/* The build that runs afterwards, where there is one already; NULL: it is composed. */
static const struct build *whole_build(const struct reload_job *reload) {
    if (reload->target.digest[0]) return &reload->target;
    return reload_is_project(reload) ? &reload->parts[0].build : NULL;
}

static int make_build(struct reload_job *reload, struct error *reterr) {
    const char *home = reload->job.sandbox->engine->config.home;
    int result = compose(home, reload->from_path, reload->from_facts, &reload->changes, &reload->composed, reterr);
    if (result < 0 || !reload->put) return result;
    return store_put_write(reload->put, reload->from_build, reload->composed.files, reload->composed.count,
                           reload->composed_digest, reterr);
}

void reload_compare(uv_work_t *work) {
    struct reload_job *reload = work->data;
    int result = find_changes(reload, &reload->work_error);
    if (result == 0) result = scan(reload, &reload->work_error);
    if (result == 0 && !whole_build(reload) && reload->changes.count > 0) make_build(reload, &reload->work_error);
}

static void take_build(struct reload_job *reload, const char *digest, json_t *facts) {
    snprintf(reload->build.digest, sizeof reload->build.digest, "%s", digest);
    reload->build.facts = json_incref(facts);
}

static void on_composed_kept(void *data, const char *digest, const struct error *error) {
    struct reload_job *reload = data;
    if (reload_ended_early(reload, error)) return;
    take_build(reload, digest, reload->composed.facts);
    reload_begin_transaction(reload);
}

static void on_unchanged_kept(void *data, const struct error *error) {
    struct reload_job *reload = data;
    if (reload_ended_early(reload, error)) return;
    reload->result = transaction_no_change();
    reload_answer(reload);
}

/* Another build has configuration or files for the next start. No node knows of them: they are in the registry before
   anybody is told. */
static void end_unchanged(struct reload_job *reload) {
    bool is_other = reload->build.digest[0] && strcmp(reload->build.digest, reload->from_build) != 0;
    if (is_other && !reload_is_dry(reload))
        running_set_build(reload->job.sandbox, &reload->build, on_unchanged_kept, reload);
    else
        on_unchanged_kept(reload, NULL);
}

void reload_compared(uv_work_t *work, int status) {
    struct reload_job *reload = work->data;
    (void)status;
    if (reload->put) store_put_end(take_ptr(reload->put));
    if (reload->scan && reload->report) json_object_set(reload->report, "scan", reload->scan);
    if (reload->work_error.code == E_POLICY && !reload->is_called_off)
        containment_refused(reload->job.sandbox, &reload->work_error);
    if (reload_ended_early(reload, reload->work_error.code != E_NONE ? &reload->work_error : NULL)) return;
    const struct build *whole = whole_build(reload);
    if (whole) take_build(reload, whole->digest, whole->facts);
    if (reload->changes.count == 0)
        end_unchanged(reload);
    else if (whole)
        reload_begin_transaction(reload);
    else if (reload->composed_digest[0])
        on_composed_kept(reload, reload->composed_digest, NULL);
    else
        store_put_build(reload->job.sandbox->engine->store, reload->from_build, reload->composed.files,
                        reload->composed.count, on_composed_kept, reload);
}

bool reload_prepare(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    int result = store_build_path(sandbox->engine->store, sandbox->build.digest, reload->from_path, PATH_MAX, &error);
    if (reload_ended_early(reload, result < 0 ? &error : NULL)) return false;
    reload->put = store_put_begin(sandbox->engine->store);
    reload->composed_digest[0] = '\0';
    memcpy(reload->from_build, sandbox->build.digest, sizeof reload->from_build);
    reload->from_facts = json_incref(sandbox->build.facts);
    if (!history_copy(&sandbox->history, &reload->history)) abort(); /* as in node_call */
    reload->stage = RELOAD_WORKING;
    reload->work.data = reload;
    return true;
}

void reload_begin_comparing(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    if (!running_is_known(sandbox)) {
        error_set(&error, E_CONFLICT, "a change of the code of '%s' is not settled yet; try again", sandbox->id);
        reload_try_once_settled(reload, &error);
    } else if (reload_prepare(reload)) {
        host_work(&sandbox->engine->host, sandbox->owner, &reload->work, reload_compare, reload_compared);
    }
}
