/* Those who dial a node's channel: false hellos, floods of dials, and descriptors that come along. */
#include "node/stage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "descriptors.h"

enum { SOON_MS = 30000 };

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
    };
    int failed = cmocka_run_group_tests_name("this kernel", tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    return failed + cmocka_run_group_tests_name("an old kernel", tests, NULL, NULL);
}
