/* Ends in the middle of a start. */
#include "node_scene.h"

static int set_up(void **state) {
    *state = scene_open();
    return 0;
}

static int tear_down(void **state) {
    return scene_close(*state);
}

static void on_started(struct sandbox *sandbox, const struct error *error) {
    (void)sandbox, (void)error;
    fail_msg("whoever ends it is not told that it did not start");
}

static void on_ended(struct sandbox *sandbox) {
    sandbox->destroying = true;
}

/* The call that starts the application fails as its VM goes. */
static void an_end_is_no_failed_start(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    sandbox->started = on_started;
    tree_node_handler.ready(sandbox, sandbox->node);
    agent_take_call(scene->stage, scene->agent, "start");
    tree_end(sandbox, on_ended);
    RUN_UNTIL(scene->stage, stage_heard(scene->stage, "gone:killed"));
    sandbox->node = NULL;
    assert_null(sandbox->started);
    assert_false(sandbox->destroying); /* that is the sandbox's own handler's to say, and the stage has the node's */
}

static void without_a_node_it_ends_at_once(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    struct node *node = take_ptr(sandbox->node);
    sandbox->started = on_started;
    sandbox->names_due_ms = UINT64_MAX; /* it waits for what names stand for */
    tree_end(sandbox, on_ended);
    assert_true(sandbox->destroying);
    assert_null(sandbox->started);
    assert_int_equal(sandbox->names_due_ms, 0);
    sandbox->node = node;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_end_is_no_failed_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_node_it_ends_at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
