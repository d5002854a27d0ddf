/* The control channel against agents that lie, stammer and vanish. */
#include "node/stage.h"

#include <sys/socket.h>
#include <zlib.h>

#include "descriptors.h"

static void test_events(void **state) {
    struct stage *stage = *state;
    int agent;
    stage_start_ready(stage, &agent);
    for (int i = 0; i < 3; i++) {
        struct buf event = BUF_INIT;
        agent_put_event(&event, i == 1 ? "log" : "output");
        agent_send(agent, &event);
    }
    RUN_UNTIL(stage, stage_heard(stage, "event:output event:log event:output "));
    close(agent);
}

static void test_frames_that_break_the_protocol(void **state) {
    struct stage *stage = *state;
    static const struct {
        const char *bytes;
        size_t size;
    } samples[] = {
        {"\x01\0\0\1", 4},       /* one byte over 16 MiB */
        {"\0\0\0\0", 4},         /* an empty frame */
        {"\0\0\0\3abc", 7},      /* no term */
        {"\0\0\0\2\x83\x6a", 6}, /* [] */
    };
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        int agent;
        stage_start_ready(stage, &agent);
        agent_send_bytes(agent, samples[i].bytes, samples[i].size);
        RUN_UNTIL(stage, stage_heard(stage, "gone"));
        stage_expect(stage, stage_over);
        close(agent);
    }
}

static void test_tuples_that_break_the_protocol(void **state) {
    struct stage *stage = *state;
    static const char *const samples[] = {
        "\0\0\0\x0b\x83\x68\2\x77\5event\x6a", "\0\0\0\x0b\x83\x68\3\x77\5evenx\x6a\x6a",
        "\0\0\0\x0c\x83\x68\3\x77\5event\x6a\x6a", "\0\0\0\x0c\x83\x68\3\x77\5reply\x6a\x6a"};
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        int agent;
        stage_start_ready(stage, &agent);
        agent_send_bytes(agent, samples[i], (size_t)samples[i][3] + 4);
        RUN_UNTIL(stage, stage_heard(stage, "gone"));
        stage_expect(stage, stage_over);
        close(agent);
    }
}

static void reply_to(struct stage *stage, uint64_t id, const char *story) {
    int agent;
    stage_start_ready(stage, &agent);
    agent_reply_ok(agent, id);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, story);
    close(agent);
}

static void test_a_reply_to_no_call(void **state) {
    reply_to(*state, 0, stage_over);
    reply_to(*state, 1, stage_over);
    reply_to(*state, UINT64_MAX, stage_over);
}

/* Little on the wire, much in memory: not from a node. */
static void test_compressed_frames_may_not_grow(void **state) {
    struct stage *stage = *state;
    static uint8_t zeros[1 << 20], packed[1 << 16];
    int agent;
    stage_start_ready(stage, &agent);
    struct buf inner = BUF_INIT, term = BUF_INIT;
    term_put_tuple(&inner, 3);
    term_put_atom(&inner, "event");
    term_put_atom(&inner, "output");
    term_put_binary(&inner, zeros, sizeof zeros);
    uLongf size = sizeof packed;
    assert_int_equal(compress2(packed, &size, inner.data, inner.size, 9), Z_OK);
    buf_append_byte(&term, 131);
    buf_append_byte(&term, 80);
    buf_append_u32(&term, (uint32_t)inner.size);
    buf_append(&term, packed, size);
    buf_free(&inner);
    agent_send(agent, &term);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, stage_over);
    close(agent);
}

static void test_half_a_frame_and_the_end(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    agent_send_bytes(agent, "\0\0\1\0abc", 7);
    close(agent);
    RUN_UNTIL(stage, !node_is_ready(node));
    int again = agent_dial(stage, node);
    agent_hello(again, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    stage_expect(stage, "ready ");
    close(again);
}

static void test_a_second_agent_takes_the_place_of_the_first(void **state) {
    struct stage *stage = *state;
    int first;
    struct node *node = stage_start_ready(stage, &first);
    stage_call(stage, 'a', node, 60000);
    int second = agent_dial(stage, node);
    agent_hello(second, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, stage_heard(stage, "ready"));
    stage_expect(stage, "a:node_failed ready ");
    RUN_UNTIL(stage, recv(first, &(char[64]){0}, 64, MSG_DONTWAIT) == 0); /* after the call it was sent */
    assert_false(agent_sees_end(second));
    close(first);
    close(second);
}

struct letting_go {
    struct node *node;
    bool detached;
};

static void on_detached(void *data) {
    ((struct letting_go *)data)->detached = true;
}

static void on_reply_let_go(void *data, const struct term *result, const struct term *reason,
                            const struct error *error) {
    struct letting_go *letting_go = data;
    (void)result, (void)reason;
    assert_non_null(error);
    node_detach(letting_go->node, on_detached, letting_go);
}

/* The first agent's calls are lost while the second is let in, and the caller of one lets the node go. */
static void test_let_go_in_the_middle_of_a_hello(void **state) {
    struct stage *stage = *state;
    int first;
    struct letting_go letting_go = {.node = stage_start_ready(stage, &first)};
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    node_call(letting_go.node, "info", &args, 60000, on_reply_let_go, &letting_go);
    int second = agent_dial(stage, letting_go.node);
    agent_hello(second, PROTOCOL_VERSION, node_secret(letting_go.node));
    RUN_UNTIL(stage, letting_go.detached);
    stage_expect(stage, "");
    close(first);
    close(second);
}

/* The second time on a kernel that refuses no descriptors. */
int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_events),
        ON_STAGE(test_frames_that_break_the_protocol),
        ON_STAGE(test_tuples_that_break_the_protocol),
        ON_STAGE(test_a_reply_to_no_call),
        ON_STAGE(test_compressed_frames_may_not_grow),
        ON_STAGE(test_half_a_frame_and_the_end),
        ON_STAGE(test_a_second_agent_takes_the_place_of_the_first),
        ON_STAGE(test_let_go_in_the_middle_of_a_hello),
    };
    int failed = cmocka_run_group_tests_name("this kernel", tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    return failed + cmocka_run_group_tests_name("an old kernel", tests, NULL, NULL);
}
