/* Ends in the middle of a start. */
#include "core/node_scene.h"
#include "core/sandbox/tree.h"
#include "terms.h"

static int set_up(void **state) {
    *state = scene_open();
    return 0;
}

static int tear_down(void **state) {
    return scene_close(*state);
}

static void on_started(void *data, const struct error *error) {
    (void)data, (void)error;
    fail_msg("a job that ends a tree does not hear that it did not start");
}

static void on_ended(void *data) {
    struct sandbox *sandbox = data;
    sandbox->ending.is_destroying = true;
}

/* The call that starts the application fails as its VM goes. */
static void an_end_is_no_failed_start(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    sandbox->tree.started = on_started;
    sandbox->tree.started_data = sandbox;
    tree_node_handler.ready(sandbox, sandbox->node);
    agent_take_call(scene->stage, scene->agent, "start");
    tree_end(sandbox, on_ended, sandbox);
    RUN_UNTIL(scene->stage, stage_heard(scene->stage, "gone:killed"));
    sandbox->node = NULL;
    assert_null(sandbox->tree.started);
    assert_false(
        sandbox->ending.is_destroying); /* that is the sandbox's own handler's to say, and the stage has the node's */
}

static void without_a_node_it_ends_at_once(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    struct node *node = take_ptr(sandbox->node);
    sandbox->tree.started = on_started;
    sandbox->tree.started_data = sandbox;
    sandbox->network.names_due_ms = UINT64_MAX; /* it waits for what names stand for */
    tree_end(sandbox, on_ended, sandbox);
    assert_true(sandbox->ending.is_destroying);
    assert_null(sandbox->tree.started);
    assert_int_equal(sandbox->network.names_due_ms, 0);
    sandbox->node = node;
}

static void on_started_well(void *data, const struct error *error) {
    struct sandbox *sandbox = data;
    assert_null(error);
    sandbox->ending.is_destroying = true;
}

static void reply_started(int agent, uint64_t id, size_t lost) {
    char text[250];
    struct buf reply = BUF_INIT;
    memset(text, 0xff, sizeof text);
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "ok");
    term_put_map(&reply, 2);
    term_put_atom(&reply, "app_name");
    term_put_string(&reply, "counter");
    term_put_atom(&reply, "lost");
    term_put_list(&reply, lost);
    for (size_t i = 0; i < lost; i++) {
        term_put_map(&reply, 1);
        term_put_atom(&reply, "reason");
        term_put_binary(&reply, text, sizeof text);
    }
    term_put_nil(&reply);
    agent_send(agent, &reply);
}

static struct kept_states many_states(void) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    CLEANUP_TERM struct term_doc *snapshot = NULL;
    struct kept_states states = {0};
    term_put_version(&bytes);
    term_put_map(&bytes, 1);
    term_put_atom(&bytes, "states");
    term_put_list(&bytes, 1000);
    for (int i = 0; i < 1000; i++) term_put_integer(&bytes, 1);
    term_put_nil(&bytes);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &snapshot, NULL), 0);
    states_take(&states, term_root(snapshot));
    return states;
}

/* Whether it is read here or on a thread, the tree is known and what it did not take is told. */
static void what_was_refused_is_told(void **state) {
    static const size_t lost[] = {2, 300}; /* a small answer, and one for a thread */
    struct scene *scene = *state;
    struct sandbox *sandbox = scene->sandbox;
    sandbox->metering.next_ms = UINT64_MAX; /* it is measured already, as far as it knows */
    for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
        struct kept_states states = many_states();
        sandbox->tree.started = on_started_well;
        sandbox->tree.started_data = sandbox;
        sandbox->tree.start_asked = sandbox->ending.is_destroying = false;
        sandbox->tree.states = &states;
        tree_node_handler.ready(sandbox, sandbox->node);
        reply_started(scene->agent, agent_take_call(scene->stage, scene->agent, "start"), lost[i]);
        RUN_UNTIL(scene->stage, sandbox->ending.is_destroying);
        assert_string_equal(sandbox->tree.app_name, "counter");
        assert_null(sandbox->tree.app_pid);
        assert_int_equal(states.count, 1000 - lost[i]);
        assert_int_equal(json_array_size(states.lost), lost[i] < 256 ? lost[i] : 256);
        sandbox->tree.states = NULL;
        states_free(&states);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_end_is_no_failed_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_node_it_ends_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_refused_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
