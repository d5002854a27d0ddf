/* What becomes of a sandbox that did what is refused: what its profile says, and the profile's next step when it goes
   on. Whatever can't be done at once, since the sandbox is starting or changing its code, is done when it runs. */
#include "core/core_internal.h"
#include "core/policy/containment.h"

#include <string.h>

#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"

enum { DESTROY_RETRY_MS = 1000, ROLLBACK_RETRIES = 2 };

static const struct escalation_policy *policy_of(const struct sandbox *sandbox) {
    return &sandbox->config.profile->on_violation;
}

static void tell(struct sandbox *sandbox, enum guard_containment action) {
    engine_event(sandbox->engine, EVENT_CONTAINED, sandbox->id,
                 json_pack("{s:s, s:s, s:i}", "action", guard_containment_name(action), "what",
                           sandbox->security.containment.what, "step",
                           (int)sandbox->security.containment.escalation.step + 1));
}

static void require(struct sandbox *sandbox, enum guard_containment action) {
    if (action > sandbox->security.containment.due) sandbox->security.containment.due = action;
    containment_wake(sandbox);
}

/* ---- the code from before ---- */

/* The request that the engine makes of itself. */
struct rollback {
    struct request request;
    struct sandbox_ref ref;
};

static void do_more_than_roll_back(struct sandbox *sandbox) {
    require(sandbox, escalation_next(&sandbox->security.containment.escalation, policy_of(sandbox), GUARD_ROLLBACK));
}

static void rollback_failed(struct sandbox *sandbox, const struct error *error) {
    engine_log_error(sandbox->engine, "containment_rollback_failed", sandbox->id, error);
    do_more_than_roll_back(sandbox);
}

static void rollback_done(struct sandbox *sandbox) {
    struct error error;
    error_set(&error, E_POLICY, "the code was taken back: it tried what its profile refuses: %s",
              sandbox->security.containment.what);
    sandbox->code.previous_build[0] = '\0'; /* what was taken back is not what to go back to */
    sandbox_set_error(sandbox, &error);
    sandbox_save(sandbox, NULL, NULL);
    engine_event(sandbox->engine, EVENT_ROLLED_BACK, sandbox->id, problem_json(&error));
    if (sandbox->security.containment.due == GUARD_ROLLBACK)
        sandbox->security.containment.due = GUARD_LOG; /* of the code that is gone */
    containment_wake(sandbox);
}

static void on_rolled_back(struct request *request, json_t *result, const struct error *error) {
    struct rollback *rollback = request->transport;
    struct sandbox *sandbox = sandbox_deref(&rollback->ref);
    if (sandbox && sandbox->security.containment.is_rolling_back) {
        sandbox->security.containment.is_rolling_back = false;
        if (error && error->code != E_SHUTDOWN && !sandbox->ending.is_destroying)
            rollback_failed(sandbox, error);
        else if (!error)
            rollback_done(sandbox);
    }
    json_decref(result);
    json_decref(request->params);
    free(rollback);
}

static void run_rollback(struct engine *engine, struct request *request) {
    const struct rollback *rollback = request->transport;
    const struct sandbox *sandbox = sandbox_deref(&rollback->ref);
    char build[STORE_DIGEST_BYTES] = "";
    if (sandbox) memcpy(build, sandbox->code.previous_build, sizeof build);
    reload_to_build(engine, request, build);
}

static void ask_for_rollback(struct sandbox *sandbox) {
    static const struct audit_subject subject = {.op = "rollback", .kind = AUDIT_ENDS};
    struct rollback *rollback = new_or_abort(struct rollback);
    rollback->ref = sandbox_ref(sandbox);
    rollback->request = (struct request){
        .params = json_pack("{s:s, s:i, s:i}", "id", sandbox->id, "retries", ROLLBACK_RETRIES, "probation_ms", 0),
        .caller = {.uid = sandbox->owner, .role = ROLE_ADMIN, .peer_fd = -1, .is_service = true},
        .done = on_rolled_back,
        .transport = rollback,
    };
    sandbox->security.containment.is_rolling_back = true;
    tell(sandbox, GUARD_ROLLBACK);
    engine_carry_out(sandbox->engine, &subject, &rollback->request, run_rollback);
}

static void roll_back(struct sandbox *sandbox) {
    if (sandbox->code.previous_build[0])
        ask_for_rollback(sandbox);
    else
        do_more_than_roll_back(sandbox); /* it began with this code */
}

/* ---- the others ---- */

static void on_destroy_due(uv_timer_t *timer);

/* Retry: the registry may be writable later (disk full). */
static void on_destroyed(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    if (error) uv_timer_start(&sandbox->security.containment.destroy, on_destroy_due, DESTROY_RETRY_MS, 0);
}

static void on_destroy_due(uv_timer_t *timer) {
    struct sandbox *sandbox = timer->data;
    sandbox->ending.is_punished = true;
    sandbox_destroy(sandbox, "it tried what its profile refuses", on_destroyed, sandbox);
}

/* In the loop's next turn: the node itself tells of the violation, and is still in use here. */
static void destroy(struct sandbox *sandbox) {
    tell(sandbox, GUARD_DESTROY);
    uv_timer_start(&sandbox->security.containment.destroy, on_destroy_due, 0, 0);
}

static void freeze(struct sandbox *sandbox) {
    char reason[FREEZE_REASON_BYTES];
    snprintf(reason, sizeof reason, "violation: %.100s", sandbox->security.containment.what);
    if (sandbox_freeze(sandbox, reason)) tell(sandbox, GUARD_FREEZE);
}

/* ---- when ---- */

static bool runs(const struct sandbox *sandbox) {
    return sandbox->status == STATUS_RUNNING && sandbox->node && !sandbox->security.containment.is_rolling_back;
}

void containment_wake(struct sandbox *sandbox) {
    static void (*const actions[GUARD_CONTAINMENTS])(struct sandbox *) = {
        [GUARD_ROLLBACK] = roll_back, [GUARD_FREEZE] = freeze, [GUARD_DESTROY] = destroy};
    enum guard_containment due = sandbox->security.containment.due;
    bool may_act = due == GUARD_DESTROY || runs(sandbox);
    if (due == GUARD_LOG || !may_act || sandbox->ending.is_destroying || sandbox->engine->closing.is_begun) return;
    sandbox->security.containment.due = GUARD_LOG;
    actions[due](sandbox);
}

void containment_note(struct sandbox *sandbox, const char *what) {
    struct containment *containment = &sandbox->security.containment;
    enum guard_containment action =
        escalation_note(&containment->escalation, policy_of(sandbox), uv_now(sandbox->engine->loop));
    if (action == GUARD_LOG || sandbox->ending.is_destroying) return;
    snprintf(containment->what, sizeof containment->what, "%.100s", what);
    require(sandbox, action);
}

void containment_refused(struct sandbox *sandbox, const struct error *error) {
    alarm_event(sandbox->engine, &sandbox->security.alarms, EVENT_VIOLATION, sandbox->id,
                json_pack("{s:s, s:s}", "what", "scan", "detail", error->detail));
    containment_note(sandbox, "scan");
}
