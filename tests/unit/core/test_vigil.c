/* Who works flat out yields, whatever its agent does. The node is a real one, its launcher and its agent are played; a
   folder stands for its group, and a timer for the work that is counted there. */
#include <sys/stat.h>

#include "node_scene.h"

enum { WORK_EVERY_MS = 5 };

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

static int set_up(void **state) {
    static uv_timer_t work; /* of one core, all the time */
    struct scene *scene = scene_open();
    struct sandbox *sandbox = scene->sandbox;
    sandbox->status = STATUS_RUNNING;
    sandbox->metering.next_ms = 1;
    snprintf(sandbox->node->cpu_cgroup, PATH_MAX, "%s/group", scene->stage->home);
    assert_int_equal(mkdir(sandbox->node->cpu_cgroup, 0700), 0);
    uv_timer_init(scene->engine.loop, &work);
    work.data = scene;
    uv_timer_start(&work, on_work, 0, WORK_EVERY_MS);
    vigil_open(&scene->engine);
    vigil_begin(&scene->engine);
    *state = &work;
    return 0;
}

static int tear_down(void **state) {
    uv_timer_t *work = *state;
    struct scene *scene = work->data;
    vigil_stop(&scene->engine);
    uv_close((uv_handle_t *)&scene->engine.vigil_timer, NULL);
    uv_close((uv_handle_t *)work, NULL);
    return scene_close(scene);
}

static void who_works_yields(void **state) {
    struct scene *scene = ((uv_timer_t *)*state)->data;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
    assert_int_equal(scene->stage->yields, 1);
}

/* It could choose to have none. */
static void without_an_agent_too(void **state) {
    struct scene *scene = ((uv_timer_t *)*state)->data;
    close(take_fd(&scene->agent));
    RUN_UNTIL(scene->stage, !node_is_ready(scene->sandbox->node));
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

static void while_its_code_is_changed_too(void **state) {
    struct scene *scene = ((uv_timer_t *)*state)->data;
    scene->sandbox->status = STATUS_RELOADING;
    RUN_UNTIL(scene->stage, node_yields(scene->sandbox->node));
}

/* A launcher that fails is asked again, but not at each look. */
static void what_fails_is_not_asked_for_at_each_look(void **state) {
    enum { LOOKS_MS = 600 };
    struct scene *scene = ((uv_timer_t *)*state)->data;
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
