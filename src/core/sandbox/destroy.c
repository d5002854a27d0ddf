/* destroy: a sandbox with all it had removed, on request or by itself. */
#include "core/core_internal.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/volumes/volumes.h"

static void tell_waiters(struct sandbox *sandbox, const struct error *error) {
    struct waiter *waiter = sandbox->ending.waiters;
    sandbox->ending.waiters = NULL;
    while (waiter) {
        struct waiter *next = waiter->next;
        waiter->done(waiter->data, error);
        free(waiter);
        waiter = next;
    }
}

static void remove_for_good(struct sandbox *sandbox) {
    volumes_withdraw(sandbox);
    if (sandbox->config.watch) link_withdraw(sandbox->engine->host.link, sandbox->id);
    sandbox_remove(sandbox);
}

static void on_ports_closed(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    (void)error;
    for (size_t i = 0; i < sandbox->config.ports.count; i++) ports_tell_closed(sandbox, i);
    engine_event(sandbox->engine, EVENT_DESTROYED, sandbox->id, json_object());
    tell_waiters(sandbox, NULL);
    remove_for_good(sandbox);
}

static void on_destroyed_tree_ended(void *data) {
    struct sandbox *sandbox = data;
    ports_close_all(sandbox, on_ports_closed, sandbox);
}

/* Out of the registry first: after a kill from here on, the next daemon finds a node without a sandbox and buries
   it. */
static void on_forgotten(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    if (error) {
        sandbox->ending.is_destroying = false;
        sandbox_start_ttl(sandbox);
        if (sandbox->status == STATUS_ERROR) sandbox_schedule_restart(sandbox, true);
        tell_waiters(sandbox, error);
        engine_wake(sandbox->engine);
        return;
    }
    sandbox->persistent = false;
    sandbox_set_status(sandbox, STATUS_STOPPING, "destroy");
    tree_end(sandbox, on_destroyed_tree_ended, sandbox);
}

void sandbox_jobs_over(struct sandbox *sandbox) {
    if (sandbox->ending.is_stillborn) {
        tell_waiters(sandbox, NULL);
        remove_for_good(sandbox);
    } else if (sandbox->persistent)
        store_delete_sandbox(sandbox->engine->store, sandbox->id, on_forgotten, sandbox);
    else
        on_forgotten(sandbox, NULL);
}

void sandbox_destroy(struct sandbox *sandbox, const char *reason, void (*done)(void *data, const struct error *error),
                     void *data) {
    struct waiter *waiter = new_or_abort(struct waiter);
    *waiter = (struct waiter){.next = sandbox->ending.waiters, .done = done, .data = data};
    sandbox->ending.waiters = waiter;
    if (sandbox->ending.is_destroying) return;
    struct error why;
    error_set(&why, E_CONFLICT, "the sandbox '%s' was destroyed: %s", sandbox->id, reason);
    sandbox->ending.is_destroying = true;
    sandbox_stop_timers(sandbox);
    if (sandbox->queue.jobs)
        jobs_abort_all(sandbox, &why);
    else
        sandbox_jobs_over(sandbox);
}

static void on_destroyed(void *data, const struct error *error) {
    struct request *request = data;
    struct engine *engine = request->state;
    if (error)
        answer_error(engine, request, error, NULL);
    else
        answer_ok(engine, request,
                  json_pack("{s:O, s:s}", "id", json_object_get(request->params, "id"), "status", "destroyed"));
}

void engine_destroy(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    request->state = engine;
    sandbox_destroy(sandbox, "on request", on_destroyed, request);
}
