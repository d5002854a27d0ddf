/* restart: asked for or decided by policy, with the states of the tree's processes where a caller wants them kept. */
#include "core/core_internal.h"
#include "core/jobs/steps.h"
#include "core/policy/states_room.h"
#include "core/queue.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/toolchains/own.h"

enum {
    SNAPSHOT_TIMEOUT_MS = 2000,  /* for the processes, each of which may be busy */
    SNAPSHOT_DEADLINE_MS = 5000, /* for all of it: a VM that hangs is restarted all the same */
    LEARNING_MAX_MS = 2000,      /* until the old tree has said what it runs */
};

struct restart_job {
    struct job job;
    struct steps steps;
    uint64_t call_id; /* while the old tree's states are asked for */
    struct states_room room;
    struct kept_states states;
};

enum {
    RESTART_NOTE,
    RESTART_STATES,
    RESTART_LEARN,
    RESTART_END_TREE,
    RESTART_TOOLCHAIN,
    RESTART_PORTS,
    RESTART_START,
    RESTART_SAVE,
    RESTART_STEPS
};

static void note_restart(void *job);
static void take_states(void *job);
static void abort_taking(void *job);
static void learn_code(void *job);
static void abort_learning(void *job);
static void end_old_tree(void *job);
static void find_toolchain(void *job);
static void open_ports(void *job);
static void start_tree(void *job);
static void abort_starting(void *job);
static void save_restarted(void *job);

static const struct step restart_steps[RESTART_STEPS] = {
    [RESTART_NOTE] = {"note", note_restart, NULL},
    [RESTART_STATES] = {"states", take_states, abort_taking},
    [RESTART_LEARN] = {"learn", learn_code, abort_learning},
    [RESTART_END_TREE] = {"end_tree", end_old_tree, NULL},
    [RESTART_TOOLCHAIN] = {"toolchain", find_toolchain, NULL},
    [RESTART_PORTS] = {"ports", open_ports, NULL},
    [RESTART_START] = {"start", start_tree, abort_starting}, /* without the states it goes back to end_tree */
    [RESTART_SAVE] = {"save", save_restarted, NULL},
};

static void undo_restart(void *job);
static void end_restart(void *job);

static const struct steps_plan restart_plan = {restart_steps, RESTART_STEPS, undo_restart, end_restart, free};

/* ---- note: the registry knows of the restart before the old tree goes, so that the next daemon goes on with it ----
 */

/* A restart that the registry could not take has not happened: one that was due stays due. */
static void on_noted(void *data, const struct error *error) {
    struct restart_job *restart = data;
    struct sandbox *sandbox = restart->job.sandbox;
    if (error) {
        sandbox->restarts.count--;
        if (sandbox->status == STATUS_ERROR) sandbox_schedule_restart(sandbox, true);
    }
    step_done(&restart->steps, error);
}

static void note_restart(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    const struct request *request = restart->job.request;
    uv_timer_stop(&sandbox->restarts.backoff);
    sandbox->restarts.count++;
    if (request) sandbox->tree.starts_fresh = json_is_true(json_object_get(request->params, "fresh"));
    sandbox_save_as(sandbox, STATUS_STARTING, on_noted, restart);
}

/* ---- states: what the old tree's processes know ---- */

/* On a thread where they are many: what they are made of is for the node to choose. */
static void *make_states(const struct term *snapshot) {
    struct kept_states *states = calloc(1, sizeof *states);
    if (states) states_take(states, snapshot);
    return states;
}

static void release_states(void *states) {
    states_free(states);
    free(states);
}

static const struct node_preparation as_states = {.make = make_states, .release = release_states};

static void on_states_taken(void *data, void *made, const struct term *reason, const struct error *error) {
    struct restart_job *restart = data;
    struct error why;
    (void)reason;
    if (made) {
        restart->states = *(struct kept_states *)made;
        free(made);
    } else {
        error_set(&why, error ? error->code : E_NO_MEMORY, "the states could not be had: %s",
                  error ? error->detail : "no memory for them");
        states_none(&restart->states, &why);
    }
    states_room_settle(&restart->room, restart->states.list.capacity);
    step_done(&restart->steps, NULL);
}

/* Why there is nothing to keep; NULL when there is. */
static const char *why_fresh(const struct sandbox *sandbox) {
    if (sandbox->tree.starts_fresh) return "no states were to be kept";
    if (!sandbox->node) return "its VM had ended";
    if (node_is_frozen(sandbox->node)) return "it was frozen";
    return NULL;
}

static void ask_states(struct restart_job *restart) {
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    term_map_number(&map, "timeout_ms", SNAPSHOT_TIMEOUT_MS);
    term_map_end(&map);
    restart->call_id = node_call_prepared(restart->job.sandbox->node, "snapshot_states", &args, SNAPSHOT_DEADLINE_MS,
                                          &as_states, on_states_taken, restart);
}

/* False: there are none, and the restart goes on without. */
static bool has_states(struct restart_job *restart) {
    const char *why = why_fresh(restart->job.sandbox);
    struct error error;
    if (!why) return true;
    error_set(&error, E_CONFLICT, "%s", why);
    states_none(&restart->states, &error);
    return false;
}

/* Its VM may have ended while it waited. */
static void on_room(void *data) {
    struct restart_job *restart = data;
    if (has_states(restart)) {
        ask_states(restart);
        return;
    }
    states_room_give(&restart->room);
    step_done(&restart->steps, NULL);
}

static void take_states(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    uv_timer_stop(&sandbox->restarts.backoff); /* it may have ended meanwhile, by itself */
    if (sandbox->status == STATUS_RUNNING) sandbox_set_status(sandbox, STATUS_STOPPING, "restart");
    if (has_states(restart))
        states_room_take(sandbox->engine, &restart->room, sandbox->owner, on_room, restart);
    else
        step_done(&restart->steps, NULL);
}

static void abort_taking(void *job) {
    struct restart_job *restart = job;
    if (restart->room.is_waiting)
        states_room_give(&restart->room);
    else
        node_cancel(restart->job.sandbox->node, restart->call_id);
    step_aborted(&restart->steps);
}

/* ---- learn: a daemon that has just come asks the node which code it was changed to last; that starts again ---- */

static void on_learnt(void *job) {
    struct restart_job *restart = job;
    live_code_forgo(restart->job.sandbox);
    step_done(&restart->steps, NULL);
}

static void learn_code(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    bool can_say = sandbox->node && !node_is_frozen(sandbox->node);
    if (!can_say || live_code_is_known(sandbox)) {
        step_done(&restart->steps, NULL);
        return;
    }
    live_code_await(sandbox, on_learnt, restart);
    step_wait(&restart->steps, sandbox->engine->loop, LEARNING_MAX_MS, on_learnt);
}

static void abort_learning(void *job) {
    struct restart_job *restart = job;
    live_code_forgo(restart->job.sandbox);
    step_aborted(&restart->steps);
}

/* ---- end_tree ---- */

static void on_old_tree_ended(void *data) {
    struct restart_job *restart = data;
    step_done(&restart->steps, NULL);
}

static void end_old_tree(void *job) {
    struct restart_job *restart = job;
    tree_end(restart->job.sandbox, on_old_tree_ended, restart);
}

/* ---- toolchain ---- */

static void on_toolchain(void *data, const struct error *error) {
    struct restart_job *restart = data;
    struct sandbox *sandbox = restart->job.sandbox;
    toolchain_hold(&sandbox->toolchain, sandbox->toolchain); /* or its successor, if its files have changed */
    step_done(&restart->steps, error);
}

static void find_toolchain(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    settings_renew_profile(sandbox);
    sandbox_set_status(sandbox, STATUS_STARTING, "restart");
    const struct request *request = restart->job.request;
    bool is_owners = request && request->caller.peer_fd >= 0 && request->caller.uid == sandbox->owner;
    if (sandbox->toolchain->own && is_owners)
        own_use(sandbox->toolchain, request->caller.peer_fd, on_toolchain, restart);
    else
        toolchain_need(sandbox->toolchain, on_toolchain, restart);
}

/* ---- ports: the launcher keeps them, unless the machine was started anew: then their owner takes them again ---- */

static void on_ports(void *data, const struct error *error) {
    struct restart_job *restart = data;
    step_done(&restart->steps, error);
}

static void open_ports(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    const struct request *request = restart->job.request;
    bool is_owners = request && request->caller.peer_fd >= 0 && request->caller.uid == sandbox->owner;
    if (is_owners)
        ports_open(sandbox, request->caller.peer_fd, 0, on_ports, restart);
    else
        step_done(&restart->steps, NULL);
}

/* ---- start ---- */

/* The states may be what the application could not start with. */
static void start_without_states(struct restart_job *restart, const struct error *error) {
    struct error why;
    error_set(&why, error->code, "the application did not start with the states: %s", error->detail);
    states_none(&restart->states, &why);
    step_go(&restart->steps, RESTART_END_TREE);
}

static void on_restarted(void *data, const struct error *error) {
    struct restart_job *restart = data;
    restart->job.sandbox->tree.states = NULL;
    if (error && restart->states.count > 0)
        start_without_states(restart, error);
    else
        step_done(&restart->steps, error);
}

static void start_tree(void *job) {
    struct restart_job *restart = job;
    tree_start(restart->job.sandbox, restart->states.count > 0 ? &restart->states : NULL, on_restarted, restart);
}

/* Undoing ends the tree. */
static void abort_starting(void *job) {
    struct restart_job *restart = job;
    step_aborted(&restart->steps);
}

/* ---- save ---- */

static void on_saved(void *data, const struct error *error) {
    struct restart_job *restart = data;
    step_done(&restart->steps, error);
}

static void save_restarted(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    sandbox->tree.has_not_started = false;
    sandbox_set_error(sandbox, sandbox->limits.killed.code != E_NONE ? &sandbox->limits.killed : NULL);
    sandbox_set_status(sandbox, STATUS_RUNNING, NULL);
    sandbox_save(sandbox, on_saved, restart);
}

/* ---- the end ---- */

/* While the service ends, the registry goes on saying that it starts: the next daemon takes that up. */
static void on_failed_tree_ended(void *data) {
    struct restart_job *restart = data;
    struct sandbox *sandbox = restart->job.sandbox;
    const struct error *error = &restart->steps.error;
    if (!sandbox->ending.is_destroying && !sandbox->engine->closing.is_begun) {
        sandbox->tree.has_not_started = true;
        sandbox_set_error(sandbox, error);
        sandbox_set_status(sandbox, STATUS_ERROR, error->detail);
        sandbox_save(sandbox, NULL, NULL);
        if (!restart->job.request) patterns_note(sandbox->engine, sandbox, PATTERN_OWN_END, error);
        if (!restart->steps.is_called_off) sandbox_schedule_restart(sandbox, true);
    }
    steps_undone(&restart->steps);
}

/* Nothing is lost while the old tree is only asked: the next daemon goes on with it. */
static void undo_restart(void *job) {
    struct restart_job *restart = job;
    if (restart->steps.at < RESTART_END_TREE)
        steps_undone(&restart->steps);
    else
        tree_end(restart->job.sandbox, on_failed_tree_ended, restart);
}

static void tell_restarted(struct restart_job *restart) {
    struct sandbox *sandbox = restart->job.sandbox;
    json_t *told = json_pack("{s:i, s:I, s:I}", "restart_count", (int)sandbox->restarts.count, "kept",
                             (json_int_t)restart->states.count, "lost_count", (json_int_t)restart->states.lost_count);
    engine_event(sandbox->engine, EVENT_RESTARTED, sandbox->id, told);
    if (!restart->job.request) return;
    json_t *answer = sandbox_to_json(sandbox);
    json_object_set_new(answer, "states", states_to_json(&restart->states));
    answer_ok(sandbox->engine, restart->job.request, answer);
}

/* A restart that was called off after the registry had it is done, unless the sandbox is being destroyed. */
static void end_restart(void *job) {
    struct restart_job *restart = job;
    struct sandbox *sandbox = restart->job.sandbox;
    const struct error *error = &restart->steps.error;
    if (error->code == E_NONE && sandbox->ending.is_destroying) error = &restart->steps.why;
    if (error->code == E_NONE)
        tell_restarted(restart);
    else if (restart->job.request)
        answer_error(sandbox->engine, restart->job.request, error, NULL);
    sandbox->tree.states = NULL;
    states_free(&restart->states);
    states_room_give(&restart->room);
    job_finish(&restart->job);
}

/* ---- the beginning ---- */

static void start(struct job *job) {
    steps_begin(&((struct restart_job *)job)->steps);
}

static void call_off(struct job *job, const struct error *why) {
    steps_call_off(&((struct restart_job *)job)->steps, why);
}

static void submit_restart(struct sandbox *sandbox, struct request *request) {
    struct restart_job *restart = new_or_abort(struct restart_job);
    restart->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = call_off};
    steps_init(&restart->steps, &restart_plan, restart);
    job_submit(&restart->job);
}

void engine_restart(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (sandbox && engine->closing.is_begun) error_set(&error, E_SHUTDOWN, "the service is shutting down");
    if (!sandbox || engine->closing.is_begun) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    sandbox->restarts.in_a_row = 0;
    patterns_note(engine, sandbox, PATTERN_OWN_END, NULL); /* a request begins the count anew */
    if (renew_is_wanted(sandbox, request))
        renew(sandbox, request, submit_restart);
    else
        submit_restart(sandbox, request);
}

static void on_backoff_over(uv_timer_t *timer) {
    struct sandbox *sandbox = timer->data;
    sandbox->restarts.in_a_row++;
    submit_restart(sandbox, NULL);
}

/* A sandbox that ends again and again rests for longer. */
static void schedule(struct sandbox *sandbox, const struct restart_policy *policy, bool crashed) {
    uint64_t delay_ms;
    uint64_t rest_ms = patterns_rest_ms(&sandbox->security.patterns, PATTERN_OWN_END, clock_monotonic_ms());
    if (sandbox->engine->closing.is_begun || sandbox->ending.is_destroying) return;
    if (restart_policy_decide(policy, crashed, sandbox->restarts.in_a_row, &delay_ms))
        uv_timer_start(&sandbox->restarts.backoff, on_backoff_over, delay_ms > rest_ms ? delay_ms : rest_ms, 0);
}

void sandbox_schedule_restart(struct sandbox *sandbox, bool crashed) {
    schedule(sandbox, &sandbox->restarts.policy, crashed);
}

void sandbox_restart_later(struct sandbox *sandbox) {
    static const struct restart_policy always = {RESTART_ALWAYS, 0};
    schedule(sandbox, &always, true);
}

void sandbox_resume_restart(struct sandbox *sandbox) {
    submit_restart(sandbox, NULL);
}
