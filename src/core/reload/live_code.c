/* What the engine knows of the code that runs in a sandbox: its build, its history, and a change on probation. */
#include "core/core_internal.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"
#include "core/watch/watching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_MAX_BYTES = 4 * ERROR_DETAIL_BYTES }; /* of why a change was taken back */

/* ---- a change that was made ---- */

static void release_back(void *back) {
    way_back_free(back);
}

void live_code_forget(struct sandbox *sandbox) {
    struct probation *probation = &sandbox->code.probation;
    probation->id[0] = '\0';
    if (probation->back) loop_discard(sandbox->engine->loop, release_back, take_ptr(probation->back));
}

static void begin_probation(struct sandbox *sandbox, const char *id, struct way_back *back) {
    struct probation *probation = &sandbox->code.probation;
    live_code_forget(sandbox);
    snprintf(probation->id, sizeof probation->id, "%s", id);
    memcpy(probation->build, sandbox->code.build.digest, sizeof probation->build);
    probation->back = back;
}

void live_code_set_build(struct sandbox *sandbox, struct build *build, store_done_fn done, void *data) {
    build_discard(sandbox->engine->loop, &sandbox->code.build);
    sandbox->code.build = *build;
    *build = (struct build){0};
    sandbox->times.updated_at_ms = clock_wall_ms();
    sandbox_save(sandbox, done, data);
}

static void release_history(void *history) {
    history_let_go(history);
}

static void set_history(struct sandbox *sandbox, struct shared_history *history, struct store_histories *rows) {
    if (sandbox->code.history) loop_discard(sandbox->engine->loop, release_history, sandbox->code.history);
    sandbox->code.history = history;
    store_put_histories(sandbox->engine->store, rows);
}

void live_code_adopt(struct sandbox *sandbox, const char *id, struct adoption *adoption, struct build *build) {
    begin_probation(sandbox, id, take_ptr(adoption->back));
    snprintf(sandbox->code.last_reload, sizeof sandbox->code.last_reload, "%s", id);
    memcpy(sandbox->code.previous_build, sandbox->code.build.digest, sizeof sandbox->code.previous_build);
    set_history(sandbox, take_ptr(adoption->history), take_ptr(adoption->rows));
    live_code_set_build(sandbox, build, NULL, NULL);
}

/* ---- a change that was taken back ---- */

static void undo(struct sandbox *sandbox) {
    struct way_back *back = sandbox->code.probation.back;
    struct build build = {0};
    struct error error;
    sandbox->code.previous_build[0] = '\0';
    if (back && back->history) set_history(sandbox, take_ptr(back->history), take_ptr(back->rows));
    if (back && back->facts) {
        memcpy(build.digest, sandbox->code.probation.build, sizeof build.digest);
        build.facts = take_ptr(back->facts);
        live_code_set_build(sandbox, &build, NULL, NULL);
        return;
    }
    error_set(&error, E_NOT_FOUND, "nothing is known of the build %.12s", sandbox->code.probation.build);
    engine_log_error(sandbox->engine, "rollback_without_build", sandbox->id, &error);
}

static void take_back(struct sandbox *sandbox, const struct term *term) {
    struct error error;
    CLEANUP_FREE char *reason = NULL;
    const struct term *text = term_map_get(term, "reason"); /* megabytes of it may have come */
    if (!text || !term_to_text(text, REASON_MAX_BYTES, &reason)) reason = NULL;
    error_set(&error, E_RELOAD, "the new code was taken back: %s",
              reason && utf8_valid((const uint8_t *)reason, strlen(reason)) ? reason : "it failed on probation");
    undo(sandbox);
    sandbox_set_error(sandbox, &error);
    sandbox_save(sandbox, NULL, NULL);
    engine_event(sandbox->engine, EVENT_ROLLED_BACK, sandbox->id, problem_json(&error));
    watching_taken_back(sandbox, &error);
    reload_settled(sandbox, false, &error);
}

/* Something may have changed its code without a word. */
static void doubt(struct sandbox *sandbox) {
    sandbox->code.is_known = false;
    if (sandbox->node) live_code_ask(sandbox);
}

void live_code_settled(struct sandbox *sandbox, const struct term *term) {
    CLEANUP_FREE char *id = NULL;
    const struct term *name = term_map_get(term, "id"), *outcome = term_map_get(term, "outcome");
    if (!name || !term_to_string(name, &id) || !outcome) return;
    if (term_is_atom(outcome, "unheard") || !sandbox->code.probation.id[0] ||
        strcmp(id, sandbox->code.probation.id) != 0) {
        doubt(sandbox); /* not of this daemon's doing */
        return;
    }
    if (term_is_atom(outcome, "rolled_back"))
        take_back(sandbox, term);
    else
        reload_settled(sandbox, true, NULL);
    live_code_forget(sandbox);
}

/* ---- what runs, asked of the node ---- */

static void tell_awaited(struct sandbox *sandbox) {
    void (*told)(void *) = take_ptr(sandbox->code.told);
    if (told) told(sandbox->code.told_data);
}

struct asking {
    uv_work_t work;
    struct sandbox_ref ref;
    char reload_id[RELOAD_ID_BYTES];
    bool on_probation;
    char from_path[PATH_MAX], to_path[PATH_MAX];
    char from_build[STORE_DIGEST_BYTES];
    struct build build;
    struct shared_history *history;
    struct adopter adopter;
    struct adoption adoption;
    struct beam_store beams;
    struct error error;
};

static int compare_builds(struct asking *asking, const json_t *from, const json_t *to) {
    CLEANUP(change_set_free) struct change_set changes = {0};
    const struct history *history = history_of(asking->history);
    struct change_base base = {&asking->beams, history, asking->from_path, from};
    int result = changes_to_build(&base, asking->to_path, to, &changes, &asking->error);
    if (result == 0) result = adoption_make(history, &changes, &asking->adopter, &asking->adoption, &asking->error);
    if (result == 0) asking->adoption.back->facts = build_brief(from);
    return result;
}

static void compare(uv_work_t *work) {
    struct asking *asking = work->data;
    json_t *from = NULL, *to = NULL;
    int result = build_read_facts(asking->from_path, &from, &asking->error);
    if (result == 0) result = build_read_facts(asking->to_path, &to, &asking->error);
    if (result == 0) result = compare_builds(asking, from, to);
    if (result == 0) asking->build.facts = build_brief(to);
    json_decref(from);
    json_decref(to);
}

static void release_asking(void *data) {
    struct asking *asking = data;
    adoption_free(&asking->adoption);
    history_let_go(asking->history);
    build_free(&asking->build);
    free(asking);
}

static void on_compared(uv_work_t *work, int status) {
    struct asking *asking = work->data;
    struct engine *engine = asking->ref.engine;
    struct sandbox *sandbox = sandbox_deref(&asking->ref);
    (void)status;
    /* Whatever changed its code meanwhile knows better. */
    bool is_as_compared = sandbox && sandbox->node && !sandbox->code.reload &&
                          strcmp(sandbox->code.build.digest, asking->from_build) == 0;
    loop_note(engine->loop, "reload", asking->ref.id);
    ledger_beams_written(&engine->builds.ledger, asking->beams.owner, asking->beams.written_bytes);
    if (asking->error.code != E_NONE) engine_log_error(engine, "unknown_code_runs", asking->ref.id, &asking->error);
    if (is_as_compared && asking->error.code == E_NONE) {
        live_code_adopt(sandbox, asking->reload_id, &asking->adoption, &asking->build);
        if (!asking->on_probation) live_code_forget(sandbox);
        sandbox->code.is_known = true;
    }
    if (sandbox) {
        sandbox->code.is_asked = false;
        tell_awaited(sandbox);
    }
    loop_discard(engine->loop, release_asking, asking);
    engine->asking--;
    engine_wake(engine);
}

/* The node runs another build than the registry says: a transaction ended while no daemon ran. False when
   nothing is known of that build. */
static bool adopt_unheard(struct sandbox *sandbox, const char *reload_id, const char *digest, bool on_probation) {
    struct engine *engine = sandbox->engine;
    struct asking *asking = new_or_abort(struct asking);
    struct error error;
    int result = store_build_path(engine->store, sandbox->code.build.digest, asking->from_path, PATH_MAX, &error);
    if (result == 0) result = store_build_path(engine->store, digest, asking->to_path, PATH_MAX, &error);
    if (result < 0) {
        engine_log_error(engine, "unknown_code_runs", sandbox->id, &error);
        free(asking);
        return false;
    }
    asking->ref = sandbox_ref(sandbox);
    asking->beams = (struct beam_store){.home = engine->config.home, .owner = sandbox->owner};
    asking->on_probation = on_probation;
    asking->work.data = asking;
    snprintf(asking->reload_id, sizeof asking->reload_id, "%s", reload_id);
    memcpy(asking->from_build, sandbox->code.build.digest, sizeof asking->from_build);
    snprintf(asking->build.digest, sizeof asking->build.digest, "%s", digest);
    asking->history = history_hold(sandbox->code.history);
    asking->adopter = (struct adopter){asking->ref.id, sandbox->times.started_at_ms, sandbox->owner, sandbox->owner};
    engine->asking++;
    host_work(&engine->host, sandbox->owner, &asking->work, compare, on_compared);
    return true;
}

/* What the node says of its transactions: the one under way, if it is on probation, and how the last one ended. */
struct told {
    char *id; /* of the one whose outcome runs now; NULL: none is known */
    bool is_under_way, on_probation;
    const struct term *last;
    char *last_id;
};

static char *text_at(const struct term *map, const char *key) {
    char *text = NULL;
    const struct term *value = map ? term_map_get(map, key) : NULL;
    /* An id or a phase: what is longer is neither. */
    return value && !term_is_atom(value, "nil") && term_to_text(value, RELOAD_ID_BYTES, &text) ? text : NULL;
}

static bool ended_as(const struct term *last, const char *outcome) {
    const struct term *value = last ? term_map_get(last, "outcome") : NULL;
    return value && term_is_atom(value, outcome);
}

static struct told read_state(const struct term *state) {
    const struct term *under_way = term_map_get(state, "transaction");
    CLEANUP_FREE char *phase = text_at(under_way, "phase");
    struct told told = {.last = term_map_get(state, "last"), .on_probation = string_equal(phase, "probation")};
    told.is_under_way = under_way && under_way->type == TERM_MAP;
    told.last_id = text_at(told.last, "id");
    if (told.on_probation)
        told.id = text_at(under_way, "id");
    else if (ended_as(told.last, "committed"))
        told.id = text_at(told.last, "id");
    return told;
}

/* A probation that an earlier daemon knew of has ended while no daemon ran. */
static void settle_unheard(struct sandbox *sandbox, const struct told *told) {
    bool is_last = string_equal(told->last_id, sandbox->code.probation.id);
    if (!sandbox->code.probation.id[0] || told->is_under_way) return;
    if (is_last && ended_as(told->last, "rolled_back")) take_back(sandbox, told->last);
    live_code_forget(sandbox);
}

/* Whether it has to be waited for until more is known. */
static bool learn(struct sandbox *sandbox, const struct told *told) {
    char digest[STORE_DIGEST_BYTES];
    settle_unheard(sandbox, told);
    if (!told->id || !reload_id_read(sandbox, told->id, digest)) return false;
    bool is_new = strcmp(told->id, sandbox->code.last_reload) != 0 && strcmp(digest, sandbox->code.build.digest) != 0;
    if (is_new) return adopt_unheard(sandbox, told->id, digest, told->on_probation);
    if (told->on_probation) memcpy(sandbox->code.probation.id, told->id, RELOAD_ID_BYTES);
    return false;
}

static void on_code_state(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct sandbox *sandbox = data;
    (void)reason;
    if (error || sandbox->code.reload) { /* which hears of its own transaction by itself */
        sandbox->code.is_asked = false;
        tell_awaited(sandbox);
        return;
    }
    struct told told = read_state(result);
    sandbox->code.is_known = !told.is_under_way || told.on_probation;
    sandbox->code.is_asked = learn(sandbox, &told);
    free(told.id);
    free(told.last_id);
    /* Otherwise a transaction is under way: the agent tells of its end, and is asked again. */
    if (sandbox->code.is_known && !sandbox->code.is_asked) tell_awaited(sandbox);
}

void live_code_ask(struct sandbox *sandbox) {
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    sandbox->code.is_asked = true;
    node_call(sandbox->node, "code_state", &args, sandbox->engine->config.heartbeat_deadline_ms, on_code_state,
              sandbox);
}

bool live_code_is_known(struct sandbox *sandbox) {
    if (sandbox->code.is_known && !sandbox->code.is_asked) return true;
    if (!sandbox->code.is_asked && sandbox->node) live_code_ask(sandbox);
    return false;
}

void live_code_await(struct sandbox *sandbox, void (*told)(void *data), void *data) {
    sandbox->code.told = told;
    sandbox->code.told_data = data;
}

void live_code_forgo(struct sandbox *sandbox) {
    sandbox->code.told = NULL;
}

void live_code_gone(struct sandbox *sandbox) {
    tell_awaited(sandbox);
}

/* At the start, before any thread has it. */
void live_code_restore(struct engine *engine, const struct store_history *row) {
    struct sandbox *sandbox = map_get(&engine->sandboxes, row->sandbox);
    struct error error;
    if (!sandbox) return;
    if (!sandbox->code.history) sandbox->code.history = history_share(&(struct history){0});
    if (history_restore(&sandbox->code.history->history, row->module, row->text)) return;
    error_set(&error, E_SYSTEM, "the history of %s is damaged", row->module);
    engine_log_error(engine, "history_lost", sandbox->id, &error);
}

void live_code_restored(struct sandbox *sandbox) {
    struct probation *probation = &sandbox->code.probation;
    struct build build = {0};
    struct error ignored;
    json_t *undo = probation->back ? json_loads(probation->back->undo, 0, NULL) : NULL;
    if (!probation->back) return;
    way_back_free(probation->back);
    probation->back = way_back_make(history_of(sandbox->code.history), sandbox->id, undo);
    json_decref(undo);
    if (probation->back && build_read(sandbox->engine->store, probation->build, &build, &ignored) == 0)
        probation->back->facts = build.facts;
}
