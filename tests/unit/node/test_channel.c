/* The control channel against agents that lie, stammer, flood and vanish. */
#include "node/stage.h"

#include <fcntl.h>
#include <time.h>
#include <zlib.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include "descriptors.h"

enum {
    SOON_MS = 3000,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    TEST_SLOWNESS = 10,
#else
    TEST_SLOWNESS = 1,
#endif
};

static const char over[] = "violation:protocol_violation gone:misbehaved/protocol_violation ";

static void put_event(struct buf *term, const char *kind) {
    term_put_version(term);
    term_put_tuple(term, 3);
    term_put_atom(term, "event");
    term_put_atom(term, kind);
    term_put_nil(term);
}

/* ---- strangers ---- */

static void assert_turned_away(struct stage *stage, struct node *node, int fd, const char *story) {
    RUN_UNTIL(stage, agent_sees_end(fd));
    stage_expect(stage, story);
    assert_false(node_is_ready(node));
    assert_int_equal(node->channel.strangers, 0);
    close(fd);
}

static void test_wrong_secrets(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    char almost[NODE_SECRET_BYTES];
    strcpy(almost, node_secret(node));
    almost[63] ^= 1;
    const char *const secrets[] = {"", "x", almost};
    for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
        int fd = agent_dial(stage, node);
        agent_hello(fd, PROTOCOL_VERSION, secrets[i]);
        assert_turned_away(stage, node, fd, "violation:forged_hello ");
    }
}

static void test_wrong_version(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    static const int64_t versions[] = {0, 2, -1, INT64_MAX};
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        int fd = agent_dial(stage, node);
        agent_hello(fd, versions[i], node_secret(node));
        assert_turned_away(stage, node, fd, "");
    }
}

static void test_things_that_are_no_hello(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    static const struct {
        const char *bytes;
        size_t size;
    } samples[] = {
        {"\xff\xff\xff\xff", 4},               /* a header past every bound */
        {"\0\0\x10\x01x", 5},                  /* one byte more than a hello may have */
        {"\0\0\0\0", 4},                       /* nothing at all */
        {"\0\0\0\1x", 5},                      /* no term */
        {"\0\0\0\2\x83\x6a", 6},               /* a term, and no hello: [] */
        {"\0\0\0\5\x83\x68\4\x77\5hello", 14}, /* a term that ends early */
        {"GET / HTTP/1.1\r\n\r\n", 18},
    };
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        int fd = agent_dial(stage, node);
        agent_send_bytes(fd, samples[i].bytes, samples[i].size);
        assert_turned_away(stage, node, fd, "");
    }
}

static void test_a_hello_with_a_secret_of_another_type(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    struct buf hello = BUF_INIT;
    int fd = agent_dial(stage, node);
    term_put_version(&hello);
    term_put_tuple(&hello, 4);
    term_put_atom(&hello, "hello");
    term_put_integer(&hello, PROTOCOL_VERSION);
    term_put_atom(&hello, node_secret(node));
    term_put_nil(&hello);
    agent_send(fd, &hello);
    assert_turned_away(stage, node, fd, "violation:forged_hello ");
}

static void test_a_hello_in_pieces(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    struct buf hello = BUF_INIT;
    int fd = agent_dial(stage, node);
    buf_append_u32(&hello, 0);
    term_put_version(&hello);
    term_put_tuple(&hello, 4);
    term_put_atom(&hello, "hello");
    term_put_integer(&hello, PROTOCOL_VERSION);
    term_put_string(&hello, node_secret(node));
    term_put_map(&hello, 0);
    hello.data[3] = (uint8_t)(hello.size - 4);
    for (size_t i = 0; i < hello.size; i++) {
        assert_false(node_is_ready(node));
        agent_send_bytes(fd, hello.data + i, 1);
        uv_run(&stage->loop, UV_RUN_NOWAIT);
    }
    buf_free(&hello);
    RUN_UNTIL(stage, node_is_ready(node));
    stage_expect(stage, "ready ");
    close(fd);
}

/* Those over the bound wait outside; the one that goes makes room. */
static void test_silent_strangers_are_few(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    int silent[STRANGERS_MAX];
    for (int i = 0; i < STRANGERS_MAX; i++) silent[i] = agent_dial(stage, node);
    RUN_UNTIL(stage, node->channel.strangers == STRANGERS_MAX);
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, !node->channel.takes_dials);
    assert_int_equal(node->channel.strangers, STRANGERS_MAX);
    assert_false(node_is_ready(node));
    close(silent[0]);
    RUN_UNTIL(stage, node_is_ready(node));
    stage_expect(stage, "ready ");
    for (int i = 1; i < STRANGERS_MAX; i++) close(silent[i]);
    RUN_UNTIL(stage, node->channel.strangers == 0);
    close(agent);
}

static void test_dialling_and_leaving_again_and_again(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    for (int i = 0; i < DIALS_BURST - 2; i++) {
        close(agent_dial(stage, node));
        uv_run(&stage->loop, UV_RUN_NOWAIT);
    }
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    stage_expect(stage, "ready ");
    close(agent);
}

/* Dials are taken no faster than their budget grows; the agent gets in all the same. */
static void test_a_flood_of_dials(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    for (int i = 0; i <= DIALS_BURST; i++) {
        int fd = agent_dial(stage, node);
        RUN_UNTIL(stage, node->channel.strangers > 0);
        close(fd);
        RUN_UNTIL(stage, node->channel.strangers == 0);
    }
    assert_false(node->channel.takes_dials);
    stage_expect(stage, "violation:channel_flood ");
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, node_is_ready(node));
    stage_expect(stage, "ready ");
    close(agent);
}

/* A dial that can't be taken stays there, and the loop would be told of it in every turn. */
static void test_dials_wait_while_there_are_no_descriptors(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    struct rlimit before, none;
    int fd = agent_dial(stage, node);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int turn = 0; turn < 3; turn++) uv_run(&stage->loop, UV_RUN_NOWAIT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(node->channel.strangers, 0);
    assert_false(node->channel.takes_dials);
    RUN_UNTIL(stage, node->channel.strangers == 1);
    close(fd);
}

static void test_a_stranger_may_not_say_its_bytes_one_by_one(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    int fd = agent_dial(stage, node);
    agent_send_bytes(fd, "\0\0\x0f\xff", 4);
    for (int i = 0; i < 4 * STRANGER_READS_MAX && !agent_sees_end(fd); i++) {
        agent_send_bytes(fd, "x", 1);
        uv_run(&stage->loop, UV_RUN_NOWAIT);
    }
    assert_turned_away(stage, node, fd, "");
}

/* ---- descriptors that come along ---- */

/* What waits for a minute when it is closed; the message has the last reference. False: the kernel refused it. */
static bool send_lingering(int to) {
    int tcp[2];
    assert_true(test_open_lingering(tcp));
    bool is_sent = test_send_descriptor(to, tcp[0], "x", 1);
    if (!is_sent) {
        assert_int_equal(errno, EPERM);
        setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
        close(tcp[1]);
    }
    close(tcp[0]);
    return is_sent;
}

static void assert_answered(struct stage *stage, struct node *node, int agent) {
    buf_clear(&stage->story);
    stage_call(stage, 'a', node, 60000);
    agent_reply_ok(agent, agent_take_call(stage, agent, "info"));
    RUN_UNTIL(stage, stage_heard(stage, "a:ok "));
}

static void test_a_passed_descriptor_holds_nobody_up(void **state) {
    struct stage *stage = *state;
    int other;
    struct node *good = stage_start_ready(stage, &other), *bad = stage_start(stage);
    buf_clear(&stage->story);
    int fd = agent_dial(stage, bad);
    uint64_t begun_ms = clock_monotonic_ms();
    bool is_sent = send_lingering(fd);
    assert_int_equal(is_sent, bad->channel.is_careful);
    if (is_sent) RUN_UNTIL(stage, agent_sees_end(fd));
    stage_expect(stage, is_sent ? "violation:passed_descriptor " : "");
    assert_answered(stage, good, other);
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
    close(fd);
    close(other);
}

/* Closed with the node and never read: in the queue of one that was let in, and of one that waits outside. */
static void test_descriptors_that_nobody_read(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    int fds[STRANGERS_MAX + 1], told[2];
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    uint64_t begun_ms = clock_monotonic_ms();
    for (int i = 0; i < STRANGERS_MAX; i++) fds[i] = agent_dial(stage, node);
    RUN_UNTIL(stage, !node->channel.takes_dials);
    fds[STRANGERS_MAX] = agent_dial(stage, node);
    send_lingering(fds[STRANGERS_MAX]);
    test_send_descriptor(fds[STRANGERS_MAX], told[1], "x", 1);
    close(told[1]);
    node_kill(node, "for the test");
    RUN_UNTIL(stage, stage_heard(stage, "gone:killed"));
    assert_int_equal(read(told[0], &(char){0}, 1), 0); /* dropped */
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) close(fds[i]);
    close(told[0]);
}

static void test_strangers_are_closed_with_the_node(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    int fds[STRANGERS_MAX + 2];
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = agent_dial(stage, node);
        uv_run(&stage->loop, UV_RUN_NOWAIT);
    }
    RUN_UNTIL(stage, !node->channel.takes_dials);
    node_kill(node, "for the test");
    RUN_UNTIL(stage, stage_heard(stage, "gone:killed"));
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        if (!agent_sees_end(fds[i])) fail_msg("connection %zu is open", i);
        close(fds[i]);
    }
}

/* ---- the agent ---- */

static void test_events(void **state) {
    struct stage *stage = *state;
    int agent;
    stage_start_ready(stage, &agent);
    for (int i = 0; i < 3; i++) {
        struct buf event = BUF_INIT;
        put_event(&event, i == 1 ? "log" : "output");
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
        stage_expect(stage, over);
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
        stage_expect(stage, over);
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
    reply_to(*state, 0, over);
    reply_to(*state, 1, over);
    reply_to(*state, UINT64_MAX, over);
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
    stage_expect(stage, over);
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

/* The first agent's calls are lost while the second is let in, and whoever waited for one ends it all. */
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

/* ---- much at once ---- */

static void put_wide(struct buf *term, size_t pairs) {
    term_put_map(term, pairs);
    for (size_t i = 0; i < pairs; i++) {
        term_put_uint64(term, i * 7919 % 1000003);
        term_put_nil(term);
    }
}

static void test_an_event_tells_of_one_thing(void **state) {
    struct stage *stage = *state;
    int agent;
    stage_start_ready(stage, &agent);
    struct buf event = BUF_INIT;
    term_put_version(&event);
    term_put_tuple(&event, 3);
    term_put_atom(&event, "event");
    term_put_atom(&event, "output");
    put_wide(&event, 6000);
    agent_send(agent, &event);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, over);
    close(agent);
}

/* However it is written: the loop would make use of it. */
static void test_an_event_is_short(void **state) {
    struct stage *stage = *state;
    static uint8_t zeros[200000];
    int agent;
    stage_start_ready(stage, &agent);
    struct buf event = BUF_INIT;
    term_put_version(&event);
    buf_append_byte(&event, 105); /* a large tuple of three */
    buf_append_u32(&event, 3);
    term_put_atom(&event, "event");
    term_put_atom(&event, "output");
    term_put_binary(&event, zeros, sizeof zeros);
    agent_send(agent, &event);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, over);
    close(agent);
}

/* The pool reads it, and what comes behind it waits. */
static void test_a_large_answer_keeps_its_place(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    stage_call(stage, 'a', node, 60000);
    struct buf reply = BUF_INIT, event = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_uint64(&reply, agent_take_call(stage, agent, "info"));
    term_put_tuple(&reply, 2);
    term_put_atom(&reply, "ok");
    put_wide(&reply, 8000);
    agent_send(agent, &reply);
    put_event(&event, "output");
    agent_send(agent, &event);
    RUN_UNTIL(stage, stage_heard(stage, "event:output "));
    stage_expect(stage, "a:ok event:output ");
    close(agent);
}

/* Of a frame that has begun, the rest is read only if there is memory for it beside those of all other nodes. */
static void test_large_frames_share_a_bounded_memory(void **state) {
    enum { SIZE = 1 << 20, HELD_MAX_BYTES = 640 << 10 }; /* in the sockets' buffers and ours */
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    uint8_t header[FRAME_HEADER_BYTES] = {0, SIZE >> 16, 0, 0}, bytes[4096] = {0};
    size_t sent = 0;
    ssize_t count = 0;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 40;
    node_start_beating(node);
    stage->host.frame_bytes = FRAMES_BYTES; /* others hold it all */
    agent_send_bytes(agent, header, sizeof header);
    uint64_t begun_ms = clock_monotonic_ms();
    while (clock_monotonic_ms() - begun_ms < 200) {
        while ((count = send(agent, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0 && sent < SIZE)
            sent += (size_t)count;
        uv_run(&stage->loop, UV_RUN_ONCE);
    }
    assert_in_range(sent, 1, HELD_MAX_BYTES);
    stage_expect(stage, ""); /* nor is it silence */
    stage->host.frame_bytes = 1;
    RUN_UNTIL(stage, stage->host.frame_bytes == 1 + SIZE);
    close(agent);
    RUN_UNTIL(stage, stage->host.frame_bytes == 1);
    stage->host.frame_bytes = 0;
}

static uint64_t own_cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The loop's own processor time in its longest turn, until the story has a part. */
static uint64_t longest_turn_us(struct stage *stage, int fd, const struct buf *bytes, const char *part) {
    uint64_t longest_us = 0;
    size_t at = 0;
    stage_begin_wait(stage);
    while (!stage_heard(stage, part) && !stage->late) {
        ssize_t sent = send(fd, bytes->data + at, bytes->size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at += (size_t)sent;
        uint64_t begun_us = own_cpu_us();
        uv_run(&stage->loop, UV_RUN_ONCE);
        uint64_t took_us = own_cpu_us() - begun_us;
        if (took_us > longest_us) longest_us = took_us;
    }
    stage_end_wait(stage);
    assert_true(stage_heard(stage, part));
    return longest_us;
}

/* A million keys that have to be sorted took a third of a second of the loop. */
static void test_no_answer_makes_a_turn_long(void **state) {
    struct stage *stage = *state;
    enum { PAIRS = 600000, TURN_MAX_US = 5000 * TEST_SLOWNESS };
    int agent;
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    struct node *node = stage_start_ready(stage, &agent);
    stage_call(stage, 'a', node, 60000);
    buf_append_u32(&frame, 0);
    term_put_version(&frame);
    term_put_tuple(&frame, 3);
    term_put_atom(&frame, "reply");
    term_put_uint64(&frame, agent_take_call(stage, agent, "info"));
    term_put_tuple(&frame, 2);
    term_put_atom(&frame, "ok");
    put_wide(&frame, PAIRS);
    for (int i = 0; i < 4; i++) frame.data[i] = (uint8_t)((frame.size - 4) >> (24 - 8 * i));
    uint64_t longest_us = longest_turn_us(stage, agent, &frame, "a:ok ");
    print_message("             %d us\n", (int)longest_us);
    assert_true(longest_us < TURN_MAX_US);
    close(agent);
}

static void add_event(struct buf *flood) {
    struct buf event = BUF_INIT;
    put_event(&event, "output");
    buf_append_u32(flood, (uint32_t)event.size);
    buf_append(flood, event.data, event.size);
    buf_free(&event);
}

static size_t count_events(struct stage *stage) {
    size_t count = 0;
    for (const char *at = buf_string(&stage->story); (at = strstr(at, "event:")); at++) count++;
    return count;
}

/* A thousand fit into one read. */
static void test_many_frames_take_many_turns(void **state) {
    struct stage *stage = *state;
    enum { EVENTS = 1000, TURN_MAX = 256 };
    int agent;
    stage_start_ready(stage, &agent);
    CLEANUP(buf_free) struct buf flood = BUF_INIT;
    for (int i = 0; i < EVENTS; i++) add_event(&flood);
    agent_send_bytes(agent, flood.data, flood.size);
    size_t before = 0, turns = 0;
    stage_begin_wait(stage);
    while (before < EVENTS && !stage->late) {
        uv_run(&stage->loop, UV_RUN_NOWAIT); /* "once" would run timers twice */
        size_t now = count_events(stage);
        assert_true(now - before <= 2 * TURN_MAX); /* libuv looks at its timers before and after it waits */
        turns += now > before;
        before = now;
    }
    stage_end_wait(stage);
    assert_int_equal(before, EVENTS);
    assert_true(turns >= EVENTS / (2 * TURN_MAX));
    close(agent);
}

/* ---- flood ---- */

/* Little to send, and much to read: one byte for each term. */
static void fill(struct buf *flood) {
    enum { TERMS = 1000 };
    while (flood->size < 200000) {
        struct buf event = BUF_INIT;
        term_put_version(&event);
        term_put_tuple(&event, 3);
        term_put_atom(&event, "event");
        term_put_atom(&event, "output");
        term_put_list(&event, TERMS);
        for (int i = 0; i <= TERMS; i++) term_put_nil(&event);
        buf_append_u32(flood, (uint32_t)event.size);
        buf_append(flood, event.data, event.size);
        buf_free(&event);
    }
}

static void test_a_flood_is_read_slowly_and_hurts_nobody_else(void **state) {
    struct stage *stage = *state;
    int flooder, other;
    struct node *bad = stage_start_ready(stage, &flooder);
    struct node *good = stage_start_ready(stage, &other);
    CLEANUP(buf_free) struct buf flood = BUF_INIT;
    fill(&flood);
    size_t at = 0;
    for (uint64_t begun_ms = clock_monotonic_ms(); !bad->channel.flood_reported;) {
        ssize_t sent = send(flooder, flood.data + at, flood.size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at = (at + (size_t)sent) % flood.size;
        uv_run(&stage->loop, UV_RUN_NOWAIT);
        assert_true(clock_monotonic_ms() - begun_ms < 10000);
    }
    assert_true(stage_heard(stage, "violation:channel_flood "));
    buf_clear(&stage->story);
    stage_call(stage, 'a', good, 60000);
    agent_reply_ok(other, agent_take_call(stage, other, "info"));
    RUN_UNTIL(stage, stage_heard(stage, "a:ok "));
    close(flooder);
    RUN_UNTIL(stage, !node_is_ready(bad));
    assert_false(stage_heard(stage, "gone"));
    close(other);
}

/* The second time on a kernel that refuses no descriptors. */
int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_wrong_secrets),
        ON_STAGE(test_wrong_version),
        ON_STAGE(test_things_that_are_no_hello),
        ON_STAGE(test_a_hello_with_a_secret_of_another_type),
        ON_STAGE(test_a_hello_in_pieces),
        ON_STAGE(test_silent_strangers_are_few),
        ON_STAGE(test_dialling_and_leaving_again_and_again),
        ON_STAGE(test_a_flood_of_dials),
        ON_STAGE(test_dials_wait_while_there_are_no_descriptors),
        ON_STAGE(test_a_stranger_may_not_say_its_bytes_one_by_one),
        ON_STAGE(test_a_passed_descriptor_holds_nobody_up),
        ON_STAGE(test_descriptors_that_nobody_read),
        ON_STAGE(test_strangers_are_closed_with_the_node),
        ON_STAGE(test_events),
        ON_STAGE(test_frames_that_break_the_protocol),
        ON_STAGE(test_tuples_that_break_the_protocol),
        ON_STAGE(test_a_reply_to_no_call),
        ON_STAGE(test_compressed_frames_may_not_grow),
        ON_STAGE(test_half_a_frame_and_the_end),
        ON_STAGE(test_a_second_agent_takes_the_place_of_the_first),
        ON_STAGE(test_let_go_in_the_middle_of_a_hello),
        ON_STAGE(test_an_event_tells_of_one_thing),
        ON_STAGE(test_an_event_is_short),
        ON_STAGE(test_a_large_answer_keeps_its_place),
        ON_STAGE(test_large_frames_share_a_bounded_memory),
        ON_STAGE(test_no_answer_makes_a_turn_long),
        ON_STAGE(test_many_frames_take_many_turns),
        ON_STAGE(test_a_flood_is_read_slowly_and_hurts_nobody_else),
    };
    int failed = cmocka_run_group_tests_name("this kernel", tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    return failed + cmocka_run_group_tests_name("an old kernel", tests, NULL, NULL);
}
