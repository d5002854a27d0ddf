/* Restarts that are called off while the old tree is only asked: it goes on as it was, and the caller is answered; and
   restarts that fail. The node is a real one, its launcher and its agent are played; the registry is real. */
#include "core/queue.h"
#include "core/registry_scene.h"
#include "core/sandbox/tree.h"

static void have_no_toolchain(struct scene *scene) {
    struct toolchain_entry *entry = scene->sandbox->toolchain;
    scene->engine.config.agent_dir = "/nonexistent";
    if (!entry->otp) entry->otp = strdup("/nonexistent");
}

static void ask(struct scene *scene, bool fresh) {
    struct request *request = calloc(1, sizeof *request);
    *request = (struct request){.params = json_pack("{s:s, s:b}", "id", "s", "fresh", fresh),
                                .caller = {.role = ROLE_ADMIN, .peer_fd = -1},
                                .done = on_done,
                                .transport = scene};
    engine_restart(&scene->engine, request);
}

static void call_off(struct scene *scene) {
    struct error why;
    error_set(&why, E_SHUTDOWN, "the service is shutting down");
    jobs_abort_all(scene->sandbox, &why);
    jobs_abort_all(scene->sandbox, &why); /* once more changes nothing */
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, "shutting_down ");
    assert_null(scene->sandbox->queue.jobs);
    assert_false(uv_is_active((uv_handle_t *)&scene->sandbox->restarts.backoff));
    assert_true(node_is_ready(scene->sandbox->node));
    assert_int_equal(scene->stage->burials, 0);
}

static void while_it_learns_what_the_old_tree_runs(void **state) {
    struct scene *scene = *state;
    scene->sandbox->code.is_known = false; /* as in a daemon that has just come */
    ask(scene, true);
    uint64_t id = agent_take_call(scene->stage, scene->agent, "code_state");
    assert_non_null(scene->sandbox->code.told);
    call_off(scene);
    assert_null(scene->sandbox->code.told);
    agent_reply_ok(scene->agent, id); /* an answer that comes late starts nothing */
    uint64_t next = stage_call(scene->stage, 'a', scene->sandbox->node, 60000);
    agent_reply_ok(scene->agent, next);
    RUN_UNTIL(scene->stage, stage_heard(scene->stage, "a:ok"));
    assert_null(scene->sandbox->queue.jobs);
    assert_int_equal(scene->stage->burials, 0);
}

static void while_the_states_are_asked_for(void **state) {
    struct scene *scene = *state;
    scene->sandbox->code.is_known = true;
    ask(scene, false);
    uint64_t id = agent_take_call(scene->stage, scene->agent, "snapshot_states");
    call_off(scene);
    assert_int_equal(agent_take_call(scene->stage, scene->agent, "cancel"), id);
}

static void before_the_registry_has_it(void **state) {
    struct scene *scene = *state;
    ask(scene, false);
    assert_non_null(scene->sandbox->queue.jobs);
    call_off(scene);
}

static void before_its_turn(void **state) {
    struct scene *scene = *state;
    scene->sandbox->queue.is_held = true;
    ask(scene, false);
    call_off(scene);
}

/* There is nothing to start it with: the old tree is gone by the time that is found out. */
static void restart_in_vain(struct scene *scene) {
    struct sandbox *sandbox = scene->sandbox;
    have_no_toolchain(scene);
    sandbox->code.is_known = true;
    sandbox->node->handler = tree_node_handler;
    sandbox->node->data = sandbox;
    ask(scene, true);
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, "toolchain_missing ");
    assert_null(sandbox->node);
    assert_null(sandbox->queue.jobs);
    assert_int_equal(sandbox->status, STATUS_ERROR);
    assert_string_equal(json_string_value(json_object_get(sandbox->last_error, "code")), "toolchain_missing");
}

/* The restart goes on as soon as the node has said what it runs, and begins with that. */
static void it_waits_for_what_the_old_tree_runs(void **state) {
    struct scene *scene = *state;
    have_no_toolchain(scene);
    scene->sandbox->code.is_known = false;
    scene->sandbox->node->handler = tree_node_handler;
    scene->sandbox->node->data = scene->sandbox;
    ask(scene, true);
    uint64_t id = agent_take_call(scene->stage, scene->agent, "code_state");
    assert_int_equal(scene->stage->burials, 0);
    agent_reply_ok(scene->agent, id);
    RUN_UNTIL(scene->stage, scene->stage->burials == 1);
    assert_true(scene->sandbox->code.is_known);
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, "toolchain_missing ");
}

/* The VM ends instead of saying it. */
static void it_does_not_wait_for_a_node_that_is_gone(void **state) {
    struct scene *scene = *state;
    have_no_toolchain(scene);
    scene->sandbox->code.is_known = false;
    scene->sandbox->node->handler = tree_node_handler;
    scene->sandbox->node->data = scene->sandbox;
    ask(scene, true);
    agent_take_call(scene->stage, scene->agent, "code_state");
    node_kill(scene->sandbox->node, "it is in the way");
    RUN_UNTIL(scene->stage, scene->stage->story.size > 0);
    stage_expect(scene->stage, "toolchain_missing ");
    assert_null(scene->sandbox->node);
    assert_null(scene->sandbox->code.told);
}

static void one_that_fails_leaves_an_error(void **state) {
    struct scene *scene = *state;
    restart_in_vain(scene);
    assert_false(uv_is_active((uv_handle_t *)&scene->sandbox->restarts.backoff));
}

static void one_that_fails_is_tried_again_where_the_policy_says_so(void **state) {
    struct scene *scene = *state;
    scene->sandbox->restarts.policy = (struct restart_policy){RESTART_ALWAYS, 2};
    restart_in_vain(scene);
    assert_true(uv_is_active((uv_handle_t *)&scene->sandbox->restarts.backoff));
    RUN_UNTIL(scene->stage, scene->sandbox->restarts.in_a_row == 2 && !scene->sandbox->queue.jobs &&
                                !uv_is_active((uv_handle_t *)&scene->sandbox->restarts.backoff));
    assert_int_equal(scene->sandbox->status, STATUS_ERROR);
    stage_expect(scene->stage, ""); /* no caller asked for it */
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(while_it_learns_what_the_old_tree_runs),
        SET(while_the_states_are_asked_for),
        SET(before_the_registry_has_it),
        SET(before_its_turn),
        SET(it_waits_for_what_the_old_tree_runs),
        SET(it_does_not_wait_for_a_node_that_is_gone),
        SET(one_that_fails_leaves_an_error),
        SET(one_that_fails_is_tried_again_where_the_policy_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
