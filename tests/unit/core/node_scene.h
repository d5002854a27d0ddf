/* An engine without its store, on the stage of a node whose launcher and agent are played, and one sandbox that has
   that node. */
#ifndef TEST_NODE_SCENE_H
#define TEST_NODE_SCENE_H

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"
#include "node/stage.h"

struct scene {
    struct stage *stage;
    struct engine engine;
    struct sandbox *sandbox;
    int agent; /* -1: it has gone */
};

static inline struct scene *scene_open(void) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct engine *engine = &scene->engine;
    struct error error;
    void *stage;
    assert_int_equal(stage_setup(&stage), 0);
    scene->stage = stage;
    engine->loop = &scene->stage->loop;
    answers_init(&engine->answers);
    engine->answer_idle.data = engine;
    engine->config.boot_deadline_ms = 60000;
    uv_idle_init(engine->loop, &engine->answer_idle);
    scene->sandbox = sandbox_new(engine, "s", &error);
    assert_int_equal(guard_profiles_read(NULL, &scene->engine.profiles, &error), 0);
    scene->sandbox->config.profile = guard_profile_find(&scene->engine.profiles, JAIL_DEFAULT_PROFILE);
    assert_int_equal(toolchains_open(engine, NULL, &error), 0);
    scene->sandbox->toolchain = toolchains_default(engine);
    scene->sandbox->node = stage_start_ready(scene->stage, &scene->agent);
    return scene;
}

static inline void scene_on_detached(void *data) {
    *(bool *)data = true;
}

/* The caller's own handles are closing by then. */
static inline int scene_close(struct scene *scene) {
    bool detached = !scene->sandbox->node;
    if (scene->sandbox->node) node_detach(scene->sandbox->node, scene_on_detached, &detached);
    RUN_UNTIL(scene->stage, detached);
    fd_close(scene->agent);
    sandbox_remove(scene->sandbox);
    RUN_UNTIL(scene->stage, scene->engine.closing.open_parts == 0);
    uv_close((uv_handle_t *)&scene->engine.answer_idle, NULL);
    map_free(&scene->engine.sandboxes);
    toolchains_free(&scene->engine.toolchains);
    guard_profiles_free(&scene->engine.profiles);
    void *stage = scene->stage;
    int result = stage_teardown(&stage); /* runs the loop until the timers have closed */
    free(scene);
    return result;
}

#endif
