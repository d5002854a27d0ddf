/* What a sandbox that did not start gets before it is started again: its source as it is now. What kept it from
   starting may have been mended there, and a reload would need a VM. */
#include <stdlib.h>

#include "core/core_internal.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"

struct renewal {
    struct request reload;
    struct request *restart;
    struct sandbox_ref ref;
    void (*go_on)(struct sandbox *sandbox, struct request *restart);
};

/* The source is gone, or not the caller's to read: what is known of it is started as it is. Or it has been started. */
static bool is_no_matter(const struct error *error) {
    return error->code == E_NOT_FOUND || error->code == E_FORBIDDEN || error->code == E_CONFLICT;
}

static void on_reloaded(struct request *reload, json_t *result, const struct error *error) {
    struct renewal *renewal = reload->transport;
    struct engine *engine = renewal->ref.engine;
    struct sandbox *sandbox = sandbox_deref(&renewal->ref);
    struct error ended;
    bool may_go_on = sandbox && !engine->closing.is_begun;
    if (!may_go_on && !error) {
        error_set(&ended, E_SHUTDOWN, "the sandbox '%s' is being ended", renewal->ref.id);
        error = &ended;
    }
    if (may_go_on && (!error || is_no_matter(error))) {
        json_decref(result);
        renewal->go_on(sandbox, renewal->restart);
    } else {
        answer_error(engine, renewal->restart, error, result);
    }
    json_decref(reload->params);
    free(renewal);
}

bool renew_is_wanted(const struct sandbox *sandbox, const struct request *restart) {
    return sandbox->tree.has_not_started && !sandbox->node && restart->caller.peer_fd >= 0;
}

void renew(struct sandbox *sandbox, struct request *restart,
           void (*go_on)(struct sandbox *sandbox, struct request *restart)) {
    struct renewal *renewal = new_or_abort(struct renewal);
    *renewal = (struct renewal){
        .reload = {.params = json_pack("{s:s}", "id", sandbox->id),
                   .caller = restart->caller,
                   .done = on_reloaded,
                   .transport = renewal},
        .restart = restart,
        .ref = sandbox_ref(sandbox),
        .go_on = go_on,
    };
    reload_at_rest(sandbox->engine, &renewal->reload);
}
