/* Lists of sandboxes: over several turns of the loop where they are long, and users by turns. */
#include "core/stage.h"

#include "core/sandbox/list.h"

enum { SANDBOXES = 6, ITEM_NS = 2 * LOOP_TURN_FULL_US * 1000 }; /* an item fills a turn */

static struct stage *shown; /* what the items are told to */

static json_t *item(struct sandbox *sandbox) {
    uint64_t begun_ns = uv_hrtime();
    buf_printf(&shown->story, "%s%u ", sandbox->id, sandbox->owner);
    while (uv_hrtime() - begun_ns < ITEM_NS) {
    }
    return json_string(sandbox->id);
}

static json_t *end(struct request *request, json_t *items) {
    (void)request;
    json_array_append_new(items, json_string("end"));
    return items;
}

static const struct list_form form = {.name = "list", .item = item, .end = end};

static void on_done(struct request *request, json_t *result, const struct error *error) {
    json_t **ret = request->transport;
    assert_null(error);
    *ret = result;
}

struct lists {
    struct stage *stage;
    struct loop_watch *watch;
    struct sandbox *sandboxes[SANDBOXES];
};

/* Half of them are one user's. */
static int set_up(void **state) {
    struct lists *lists = calloc(1, sizeof *lists);
    struct error error;
    void *stage;
    assert_int_equal(stage_setup(&stage), 0);
    shown = lists->stage = stage;
    assert_int_equal(loop_watch_open(&shown->loop, &lists->watch, NULL), 0);
    loop_turns_open(&shown->engine.lists, &shown->loop, "list", LOOP_TURN_FULL_US);
    for (size_t i = 0; i < SANDBOXES; i++) {
        lists->sandboxes[i] = sandbox_new(&shown->engine, (char[]){(char)('a' + i), '\0'}, &error);
        lists->sandboxes[i]->owner = 1 + i % 2;
    }
    *state = lists;
    return 0;
}

static int tear_down(void **state) {
    struct lists *lists = *state;
    void *stage = lists->stage;
    for (size_t i = 0; i < SANDBOXES; i++) sandbox_remove(lists->sandboxes[i]);
    loop_turns_close(&lists->stage->engine.lists, NULL);
    loop_watch_close(lists->watch);
    free(lists);
    return stage_teardown(&stage);
}

static struct request asked_by(uid_t uid, json_t **ret) {
    return (struct request){
        .caller = {.uid = uid, .role = ROLE_OPERATOR, .peer_fd = -1}, .done = on_done, .transport = ret};
}

static void a_long_list_takes_several_turns(void **state) {
    struct stage *stage = ((struct lists *)*state)->stage;
    json_t *result = NULL;
    struct request request = asked_by(1, &result);
    list_sandboxes(&stage->engine, &request, &form);
    stage_expect(stage, "a1 ");
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage_expect(stage, "c1 ");
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage_expect(stage, "e1 ");
    while (!result) uv_run(&stage->loop, UV_RUN_NOWAIT);
    assert_int_equal(json_array_size(result), 4);
    assert_int_equal(stage->engine.listings, 0);
    json_decref(result);
}

/* However many one user asks for, another waits for one item of each turn. */
static void users_take_turns(void **state) {
    struct stage *stage = ((struct lists *)*state)->stage;
    json_t *results[4] = {NULL};
    struct request requests[] = {asked_by(1, &results[0]), asked_by(1, &results[1]), asked_by(1, &results[2]),
                                 asked_by(2, &results[3])};
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) list_sandboxes(&stage->engine, &requests[i], &form);
    stage_expect(stage, "a1 a1 a1 b2 ");
    for (int i = 0; i < 4; i++) uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage_expect(stage, "c1 d2 c1 f2 ");
    while (stage->engine.listings > 0) uv_run(&stage->loop, UV_RUN_NOWAIT);
    while (!results[0] || !results[1] || !results[2] || !results[3]) uv_run(&stage->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < ARRAY_SIZE(results); i++) json_decref(results[i]);
    buf_clear(&stage->story);
}

static void a_list_whose_caller_has_left_ends(void **state) {
    struct stage *stage = ((struct lists *)*state)->stage;
    json_t *result = NULL;
    struct request request = asked_by(1, &result);
    list_sandboxes(&stage->engine, &request, &form);
    request.cancel(&request);
    while (!result) uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage_expect(stage, "a1 ");
    json_decref(result);
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(a_long_list_takes_several_turns),
        SET(users_take_turns),
        SET(a_list_whose_caller_has_left_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
