/* An engine with a real registry, on the stage of a node whose launcher and agent are played, and one running sandbox
   that has that node. The answers to its requests are in the stage's story. */
#ifndef TEST_REGISTRY_SCENE_H
#define TEST_REGISTRY_SCENE_H

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"
#include "node/stage.h"

struct scene {
    struct stage *stage;
    struct engine engine;
    struct sandbox *sandbox;
    int agent;
    bool store_closed;
};

static inline void on_done(struct request *request, json_t *result, const struct error *error) {
    struct scene *scene = request->transport;
    buf_printf(&scene->stage->story, "%s ", error ? error_kind(error->code)->slug : "ok");
    json_decref(result);
    json_decref(request->params);
    free(request);
}

static inline void open_engine(struct scene *scene) {
    struct engine *engine = &scene->engine;
    struct error error;
    engine->loop = &scene->stage->loop;
    answers_init(&engine->answers);
    engine->config.heartbeat_deadline_ms = 60000;
    uv_idle_init(engine->loop, &engine->answer_idle);
    engine->answer_idle.data = engine;
    engine->events = feed_new(16, 0);
    assert_non_null(engine->events);
    assert_int_equal(store_open(engine->loop, scene->stage->home, &engine->store, &error), 0);
}

static inline int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct error error;
    void *stage;
    assert_int_equal(stage_setup(&stage), 0);
    scene->stage = stage;
    open_engine(scene);
    scene->sandbox = sandbox_new(&scene->engine, "s", &error);
    assert_int_equal(guard_profiles_read(NULL, &scene->engine.profiles, &error), 0);
    scene->sandbox->config.profile = guard_profile_find(&scene->engine.profiles, JAIL_DEFAULT_PROFILE);
    assert_int_equal(toolchains_open(&scene->engine, NULL, &error), 0);
    scene->sandbox->toolchain = toolchains_default(&scene->engine);
    scene->sandbox->status = STATUS_RUNNING;
    scene->sandbox->node = stage_start_ready(scene->stage, &scene->agent);
    *state = scene;
    return 0;
}

static inline void on_store_closed(void *data) {
    ((struct scene *)data)->store_closed = true;
}

static inline void on_detached(void *data) {
    *(bool *)data = true;
}

static inline int tear_down(void **state) {
    struct scene *scene = *state;
    struct stage *stage = scene->stage;
    bool detached = !scene->sandbox->node;
    if (scene->sandbox->node) node_detach(scene->sandbox->node, on_detached, &detached);
    RUN_UNTIL(stage, detached);
    close(scene->agent);
    sandbox_remove(scene->sandbox);
    store_close(scene->engine.store, on_store_closed, scene);
    RUN_UNTIL(stage, scene->store_closed && scene->engine.closing.open_parts == 0);
    uv_close((uv_handle_t *)&scene->engine.answer_idle, NULL);
    feed_release(scene->engine.events);
    ledger_free(&scene->engine.builds.ledger);
    map_free(&scene->engine.sandboxes);
    toolchains_free(&scene->engine.toolchains);
    guard_profiles_free(&scene->engine.profiles);
    void *staged = stage;
    int result = stage_teardown(&staged); /* runs the loop until the timer has closed */
    free(scene);
    return result;
}

#endif
