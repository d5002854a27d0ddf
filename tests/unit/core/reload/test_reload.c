/* The daemon's half of a reload: what it asks of the launcher and of the node, what it keeps of their answers, and what
   its caller hears. The node is a real one, its launcher and its agent are played; registry and builds are real. */
#include "core/reload/reload_scene.h"

#include <signal.h>

/* ---- what it brings ---- */

static void a_path_that_can_not_be_opened(void **state) {
    struct reload_scene *test = *state;
    engine_reload(&test->scene->engine, new_request(test, "{\"id\": \"s\"}"));
    expect_answer(test, "not_found ");
    assert_runs(test, test->one);
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
    assert_int_equal(test->scene->stage->released, 0);
}

/* A folder with one file, which the launcher gives out. */
static void give_file(struct reload_scene *test, const char *name, const void *data, size_t size) {
    char folder[128], path[256];
    snprintf(folder, sizeof folder, "%s/given", test->scene->stage->home);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
    test->scene->stage->project_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(test->scene->stage->project_fd > 0);
    test->scene->stage->project_file = name;
}

static void a_file_that_is_no_module(void **state) {
    struct reload_scene *test = *state;
    give_file(test, "x.beam", "nonsense", 8);
    engine_reload(&test->scene->engine, new_request(test, "{\"id\": \"s\", \"paths\": [\"/x.beam\"]}"));
    expect_answer(test, "malformed_data ");
    assert_runs(test, test->one);
    assert_int_equal(test->scene->stage->opened, 1);
    RUN_UNTIL(test->scene->stage, test->scene->stage->released == 1);
}

static void begin_with_a_module(struct reload_scene *test, const char *params) {
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    struct error error;
    assert_int_equal(file_load(FIXTURES "/fx_long_atoms.beam", 1 << 20, &data, &size, &error), 0);
    give_file(test, "fx_long_atoms.beam", data, size);
    engine_reload(&test->scene->engine, new_request(test, params));
}

#define MODULE_PARAMS "{\"id\": \"s\", \"paths\": [\"/fx_long_atoms.beam\"]}"

/* What runs afterwards is a build made of the one before and the module. */
static void a_module_comes_besides(void **state) {
    struct reload_scene *test = *state;
    begin_with_a_module(test, MODULE_PARAMS);
    uint64_t id = take_call(test, "reload");
    assert_int_equal(test->sandbox->status, STATUS_RELOADING);
    reply_reloaded(test, id);
    expect_answer(test, "ok ");
    assert_string_equal(status_of(test), "hot_reloaded");
    assert_string_not_equal(test->sandbox->code.build.digest, test->one);
    assert_int_equal(json_array_size(json_object_get(test->sandbox->code.build.facts, "modules")), 2);
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
    assert_string_equal(test->sandbox->code.probation.build, test->one);
    RUN_UNTIL(test->scene->stage, test->scene->stage->released == 1);
}

static void a_dry_run_changes_nothing(void **state) {
    struct reload_scene *test = *state;
    begin_with_a_module(test,
                        "{\"id\": \"s\", \"paths\": [\"/fx_long_atoms.beam\"], \"dry_run\": true, \"wait\": true}");
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    assert_runs(test, test->one);
    assert_string_equal(test->sandbox->code.probation.id, "");
}

/* ---- what that changes ---- */

static void the_same_build_is_no_change(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->one, "{\"id\": \"s\"}");
    expect_answer(test, "ok ");
    assert_string_equal(status_of(test), "no_change");
    assert_runs(test, test->one);
}

/* The node is not asked: files other than modules count from the next start on. */
static void a_build_with_the_same_modules_is_kept(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->other, "{\"id\": \"s\"}");
    expect_answer(test, "ok ");
    assert_string_equal(status_of(test), "no_change");
    assert_runs(test, test->other);
}

static void a_build_that_is_gone(void **state) {
    struct reload_scene *test = *state;
    memset(test->sandbox->code.build.digest, 'f', STORE_DIGEST_BYTES - 1); /* what is said to run */
    change_to(test, test->two, "{\"id\": \"s\"}");
    expect_answer(test, "not_found ");
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
}

static void a_sandbox_that_does_not_run(void **state) {
    struct reload_scene *test = *state;
    test->sandbox->status = STATUS_STOPPED;
    change_to(test, test->two, "{\"id\": \"s\"}");
    expect_answer(test, "conflict ");
    assert_non_null(strstr(test->error.detail, "is stopped, not running"));
}

/* ---- the transaction ---- */

static void a_change_is_adopted(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    assert_runs(test, test->two);
    assert_string_equal(test->sandbox->code.previous_build, test->one);
    assert_string_not_equal(test->sandbox->code.probation.id, "");
    assert_int_equal(json_array_size(json_object_get(test->result, "modules")), 1);
}

static void a_node_that_refuses(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\", \"retries\": 2}");
    reply_failed(test, take_call(test, "reload"), "reload", "migrate"); /* a migration has run: it is not tried again */
    expect_answer(test, "reload_failed ");
    assert_string_equal(json_string_value(json_object_get(test->result, "step")), "migrate");
    assert_runs(test, test->one);
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
    assert_true(test->sandbox->code.is_known);
}

static void a_busy_process_is_waited_for(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\", \"retries\": 1}");
    reply_failed(test, take_call(test, "reload"), "reload", "suspend");
    uint64_t id = take_call(test, "reload"); /* compared anew */
    reply_reloaded(test, id);
    expect_answer(test, "ok ");
    assert_runs(test, test->two);
}

static void and_not_for_ever(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\", \"retries\": 1}");
    reply_failed(test, take_call(test, "reload"), "reload", "suspend");
    reply_failed(test, take_call(test, "reload"), "reload", "suspend");
    expect_answer(test, "reload_failed ");
    assert_runs(test, test->one);
}

/* Another transaction is under way that an earlier daemon began: the node is asked what it runs, until it can say. */
static void another_change_is_waited_for(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    reply_failed(test, take_call(test, "reload"), "conflict", "prepare");
    agent_reply_ok(test->scene->agent, take_call(test, "code_state"));
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    assert_runs(test, test->two);
}

/* It was found out to run something else while the reload compared. */
static void code_that_changed_meanwhile_is_compared_anew(void **state) {
    struct reload_scene *test = *state;
    struct sandbox *sandbox = test->sandbox;
    struct error error;
    change_to(test, test->two, "{\"id\": \"s\"}");
    build_free(&sandbox->code.build); /* the pool is comparing with the first */
    assert_int_equal(build_read(test->scene->engine.store, test->other, &sandbox->code.build, &error), 0);
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    assert_string_equal(sandbox->code.previous_build, test->other);
    assert_runs(test, test->two);
}

static void kill_vm(struct reload_scene *test) {
    kill(test->scene->stage->children[0], SIGKILL);
}

static void a_node_that_dies_in_the_middle(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    take_call(test, "reload");
    kill_vm(test);
    expect_answer(test, "node_failed ");
    RUN_UNTIL(test->scene->stage, !test->sandbox->node);
    assert_runs(test, test->one); /* a restart begins with that */
    assert_int_equal(test->sandbox->status, STATUS_ERROR);
}

/* Have the deadline of the call under way pass. */
static void pass_call_deadline(struct reload_scene *test, uint64_t id) {
    struct call *call = test->sandbox->node->calls;
    while (call && call->id != id) call = call->next;
    assert_non_null(call);
    call->due_ms = 0;
    uv_timer_start(&call->timer, call->timer.timer_cb, 0, uv_timer_get_repeat(&call->timer));
}

/* The transaction may go on in the node: only the node knows what runs then. */
static void a_node_that_does_not_answer(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    uint64_t id = take_call(test, "reload");
    pass_call_deadline(test, id);
    expect_answer(test, "timeout ");
    assert_int_equal(take_call(test, "cancel"), id);
    assert_runs(test, test->one);
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
    assert_false(test->sandbox->code.is_known);
    change_to(test, test->two, "{\"id\": \"s\"}"); /* the next one asks first */
    agent_reply_ok(test->scene->agent, take_call(test, "code_state"));
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
}

/* ---- probation ---- */

static void begin_probation(struct reload_scene *test) {
    change_to(test, test->two, "{\"id\": \"s\", \"wait\": true, \"probation_ms\": 60000}");
    reply_reloaded(test, take_call(test, "reload"));
    RUN_UNTIL(test->scene->stage, test->sandbox->code.probation.id[0]);
    stage_expect(test->scene->stage, "");
    assert_runs(test, test->two);
}

static void a_probation_that_is_passed(void **state) {
    struct reload_scene *test = *state;
    begin_probation(test);
    tell_settled(test, "committed");
    expect_answer(test, "ok ");
    assert_string_equal(status_of(test), "hot_reloaded");
    assert_runs(test, test->two);
    assert_string_equal(test->sandbox->code.probation.id, "");
}

static void a_probation_that_fails(void **state) {
    struct reload_scene *test = *state;
    begin_probation(test);
    tell_settled(test, "rolled_back");
    expect_answer(test, "reload_failed ");
    assert_string_equal(status_of(test), "rolled_back");
    assert_non_null(strstr(test->error.detail, "it crashed"));
    assert_runs(test, test->one);
    assert_string_equal(test->sandbox->code.probation.id, "");
    assert_string_equal(test->sandbox->code.previous_build, "");
    assert_string_equal(json_string_value(json_object_get(test->sandbox->last_error, "code")), "reload_failed");
}

/* A node may send megabytes: the loop reads no more of a reason than is kept. */
static void a_long_reason_is_not_read_to_its_end(void **state) {
    enum { LENGTH = 60000 };
    struct reload_scene *test = *state;
    CLEANUP_FREE char *reason = calloc(1, LENGTH + 1);
    memset(reason, 'r', LENGTH);
    reason[LENGTH - 1] = (char)0xff; /* no text: with it, none of it would be told */
    begin_probation(test);
    tell_settled_because(test, "rolled_back", reason);
    expect_answer(test, "reload_failed ");
    assert_non_null(strstr(test->error.detail, "rrrr"));
}

/* The caller was answered long ago. */
static void a_probation_fails_without_a_caller(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    tell_settled(test, "rolled_back");
    RUN_UNTIL(test->scene->stage, !test->sandbox->code.probation.id[0]);
    assert_runs(test, test->one);
}

static void a_node_that_dies_on_probation(void **state) {
    struct reload_scene *test = *state;
    begin_probation(test);
    kill_vm(test);
    expect_answer(test, "node_failed ");
    assert_runs(test, test->two); /* it was adopted, and a restart begins with it */
}

static void a_probation_whose_end_is_not_told(void **state) {
    struct reload_scene *test = *state;
    begin_probation(test);
    struct steps *steps = &test->sandbox->code.reload->steps;
    steps->due_ms = 0;
    uv_timer_start(&steps->timer, steps->timer.timer_cb, 0, 0);
    expect_answer(test, "timeout ");
    assert_runs(test, test->two);
}

/* ---- called off ---- */

static void call_off(struct reload_scene *test) {
    struct error why;
    error_set(&why, E_SHUTDOWN, "the service is shutting down");
    jobs_abort_all(test->sandbox, &why);
    jobs_abort_all(test->sandbox, &why); /* once more changes nothing */
    expect_answer(test, "shutting_down ");
    assert_int_equal(test->sandbox->status, STATUS_RUNNING);
}

static void while_a_path_is_opened(void **state) {
    struct reload_scene *test = *state;
    begin_with_a_module(test, MODULE_PARAMS);
    RUN_UNTIL(test->scene->stage, steps_are_at(&((struct reload_job *)test->sandbox->queue.jobs)->steps, RELOAD_OPEN));
    call_off(test);
    RUN_UNTIL(test->scene->stage, test->scene->stage->released == 1); /* what came too late is given back */
}

static void while_it_compares(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    assert_true(steps_are_at(&((struct reload_job *)test->sandbox->queue.jobs)->steps, RELOAD_COMPARE));
    call_off(test);
    assert_runs(test, test->one);
}

static void while_the_agent_works(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\"}");
    uint64_t id = take_call(test, "reload");
    call_off(test);
    assert_int_equal(take_call(test, "cancel"), id);
    assert_runs(test, test->one);
}

static void while_it_rests(void **state) {
    struct reload_scene *test = *state;
    change_to(test, test->two, "{\"id\": \"s\", \"retries\": 1}");
    reply_failed(test, take_call(test, "reload"), "reload", "suspend");
    struct steps *steps = &((struct reload_job *)test->sandbox->queue.jobs)->steps;
    RUN_UNTIL(test->scene->stage, steps_are_at(steps, RELOAD_REST));
    call_off(test);
}

static void while_it_is_on_probation(void **state) {
    struct reload_scene *test = *state;
    begin_probation(test);
    call_off(test);
    assert_runs(test, test->two);
}

/* The agent is not told to stop a transaction for a caller that changed its mind; anything earlier ends. */
static void a_request_that_is_withdrawn(void **state) {
    struct reload_scene *test = *state;
    struct error why;
    error_set(&why, E_CONFLICT, "watching was turned off");
    change_to(test, test->two, "{\"id\": \"s\"}");
    uint64_t id = take_call(test, "reload");
    reload_call_off(test->sandbox, test->sandbox->queue.jobs->request, &why);
    reply_reloaded(test, id);
    expect_answer(test, "ok ");
    change_to(test, test->one, "{\"id\": \"s\"}");
    reload_call_off(test->sandbox, test->sandbox->queue.jobs->request, &why);
    expect_answer(test, "conflict ");
    assert_runs(test, test->two);
}

static void on_destroyed(void *data, const struct error *error) {
    assert_null(error);
    *(bool *)data = true;
}

static void called_off_by_a_destroy(void **state) {
    struct reload_scene *test = *state;
    struct error error;
    bool is_destroyed = false;
    change_to(test, test->two, "{\"id\": \"s\"}");
    uint64_t id = take_call(test, "reload");
    sandbox_destroy(test->sandbox, "on request", on_destroyed, &is_destroyed);
    assert_int_equal(take_call(test, "cancel"), id);
    expect_answer(test, "conflict ");
    assert_non_null(strstr(test->error.detail, "was destroyed: on request"));
    RUN_UNTIL(test->scene->stage, is_destroyed);
    assert_int_equal(test->scene->stage->burials, 1);
    test->sandbox = test->scene->sandbox = sandbox_new(&test->scene->engine, "another", &error);
}

/* ---- several at once ---- */

/* Saves that come while a reload is under way become one more, and all their callers have its answer. */
static void saves_meanwhile_are_one_reload(void **state) {
    struct reload_scene *test = *state;
    begin_with_a_module(test, MODULE_PARAMS);
    uint64_t id = take_call(test, "reload");
    for (int i = 0; i < 3; i++) engine_reload(&test->scene->engine, new_request(test, MODULE_PARAMS));
    assert_ptr_equal(test->sandbox->queue.jobs->next->next, NULL); /* one runs, one waits */
    reply_reloaded(test, id);
    expect_answer(test, "ok ");
    RUN_UNTIL(test->scene->stage, test->scene->stage->story.size >= 9);
    stage_expect(test->scene->stage, "ok ok ok "); /* the module runs already */
    assert_string_equal(status_of(test), "no_change");
    assert_int_equal(test->scene->stage->opened, 2);
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        SET(a_path_that_can_not_be_opened),
        SET(a_file_that_is_no_module),
        SET(a_module_comes_besides),
        SET(a_dry_run_changes_nothing),
        SET(the_same_build_is_no_change),
        SET(a_build_with_the_same_modules_is_kept),
        SET(a_build_that_is_gone),
        SET(a_sandbox_that_does_not_run),
        SET(a_change_is_adopted),
        SET(a_node_that_refuses),
        SET(a_busy_process_is_waited_for),
        SET(and_not_for_ever),
        SET(another_change_is_waited_for),
        SET(code_that_changed_meanwhile_is_compared_anew),
        SET(a_node_that_dies_in_the_middle),
        SET(a_node_that_does_not_answer),
        SET(a_probation_that_is_passed),
        SET(a_probation_that_fails),
        SET(a_long_reason_is_not_read_to_its_end),
        SET(a_probation_fails_without_a_caller),
        SET(a_node_that_dies_on_probation),
        SET(a_probation_whose_end_is_not_told),
        SET(while_a_path_is_opened),
        SET(while_it_compares),
        SET(while_the_agent_works),
        SET(while_it_rests),
        SET(while_it_is_on_probation),
        SET(a_request_that_is_withdrawn),
        SET(called_off_by_a_destroy),
        SET(saves_meanwhile_are_one_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
