/* The life of a node: spawned, booting, beating, ending, gone. */
#include "node/stage.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "steady_clock.h"

static bool control_dir_is_there(struct stage *stage, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/nodes/%s", stage->home, name);
    return access(path, F_OK) == 0;
}

static void test_kill(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    char name[NODE_NAME_BYTES];
    strcpy(name, node_name(node));
    assert_ptr_equal(node_find(&stage->host, name), node);
    assert_true(control_dir_is_there(stage, name));
    node_kill(node, "for the test");
    node_kill(node, "again");
    stage_expect(stage, ""); /* never from inside */
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
    assert_null(node_find(&stage->host, name));
    assert_false(control_dir_is_there(stage, name));
    assert_true(agent_sees_end(agent));
    close(agent);
}

/* What the launcher says a death was, when the daemon had not decided it before. */
static void test_causes_of_death(void **state) {
    struct stage *stage = *state;
    static const struct {
        const char *death, *story;
    } cases[] = {{"cause=signaled status=9 oom=0", "gone:crashed/node_failed "},
                 {"cause=exited status=0 oom=0", "gone:exited/node_failed "},
                 {"cause=exited status=1 oom=0", "gone:crashed/node_failed "},
                 {"cause=oom status=9 oom=1", "gone:out_of_memory/limit_reached "}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        stage->death = cases[i].death;
        struct node *node = stage_start(stage);
        assert_int_equal(kill(node_os_pid(node), SIGKILL), 0);
        RUN_UNTIL(stage, stage->story.size > 0);
        stage_expect(stage, cases[i].story);
    }
    assert_int_equal(stage->burials, ARRAY_SIZE(cases));
}

static void test_our_own_decision_is_the_cause(void **state) {
    struct stage *stage = *state;
    stage->death = "cause=signaled status=9 oom=0";
    node_kill(stage_start(stage), "for the test");
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
}

static void test_killed_before_it_is_spawned(void **state) {
    struct stage *stage = *state;
    stage->hold_spawns = true;
    struct node *node = stage_start(stage);
    node_kill(node, "for the test");
    RUN_UNTIL(stage, stage->held_id != 0);
    stage_expect(stage, "");
    assert_int_equal(stage->burials, 0);
    launcher_answer_spawn(stage, stage->held_id);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
    assert_int_equal(stage->burials, 1);
}

static void test_a_spawn_that_fails(void **state) {
    struct stage *stage = *state;
    stage->refuse_spawns = true;
    stage_start(stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:crashed/disk_full ");
    assert_int_equal(stage->burials, 0);
}

static void test_a_link_that_breaks_while_spawning(void **state) {
    struct stage *stage = *state;
    stage->hold_spawns = true;
    stage_start(stage);
    RUN_UNTIL(stage, stage->held_id != 0);
    launcher_hang_up(stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:crashed/launcher_unavailable ");
}

static void test_an_agent_faster_than_the_launcher(void **state) {
    struct stage *stage = *state;
    stage->hold_spawns = true;
    struct node *node = stage_start(stage);
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, node_secret(node));
    RUN_UNTIL(stage, stage->held_id != 0 && node->channel.agent);
    stage_expect(stage, "");
    launcher_answer_spawn(stage, stage->held_id);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "ready ");
    close(agent);
}

static void test_burying_waits_for_a_launcher(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    launcher_hang_up(stage);
    node_kill(node, "for the test");
    launcher_come_back(stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
}

static void test_a_daemon_that_ends_waits_for_no_launcher(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    launcher_hang_up(stage);
    node_kill(node, "for the test");
    stage->host.ending = true;
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:killed/node_failed ");
}

static void test_a_launcher_that_dies_while_burying(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    stage->silent_about_bury = true;
    node_kill(node, "for the test");
    RUN_UNTIL(stage, stage->burials == 1 && !stage->link_up);
    stage->silent_about_bury = false;
    RUN_UNTIL(stage, stage->story.size > 0);
    assert_true(stage->burials >= 2);
    stage_expect(stage, "gone:killed/node_failed ");
}

/* What a VM says while it boots is not the application's, also when it is read late. */
static void test_output(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start(stage);
    assert_int_equal(write(stage->output_fds[0], "no library;", 11), 11);
    RUN_UNTIL(stage, node->last_words_size == 11);
    assert_int_equal(write(stage->output_fds[0], "no matter", 9), 9);
    stage_greet(stage, node, &agent);
    assert_int_equal(node->last_words_size, 20);
    assert_int_equal(write(stage->output_fds[0], "boom", 4), 4);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "output:boom ");
    close(agent);
}

static void test_output_that_never_ends_is_read_slowly(void **state) {
    struct stage *stage = *state;
    struct node *node = stage_start(stage);
    static char chunk[60000];
    memset(chunk, 'x', sizeof chunk);
    assert_int_equal(fcntl(stage->output_fds[0], F_SETFL, O_NONBLOCK), 0);
    size_t written = 0;
    for (uint64_t begun_ms = clock_monotonic_ms(); node->output_pace.budget_bytes >= 0;) {
        ssize_t count = write(stage->output_fds[0], chunk, sizeof chunk);
        if (count > 0) written += (size_t)count;
        uv_run(&stage->loop, UV_RUN_NOWAIT);
        assert_true(clock_monotonic_ms() - begun_ms < 10000);
    }
    assert_true(written >= OUTPUT_BURST_BYTES);
    assert_false(uv_is_active((uv_handle_t *)&node->output));
    RUN_UNTIL(stage, uv_is_active((uv_handle_t *)&node->output));
}

/* ---- heartbeat ---- */

static void test_beats_keep_it_alive(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 200;
    stage_start_ready(stage, &agent);
    uint64_t begun_ms = clock_monotonic_ms();
    while (clock_monotonic_ms() - begun_ms < 400) agent_reply_ok(agent, agent_take_call(stage, agent, "beat"));
    stage_expect(stage, "");
    close(agent);
}

/* What it says of looking; it is answered. */
static bool take_beat(struct stage *stage, int agent) {
    uint64_t id;
    CLEANUP_TERM struct term_doc *doc = NULL;
    RUN_UNTIL(stage, (doc = agent_take(agent)) != NULL);
    const struct term *frame = term_root(doc), *look = term_map_get(term_at(frame, 3), "look");
    assert_true(term_is_tagged(frame, "call", 4) && term_is_atom(term_at(frame, 2), "beat"));
    assert_true(look && (term_is_atom(look, "true") || term_is_atom(look, "false")));
    assert_true(term_to_uint64(term_at(frame, 1), &id));
    agent_reply_ok(agent, id);
    return term_is_atom(look, "true");
}

/* One that is sent since the node works has its agent look; one that is due may find it idle. */
static void test_a_beat_says_whether_to_look(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 200;
    struct node *node = stage_start_ready(stage, &agent);
    node_beat(node);
    assert_true(take_beat(stage, agent));
    assert_false(take_beat(stage, agent));
    close(agent);
}

static void test_a_missed_beat_is_the_end(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 40;
    stage_start_ready(stage, &agent);
    agent_take_call(stage, agent, "beat");
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "violation:heartbeat_missed gone:silent/node_failed ");
    close(agent);
}

/* While a large frame waits for a thread, the answers behind it are not read. */
static void test_a_frame_that_waits_to_be_read_is_no_missed_beat(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 40;
    struct node *node = stage_start_ready(stage, &agent);
    node->channel.is_decoding = true;
    uint64_t begun_ms = clock_monotonic_ms();
    RUN_UNTIL(stage, clock_monotonic_ms() - begun_ms > 200);
    stage_expect(stage, "");
    node->channel.is_decoding = false;
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "violation:heartbeat_missed gone:silent/node_failed ");
    close(agent);
}

/* The daemon's own lateness is no node's silence: answers lie unread, and timers go off before they are read. */
static void test_a_pause_of_the_loop_is_no_missed_beat(void **state) {
    struct stage *stage = *state;
    struct loop_watch *watch;
    int agent;
    assert_int_equal(loop_watch_open(&stage->loop, &watch, NULL), 0);
    stage->host.heartbeat_ms = 200;
    stage->host.heartbeat_deadline_ms = 400;
    struct node *node = stage_start_ready(stage, &agent);
    stage_call(stage, 'a', node, 500);
    agent_reply_ok(agent, agent_take_call(stage, agent, "info"));
    steady_clock_pass(1000); /* as by a stop, a slow disk or a huge request */
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "a:ok ");
    agent_reply_ok(agent, agent_take_call(stage, agent, "beat"));
    agent_reply_ok(agent, agent_take_call(stage, agent, "beat"));
    stage_expect(stage, "");
    loop_watch_close(watch);
    close(agent);
}

static void test_an_agent_that_stays_away_is_silent_too(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 40;
    stage_start_ready(stage, &agent);
    close(agent);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "violation:heartbeat_missed gone:silent/node_failed ");
}

static void test_no_hello_within_the_boot_deadline(void **state) {
    struct stage *stage = *state;
    stage->host.heartbeat_ms = 10;
    stage->host.boot_deadline_ms = 40;
    stage_start(stage);
    RUN_UNTIL(stage, stage_heard(stage, "gone"));
    stage_expect(stage, "violation:heartbeat_missed gone:silent/node_failed ");
}

static void on_frozen(void *data, const struct error *error) {
    struct stage *stage = data;
    buf_append_string(&stage->story, error ? "not frozen " : "frozen ");
}

static void test_a_frozen_node_misses_nothing(void **state) {
    struct stage *stage = *state;
    int agent;
    stage->host.heartbeat_ms = 10;
    stage->host.heartbeat_deadline_ms = 100;
    struct node *node = stage_start_ready(stage, &agent);
    node_freeze(node, true, on_frozen, stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "frozen ");
    assert_true(node_is_frozen(node));
    uint64_t begun_ms = clock_monotonic_ms();
    RUN_UNTIL(stage, clock_monotonic_ms() - begun_ms > 300);
    stage_expect(stage, "");
    node_freeze(node, false, on_frozen, stage);
    RUN_UNTIL(stage, !node_is_frozen(node));
    close(agent);
}

static void on_limited(void *data, const struct error *error) {
    struct stage *stage = data;
    buf_append_string(&stage->story, error ? "not limited " : "limited ");
}

static void test_yielding_ends_with_new_limits(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    assert_false(node_yields(node));
    node_yield(node, true);
    node_yield(node, false); /* one thing at a time */
    RUN_UNTIL(stage, node_yields(node));
    assert_int_equal(stage->yields, 1);
    node_limit(node, &(struct jail_limits){0}, on_limited, stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "limited ");
    assert_false(node_yields(node));
    node_limit(node, &(struct jail_limits){0}, on_limited, stage);
    node_yield(node, true);
    RUN_UNTIL(stage, node_yields(node)); /* the later word counts */
    stage_expect(stage, "limited ");
    node_yield(node, false);
    RUN_UNTIL(stage, !node_yields(node));
    close(agent);
}

static void test_nobody_is_asked_again_for_what_can_not_be(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    stage->refuse_yielding = true;
    node_yield(node, true);
    RUN_UNTIL(stage, stage->host.cannot_yield);
    assert_false(node_yields(node));
    node_yield(node, true);
    node_limit(node, &(struct jail_limits){0}, on_limited, stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "limited ");
    assert_int_equal(stage->yields, 1);
    close(agent);
}

/* What went wrong may have been done all the same: it is asked for again, but not all the time. */
static void test_yielding_that_failed_is_in_doubt(void **state) {
    struct stage *stage = *state;
    int agent;
    struct node *node = stage_start_ready(stage, &agent);
    stage->fail_yielding = true;
    node_yield(node, true);
    RUN_UNTIL(stage, stage->yields == 1 && !node->yielding.is_asked);
    assert_true(node_yields(node)); /* for all that is known */
    for (int i = 0; i < 100; i++) node_yield(node, i % 2);
    assert_false(node->yielding.is_asked);
    stage->fail_yielding = false;
    RUN_UNTIL(stage, (node_yield(node, false), !node_yields(node)));
    assert_int_equal(stage->yields, 2);
    node_yield(node, false); /* as it is */
    assert_false(node->yielding.is_asked);
    node_yield(node, true);
    RUN_UNTIL(stage, !node->yielding.is_asked);
    stage->refuse_limits = true;
    node_limit(node, &(struct jail_limits){0}, on_limited, stage);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "not limited ");
    assert_true(node_yields(node));
    node_yield(node, true); /* it may have ended by that */
    RUN_UNTIL(stage, !node->yielding.is_asked);
    assert_int_equal(stage->yields, 4);
    close(agent);
}

/* ---- letting go and taking up ---- */

static void on_detached(void *data) {
    *(bool *)data = true;
}

static void test_detach_leaves_the_vm_alone(void **state) {
    struct stage *stage = *state;
    int agent;
    bool detached = false;
    struct node *node = stage_start_ready(stage, &agent);
    pid_t vm = node_os_pid(node);
    char name[NODE_NAME_BYTES];
    strcpy(name, node_name(node));
    stage_call(stage, 'a', node, 60000);
    node_detach(node, on_detached, &detached);
    RUN_UNTIL(stage, detached);
    stage_expect(stage, "a:shutting_down ");
    assert_int_equal(waitpid(vm, NULL, WNOHANG), 0);
    assert_int_equal(stage->burials, 0);
    assert_true(control_dir_is_there(stage, name));
    close(agent);
}

static void test_detached_while_it_is_spawned(void **state) {
    struct stage *stage = *state;
    bool detached = false;
    stage->hold_spawns = true;
    struct node *node = stage_start(stage);
    RUN_UNTIL(stage, stage->held_id != 0);
    node_detach(node, on_detached, &detached);
    launcher_answer_spawn(stage, stage->held_id);
    RUN_UNTIL(stage, detached);
    stage_expect(stage, "");
}

static void test_detached_while_it_ends(void **state) {
    struct stage *stage = *state;
    bool detached = false;
    struct node *node = stage_start(stage);
    node_kill(node, "for the test");
    node_detach(node, on_detached, &detached);
    RUN_UNTIL(stage, detached);
    stage_expect(stage, "");
}

static struct node *expect_one(struct stage *stage) {
    struct error error;
    struct node *node;
    assert_int_equal(
        node_expect(&stage->host, "nabc", "secret", NODE_APPLICATION, &stage_handler, stage, &node, &error), 0);
    return node;
}

static void test_one_that_is_lost(void **state) {
    struct stage *stage = *state;
    struct node *node = expect_one(stage);
    node_lost(node, false);
    struct link_node late = {
        .pid = 1, .pidfd = -1, .output_fd = -1, .memory_cgroup = "", .cpu_cgroup = "", .tasks_cgroup = ""};
    node_adopted(node, &late); /* too late: it is given up */
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:crashed/node_failed ");
}

static void test_one_that_the_host_took_along(void **state) {
    struct stage *stage = *state;
    node_lost(expect_one(stage), true);
    RUN_UNTIL(stage, stage->story.size > 0);
    stage_expect(stage, "gone:host_restarted/node_failed ");
}

static void test_one_that_is_adopted(void **state) {
    struct stage *stage = *state;
    struct node *node = expect_one(stage);
    int agent = agent_dial(stage, node);
    agent_hello(agent, PROTOCOL_VERSION, "secret");
    RUN_UNTIL(stage, node->channel.agent);
    stage_expect(stage, ""); /* not before the launcher has said that it is the node */
    struct link_node info = {
        .pid = getpid(), .uid = getuid(), .output_fd = -1, .memory_cgroup = "", .cpu_cgroup = "", .tasks_cgroup = ""};
    info.pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* can't be polled: only beats tell then */
    node_adopted(node, &info);
    stage_expect(stage, "ready ");
    info.pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    node_adopted(node, &info); /* told again by a new launcher */
    stage_expect(stage, "");
    assert_int_equal(node_os_pid(node), getpid());
    assert_true(node_yields(node)); /* for all that is known */
    close(agent);
}

static void test_a_home_that_can_not_be_written(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct node *node = NULL;
    const struct jail_profile *profile = jail_profile_find("high");
    struct node_spec spec = {.toolchain = &stage_toolchain, .profile = profile, .limits = profile->limits};
    stage->host.home = "/nonexistent";
    assert_true(node_start(&stage->host, &spec, &stage_handler, stage, &node, &error) < 0);
    assert_null(node);
    stage->host.home = stage->home;
    RUN_UNTIL(stage, stage->host.nodes.count == 0);
    stage_expect(stage, "");
}

static void test_a_plan_that_can_not_be_made(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct node *node = NULL;
    struct node_app apps[300];
    const struct jail_profile *profile = jail_profile_find("high");
    struct node_spec spec = {.toolchain = &stage_toolchain,
                             .profile = profile,
                             .limits = profile->limits,
                             .apps = apps,
                             .app_count = ARRAY_SIZE(apps)};
    for (size_t i = 0; i < ARRAY_SIZE(apps); i++) apps[i] = (struct node_app){"a", "/a"};
    assert_true(node_start(&stage->host, &spec, &stage_handler, stage, &node, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    RUN_UNTIL(stage, stage->host.nodes.count == 0);
    stage_expect(stage, "");
    char path[96];
    snprintf(path, sizeof path, "%s/nodes", stage->home);
    assert_int_equal(rmdir(path), 0); /* nothing was left in it */
    assert_int_equal(mkdir(path, 0700), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_kill),
        ON_STAGE(test_causes_of_death),
        ON_STAGE(test_our_own_decision_is_the_cause),
        ON_STAGE(test_killed_before_it_is_spawned),
        ON_STAGE(test_a_spawn_that_fails),
        ON_STAGE(test_a_link_that_breaks_while_spawning),
        ON_STAGE(test_an_agent_faster_than_the_launcher),
        ON_STAGE(test_burying_waits_for_a_launcher),
        ON_STAGE(test_a_daemon_that_ends_waits_for_no_launcher),
        ON_STAGE(test_a_launcher_that_dies_while_burying),
        ON_STAGE(test_output),
        ON_STAGE(test_output_that_never_ends_is_read_slowly),
        ON_STAGE(test_beats_keep_it_alive),
        ON_STAGE(test_a_beat_says_whether_to_look),
        ON_STAGE(test_a_missed_beat_is_the_end),
        ON_STAGE(test_a_frame_that_waits_to_be_read_is_no_missed_beat),
        ON_STAGE(test_a_pause_of_the_loop_is_no_missed_beat),
        ON_STAGE(test_an_agent_that_stays_away_is_silent_too),
        ON_STAGE(test_no_hello_within_the_boot_deadline),
        ON_STAGE(test_a_frozen_node_misses_nothing),
        ON_STAGE(test_detach_leaves_the_vm_alone),
        ON_STAGE(test_detached_while_it_is_spawned),
        ON_STAGE(test_detached_while_it_ends),
        ON_STAGE(test_one_that_is_lost),
        ON_STAGE(test_one_that_the_host_took_along),
        ON_STAGE(test_yielding_ends_with_new_limits),
        ON_STAGE(test_yielding_that_failed_is_in_doubt),
        ON_STAGE(test_nobody_is_asked_again_for_what_can_not_be),
        ON_STAGE(test_one_that_is_adopted),
        ON_STAGE(test_a_home_that_can_not_be_written),
        ON_STAGE(test_a_plan_that_can_not_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
