/* freeze and thaw: a sandbox stopped whole by the kernel, and continued. They wait for nothing in the sandbox's queue:
   what keeps it busy may be the reason to stop it. */
#include <stdio.h>
#include <string.h>

#include "core/sandbox/sandbox.h"
#include "core/watch/watching.h"

struct freezing {
    struct sandbox_ref ref;
    struct request *request; /* NULL: the engine's own wish */
    char reason[FREEZE_REASON_BYTES];
    bool frozen;
};

static void tell(const struct freezing *freezing, struct sandbox *sandbox) {
    sandbox->times.updated_at_ms = clock_wall_ms();
    engine_event(freezing->ref.engine, freezing->frozen ? EVENT_FROZEN : EVENT_THAWED, sandbox->id,
                 json_pack("{s:s}", "reason", freezing->reason));
    watching_wake(sandbox);
}

static void fail(const struct freezing *freezing, const struct error *error) {
    if (freezing->request)
        answer_error(freezing->ref.engine, freezing->request, error, NULL);
    else
        engine_log_error(freezing->ref.engine, "freeze_failed", freezing->ref.id, error);
}

static void on_done(void *data, const struct error *error) {
    struct freezing *freezing = data;
    struct sandbox *sandbox = sandbox_deref(&freezing->ref);
    struct error gone;
    if (sandbox && !freezing->request) sandbox->security.is_freezing = false;
    if (error) {
        fail(freezing, error);
    } else if (sandbox) {
        tell(freezing, sandbox);
        if (freezing->request) answer_ok(freezing->ref.engine, freezing->request, sandbox_to_json(sandbox));
    } else {
        error_set(&gone, E_NOT_FOUND, "there is no sandbox '%s' any more", freezing->ref.id);
        fail(freezing, &gone);
    }
    free(freezing);
}

static int check(const struct sandbox *sandbox, bool frozen, struct error *reterr) {
    if (sandbox->engine->closing.is_begun) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (sandbox->ending.is_destroying || !sandbox->node || sandbox->status != STATUS_RUNNING)
        return error_set(reterr, E_CONFLICT, "the sandbox '%s' is %s; only one that runs can be %s", sandbox->id,
                         status_name(sandbox->status), frozen ? "frozen" : "thawed");
    return 0;
}

static void ask(struct sandbox *sandbox, bool frozen, const char *reason, struct request *request) {
    struct freezing *freezing = new_or_abort(struct freezing);
    *freezing = (struct freezing){.ref = sandbox_ref(sandbox), .request = request, .frozen = frozen};
    snprintf(freezing->reason, sizeof freezing->reason, "%.*s",
             (int)utf8_cut(reason, strlen(reason), sizeof freezing->reason - 1), reason);
    node_freeze(sandbox->node, frozen, on_done, freezing);
}

bool sandbox_freeze(struct sandbox *sandbox, const char *reason) {
    struct error error;
    if (sandbox->security.is_freezing || check(sandbox, true, &error) < 0 || node_is_frozen(sandbox->node))
        return false;
    sandbox->security.is_freezing = true;
    ask(sandbox, true, reason, NULL);
    return true;
}

/* One that is frozen already is told so with success: the caller has what it wants. */
static void serve(struct engine *engine, struct request *request, bool frozen) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox || check(sandbox, frozen, &error) < 0)
        answer_error(engine, request, &error, NULL);
    else if (node_is_frozen(sandbox->node) == frozen)
        answer_ok(engine, request, sandbox_to_json(sandbox));
    else
        ask(sandbox, frozen, "on request", request);
}

void engine_freeze(struct engine *engine, struct request *request) {
    serve(engine, request, true);
}

void engine_thaw(struct engine *engine, struct request *request) {
    serve(engine, request, false);
}
