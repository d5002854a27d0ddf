/* Who works flat out yields, whatever its agent does. The node is a real one, its launcher and its agent are played; a
   folder stands for its group, and a timer for the work that is counted there. */
#include <sys/stat.h>

#include "core/core_internal.h"
#include "node/stage.h"

enum { WORK_EVERY_MS = 5 };

struct scene {
    struct stage *stage;
    struct engine engine;
    struct sandbox *sandbox;
    int agent;
    uv_timer_t work; /* of one core, all the time */
};

static void write_number(const char *folder, uint64_t number) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cpuacct.usage", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%llu\n", (unsigned long long)number) > 0);
    assert_int_equal(fclose(file), 0);
}

static void on_work(uv_timer_t *timer) {
    struct scene *scene = timer->data;
    write_number(scene->stage->home, uv_hrtime());
    write_number(scene->sandbox->node->cpu_cgroup, uv_hrtime());
}

static void open_engine(struct scene *scene) {
    struct engine *engine = &scene->engine;
    engine->loop = &scene->stage->loop;
    engine->answers_tail = &engine->answers;
    engine->answer_timer.data = engine;
    scene->work.data = scene;
    uv_timer_init(engine->loop, &engine->answer_timer);
    uv_timer_init(engine->loop, &scene->work);
    vigil_open(engine);
}

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct error error;
    void *stage;
    assert_int_equal(stage_setup(&stage), 0);
    scene->stage = stage;
    open_engine(scene);
    scene->sandbox = sandbox_new(&scene->engine, "s", &error);
    scene->sandbox->status = STATUS_RUNNING;
    scene->sandbox->metering.next_ms = 1;
    scene->sandbox->node = stage_start_ready(scene->stage, &scene->agent);
    char *group = scene->sandbox->node->cpu_cgroup;
    snprintf(group, PATH_MAX, "%s/group", scene->stage->home);
    assert_int_equal(mkdir(group, 0700), 0);
    uv_timer_start(&scene->work, on_work, 0, WORK_EVERY_MS);
    vigil_begin(&scene->engine);
    *state = scene;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle) {
    (void)handle;
}

static void on_detached(void *data) {
    *(bool *)data = true;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    bool detached = false;
    vigil_stop(&scene->engine);
    node_detach(scene->sandbox->node, on_detached, &detached);
    RUN_UNTIL(scene->stage, detached);
    fd_close(scene->agent);
    sandbox_remove(scene->sandbox);
    RUN_UNTIL(scene->stage, scene->engine.open_parts == 0);
    uv_close((uv_handle_t *)&scene->engine.answer_timer, on_timer_closed);
    uv_close((uv_handle_t *)&scene->engine.vigil_timer, on_timer_closed);
    uv_close((uv_handle_t *)&scene->work, on_timer_closed);
    map_free(&scene->engine.sandboxes);
    void *staged = scene->stage;
    int result = stage_teardown(&staged); /* runs the loop until the timers have closed */
    free(scene);
    return result;
}

static void who_works_yields(void **state) {
    struct scene *scene = *state;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
    assert_int_equal(scene->stage->yields, 1);
}

/* It could choose to have none. */
static void without_an_agent_too(void **state) {
    struct scene *scene = *state;
    close(take_fd(&scene->agent));
    RUN_UNTIL(scene->stage, !node_is_ready(scene->sandbox->node));
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

static void while_its_code_is_changed_too(void **state) {
    struct scene *scene = *state;
    scene->sandbox->status = STATUS_RELOADING;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

/* A launcher that fails is asked again, but not at each look. */
static void what_fails_is_not_asked_for_at_each_look(void **state) {
    enum { LOOKS_MS = 600 };
    struct scene *scene = *state;
    scene->stage->fail_yielding = true;
    RUN_UNTIL(scene->stage, scene->stage->yields == 1);
    uint64_t begun_ms = clock_monotonic_ms();
    RUN_UNTIL(scene->stage, clock_monotonic_ms() - begun_ms > LOOKS_MS);
    assert_in_range(scene->stage->yields, 1, 2);
    scene->stage->fail_yielding = false;
    RUN_UNTIL(scene->stage, scene->sandbox->node->yielding.yields);
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(who_works_yields),
        SET(without_an_agent_too),
        SET(while_its_code_is_changed_too),
        SET(what_fails_is_not_asked_for_at_each_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
