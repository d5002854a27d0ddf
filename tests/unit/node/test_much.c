/* Agents that say much: large frames, many frames, and floods of them. */
#include "node/stage.h"

#include <sys/socket.h>
#include <time.h>

#include "descriptors.h"
#include "slowness.h"

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
    stage_expect(stage, stage_over);
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
    stage_expect(stage, stage_over);
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
    agent_put_event(&event, "output");
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

static bool has_room(const struct node *node) {
    return node->channel.agent && !node->channel.lacks_room;
}

/* Nodes that begin frames and are frozen keep their room for as long as their user likes. */
static void test_a_users_frames_leave_room_for_others(void **state) {
    enum { OWNER = 1001, OTHER = 1002, NODES = 7, SIZE = FRAME_MAX_BYTES - FRAME_HEADER_BYTES };
    struct stage *stage = *state;
    struct node *nodes[NODES];
    int agents[NODES];
    uint8_t begin[FRAME_HEADER_BYTES + 1] = {SIZE >> 24, SIZE >> 16 & 0xff, SIZE >> 8 & 0xff, SIZE & 0xff, 131};
    size_t held = 0;
    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = stage_start_ready(stage, &agents[i]);
        node_set_owner(nodes[i], i < NODES - 1 ? OWNER : OTHER);
    }
    for (size_t i = 0; i < NODES - 1; i++) {
        agent_send_bytes(agents[i], begin, sizeof begin);
        RUN_UNTIL(stage, nodes[i]->channel.lacks_room || stage->host.frame_bytes == (held + 1) * SIZE);
        held += has_room(nodes[i]);
    }
    assert_int_equal(held, 4);
    agent_send_bytes(agents[NODES - 1], begin, sizeof begin);
    RUN_UNTIL(stage, stage->host.frame_bytes == (held + 1) * SIZE);
    assert_true(has_room(nodes[NODES - 1]));
    for (size_t i = 0; i < 2; i++) close(agents[i]);
    RUN_UNTIL(stage, has_room(nodes[4]) || has_room(nodes[5])); /* its own next one */
    for (size_t i = 2; i < NODES; i++) close(agents[i]);
    RUN_UNTIL(stage, stage->host.frame_bytes == 0);
    assert_null(stage->host.frames);
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

/* A million keys that have to be sorted took a third of a second of the loop; a stolen slice takes milliseconds. */
static void test_no_answer_makes_a_turn_long(void **state) {
    struct stage *stage = *state;
    enum { PAIRS = 600000, TURN_MAX_US = 30000 * TEST_SLOWNESS };
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

static void on_detached(void *data) {
    (void)data;
}

static void add_event(struct buf *flood) {
    struct buf event = BUF_INIT;
    agent_put_event(&event, "output");
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

/* Each has little to say, and all of them say it at once. An event fills a turn: one is read from its socket, and one
   of those that wait has its slice. */
static void test_many_nodes_share_turns(void **state) {
    struct stage *stage = *state;
    enum { NODES = CHILDREN_MAX, BURN_US = 3000, TURN_MAX = 2 };
    int agents[NODES];
    struct loop_watch *watch;
    CLEANUP(buf_free) struct buf event = BUF_INIT;
    add_event(&event);
    for (int i = 0; i < NODES; i++) stage_start_ready(stage, &agents[i]);
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage->burn_us = BURN_US;
    for (int i = 0; i < NODES; i++) agent_send_bytes(agents[i], event.data, event.size);
    stage_begin_wait(stage);
    for (size_t before = 0; before < NODES && !stage->late; before = count_events(stage)) {
        uv_run(&stage->loop, UV_RUN_NOWAIT); /* one turn, with timers once */
        assert_in_range(count_events(stage) - before, 0, TURN_MAX);
    }
    stage_end_wait(stage);
    assert_int_equal(count_events(stage), NODES);
    loop_watch_close(watch);
    for (int i = 0; i < NODES; i++) close(agents[i]);
}

/* What its events cause costs it as if it had sent more. */
static void test_a_node_that_is_charged_is_read_slowly(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    CLEANUP(buf_free) struct buf event = BUF_INIT;
    add_event(&event);
    stage->charge_bytes = 3 * node->channel.frame_max_bytes;
    agent_send_bytes(agent, event.data, event.size);
    RUN_UNTIL(stage, stage_heard(stage, "violation:channel_flood "));
    assert_int_equal(count_events(stage), 1);
    close(agent);
}

/* It waits for its turn, and has gone when that comes. */
static void test_a_node_that_waits_may_go(void **state) {
    struct stage *stage = *state;
    struct loop_watch *watch;
    int first, second;
    CLEANUP(buf_free) struct buf event = BUF_INIT;
    add_event(&event);
    stage_start_ready(stage, &first);
    struct node *gone = stage_start_ready(stage, &second);
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    uv_run(&stage->loop, UV_RUN_NOWAIT);
    stage->burn_us = 3000;
    agent_send_bytes(first, event.data, event.size);
    agent_send_bytes(second, event.data, event.size);
    while (count_events(stage) == 0) uv_run(&stage->loop, UV_RUN_NOWAIT);
    node_detach(gone, on_detached, NULL);
    RUN_UNTIL(stage, stage->host.nodes.count == 1 && stage->host.reading.waiting.count == 0);
    loop_watch_close(watch);
    close(first);
    close(second);
}

/* Little to send, and much to read: one byte for each term. */
static void ask_much(struct node *node, size_t size) {
    struct buf args = BUF_INIT;
    term_put_map(&args, 0);
    assert_true(buf_reserve(&args, size));
    memset(args.data + args.size, 0, size);
    args.size += size;
    node_call(node, "reload", &args, 60000, NULL, NULL);
}

/* The kernel takes back 120 MiB in 11 ms. Other processes lengthen a turn too, but not each time. */
static void test_what_was_not_read_is_freed_elsewhere(void **state) {
    enum { ROUNDS = 3, SIZE = 60 << 20, TURN_MAX_US = 5000 * TEST_SLOWNESS };
    struct stage *stage = *state;
    uint64_t least_us = UINT64_MAX;
    for (int i = 0; i < ROUNDS && least_us >= TURN_MAX_US; i++) {
        int agent;
        uint64_t longest_us = 0;
        struct node *node = stage_start_ready(stage, &agent);
        ask_much(node, SIZE);
        ask_much(node, SIZE);
        close(agent);
        for (int turns_after = 0; turns_after < 3;) {
            uint64_t begun_us = own_cpu_us();
            uv_run(&stage->loop, UV_RUN_NOWAIT);
            uint64_t took_us = own_cpu_us() - begun_us;
            if (took_us > longest_us) longest_us = took_us;
            turns_after += !node->channel.all;
        }
        if (longest_us < least_us) least_us = longest_us;
    }
    print_message("             %d us\n", (int)least_us);
    assert_true(least_us < TURN_MAX_US);
}

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
        ON_STAGE(test_an_event_tells_of_one_thing),
        ON_STAGE(test_an_event_is_short),
        ON_STAGE(test_a_large_answer_keeps_its_place),
        ON_STAGE(test_large_frames_share_a_bounded_memory),
        ON_STAGE(test_a_users_frames_leave_room_for_others),
        ON_STAGE(test_no_answer_makes_a_turn_long),
        ON_STAGE(test_many_frames_take_many_turns),
        ON_STAGE(test_many_nodes_share_turns),
        ON_STAGE(test_a_node_that_is_charged_is_read_slowly),
        ON_STAGE(test_what_was_not_read_is_freed_elsewhere),
        ON_STAGE(test_a_node_that_waits_may_go),
        ON_STAGE(test_a_flood_is_read_slowly_and_hurts_nobody_else),
    };
    int failed = cmocka_run_group_tests_name("this kernel", tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    return failed + cmocka_run_group_tests_name("an old kernel", tests, NULL, NULL);
}
