/* Reloads that wait for their turn: who asks for the very same again gets the same answer. */
#include "core/queue.h"
#include "core/sandbox/sandbox.h"
#include "core/stage.h"

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct stage *stage = request->transport;
    buf_printf(&stage->story, "%s:%s ", json_string_value(json_object_get(request->params, "id")),
               error ? error_kind(error->code)->slug : "ok");
    json_decref(result);
    json_decref(request->params);
    free(request);
}

static struct request *new_request(struct stage *stage, uid_t uid, const char *params) {
    struct request *request = calloc(1, sizeof *request);
    *request = (struct request){.params = json_loads(params, 0, NULL),
                                .caller = {.uid = uid, .role = ROLE_ADMIN, .peer_fd = 0},
                                .done = on_done,
                                .transport = stage};
    assert_non_null(request->params);
    return request;
}

static unsigned count_jobs(const struct sandbox *sandbox) {
    unsigned count = 0;
    for (const struct job *job = sandbox->queue.jobs; job; job = job->next) count++;
    return count;
}

static void test_the_same_once_more(void **state) {
    struct stage *stage = *state;
    struct engine *engine = &stage->engine;
    struct error error;
    struct sandbox *sandbox = sandbox_new(engine, "s", &error);
    sandbox->queue.is_held = true; /* nothing starts */
    engine_reload(engine, new_request(stage, 1, "{\"id\": \"s\"}"));
    engine_reload(engine, new_request(stage, 1, "{\"id\": \"s\"}"));
    engine_reload(engine, new_request(stage, 1, "{\"id\": \"s\"}"));
    assert_int_equal(count_jobs(sandbox), 1);
    engine_reload(engine, new_request(stage, 2, "{\"id\": \"s\"}")); /* with another caller's rights */
    assert_int_equal(count_jobs(sandbox), 2);
    engine_reload(engine, new_request(stage, 2, "{\"id\": \"s\", \"paths\": [\"/x\"]}"));
    engine_rollback(engine, new_request(stage, 2, "{\"id\": \"s\", \"module\": \"m\"}"));
    assert_int_equal(count_jobs(sandbox), 4);
    engine_reload(engine, new_request(stage, 2, "{\"id\": \"s\", \"paths\": [\"/x\"]}")); /* after the rollback */
    assert_int_equal(count_jobs(sandbox), 5);
    error_set(&error, E_SHUTDOWN, "over");
    sandbox->ending.is_destroying = false;
    jobs_abort_all(sandbox, &error);
    assert_int_equal(count_jobs(sandbox), 0);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "s:shutting_down s:shutting_down s:shutting_down s:shutting_down s:shutting_down "
                        "s:shutting_down s:shutting_down ");
    sandbox_remove(sandbox);
}

static void test_what_can_not_be(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct sandbox *sandbox = sandbox_new(&stage->engine, "s", &error);
    static const char *const refused[] = {
        "{\"id\": \"s\", \"paths\": [\"/x\"], \"code\": \"x\", \"file\": \"x.ex\"}",
        "{\"id\": \"s\", \"code\": \"x\"}",
        "{\"id\": \"s\", \"file\": \"x.ex\"}",
        "{\"id\": \"s\", \"code\": \"x\", \"file\": \"../x.ex\"}",
        "{\"id\": \"s\", \"migrate\": [\"A.b/2\"]}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        engine_reload(&stage->engine, new_request(stage, 1, refused[i]));
        uv_run(&stage->loop, UV_RUN_DEFAULT);
        stage_expect(stage, "s:invalid_input ");
    }
    engine_reload(&stage->engine, new_request(stage, 1, "{\"id\": \"none\"}"));
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "none:not_found ");
    sandbox_remove(sandbox);
}

int main(void) {
    const struct CMUnitTest tests[] = {ON_STAGE(test_the_same_once_more), ON_STAGE(test_what_can_not_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
