/* Closing the engine: nothing new begins, what is under way is called off, and each part is closed once no callback of
   its own is to come. Nodes run on. */
#include "audit/audit.h"
#include "core/core_internal.h"
#include "core/jobs/oneshot.h"
#include "core/network/names.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"
#include "core/volumes/volumes.h"
#include "core/watch/watching.h"
#include "webhook/webhook.h"

static void call_off(struct sandbox *sandbox, const struct error *why) {
    sandbox_stop_timers(sandbox);
    watching_call_off(sandbox, why);
    jobs_abort_all(sandbox, why);
}

void engine_quiesce(struct engine *engine) {
    struct error why;
    size_t at = 0;
    void *sandbox;
    error_set(&why, E_SHUTDOWN, "the service is shutting down");
    engine->closing.is_begun = engine->host.ending = true;
    metering_stop(engine);
    cpu_watch_stop(engine);
    launcher_push_stop(engine);
    toolchains_abort_probes(&engine->toolchains);
    compiler_quiesce(engine->compiler);
    pool_quiesce(engine->pool);
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) call_off(sandbox, &why);
    oneshots_call_off(engine, &why);
    feed_end(engine->events);
    feed_end(engine->trail.feed);
    at = 0;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) feed_end(((struct sandbox *)sandbox)->log);
    feed_pump_quiesce(engine);
}

static void finish_close(void *data) {
    struct engine *engine = data;
    void (*closed)(void *) = engine->closing.hook;
    void *closed_data = engine->closing.data;
    feed_release(engine->events);
    feed_release(engine->trail.feed);
    guard_profiles_free(&engine->profiles);
    settings_free_retired(engine);
    volumes_forget(engine);
    json_decref(engine->scans);
    compiler_free(engine->compiler);
    ledger_free(&engine->builds.ledger);
    map_free(&engine->sandboxes);
    map_free(&engine->host.nodes);
    toolchains_free(&engine->toolchains);
    free(engine);
    closed(closed_data);
}

static void on_reading_closed(uv_handle_t *idle) {
    struct loop_turns *reading = idle->data;
    struct engine *engine = (struct engine *)((char *)reading - offsetof(struct engine, host.reading));
    loop_workers_close(&engine->host.workers, finish_close, engine);
}

/* After all else: nodes that were let go may have left frames to be freed. */
static void close_host(void *data) {
    struct engine *engine = data;
    loop_turns_close(&engine->host.reading, on_reading_closed);
}

void engine_part_open(struct engine *engine) {
    engine->closing.open_parts++;
}

void engine_part_closed(void *data) {
    struct engine *engine = data;
    if (--engine->closing.open_parts == 0 && engine->closing.closed) engine->closing.closed(engine);
}

static void on_handle_closed(uv_handle_t *handle) {
    engine_part_closed(handle->data);
}

static void close_handle(struct engine *engine, void *handle) {
    engine_part_open(engine);
    uv_close(handle, on_handle_closed);
}

static void on_lists_closed(uv_handle_t *idle) {
    struct loop_turns *lists = idle->data;
    engine_part_closed((char *)lists - offsetof(struct engine, lists));
}

/* The nodes run on; only what watches them here is let go. */
static void let_go(struct engine *engine, struct sandbox *sandbox) {
    if (sandbox->node) {
        engine_part_open(engine);
        node_detach(sandbox->node, engine_part_closed, engine);
        sandbox->node = NULL;
    }
    sandbox_remove(sandbox);
}

/* Whether something is under way that still has a callback to come. */
static bool is_busy(struct engine *engine) {
    size_t at = 0;
    void *value;
    if (engine->oneshots.first) return true;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox->queue.jobs || sandbox->ending.is_destroying) return true;
    }
    return engine->trail.admitting > 0 || !toolchains_are_probed(&engine->toolchains) ||
           answers_are_waiting(&engine->answers) || engine->asking > 0 || engine->listings > 0 ||
           engine->builds.is_sweeping || engine->builds.is_sweeping_beams || !compiler_is_quiet(engine->compiler) ||
           !pool_is_quiet(engine->pool);
}

void engine_close(struct engine *engine, void (*closed)(void *data), void *data) {
    engine->closing.is_wanted = true;
    engine->closing.hook = closed;
    engine->closing.data = data;
    engine_quiesce(engine); /* also what has begun since by itself */
    engine_wake(engine);
}

void engine_try_close(struct engine *engine) {
    size_t at = 0;
    void *sandbox;
    if (!engine->closing.is_wanted || is_busy(engine)) return;
    engine->closing.is_wanted = false;
    engine->closing.closed = close_host;
    engine_part_open(engine); /* until all below are being closed */
    engine_event(engine, EVENT_SERVICE_ENDED, NULL, NULL);
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) let_go(engine, sandbox);
    engine_part_open(engine);
    watcher_close(engine->watcher, engine_part_closed, engine);
    engine_part_open(engine);
    link_close(engine->host.link, engine_part_closed, engine);
    engine_part_open(engine);
    pool_close(engine->pool, engine_part_closed, engine);
    engine_part_open(engine);
    feed_pump_close(engine, on_handle_closed);
    close_handle(engine, &engine->answer_idle);
    engine_part_open(engine);
    loop_turns_close(&engine->lists, on_lists_closed);
    close_handle(engine, &engine->meter_timer);
    close_handle(engine, &engine->cpu_watch.timer);
    close_handle(engine, &engine->pushes.timer);
    if (engine->names) {
        engine_part_open(engine);
        names_close(take_ptr(engine->names), engine_part_closed, engine);
    }
    if (engine->webhook.sender) {
        engine_part_open(engine);
        webhook_close(take_ptr(engine->webhook.sender), engine_part_closed, engine);
    }
    engine_part_open(engine);
    store_close(engine->store, engine_part_closed, engine);
    engine_part_open(engine);
    audit_close(engine->trail.audit, engine_part_closed, engine);
    engine_part_closed(engine);
}
