/* Answers: by turns, those whom no quota binds first, and never pushed out of a turn by what is asked in it. */
#include "core/stage.h"

enum { SERVICE_UID = 900, GIVEN_AT_LEAST = 4, SLICE_NS = 300 * 1000 };

struct asked {
    struct request request;
    struct stage *stage;
    uint64_t takes_ns; /* to give the answer */
    char name;
};

static void spend(uint64_t ns) {
    uint64_t begun_ns = uv_hrtime();
    while (uv_hrtime() - begun_ns < ns) {
    }
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct asked *asked = request->transport;
    assert_null(error);
    json_decref(result);
    buf_printf(&asked->stage->story, "%c", asked->name);
    spend(asked->takes_ns);
}

static void answer(struct stage *stage, struct asked *asked, uid_t uid, char name) {
    asked->stage = stage;
    asked->name = name;
    asked->request = (struct request){.caller = {.uid = uid, .peer_fd = -1}, .done = on_done, .transport = asked};
    answer_ok(&stage->engine, &asked->request, json_object());
}

static void open_quotas(struct stage *stage, struct quota_rules *rules, struct quotas **ret) {
    quota_rules_init(rules, UINT64_C(1) << 30);
    struct quotas_config config = {.rules = rules, .service_uid = SERVICE_UID};
    assert_int_equal(quotas_open(&config, ret, NULL), 0);
    stage->engine.config.quotas = *ret;
}

static void users_have_theirs_by_turns(void **state) {
    struct stage *stage = *state;
    static struct quota_rules rules;
    struct quotas *quotas;
    struct asked asked[8] = {0};
    open_quotas(stage, &rules, &quotas);
    for (size_t i = 0; i < 5; i++) answer(stage, &asked[i], 1001, (char)('a' + i));
    answer(stage, &asked[5], 1002, 'x');
    answer(stage, &asked[6], SERVICE_UID, 'S');
    answer(stage, &asked[7], 0, 'R');
    assert_true(answers_are_waiting(&stage->engine.answers));
    stage_expect(stage, "");
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "SRaxbcde");
    assert_false(answers_are_waiting(&stage->engine.answers));
    quotas_close(quotas);
}

/* As requests do that fill the turn before any answer is given. */
static void fill_turn(uv_timer_t *timer) {
    loop_note(timer->loop, "request", NULL);
    spend(3 * 1000 * 1000);
    assert_true(loop_turn_is_full(timer->loop));
}

static void answers_have_a_slice_of_a_full_turn(void **state) {
    struct stage *stage = *state;
    struct loop_watch *watch;
    struct asked asked[3 * GIVEN_AT_LEAST] = {0};
    uv_timer_t timer;
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    uv_timer_init(&stage->loop, &timer);
    uv_timer_start(&timer, fill_turn, 0, 0);
    for (size_t i = 0; i < 3 * GIVEN_AT_LEAST; i++) {
        asked[i].takes_ns = SLICE_NS; /* one fills it: the others are those that every slice has */
        answer(stage, &asked[i], 1001, (char)('a' + i));
    }
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    assert_int_equal(stage->story.size, GIVEN_AT_LEAST);
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    assert_in_range(stage->story.size, 2 * GIVEN_AT_LEAST, 3 * GIVEN_AT_LEAST - 1);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "abcdefghijkl");
    uv_close((uv_handle_t *)&timer, NULL);
    loop_watch_close(watch);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
}

static json_t *make_late(struct engine *engine, struct request *request, struct error *reterr) {
    struct asked *asked = request->transport;
    (void)engine, (void)reterr;
    spend(asked->takes_ns);
    return json_object();
}

/* Many may become due in one turn of the loop, as one read of a node's connection brings many of its words. */
static void what_takes_long_is_made_by_turns(void **state) {
    struct stage *stage = *state;
    struct loop_watch *watch;
    struct asked asked[3 * GIVEN_AT_LEAST] = {0};
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
        asked[i] = (struct asked){.stage = stage, .name = (char)('a' + i), .takes_ns = 1000 * 1000};
        asked[i].request =
            (struct request){.caller = {.uid = 1001, .peer_fd = -1}, .done = on_done, .transport = &asked[i]};
        answer_made(&stage->engine, &asked[i].request, make_late);
    }
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    assert_in_range(stage->story.size, 1, GIVEN_AT_LEAST);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "abcdefghijkl");
    loop_watch_close(watch);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
}

static json_t *make_nothing(struct engine *engine, struct request *request, struct error *reterr) {
    (void)engine, (void)request;
    error_set(reterr, E_NOT_FOUND, "it is gone");
    return NULL;
}

static void on_failed(struct request *request, json_t *result, const struct error *error) {
    struct asked *asked = request->transport;
    assert_null(result);
    assert_int_equal(error->code, E_NOT_FOUND);
    buf_printf(&asked->stage->story, "gone");
}

static void what_is_made_may_be_gone(void **state) {
    struct stage *stage = *state;
    struct asked asked = {.stage = stage, .request = {.caller.peer_fd = -1, .done = on_failed}};
    asked.request.transport = &asked;
    answer_made(&stage->engine, &asked.request, make_nothing);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    stage_expect(stage, "gone");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(users_have_theirs_by_turns),
        ON_STAGE(answers_have_a_slice_of_a_full_turn),
        ON_STAGE(what_takes_long_is_made_by_turns),
        ON_STAGE(what_is_made_may_be_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
