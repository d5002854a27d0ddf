/* shutdown: every sandbox destroyed, then the launcher told to end, then the daemon. */
#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

void engine_on_shutdown(struct engine *engine, void (*hook)(void *data), void *data) {
    engine->shutdown.hook = hook;
    engine->shutdown.data = data;
}

static void on_launcher_told(void *data, const struct error *error) {
    struct engine *engine = data;
    (void)error; /* a launcher that is gone has nothing left to end */
    answer_ok(engine, take_ptr(engine->shutdown.request), json_pack("{s:s}", "status", "shutting_down"));
    if (engine->shutdown.hook) engine->shutdown.hook(engine->shutdown.data);
}

static void maybe_push_to_launcher(struct engine *engine) {
    if (engine->shutdown.request && engine->shutdown.left == 0)
        link_shutdown(engine->host.link, on_launcher_told, engine);
}

static void on_one_destroyed(void *data, const struct error *error) {
    struct engine *engine = data;
    (void)error; /* the launcher kills what is left */
    engine->shutdown.left--;
    maybe_push_to_launcher(engine);
}

void engine_shutdown(struct engine *engine, struct request *request) {
    size_t at = 0;
    void *sandbox;
    if (engine->closing.is_begun) {
        answer_fail(engine, request, E_SHUTDOWN, "the service is shutting down already");
        return;
    }
    engine->closing.is_begun = true;
    compiler_quiesce(engine->compiler);
    pool_quiesce(engine->pool);
    engine->shutdown.left = 1;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) {
        engine->shutdown.left++;
        sandbox_destroy(sandbox, "the service is shutting down", on_one_destroyed, engine);
    }
    engine->shutdown.request = request;
    on_one_destroyed(engine, NULL);
}
