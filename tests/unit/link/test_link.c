/* Tests the daemon's link against a launcher that the test plays: requests, answers, garbage, silence, and
   reconnecting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link_stage.h"

static void tells_nodes_before_it_is_up(void **state) {
    struct link_stage *stage = *state;
    accept_dial(stage);
    static const char node[] = "node n1 pid=7 start=12345678901 uid=1000000001 memory=/sys/a%20b cpu= frozen=1";
    say(stage, "ok 0 root=0 landlock=0 cgroup=0 guarantees=0x0 version=2");
    say_with(stage, node, strlen(node), 1);
    run_until_told(stage);
    assert_false(link_is_up(stage->link));
    say(stage, "ready");
    run_until_told(stage);
    assert_story(stage, "node n1 pid 7 start 12345678901 uid 1000000001 memory '/sys/a b' cpu '' frozen 1 fds 1 -1\n"
                        "up 0x0 cgroup 0 landlock 0 root 0\n");
    assert_true(link_is_up(stage->link));
}

static void spawns(void **state) {
    struct link_stage *stage = *state;
    struct jail_plan plan = {0};
    struct error error;
    static const char answer[] = "ok 1 pid=42 start=9 uid=5 memory=/m cpu=/c pids=/p frozen=0";
    assert_int_equal(jail_plan_parse("node n1\nproc\n", 13, &plan, &error), 0);
    come_up(stage);
    link_spawn(stage->link, &plan, on_spawned, stage);
    jail_plan_free(&plan);
    assert_heard(stage, "spawn 1\nnode n1\nproc\n");
    say_with(stage, answer, strlen(answer), 2);
    run_until_told(stage);
    assert_story(stage, "spawned n1 pid 42 uid 5 fds 1 1\n");
}

/* Each limit that the kernel holds, with a value of its own. */
static void make_limits(struct jail_limits *ret, struct buf *ret_lines) {
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        jail_limit_set(ret, i, i + 1);
        if (jail_limit_kind(i)->holder == JAIL_HELD_BY_KERNEL)
            buf_printf(ret_lines, "limit %s %u\n", jail_limit_kind(i)->name, i + 1);
    }
}

/* Of one user, two are at the launcher at once; another user's, root's and a freeze need not wait for the rest. */
static void users_take_turns(void **state) {
    struct link_stage *stage = *state;
    struct jail_limits limits = {0};
    come_up(stage);
    link_set_owner(stage->link, "n1", 7);
    link_set_owner(stage->link, "n2", 8);
    link_set_owner(stage->link, "n3", 0);
    for (int i = 0; i < 4; i++) link_limit(stage->link, "n1", &limits, on_done, stage);
    link_limit(stage->link, "n2", &limits, on_done, stage);
    for (int i = 0; i < 3; i++) link_limit(stage->link, "n3", &limits, on_done, stage);
    link_freeze(stage->link, "n1", true, on_done, stage);
    assert_heard(stage, "limit 1 n1\nnode n1\n");
    assert_heard(stage, "limit 2 n1\nnode n1\n");
    assert_heard(stage, "limit 5 n2\nnode n2\n");
    for (int id = 6; id <= 8; id++) {
        char expected[64];
        snprintf(expected, sizeof expected, "limit %d n3\nnode n3\n", id);
        assert_heard(stage, expected);
    }
    assert_heard(stage, "freeze 9 n1");
    say(stage, "ok 2");
    run_until_told(stage);
    assert_heard(stage, "limit 3 n1\nnode n1\n");
    /* What still waits fails with the rest when the launcher is gone, and a later request is the first again. */
    stage->launcher_fd = fd_close(stage->launcher_fd);
    run_until_told(stage);
    accept_dial(stage);
    say(stage, "ok 0 root=0 landlock=0 cgroup=0 guarantees=0x0 version=2");
    say(stage, "ready");
    while (!link_is_up(stage->link)) run_until_told(stage);
    link_limit(stage->link, "n1", &limits, on_done, stage);
    assert_heard(stage, "limit 10 n1\nnode n1\n");
    const char *story = buf_string(&stage->story);
    int failed = 0;
    for (const char *at = story; (at = strstr(at, "the link to the launcher broke")); at++) failed++;
    assert_int_equal(failed, 8); /* all but the second, the one that waited too */
}

static void asks_in_the_launchers_words(void **state) {
    struct link_stage *stage = *state;
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    CLEANUP(buf_free) struct buf limit = BUF_INIT;
    CLEANUP(buf_free) struct buf equip = BUF_INIT;
    struct jail_limits limits = {0};
    struct jail_host resolved = {.bits = 32, .address = {1, 2, 3, 4}, .first_port = 443, .last_port = 443};
    struct jail_bind binds[] = {{.source = "/a b", .target = "/app/x"},
                                {.source = "/c", .target = "/app/y", .executable = true}};
    struct jail_egress egress = {.reach = JAIL_REACH_PUBLIC, .ports = {443}, .port_count = 1, .connections = 9};
    struct link_equipment equipment = {&limits, binds, ARRAY_SIZE(binds), &egress};
    make_limits(&limits, &lines);
    buf_printf(&limit, "limit 4 n1\nnode n1\n%s", buf_string(&lines));
    buf_printf(&equip, "equip 8 n1\nnode n1\n%sbind /a%%20b /app/x\nbind-exec /c /app/y\nreach public\nport 443\n",
               buf_string(&lines));
    come_up(stage);
    link_bury(stage->link, "n1", on_buried, stage);
    link_freeze(stage->link, "n1", true, on_done, stage);
    link_freeze(stage->link, "n1", false, on_done, stage);
    link_limit(stage->link, "n1", &limits, on_done, stage);
    link_mount(stage->link, "n1", "/a b", "/app/x", on_done, stage);
    link_release_project(stage->link, "p-1");
    link_shutdown(stage->link, on_done, stage);
    link_equip(stage->link, "n1", &equipment, on_done, stage);
    link_resolved(stage->link, "n1", &resolved, 1, on_done, stage);
    link_yield(stage->link, "n1", true, on_done, stage);
    link_yield(stage->link, "n1", false, on_done, stage);
    assert_heard(stage, "bury 1 n1");
    assert_heard(stage, "freeze 2 n1");
    assert_heard(stage, "thaw 3 n1");
    assert_heard(stage, buf_string(&limit));
    assert_heard(stage, "mount 5 n1 /a%20b /app/x");
    assert_heard(stage, "release 6 p-1");
    assert_heard(stage, "shutdown 7");
    assert_heard(stage, buf_string(&equip));
    assert_heard(stage, "resolved 9 n1\nnode n1\nresolved 1.2.3.4:443\n");
    assert_heard(stage, "yield 10 n1 on=1");
    assert_heard(stage, "yield 11 n1 on=0");
    say(stage, "ok 9");
    say(stage, "error 8 conflict it%20is%20full");
    say(stage, "ok 7");
    say(stage, "ok 6");
    say(stage, "error 5 not_found there%20is%20none");
    say(stage, "error 4 sharks beware");
    say(stage, "error 3");
    say(stage, "ok 2");
    say(stage, "ok 1 cause=oom status=-1 oom=3");
    while (!strstr(buf_string(&stage->story), "buried")) run_until_told(stage);
    assert_story(stage, "done\n"
                        "conflict: it is full\n"
                        "done\n"
                        "not_found: there is none\n"
                        "launcher_unavailable: beware\n"
                        "launcher_unavailable: the launcher gave no reason\n"
                        "done\n"
                        "buried cause 2 status -1 oom 3\n");
}

static void ports_are_asked_for_and_told(void **state) {
    struct link_stage *stage = *state;
    struct jail_port in, out;
    struct jail_port_bounds bounds = {.connections = 5, .rate = 6};
    assert_int_equal(jail_port_parse(JAIL_PORT_IN, "0:4000", &in, NULL), 0);
    assert_int_equal(jail_port_parse(JAIL_PORT_OUT, "db=unix:/run/a b:1", &out, NULL), 0);
    come_up(stage);
    link_publish(stage->link, -1, "shop", &in, 0, on_port, stage);
    link_publish(stage->link, -1, "shop", &out, 3, on_port, stage);
    link_serve(stage->link, "shop", &in, "n1", &bounds, on_port, stage);
    link_unpublish(stage->link, "shop", &in, on_done, stage);
    link_unpublish(stage->link, "shop", NULL, on_done, stage);
    assert_heard(stage, "publish 1 shop way=in text=127.0.0.1:0:4000 inside=0");
    assert_heard(stage, "publish 2 shop way=out text=db=unix:/run/a%20b:1 inside=3");
    assert_heard(stage, "serve 3 shop n1 way=in text=127.0.0.1:0:4000 connections=5 rate=6");
    assert_heard(stage, "unpublish 4 shop way=in text=127.0.0.1:0:4000");
    assert_heard(stage, "unpublish 5 shop");
    say(stage, "ok 1 way=in text=127.0.0.1:8080:4000");
    say(stage, "error 2 forbidden no");
    say_with(stage, "ok 3 way=in text=127.0.0.1:8080:4000", 36, 1);
    say(stage, "ok 4");
    say(stage, "ok 5");
    say_with(stage, "port shop way=in text=127.0.0.1:8080:4000", 41, 1);
    say(stage, "port ship way=out text=5432");
    while (!strstr(buf_string(&stage->story), "'ship'")) run_until_told(stage);
    assert_story(stage, "port '' in 127.0.0.1:8080:4000 page -1\n"
                        "forbidden: no\n"
                        "port '' in 127.0.0.1:8080:4000 page 1\n"
                        "done\n"
                        "done\n"
                        "port 'shop' in 127.0.0.1:8080:4000 page 1\n"
                        "port 'ship' out 127.0.0.1:5432 page -1\n");
}

static void hands_out_what_tells_a_disks_use(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_disks(stage->link, "n1", on_disks, stage);
    link_disks(stage->link, "n2", on_disks, stage);
    link_disks(stage->link, "n3", on_disks, stage);
    assert_heard(stage, "disk 1 n1");
    assert_heard(stage, "disk 2 n2");
    assert_heard(stage, "disk 3 n3");
    say_with(stage, "ok 1", 4, 2);
    say(stage, "error 2 not_found gone");
    say_with(stage, "ok 3", 4, 1);
    while (!strstr(buf_string(&stage->story), "malformed")) run_until_told(stage);
    assert_true(
        string_starts(buf_string(&stage->story),
                      "disks 1 1\nnot_found: gone\nlauncher_unavailable: the launcher's answer is malformed\n"));
    buf_free(&stage->story);
}

static void opens_projects_with_the_callers_socket(void **state) {
    struct link_stage *stage = *state;
    int pair[2], received;
    struct stat sent, arrived;
    static const char mount[] = "ok 1 token=p-1 kind=mount file=";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    come_up(stage);
    link_open_project(stage->link, pair[0], "/home/me", on_project, stage);
    assert_string_equal(hear(stage, &received), "project 1 /home/me");
    assert_int_equal(fstat(pair[0], &sent), 0);
    assert_int_equal(fstat(received, &arrived), 0);
    assert_int_equal(sent.st_ino, arrived.st_ino);
    say_with(stage, mount, strlen(mount), 1);
    run_until_told(stage);
    assert_story(stage, "project p-1 stream 0 file 0 '' fd 1\n");
    close(received);
    link_open_project(stage->link, pair[0], "/home/me/a.ex", on_project, stage);
    assert_string_equal(hear(stage, &received), "project 2 /home/me/a.ex");
    int pipe_fd = say_with_pipe(stage, "ok 2 token=p-2 kind=stream file=a.ex");
    assert_int_equal(write(pipe_fd, "some ", 5), 5);
    assert_int_equal(write(pipe_fd, "files", 5), 5);
    close(pipe_fd);
    run_until_told(stage);
    assert_story(stage, "project p-2 stream 1 file 1 'a.ex' fd 1 holds 'some files'\n");
    close(received), close(pair[0]), close(pair[1]);
}

static void asks_for_folders_of_toolchains(void **state) {
    struct link_stage *stage = *state;
    int pair[2], received;
    static const char mount[] = "ok 1 token=p-1 kind=mount file=";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    come_up(stage);
    link_open_toolchain(stage->link, pair[0], "/home/me/otp", "/home/me", on_project, stage);
    assert_string_equal(hear(stage, &received), "project 1 /home/me/otp below=/home/me");
    close(received);
    say_with(stage, mount, strlen(mount), 1);
    run_until_told(stage);
    assert_story(stage, "project p-1 stream 0 file 0 '' fd 1\n");
    link_grant_toolchain(stage->link, pair[0], "u1-a", "/home/me/otp", "/home/me", on_done, stage);
    assert_string_equal(hear(stage, &received), "grant 2 u1-a /home/me/otp below=/home/me");
    close(received);
    say(stage, "ok 2");
    run_until_told(stage);
    assert_story(stage, "done\n");
    link_open_granted_toolchain(stage->link, "u1-a", on_project, stage);
    assert_heard(stage, "project 3 u1-a toolchain=1");
    say(stage, "error 3 not_found gone");
    run_until_told(stage);
    assert_story(stage, "not_found: gone\n");
    link_withdraw_toolchain(stage->link, "u1-a");
    assert_heard(stage, "withdraw 4 u1-a toolchain=1");
    close(pair[0]), close(pair[1]);
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    while ((text = strstr(text, part))) text++, count++;
    return count;
}

/* The process that sends one has its caller's uid, and can be stopped: others get their answers meanwhile. */
static void a_stream_that_does_not_come_holds_nobody_up(void **state) {
    struct link_stage *stage = *state;
    enum { STREAMS = 16 }; /* more than the pool has threads */
    int pipes[STREAMS], pair[2], received;
    char text[64];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    come_up(stage);
    for (int i = 0; i < STREAMS; i++) {
        link_open_project(stage->link, pair[0], "/a", on_project, stage);
        hear(stage, &received);
        close(received);
        snprintf(text, sizeof text, "ok %d token=p-%d kind=stream file=", i + 1, i + 1);
        pipes[i] = say_with_pipe(stage, text);
        assert_int_equal(write(pipes[i], "half", 4), 4);
    }
    link_open_project(stage->link, pair[0], "/b", on_project, stage);
    hear(stage, &received);
    close(received);
    int pipe_fd = say_with_pipe(stage, "ok 17 token=p-17 kind=stream file=");
    assert_int_equal(write(pipe_fd, "all", 3), 3);
    close(pipe_fd);
    run_until_told(stage);
    assert_story(stage, "project p-17 stream 1 file 0 '' fd 1 holds 'all'\n");
    for (int i = 0; i < STREAMS; i++) close(pipes[i]);
    close(pair[0]), close(pair[1]);
    while (count_of(buf_string(&stage->story), "holds 'half'") < STREAMS) uv_run(&stage->loop, UV_RUN_ONCE);
    buf_free(&stage->story);
}

static void streams_end_with_the_link(void **state) {
    struct link_stage *stage = *state;
    int pair[2], received;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    come_up(stage);
    link_open_project(stage->link, pair[0], "/a", on_project, stage);
    hear(stage, &received);
    int pipe_fd = say_with_pipe(stage, "ok 1 token=p-1 kind=stream file=");
    uv_run(&stage->loop, UV_RUN_ONCE);
    close_link(stage);
    assert_story(stage, "launcher_unavailable: the link to the launcher was closed\n");
    close(pipe_fd), close(received), close(pair[0]), close(pair[1]);
}

static void passes_violations_on(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    say(stage, "violation n1 syscall=execve count=17 detail=path%3D/bin/sh");
    run_until_told(stage);
    assert_story(stage, "violation n1 execve 'path=/bin/sh' x17\n");
}

static void answers_later_when_there_is_no_launcher(void **state) {
    struct link_stage *stage = *state;
    link_freeze(stage->link, "n1", true, on_done, stage);
    link_bury(stage->link, "n1", on_buried, stage);
    assert_story(stage, ""); /* not from inside */
    run_until_told(stage);
    assert_story(stage, "launcher_unavailable: there is no link to the launcher\n"
                        "launcher_unavailable: there is no link to the launcher\n");
}

static void fails_what_was_asked_and_dials_again(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_bury(stage->link, "n1", on_buried, stage);
    assert_heard(stage, "bury 1 n1");
    link_freeze(stage->link, "n1", true, on_done, stage);
    stage->launcher_fd = fd_close(stage->launcher_fd);
    while (!strstr(buf_string(&stage->story), "broke\nlauncher")) run_until_told(stage);
    assert_story(stage, "down\n"
                        "launcher_unavailable: the link to the launcher broke\n"
                        "launcher_unavailable: the link to the launcher broke\n");
    assert_false(link_is_up(stage->link));
    come_up(stage);
    link_shutdown(stage->link, on_done, stage);
    assert_heard(stage, "shutdown 3");
    say(stage, "ok 3");
    run_until_told(stage);
    assert_story(stage, "done\n");
}

static void finds_a_launcher_that_comes_later(void **state) {
    struct link_stage *stage = *state;
    char path[128];
    stage->server_fd = fd_close(stage->server_fd);
    snprintf(path, sizeof path, "%s/launcher.sock", stage->home);
    unlink(path);
    uv_run(&stage->loop, UV_RUN_ONCE); /* the first dial fails */
    assert_false(link_is_up(stage->link));
    listen_at(stage);
    come_up(stage);
}

static void hangs_up_on_garbage(void **state) {
    struct link_stage *stage = *state;
    static const struct {
        const char *text;
        size_t size, fd_count;
    } garbage[] = {
        {"", 0, 0},
        {"ok", 2, 0},
        {"ok 99", 5, 0},
        {"ok x", 4, 0},
        {"error 99 conflict x", 19, 0},
        {"ready", 5, 0}, /* a second time */
        {"sing 1", 6, 0},
        {"ok %zz", 6, 0},
        {"violation n1", 12, 0},
        {"violation n1 syscall=x count=-1 detail=", 39, 0},
        {"node n1 pid=1 start=1 uid=1 memory= cpu= frozen=0", 49, 0}, /* without its pidfd */
        {"node .. pid=1 start=1 uid=1 memory= cpu= frozen=0", 49, 1},
        {"node n1 pid=0 start=1 uid=1 memory= cpu= frozen=0", 49, 2},
        {"ok\0 1", 5, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
        come_up(stage);
        say_with(stage, garbage[i].text, garbage[i].size, garbage[i].fd_count);
        run_until_told(stage);
        assert_story(stage, "down\n");
    }
}

static void hangs_up_on_a_bad_greeting(void **state) {
    struct link_stage *stage = *state;
    static const char *const greetings[] = {
        "error 0 invalid_input no",
        "ok 1 version=2 guarantees=0x1 cgroup=1 landlock=1 root=1",
        "ok 0 version=1 guarantees=0x1 cgroup=1 landlock=1 root=1",
        "ok 0 version=2 guarantees=1 cgroup=1 landlock=1 root=1",
    };
    for (size_t i = 0; i < ARRAY_SIZE(greetings); i++) {
        accept_dial(stage);
        say(stage, greetings[i]);
        run_until_readable(stage, stage->launcher_fd);
        char byte;
        assert_int_equal(recv(stage->launcher_fd, &byte, 1, 0), 0);
        assert_false(link_is_up(stage->link));
    }
    assert_story(stage, "");
}

static void tells_the_asker_of_a_malformed_answer(void **state) {
    struct link_stage *stage = *state;
    struct jail_plan plan = {0};
    struct error error;
    static const char one_fd[] = "ok 1 pid=42 start=9 uid=5 memory=/m cpu=/c frozen=0";
    assert_int_equal(jail_plan_parse("node n1\n", 8, &plan, &error), 0);
    come_up(stage);
    link_spawn(stage->link, &plan, on_spawned, stage);
    jail_plan_free(&plan);
    hear(stage, NULL);
    say_with(stage, one_fd, strlen(one_fd), 1);
    while (!strstr(buf_string(&stage->story), "down")) run_until_told(stage);
    assert_story(stage, "launcher_unavailable: the launcher's answer is malformed\ndown\n");
    come_up(stage);
    link_bury(stage->link, "n1", on_buried, stage);
    hear(stage, NULL);
    say(stage, "ok 2 cause=boredom status=0 oom=0");
    while (!strstr(buf_string(&stage->story), "down")) run_until_told(stage);
    assert_story(stage, "launcher_unavailable: the launcher's answer is malformed\ndown\n");
}

static void count_done(void *data, const struct error *error) {
    assert_null(error);
    ++*(size_t *)data;
}

static void queues_what_the_socket_does_not_hold(void **state) {
    struct link_stage *stage = *state;
    enum { COUNT = 600 };
    static char path[4000];
    size_t done = 0;
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    come_up(stage);
    for (int i = 0; i < COUNT; i++) link_mount(stage->link, "n1", path, "/app/x", count_done, &done);
    for (int i = 1; i <= COUNT; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "mount %d n1 /xxx", i);
        assert_memory_equal(hear(stage, NULL), expected, strlen(expected));
        snprintf(expected, sizeof expected, "ok %d", i);
        say(stage, expected);
    }
    link_freeze(stage->link, "n1", true, on_done, stage);
    assert_heard(stage, "freeze 601 n1");
    say(stage, "ok 601");
    run_until_told(stage);
    assert_int_equal(done, COUNT);
    assert_story(stage, "done\n");
}

struct tally {
    size_t done, limited, broken;
};

static void tally_done(void *data, const struct error *error) {
    struct tally *tally = data;
    if (!error)
        tally->done++;
    else if (error->code == E_LIMIT)
        tally->limited++;
    else
        tally->broken++;
}

static void bounds_the_queue_and_the_message(void **state) {
    struct link_stage *stage = *state;
    enum { COUNT = 200 };
    static char path[JAIL_MESSAGE_BYTES - 100], endless[JAIL_MESSAGE_BYTES + 1];
    struct tally tally = {0};
    memset(path, 'x', sizeof path - 1);
    memset(endless, 'x', sizeof endless - 1);
    come_up(stage);
    link_mount(stage->link, "n1", endless, "/app/x", on_done, stage);
    run_until_told(stage);
    assert_story(stage, "too_large: the message is too long for the launcher\n");
    for (int i = 0; i < COUNT; i++) link_mount(stage->link, "n1", path, "/app/x", tally_done, &tally);
    assert_int_equal(tally.limited, 0); /* not from inside */
    close_link(stage);
    assert_true(tally.limited > 0);
    assert_true(tally.broken > 100);
    assert_int_equal(tally.limited + tally.broken, COUNT);
}

static void answers_everybody_when_it_is_closed(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_bury(stage->link, "n1", on_buried, stage);
    link_freeze(stage->link, "n1", true, on_done, stage);
    close_link(stage);
    assert_story(stage, "launcher_unavailable: the link to the launcher was closed\n"
                        "launcher_unavailable: the link to the launcher was closed\n");
}

static void answers_who_asks_while_it_closes(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_close(stage->link, on_closed, stage);
    link_bury(stage->link, "n1", on_buried, stage);
    link_freeze(stage->link, "n1", true, on_done, stage);
    link_release_project(stage->link, "p-1");
    assert_story(stage, ""); /* not from inside */
    assert_false(link_is_up(stage->link));
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    assert_true(stage->closed);
    assert_story(stage, "launcher_unavailable: there is no link to the launcher\n"
                        "launcher_unavailable: there is no link to the launcher\n");
}

/* As when it was stopped: it is there, and says nothing. */
static void gives_up_on_a_launcher_that_does_not_answer(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_expect_answers_within(stage->link, 50);
    link_bury(stage->link, "n1", on_buried, stage);
    link_freeze(stage->link, "n1", true, on_done, stage);
    while (!strstr(buf_string(&stage->story), "time\nlauncher")) run_until_told(stage);
    assert_story(stage, "down\n"
                        "launcher_unavailable: the launcher did not answer in time\n"
                        "launcher_unavailable: the launcher did not answer in time\n");
    come_up(stage);
}

static void takes_an_answer_that_waited_for_us(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_expect_answers_within(stage->link, 1);
    link_freeze(stage->link, "n1", true, on_done, stage);
    say(stage, "ok 1");
    uint64_t late_ms = clock_monotonic_ms() + 5;
    while (clock_monotonic_ms() < late_ms) continue; /* the loop is busy elsewhere */
    run_until_told(stage);
    assert_story(stage, "done\n");
    assert_true(link_is_up(stage->link));
}

/* An answer in time does not put off the deadlines of other requests, and the next request has its own. */
static void each_request_has_its_own_time(void **state) {
    struct link_stage *stage = *state;
    come_up(stage);
    link_expect_answers_within(stage->link, 60);
    link_freeze(stage->link, "n1", true, on_done, stage);
    assert_heard(stage, "freeze 1 n1");
    say(stage, "ok 1");
    run_until_told(stage);
    link_expect_answers_within(stage->link, 10000);
    link_freeze(stage->link, "n1", false, on_done, stage);
    uint64_t late_ms = clock_monotonic_ms() + 80;
    while (clock_monotonic_ms() < late_ms) {
        poll(&(struct pollfd){.fd = uv_backend_fd(&stage->loop), .events = POLLIN}, 1, 20);
        uv_run(&stage->loop, UV_RUN_NOWAIT);
    }
    assert_story(stage, "done\n");
    say(stage, "ok 2");
    run_until_told(stage);
    assert_story(stage, "done\n");
}

static void refuses_a_home_that_fits_no_socket(void **state) {
    (void)state;
    char home[200];
    struct launcher_link *link = NULL;
    struct error error;
    uv_loop_t loop = {0};
    memset(home, 'h', sizeof home);
    home[sizeof home - 1] = '\0';
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(link_open(&loop, home, &link_stage_handler, NULL, &link, &error), -E_INVALID);
    assert_null(link);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
#define STAGED(test) cmocka_unit_test_setup_teardown(test, link_stage_set_up, link_stage_tear_down)
    const struct CMUnitTest tests[] = {
        STAGED(tells_nodes_before_it_is_up),
        STAGED(spawns),
        STAGED(users_take_turns),
        STAGED(asks_in_the_launchers_words),
        STAGED(ports_are_asked_for_and_told),
        STAGED(hands_out_what_tells_a_disks_use),
        STAGED(opens_projects_with_the_callers_socket),
        STAGED(asks_for_folders_of_toolchains),
        STAGED(a_stream_that_does_not_come_holds_nobody_up),
        STAGED(streams_end_with_the_link),
        STAGED(passes_violations_on),
        STAGED(answers_later_when_there_is_no_launcher),
        STAGED(fails_what_was_asked_and_dials_again),
        STAGED(finds_a_launcher_that_comes_later),
        STAGED(hangs_up_on_garbage),
        STAGED(hangs_up_on_a_bad_greeting),
        STAGED(tells_the_asker_of_a_malformed_answer),
        STAGED(queues_what_the_socket_does_not_hold),
        STAGED(bounds_the_queue_and_the_message),
        STAGED(answers_everybody_when_it_is_closed),
        STAGED(answers_who_asks_while_it_closes),
        STAGED(gives_up_on_a_launcher_that_does_not_answer),
        STAGED(takes_an_answer_that_waited_for_us),
        STAGED(each_request_has_its_own_time),
        cmocka_unit_test(refuses_a_home_that_fits_no_socket),
    };
    return cmocka_run_group_tests(tests, link_stage_open_group, NULL);
}
