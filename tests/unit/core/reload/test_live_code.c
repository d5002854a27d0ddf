/* Tests what the daemon makes of a node's word about the code that runs in it: transactions that ended while no daemon
   ran, that are on probation or under way, and names that no daemon gave out. The agent is played. */
#include "core/reload/reload_scene.h"

/* ---- what the node says ---- */

/* `transaction` is under way in that phase, `last` has ended so; NULL for none. */
struct word {
    const char *id, *phase;
    const char *last_id, *outcome;
};

static void put_transaction(struct buf *term, const char *id, const char *key, const char *value) {
    if (!id) {
        term_put_atom(term, "nil");
        return;
    }
    struct term_map map = term_map_begin(term);
    term_map_text(&map, "id", id);
    term_map_atom(&map, key, value);
    term_map_end(&map);
}

static void answer_state(struct reload_scene *test, const struct word *word) {
    struct buf reply = BUF_INIT;
    begin_reply(&reply, take_call(test, "code_state"), "ok", 2);
    term_put_atom(&reply, "transaction");
    put_transaction(&reply, word->id, "phase", word->phase);
    term_put_atom(&reply, "last");
    put_transaction(&reply, word->last_id, "outcome", word->outcome);
    agent_send(test->scene->agent, &reply);
}

static void on_told(void *data) {
    buf_append_string(&((struct reload_scene *)data)->scene->stage->story, "told ");
}

/* As after the start of a daemon. */
static void ask(struct reload_scene *test, const struct word *word) {
    test->sandbox->code.is_known = false;
    live_code_await(test->sandbox, on_told, test);
    assert_false(live_code_is_known(test->sandbox));
    answer_state(test, word);
}

static void name_of(const struct reload_scene *test, const char *digest, char ret[RELOAD_ID_BYTES]) {
    reload_id_make(test->sandbox, digest, ret);
}

/* ---- ended while no daemon ran ---- */

static void a_change_that_no_daemon_heard_of_is_adopted(void **state) {
    struct reload_scene *test = *state;
    char id[RELOAD_ID_BYTES];
    name_of(test, test->two, id);
    ask(test, &(struct word){.last_id = id, .outcome = "committed"});
    expect_answer(test, "told ");
    assert_true(live_code_is_known(test->sandbox));
    assert_runs(test, test->two);
    assert_string_equal(test->sandbox->code.last_reload, id);
    assert_string_equal(test->sandbox->code.probation.id, "");
}

static void nothing_new_is_known_at_once(void **state) {
    struct reload_scene *test = *state;
    ask(test, &(struct word){0});
    expect_answer(test, "told ");
    assert_true(live_code_is_known(test->sandbox));
    assert_runs(test, test->one);
}

static void a_rollback_that_no_daemon_heard_of(void **state) {
    struct reload_scene *test = *state;
    char id[RELOAD_ID_BYTES];
    change_to(test, test->two, "{\"id\": \"s\"}");
    reply_reloaded(test, take_call(test, "reload"));
    expect_answer(test, "ok ");
    memcpy(id, test->sandbox->code.probation.id, sizeof id);
    ask(test, &(struct word){.last_id = id, .outcome = "rolled_back"});
    expect_answer(test, "told ");
    assert_runs(test, test->one);
    assert_string_equal(test->sandbox->code.probation.id, "");
    assert_string_equal(json_string_value(json_object_get(test->sandbox->last_error, "code")), "reload_failed");
}

/* ---- still going on ---- */

static void a_probation_goes_on(void **state) {
    struct reload_scene *test = *state;
    char id[RELOAD_ID_BYTES];
    name_of(test, test->two, id);
    ask(test, &(struct word){.id = id, .phase = "probation"});
    expect_answer(test, "told ");
    assert_runs(test, test->two);
    assert_string_equal(test->sandbox->code.probation.id, id);
    tell_settled(test, "rolled_back");
    RUN_UNTIL(test->scene->stage, !test->sandbox->code.probation.id[0]);
    assert_runs(test, test->one);
}

/* The agent tells of the end of a transaction; then the node is asked again. */
static void a_transaction_under_way_is_waited_for(void **state) {
    struct reload_scene *test = *state;
    char id[RELOAD_ID_BYTES];
    name_of(test, test->two, id);
    ask(test, &(struct word){.id = id, .phase = "migrate"});
    RUN_UNTIL(test->scene->stage, !test->sandbox->code.is_asked);
    stage_expect(test->scene->stage, "");
    assert_false(live_code_is_known(test->sandbox)); /* asks again */
    assert_runs(test, test->one);
    answer_state(test, &(struct word){.last_id = id, .outcome = "committed"});
    expect_answer(test, "told ");
    assert_runs(test, test->two);
}

/* ---- what is not believed ---- */

static void a_name_of_another_sandbox(void **state) {
    struct reload_scene *test = *state;
    struct sandbox other = {.engine = &test->scene->engine, .id = "t"};
    char id[RELOAD_ID_BYTES];
    reload_id_make(&other, test->two, id);
    ask(test, &(struct word){.last_id = id, .outcome = "committed"});
    expect_answer(test, "told ");
    assert_runs(test, test->one);
    assert_string_not_equal(test->sandbox->code.last_reload, id);
}

static void a_build_that_is_gone(void **state) {
    struct reload_scene *test = *state;
    char id[RELOAD_ID_BYTES], digest[STORE_DIGEST_BYTES] = "";
    memset(digest, 'f', STORE_DIGEST_BYTES - 1);
    name_of(test, digest, id);
    ask(test, &(struct word){.id = id, .phase = "probation"});
    expect_answer(test, "told ");
    assert_runs(test, test->one);
    assert_string_equal(test->sandbox->code.probation.id, "");
}

static void texts_that_are_no_names(void **state) {
    struct reload_scene *test = *state;
    char lengthy[4 * RELOAD_ID_BYTES] = "";
    memset(lengthy, 'a', sizeof lengthy - 1);
    ask(test, &(struct word){.id = lengthy, .phase = lengthy, .last_id = "", .outcome = "committed"});
    RUN_UNTIL(test->scene->stage, !test->sandbox->code.is_asked);
    assert_runs(test, test->one);
    assert_false(test->sandbox->code.is_known); /* something is under way */
    live_code_gone(test->sandbox);
    expect_answer(test, "told ");
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        SET(a_change_that_no_daemon_heard_of_is_adopted),
        SET(nothing_new_is_known_at_once),
        SET(a_rollback_that_no_daemon_heard_of),
        SET(a_probation_goes_on),
        SET(a_transaction_under_way_is_waited_for),
        SET(a_name_of_another_sandbox),
        SET(a_build_that_is_gone),
        SET(texts_that_are_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
