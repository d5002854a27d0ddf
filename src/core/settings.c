/* reload_config: the settings read again while the service runs. All of them are taken over, or none. */
#include <stdlib.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/network/names.h"

struct rereading {
    uv_work_t work;
    struct engine *engine;
    struct request *request;
    struct settings_source source;
    void *read;
    const struct engine_config *config; /* of what was read */
    struct guard_profiles profiles;
    struct error error;
};

void engine_on_reload_config(struct engine *engine, const struct settings_source *source) {
    engine->settings = *source;
}

void settings_free_retired(struct engine *engine) {
    while (engine->retired) {
        struct retired_profiles *retired = engine->retired;
        engine->retired = retired->next;
        guard_profiles_free(&retired->profiles);
        free(retired);
    }
}

/* One whose profile the settings do not have any more keeps it as it was. */
void settings_renew_profile(struct sandbox *sandbox) {
    const struct guard_profile *now =
        guard_profile_find(&sandbox->engine->profiles, sandbox->config.profile->jail.name);
    if (now) sandbox->config.profile = now;
}

/* ---- taking over ---- */

static void replace_profiles(struct engine *engine, struct guard_profiles *profiles) {
    struct retired_profiles *retired = new_or_abort(struct retired_profiles);
    *retired = (struct retired_profiles){engine->retired, engine->profiles};
    engine->retired = retired;
    engine->profiles = *profiles;
    *profiles = (struct guard_profiles){0};
    json_decref(take_ptr(engine->scans)); /* a profile of the same name may find something else */
}

static void replace_numbers(struct engine *engine, const struct engine_config *config) {
    engine->config.sandboxes_max = config->sandboxes_max;
    engine->config.compile_deadline_ms = config->compile_deadline_ms;
    engine->config.compile_deadline_max_ms = config->compile_deadline_max_ms;
    engine->config.compile_memory_max_bytes = config->compile_memory_max_bytes;
    engine->config.settle_ms = config->settle_ms;
    engine->config.boot_deadline_ms = engine->host.boot_deadline_ms = config->boot_deadline_ms;
    engine->config.heartbeat_ms = engine->host.heartbeat_ms = config->heartbeat_ms;
    engine->config.heartbeat_deadline_ms = engine->host.heartbeat_deadline_ms = config->heartbeat_deadline_ms;
    compiler_change(engine->compiler, &config->compiler);
    pool_set_max(engine->pool, config->warm_nodes);
}

/* What may fail comes first. Names that are asked for in vain do no harm. */
static int take_over(struct rereading *reading) {
    struct engine *engine = reading->engine;
    const struct engine_config *config = reading->config;
    if (engine->closing.is_begun) return error_set(&reading->error, E_SHUTDOWN, "the service is shutting down");
    int result = names_take(engine, &reading->profiles, &reading->error);
    if (result == 0) result = toolchains_reopen(engine, config->toolchains, config->toolchain, &reading->error);
    if (result < 0) return result;
    replace_profiles(engine, &reading->profiles);
    replace_numbers(engine, config);
    return 0;
}

/* ---- reading: on the pool, since names of users are looked up ---- */

static void read_settings(uv_work_t *work) {
    struct rereading *reading = work->data;
    const struct settings_source *source = &reading->source;
    int result = source->read(source->data, &reading->read, &reading->config, &reading->error);
    if (result == 0) guard_profiles_read(reading->config->profiles, &reading->profiles, &reading->error);
}

static void answer_taken(struct rereading *reading) {
    struct engine *engine = reading->engine;
    json_t *told = json_pack("{s:[], s:[]}", "changed", "at_start");
    reading->source.adopt(reading->source.data, take_ptr(reading->read), told);
    engine_event(engine, EVENT_SETTINGS_READ, NULL, json_incref(told));
    answer_ok(engine, reading->request, told);
}

static void on_read(uv_work_t *work, int status) {
    struct rereading *reading = work->data;
    struct engine *engine = reading->engine;
    (void)status;
    loop_note(engine->loop, "settings", "reload_config");
    if (reading->error.code == E_NONE && take_over(reading) == 0)
        answer_taken(reading);
    else
        answer_error(engine, reading->request, &reading->error, NULL);
    if (reading->read) reading->source.discard(reading->source.data, reading->read);
    guard_profiles_free(&reading->profiles);
    free(reading);
    engine->asking--;
    engine_wake(engine);
}

void engine_reload_config(struct engine *engine, struct request *request) {
    if (engine->closing.is_begun || !engine->settings.read) {
        answer_fail(engine, request, E_SHUTDOWN, "the service is shutting down");
        return;
    }
    struct rereading *reading = new_or_abort(struct rereading);
    *reading = (struct rereading){.engine = engine, .request = request, .source = engine->settings};
    reading->work.data = reading;
    engine->asking++;
    host_work(&engine->host, request->caller.uid, &reading->work, read_settings, on_read);
}
