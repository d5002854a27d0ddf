/* Limits that are changed while a sandbox runs, and what fails of that. The launcher and the agent are played. */
#include "core/node_scene.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"

#define MIB (1024ULL * 1024)

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct scene *scene = request->transport;
    buf_printf(&scene->stage->story, "%s ", error ? error_kind(error->code)->slug : "ok");
    json_decref(result);
    json_decref(request->params);
    free(request);
}

static int set_up(void **state) {
    struct scene *scene = scene_open();
    scene->sandbox->status = STATUS_RUNNING;
    scene->sandbox->config.limits = scene->sandbox->config.profile->jail.limits;
    assert_int_equal(launcher_push_open(&scene->engine), 0);
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    launcher_push_stop(&scene->engine);
    uv_close((uv_handle_t *)&scene->engine.pushes.timer, NULL);
    return scene_close(scene);
}

static struct request *request_new(struct scene *scene, json_t *params) {
    struct request *request = calloc(1, sizeof *request);
    *request = (struct request){
        .params = params, .caller = {.role = ROLE_ADMIN, .peer_fd = -1}, .done = on_done, .transport = scene};
    return request;
}

static void change(struct scene *scene, const char *memory, const char *atoms) {
    json_t *params = json_pack("{s:s, s:{s:s, s:s}}", "id", "s", "set", "memory", memory, "atoms", atoms);
    engine_limits(&scene->engine, request_new(scene, params));
}

static void expect_answer(struct scene *scene, const char *answer) {
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, answer);
    assert_null(scene->sandbox->limits.change);
    assert_null(scene->sandbox->queue.jobs);
}

static void assert_told(const struct scene *scene, uint64_t memory_bytes) {
    char expected[64];
    snprintf(expected, sizeof expected, "\nlimit memory %llu\n", (unsigned long long)memory_bytes);
    if (!strstr(scene->stage->limited, expected)) fail_msg("no '%s' in '%s'", expected, scene->stage->limited);
}

static void what_the_launcher_refuses_is_not_asked_of_the_agent(void **state) {
    struct scene *scene = *state;
    scene->stage->refuse_limits = true;
    change(scene, "96M", "30000");
    expect_answer(scene, "conflict ");
    assert_null(agent_take(scene->agent));
    assert_int_equal(scene->sandbox->config.limits.memory_bytes,
                     scene->sandbox->config.profile->jail.limits.memory_bytes);
}

/* The kernel's were changed by then. */
static void what_the_agent_refuses_is_taken_back(void **state) {
    struct scene *scene = *state;
    uint64_t before_bytes = scene->sandbox->config.limits.memory_bytes;
    change(scene, "96M", "30000");
    uint64_t id = agent_take_call(scene->stage, scene->agent, "limits");
    assert_told(scene, 96 * MIB);
    agent_reply_error(scene->agent, id, "busy", "no", 2);
    expect_answer(scene, "limit_reached ");
    assert_told(scene, before_bytes);
    assert_int_equal(scene->stage->limits, 2);
    assert_int_equal(scene->sandbox->config.limits.memory_bytes, before_bytes);
}

static void call_off(struct scene *scene) {
    struct error why;
    error_set(&why, E_SHUTDOWN, "the service is shutting down");
    jobs_abort_all(scene->sandbox, &why);
    jobs_abort_all(scene->sandbox, &why); /* once more changes nothing */
}

static void one_that_is_called_off_asks_nobody_any_more(void **state) {
    struct scene *scene = *state;
    change(scene, "96M", "30000");
    uint64_t id = agent_take_call(scene->stage, scene->agent, "limits");
    call_off(scene);
    expect_answer(scene, "shutting_down ");
    assert_int_equal(agent_take_call(scene->stage, scene->agent, "cancel"), id);
}

/* The first waits for the launcher's answer: neither one that is refused nor one that waits for its turn is the one
   under way. */
static void one_at_a_time(void **state) {
    struct scene *scene = *state;
    change(scene, "96M", "30000");
    struct change_job *first = scene->sandbox->limits.change;
    assert_non_null(first);
    change(scene, "80M", "20000");
    assert_ptr_equal(scene->sandbox->limits.change, first);
    scene->sandbox->queue.is_held = true;
    change(scene, "64M", "40000");
    call_off(scene);
    assert_ptr_equal(scene->sandbox->limits.change, first);
    RUN_UNTIL(scene->stage, !scene->sandbox->queue.jobs && !answers_are_waiting(&scene->engine.answers));
    expect_answer(scene, "conflict shutting_down shutting_down ");
}

/* ---- what the engine tells by itself ---- */

static void what_is_refused_is_told_again(void **state) {
    struct scene *scene = *state;
    scene->stage->refuse_limits = true;
    launcher_push(scene->sandbox, PUSH_LIMITS);
    RUN_UNTIL(scene->stage, scene->stage->limits == 2);
    scene->stage->refuse_limits = false;
    RUN_UNTIL(scene->stage, scene->stage->limits == 3);
    RUN_UNTIL(scene->stage, push_schedule_next_ms(&scene->sandbox->network.pushes) == UINT64_MAX);
    assert_false(uv_is_active((uv_handle_t *)&scene->engine.pushes.timer));
    assert_told(scene, scene->sandbox->config.limits.memory_bytes);
}

/* ---- freezing ---- */

static void a_freeze_that_fails_is_said_to_have(void **state) {
    struct scene *scene = *state;
    scene->stage->refuse_freezing = true;
    engine_freeze(&scene->engine, request_new(scene, json_pack("{s:s}", "id", "s")));
    expect_answer(scene, "conflict ");
    assert_false(node_is_frozen(scene->sandbox->node));
    assert_true(sandbox_freeze(scene->sandbox, "it is told to"));
    assert_false(sandbox_freeze(scene->sandbox, "once at a time"));
    RUN_UNTIL(scene->stage, !scene->sandbox->security.is_freezing);
    assert_false(node_is_frozen(scene->sandbox->node));
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(what_the_launcher_refuses_is_not_asked_of_the_agent),
        SET(what_the_agent_refuses_is_taken_back),
        SET(one_that_is_called_off_asks_nobody_any_more),
        SET(one_at_a_time),
        SET(what_is_refused_is_told_again),
        SET(a_freeze_that_fails_is_said_to_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
