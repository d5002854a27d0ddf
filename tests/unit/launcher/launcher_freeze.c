/* Nodes are frozen and thawed: by the kernel's freezer, or by signals under an ordinary user's launcher, which has
   none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "launcher_freeze.h"

enum { WORK_DEADLINE_MS = 10000 * TEST_SLOWNESS, STILL_MS = 20 };

static pid_t spawn_spinner(struct client *client, const char *node) {
    assert_true(client_spawn(client, node, "", "ids spin"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    client_read_until(client->fds[1], "ids=");
    return program;
}

/* Until a process that spins has had so much of the processor. */
static void await_work(pid_t spinner, long work_ms) {
    uint64_t deadline_ms = clock_monotonic_ms() + WORK_DEADLINE_MS;
    struct timespec first, now;
    clockid_t work;
    assert_int_equal(clock_getcpuclockid(spinner, &work), 0);
    assert_int_equal(clock_gettime(work, &first), 0);
    do {
        assert_true(clock_monotonic_ms() < deadline_ms);
        poll(NULL, 0, 1);
        assert_int_equal(clock_gettime(work, &now), 0);
    } while ((now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 < work_ms);
}

/* Freezing takes a turn of each of its processes, which it would not get while others use every core. */
void one_that_yields_freezes_and_thaws(void **state) {
    struct client *client = *state;
    char directory[256], name[16];
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pid_t busy = 0;
    for (int i = 0; i < cores; i++) {
        snprintf(name, sizeof name, "busy%d", i);
        busy = spawn_spinner(client, name);
    }
    assert_true(client_spawn(client, "modest", "", "many"));
    client_directory(client, "cpu=", directory);
    client_read_until(client->fds[1], "many=");
    assert_true(client_ask(client, "yield", "modest on=1", -1));
    await_work(busy, 80); /* by then it has had what was left of its share */
    assert_true(client_ask(client, "freeze", "modest", -1));
    assert_int_equal(client_yielding(directory), 1);
    assert_true(client_ask(client, "thaw", "modest", -1));
    assert_int_equal(client_yielding(directory), 1);
    assert_false(client_limit(client, "modest", "limit os_tasks 32769\n")); /* more than there can be */
    assert_int_equal(client_yielding(directory), 1);
    assert_true(client_ask(client, "bury", "modest", -1));
    for (int i = 0; i < cores; i++) {
        snprintf(name, sizeof name, "busy%d", i);
        assert_true(client_ask(client, "bury", name, -1));
    }
}

void freezes_and_thaws(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "cold", "", "signal"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening=ok\n");
    assert_true(client_ask(client, "freeze", "cold", -1));
    kill(program, SIGUSR1);
    assert_int_equal(poll(&(struct pollfd){.fd = output_fd, .events = POLLIN}, 1, 50), 0);
    assert_true(client_ask(client, "thaw", "cold", -1));
    client_read_until(output_fd, "signal=ok");
    assert_false(client_limit(client, "nobody", "limit memory 50000000\n"));
    assert_string_equal(client_detail(client), "there is no such node");
    assert_true(client_ask(client, "bury", "cold", -1));
}

/* What the relay counts, which the node keeps in a file. */
static volatile const uint64_t *map_count(pid_t program) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root/data/relay", (int)program);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const void *count = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
    assert_true(count != MAP_FAILED);
    return count;
}

static void await_count(volatile const uint64_t *count, uint64_t more_than) {
    uint64_t deadline_ms = clock_monotonic_ms() + WORK_DEADLINE_MS;
    for (; *count <= more_than; poll(NULL, 0, 1)) assert_true(clock_monotonic_ms() < deadline_ms);
}

/* Each of them lives for a moment, and by then another has begun. What the kernel keeps of those that have ended stays
   theirs until it gets round to it: tens of MB. */
void whoever_forks_stands_still_too(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "relay", "limit memory 2147483648\n", "relay"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    client_read_until(client->fds[1], "relay=ok\n");
    volatile const uint64_t *count = map_count(program);
    for (int i = 0; i < 3; i++) {
        await_count(count, *count);
        if (!client_ask(client, "freeze", "relay", -1)) fail_msg("%s", client_detail(client));
        uint64_t before = *count;
        for (uint64_t end_ms = clock_monotonic_ms() + STILL_MS; clock_monotonic_ms() < end_ms; poll(NULL, 0, 1))
            assert_int_equal(*count, before);
        assert_true(client_ask(client, "thaw", "relay", -1));
        await_count(count, before);
    }
    munmap((void *)(uintptr_t)count, sizeof *count);
    assert_true(client_ask(client, "bury", "relay", -1));
}

/* Sent while the launcher can't look: it has them all at once. */
static void send_together(const struct client *client, const char *const *requests) {
    kill(client->launcher, SIGSTOP);
    for (; *requests; requests++)
        assert_int_equal(send(client->link_fd, *requests, strlen(*requests), MSG_NOSIGNAL), strlen(*requests));
    kill(client->launcher, SIGCONT);
}

static const char *await_answer(struct client *client, const char *text) {
    client_await(client, text);
    return strstr(buf_string(&client->unasked), text);
}

/* To look whether all have stopped takes its time, and is done in between; two who want it get the same answer. */
void others_are_served_while_many_are_stopped(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "many", "", "many"));
    client_read_until(client->fds[1], "many=");
    send_together(
        client, (const char *const[]){"freeze 1000001 many", "yield 1000002 nobody on=1", "freeze 1000003 many", NULL});
    await_answer(client, "ok 1000003\n");
    const char *first = await_answer(client, "ok 1000001\n"), *other = await_answer(client, "error 1000002 not_found");
    assert_true(other < first || client->root); /* the freezer may be that quick */
    assert_true(client_ask(client, "bury", "many", -1));
}

/* A freezer may have done it by then. */
void a_thaw_or_an_end_calls_a_freeze_off(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "many", "", "many"));
    client_read_until(client->fds[1], "many=");
    send_together(client, (const char *const[]){"freeze 1000004 many", "thaw 1000005 many", NULL});
    await_answer(client, "ok 1000005\n");
    await_answer(client, client->root ? " 1000004"
                                      : "error 1000004 conflict node%20many%20is%20not%20to%20freeze%20any%20more\n");
    send_together(client, (const char *const[]){"freeze 1000006 many", "bury 1000007 many", NULL});
    await_answer(client, "ok 1000007 cause=killed");
    await_answer(client, client->root ? " 1000006" : "error 1000006 conflict ");
}

/* Its init is kept from doing what it is told to; a freezer needs none. */
void what_does_not_come_to_stand_still_goes_on(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "loose", "", "signal signal"));
    pid_t init = (pid_t)client_number(client, "pid"), program = client_program_of(init);
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening=ok\n");
    kill(init, SIGSTOP);
    bool froze = client_ask(client, "freeze", "loose", -1);
    assert_int_equal(froze, client->root);
    if (!froze) assert_string_equal(client_detail(client), "node loose did not freeze within 1000 ms");
    kill(init, SIGCONT);
    if (froze) assert_true(client_ask(client, "thaw", "loose", -1));
    kill(program, SIGUSR1);
    client_read_until(output_fd, "signal=ok\n");
    assert_true(client_ask(client, "freeze", "loose", -1)); /* another time */
    assert_true(client_ask(client, "bury", "loose", -1));
}
