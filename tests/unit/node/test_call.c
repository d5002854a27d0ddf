/* Calls to an agent: every one gets exactly one answer, whatever the agent does. */
#include "node/stage.h"

#include <pthread.h>
#include <stdatomic.h>

static void test_an_answer(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t id = stage_call(stage, 'a', node, 60000);
    stage_expect(stage, "");
    assert_int_equal(agent_take_call(stage, agent, "info"), id);
    agent_reply_ok(agent, id);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "a:ok ");
    close(agent);
}

/* A term that this version does not know, as a later OTP may send it. */
static void put_too_new(struct buf *frame) {
    buf_append(frame, "\xc8\x01\x02", 3);
}

static void send_too_new_event(int agent) {
    struct buf event = BUF_INIT;
    term_put_version(&event);
    term_put_tuple(&event, 3);
    term_put_atom(&event, "event");
    term_put_atom(&event, "log");
    put_too_new(&event);
    agent_send(agent, &event);
}

static void reply_too_new(int agent, uint64_t id, size_t before) {
    struct buf reply = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "ok");
    term_put_list(&reply, before + 1);
    for (size_t i = 0; i < before; i++) term_put_integer(&reply, 1);
    put_too_new(&reply);
    term_put_nil(&reply);
    agent_send(agent, &reply);
}

static void test_what_is_too_new_ends_no_node(void **state) {
    enum { LARGE = 10000 };
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t first = stage_call(stage, 'a', node, 60000);
    uint64_t second = stage_call(stage, 'b', node, 60000);
    uint64_t third = stage_call(stage, 'c', node, 60000);
    reply_too_new(agent, first, 0);
    send_too_new_event(agent);
    reply_too_new(agent, second, LARGE);
    agent_reply_ok(agent, third);
    RUN_UNTIL(stage, stage_heard(stage, "c:ok"));
    stage_expect(stage, "a:too_new event:too_new b:too_new c:ok ");
    close(agent);
}

static void test_answers_in_another_order(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t first = stage_call(stage, 'a', node, 60000);
    uint64_t second = stage_call(stage, 'b', node, 60000);
    agent_reply_ok(agent, second);
    agent_reply_ok(agent, first);
    RUN_UNTIL(stage, stage_heard(stage, "a:ok"));
    stage_expect(stage, "b:ok a:ok ");
    close(agent);
}

static void test_calls_wait_for_the_agent_and_keep_their_order(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    uint64_t first = stage_call(stage, 'a', node, 60000);
    uint64_t second = stage_call(stage, 'b', node, 60000);
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    term_free(agent_take(agent)); /* welcome */
    assert_int_equal(agent_take_call(stage, agent, "info"), first);
    assert_int_equal(agent_take_call(stage, agent, "info"), second);
    close(agent);
}

static void test_a_reply_before_the_call_was_sent_is_forged(void **state) {
    struct stage *stage = *state;
    int first;
    struct node *node = stage_start_ready(stage, &first);
    close(first);
    RUN_UNTIL(stage, !node_is_ready(node));
    uint64_t id = stage_call(stage, 'a', node, 60000);
    assert_true(id > 0);
    assert_false(calls_answer(node, id, NULL, NULL));
    stage_expect(stage, "");
}

/* ---- answers that are prepared ---- */

struct made {
    pthread_t by;
    size_t count;
};

static atomic_uint made_count, released_count;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* what is made waits while a test holds it */

static void *make(const struct term *result) {
    struct made *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (struct made){pthread_self(), result->items.count};
    atomic_fetch_add(&made_count, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return made;
}

static void release(void *made) {
    atomic_fetch_add(&released_count, 1);
    free(made);
}

static const struct node_preparation preparation = {.make = make, .release = release};
static const struct node_preparation of_failures = {.make = make, .make_of_failure = make, .release = release};

struct prepared {
    bool is_answered;
    struct made made;
    enum error_code failed;
};

static void on_prepared(void *data, void *made, const struct term *reason, const struct error *error) {
    struct prepared *prepared = data;
    (void)reason;
    prepared->is_answered = true;
    if (error) prepared->failed = error->code;
    if (made) prepared->made = *(struct made *)made;
    free(made);
}

static uint64_t ask_prepared(struct node *node, struct prepared *prepared) {
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    return node_call_prepared(node, "eval", &args, 60000, &preparation, on_prepared, prepared);
}

static void reply_list_as(int agent, uint64_t id, const char *outcome, size_t count) {
    struct buf reply = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, outcome);
    term_put_list(&reply, count);
    for (size_t i = 0; i < count; i++) term_put_integer(&reply, 1);
    term_put_nil(&reply);
    agent_send(agent, &reply);
}

static void reply_list(int agent, uint64_t id, size_t count) {
    reply_list_as(agent, id, "ok", count);
}

/* A node chooses how long its reasons are, too. */
static void test_a_large_failure_is_prepared_elsewhere(void **state) {
    struct stage *stage = *state;
    static const size_t sizes[] = {3, 20000};
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct prepared prepared = {0};
        struct buf args = BUF_INIT;
        term_put_map(&args, 0);
        node_call_prepared(node, "eval", &args, 60000, &of_failures, on_prepared, &prepared);
        reply_list_as(agent, agent_take_call(stage, agent, "eval"), "error", sizes[i]);
        RUN_UNTIL(stage, prepared.is_answered);
        assert_int_equal(prepared.failed, E_RUNTIME);
        assert_int_equal(prepared.made.count, sizes[i]);
        assert_int_equal(pthread_equal(prepared.made.by, pthread_self()) != 0, i == 0);
    }
    close(agent);
}

static void test_a_large_answer_is_prepared_elsewhere(void **state) {
    struct stage *stage = *state;
    static const size_t sizes[] = {3, 20000};
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct prepared prepared = {0};
        ask_prepared(node, &prepared);
        reply_list(agent, agent_take_call(stage, agent, "eval"), sizes[i]);
        RUN_UNTIL(stage, prepared.is_answered);
        assert_int_equal(prepared.failed, E_NONE);
        assert_int_equal(prepared.made.count, sizes[i]);
        assert_int_equal(pthread_equal(prepared.made.by, pthread_self()) != 0, i == 0);
    }
    close(agent);
}

/* Few bytes and few terms, which take milliseconds to print. */
static void reply_numbers(int agent, uint64_t id, size_t floats, size_t bigs) {
    enum { BIG_BYTES = 1280 };
    struct buf reply = BUF_INIT;
    uint8_t digits[BIG_BYTES];
    memset(digits, 0xff, sizeof digits);
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "ok");
    term_put_list(&reply, floats + bigs);
    for (size_t i = 0; i < floats; i++) term_put_float(&reply, 1.25e-300);
    for (size_t i = 0; i < bigs; i++) {
        buf_append_byte(&reply, 111); /* LARGE_BIG_EXT */
        buf_append_u32(&reply, BIG_BYTES);
        buf_append_byte(&reply, 0);
        buf_append(&reply, digits, sizeof digits);
    }
    term_put_nil(&reply);
    agent_send(agent, &reply);
}

static void test_numbers_that_take_long_are_prepared_elsewhere(void **state) {
    struct stage *stage = *state;
    static const struct {
        size_t floats, bigs;
        bool by_loop;
    } answers[] = {{10, 1, true}, {100, 0, false}, {0, 3, false}};
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct prepared prepared = {0};
        ask_prepared(node, &prepared);
        reply_numbers(agent, agent_take_call(stage, agent, "eval"), answers[i].floats, answers[i].bigs);
        RUN_UNTIL(stage, prepared.is_answered);
        assert_int_equal(prepared.made.count, answers[i].floats + answers[i].bigs);
        assert_int_equal(pthread_equal(prepared.made.by, pthread_self()) != 0, answers[i].by_loop);
    }
    close(agent);
}

static void test_a_prepared_answer_that_fails(void **state) {
    struct stage *stage = *state;
    int agent;
    struct prepared prepared = {0};
    struct node *node = stage_start_ready(stage, &agent);
    ask_prepared(node, &prepared);
    agent_reply_error(agent, agent_take_call(stage, agent, "eval"), "timeout", "late", 4);
    RUN_UNTIL(stage, prepared.is_answered);
    assert_int_equal(prepared.failed, E_TIMEOUT);
    assert_int_equal(prepared.made.count, 0);
    close(agent);
}

/* Taken back, or lost with the connection, while the pool works on its answer. */
static void test_nobody_waits_for_what_was_prepared(void **state) {
    struct stage *stage = *state;
    for (int i = 0; i < 2; i++) {
        int agent;
        struct prepared prepared = {0};
        struct node *node = stage_start_ready(stage, &agent);
        unsigned made_before = atomic_load(&made_count), released_before = atomic_load(&released_count);
        uint64_t id = ask_prepared(node, &prepared);
        reply_list(agent, agent_take_call(stage, agent, "eval"), 20000);
        pthread_mutex_lock(&gate);
        RUN_UNTIL(stage, atomic_load(&made_count) > made_before);
        if (i == 0)
            node_cancel(node, id);
        else
            node_kill(node, "for the test");
        pthread_mutex_unlock(&gate);
        RUN_UNTIL(stage, atomic_load(&released_count) > released_before);
        if (i == 1) RUN_UNTIL(stage, stage_heard(stage, "gone"));
        assert_int_equal(prepared.is_answered, i == 1);
        assert_int_equal(prepared.failed, i == 1 ? E_NODE : E_NONE);
        close(agent);
    }
}

static void test_time_is_over(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t id = stage_call(stage, 'a', node, 20);
    assert_int_equal(agent_take_call(stage, agent, "info"), id);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "a:timeout ");
    assert_int_equal(agent_take_call(stage, agent, "cancel"), id);
    agent_reply_ok(agent, id); /* late, not forged */
    uint64_t again = stage_call(stage, 'b', node, 60000);
    agent_reply_ok(agent, again);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "b:ok ");
    close(agent);
}

static void test_time_is_over_before_the_agent_came(void **state) {
    struct stage *stage = *state;
    stage_call(stage, 'a', stage_start(stage), 20);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "a:timeout ");
}

static void test_a_replayed_answer_answers_nobody(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t id = stage_call(stage, 'a', node, 60000);
    agent_reply_ok(agent, id);
    agent_reply_ok(agent, id);
    uint64_t other = stage_call(stage, 'b', node, 60000);
    agent_reply_ok(agent, id);
    agent_reply_ok(agent, other);
    RUN_UNTIL(stage, stage_heard(stage, "b:"));
    stage_expect(stage, "a:ok b:ok ");
    close(agent);
}

static void test_cancel(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t id = stage_call(stage, 'a', node, 60000);
    node_cancel(node, id);
    node_cancel(node, id);
    node_cancel(node, 12345);
    assert_int_equal(agent_take_call(stage, agent, "cancel"), id);
    agent_reply_ok(agent, stage_call(stage, 'b', node, 60000));
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "b:ok ");
    close(agent);
}

static void test_cancelled_before_it_was_sent(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    node_cancel(node, stage_call(stage, 'a', node, 60000));
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    term_free(agent_take(agent)); /* welcome */
    assert_null(agent_take(agent));
    stage_expect(stage, "ready ");
    close(agent);
}

static void test_the_agent_goes_with_calls_under_way(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    stage_call(stage, 'a', node, 60000);
    stage_call(stage, 'b', node, 60000);
    agent_take_call(stage, agent, "info");
    close(agent);
    RUN_UNTIL(stage, stage_heard(stage, "a:") && stage_heard(stage, "b:"));
    stage_expect(stage, "b:node_failed a:node_failed ");
}

static void test_the_node_ends_with_calls_under_way(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    stage_call(stage, 'a', node, 60000);
    node_kill(node, "for the test");
    stage_call(stage, 'b', node, 60000); /* refused, later */
    stage_expect(stage, "");
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    assert_true(stage_heard(stage, "a:node_failed "));
    assert_true(stage_heard(stage, "b:node_failed "));
    close(agent);
}

static void test_calls_are_bounded(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    for (size_t i = 0; i <= CALLS_MAX; i++) stage_call(stage, i < CALLS_MAX ? 'a' : 'z', node, 60000);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "z:node_failed ");
}

static void test_arguments_that_could_not_be_built(void **state) {
    struct stage *stage = *state;
    int agent;
    struct asked asked = {stage, 'a'};
    struct node *node = stage_start_ready(stage, &agent);
    struct buf args = {.failed = true};
    node_call(node, "info", &args, 60000, stage_on_reply, &asked);
    stage_expect(stage, "");
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "a:node_failed ");
    close(agent);
}

/* ---- errors of the agent's ---- */

struct kept_error {
    struct error error;
    bool has_reason, heard;
};

static void keep_error(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct kept_error *kept = data;
    assert_null(result);
    *kept = (struct kept_error){*error, reason != NULL, true};
}

static struct kept_error fail_call(struct stage *stage, struct node *node, int agent, const char *kind,
                                   const void *message, size_t size) {
    struct kept_error kept = {0};
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    agent_reply_error(agent, node_call(node, "eval", &args, 60000, keep_error, &kept), kind, message, size);
    RUN_UNTIL(stage, kept.heard);
    return kept;
}

static void test_kinds_of_errors(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    static const struct {
        const char *kind;
        enum error_code code;
    } kinds[] = {{"timeout", E_TIMEOUT},
                 {"start", E_START},
                 {"compile", E_COMPILE},
                 {"badarg", E_INVALID},
                 {"whatever", E_RUNTIME}};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct kept_error kept = fail_call(stage, node, agent, kinds[i].kind, "why", 3);
        assert_int_equal(kept.error.code, kinds[i].code);
        assert_string_equal(kept.error.detail, "why");
        assert_true(kept.has_reason);
    }
    assert_string_equal(fail_call(stage, node, agent, "x", NULL, 0).error.detail, "the agent gave no reason");
    close(agent);
}

/* Details become JSON, which has no bytes that are not text. */
static void test_a_message_that_is_not_text(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    struct kept_error kept = fail_call(stage, node, agent, "x", "\xff\xfe!", 3);
    assert_true(utf8_valid((const uint8_t *)kept.error.detail, strlen(kept.error.detail)));
    assert_non_null(strchr(kept.error.detail, '!'));
    close(agent);
}

static void test_an_answer_of_another_shape(void **state) {
    struct stage *stage = *state;
    int agent;
    struct buf reply = BUF_INIT;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t id = stage_call(stage, 'a', node, 60000);
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, id);
    term_put_atom(&reply, "ok");
    agent_send(agent, &reply);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "violation:protocol_violation a:protocol_violation gone:misbehaved/protocol_violation ");
    close(agent);
}

/* ---- answers that do something ---- */

struct chain {
    struct stage *stage;
    struct node *node;
};

static void on_reply_call_and_kill(void *data, const struct term *result, const struct term *reason,
                                   const struct error *error) {
    struct chain *chain = data;
    (void)reason;
    buf_append_string(&chain->stage->story, error ? "x:failed " : "x:ok ");
    (void)result;
    stage_call(chain->stage, 'n', chain->node, 60000);
    node_kill(chain->node, "its answer said so");
}

static void test_an_answer_that_ends_the_node(void **state) {
    struct stage *stage = *state;
    int agent;
    struct chain chain = {.stage = stage, .node = stage_start_ready(stage, &agent)};
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    agent_reply_ok(agent, node_call(chain.node, "stop", &args, 60000, on_reply_call_and_kill, &chain));
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "x:ok n:node_failed gone:killed/node_failed ");
    close(agent);
}

static void on_reply_detach_silently(void *data) {
    *(bool *)data = true;
}

static void on_reply_let_go(void *data, const struct term *result, const struct term *reason,
                            const struct error *error) {
    struct chain *chain = data;
    (void)result, (void)reason, (void)error;
    static bool detached;
    node_detach(chain->node, on_reply_detach_silently, &detached);
}

/* Two frames in one read: the first ends everything that the second would be for. */
static void test_an_answer_that_lets_go_of_the_node(void **state) {
    struct stage *stage = *state;
    int agent;
    struct chain chain = {.stage = stage, .node = stage_start_ready(stage, &agent)};
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    uint64_t id = node_call(chain.node, "stop", &args, 60000, on_reply_let_go, &chain);
    agent_reply_ok(agent, id);
    agent_reply_ok(agent, id);
    RUN_UNTIL(stage, stage->host.nodes.count == 0);
    stage_expect(stage, "");
    close(agent);
}

/* ---- agents that read slowly ---- */

enum { LARGE_BYTES = 1 << 20 }; /* more than a socket holds */

static uint64_t call_with_much(struct stage *stage, char name, struct node *node) {
    static const uint8_t zeros[LARGE_BYTES];
    struct buf args = BUF_INIT;
    struct asked *asked = &stage->asked[stage->asked_count++];
    *asked = (struct asked){stage, name};
    term_put_binary(&args, zeros, sizeof zeros);
    return node_call(node, "info", &args, 60000, stage_on_reply, asked);
}

struct drain {
    int fd;
    size_t frames, left; /* whole ones so far; bytes of the one that is being read */
};

static bool has_drained(struct drain *drain, size_t frames) {
    static uint8_t bytes[1 << 16];
    while (drain->frames < frames) {
        bool at_header = drain->left == 0;
        size_t wanted = at_header ? 4 : drain->left < sizeof bytes ? drain->left : sizeof bytes;
        ssize_t got = recv(drain->fd, bytes, wanted, MSG_DONTWAIT);
        if (got <= 0) return false;
        if (at_header) {
            assert_int_equal(got, 4);
            drain->left = (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
        } else {
            drain->left -= (size_t)got;
            drain->frames += drain->left == 0;
        }
    }
    return true;
}

static void test_a_slow_agent_gets_all_in_order(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint64_t first = call_with_much(stage, 'a', node), second = stage_call(stage, 'b', node, 60000);
    struct drain drain = {.fd = agent};
    RUN_UNTIL(stage, has_drained(&drain, 1));
    assert_int_equal(agent_take_call(stage, agent, "info"), second);
    agent_reply_ok(agent, second);
    agent_reply_ok(agent, first);
    RUN_UNTIL(stage, stage_heard(stage, "a:ok"));
    stage_expect(stage, "b:ok a:ok ");
    close(agent);
}

static void test_one_that_leaves_in_the_middle_of_a_frame(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    call_with_much(stage, 'a', node);
    call_with_much(stage, 'b', node); /* all of it waits */
    close(agent);
    RUN_UNTIL(stage, stage_heard(stage, "a:node_failed ") && stage_heard(stage, "b:node_failed "));
    assert_false(node_is_ready(node));
}

/* ---- answers that are kept ---- */

struct keeping {
    struct node *node;
    struct term_doc *doc;
    const struct term *result;
    bool has_more;
};

static void on_kept(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct keeping *keeping = data;
    assert_true(result && !reason && !error);
    keeping->result = result;
    keeping->doc = node_keep_answer(keeping->node);
    keeping->has_more = node_keep_answer(keeping->node) != NULL;
}

static void test_an_answer_may_be_kept(void **state) {
    struct stage *stage = *state;
    int agent;
    struct keeping keeping = {.node = stage_start_ready(stage, &agent)};
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    uint64_t id = node_call(keeping.node, "info", &args, 60000, on_kept, &keeping);
    assert_int_equal(agent_take_call(stage, agent, "info"), id);
    agent_reply_ok(agent, id);
    RUN_UNTIL(stage, keeping.doc);
    assert_false(keeping.has_more);
    assert_null(node_keep_answer(keeping.node));
    assert_int_equal(keeping.result->type, TERM_MAP);
    assert_ptr_equal(term_at(term_at(term_root(keeping.doc), 2), 1), keeping.result);
    term_free(keeping.doc);
    close(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_an_answer_may_be_kept),
        ON_STAGE(test_an_answer),
        ON_STAGE(test_what_is_too_new_ends_no_node),
        ON_STAGE(test_answers_in_another_order),
        ON_STAGE(test_calls_wait_for_the_agent_and_keep_their_order),
        ON_STAGE(test_a_reply_before_the_call_was_sent_is_forged),
        ON_STAGE(test_a_large_answer_is_prepared_elsewhere),
        ON_STAGE(test_numbers_that_take_long_are_prepared_elsewhere),
        ON_STAGE(test_a_large_failure_is_prepared_elsewhere),
        ON_STAGE(test_a_prepared_answer_that_fails),
        ON_STAGE(test_nobody_waits_for_what_was_prepared),
        ON_STAGE(test_time_is_over),
        ON_STAGE(test_time_is_over_before_the_agent_came),
        ON_STAGE(test_a_replayed_answer_answers_nobody),
        ON_STAGE(test_cancel),
        ON_STAGE(test_cancelled_before_it_was_sent),
        ON_STAGE(test_the_agent_goes_with_calls_under_way),
        ON_STAGE(test_the_node_ends_with_calls_under_way),
        ON_STAGE(test_calls_are_bounded),
        ON_STAGE(test_arguments_that_could_not_be_built),
        ON_STAGE(test_kinds_of_errors),
        ON_STAGE(test_a_message_that_is_not_text),
        ON_STAGE(test_an_answer_of_another_shape),
        ON_STAGE(test_an_answer_that_ends_the_node),
        ON_STAGE(test_an_answer_that_lets_go_of_the_node),
        ON_STAGE(test_a_slow_agent_gets_all_in_order),
        ON_STAGE(test_one_that_leaves_in_the_middle_of_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
