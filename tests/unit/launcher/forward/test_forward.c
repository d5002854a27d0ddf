/* The forwarder's loops, in a process without a jail: between clients and servers of the test's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "launcher/forward/forward.h"

enum { PATIENCE_MS = 20000, BULK_BYTES = 4 << 20 };

struct stage {
    struct forward forward;
    int listener_fd, server_fd; /* the forwarder's, and the one that it connects to */
    int end_fd;                 /* closed, it ends */
    pid_t forwarder;
    union forward_address place; /* where clients connect */
};

static int listen_somewhere(int type, union forward_address *ret) {
    socklen_t size = sizeof ret->v4;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, &ret->any, size), 0);
    if (type == SOCK_STREAM) assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, &ret->any, &size), 0);
    return fd;
}

static struct stage *raise_stage(int type) {
    struct stage *stage = calloc(1, sizeof *stage);
    union forward_address server;
    assert_non_null(stage);
    stage->server_fd = listen_somewhere(type, &server);
    stage->listener_fd = listen_somewhere(type, &stage->place);
    fcntl(stage->listener_fd, F_SETFL, O_NONBLOCK);
    stage->forward = (struct forward){.way = JAIL_PORT_IN,
                                      .protocol = type == SOCK_STREAM ? JAIL_PORT_TCP : JAIL_PORT_UDP,
                                      .listener_fd = stage->listener_fd};
    forward_aim(&stage->forward, &(struct jail_port){.way = JAIL_PORT_IN, .port = ntohs(server.v4.sin_port)});
    stage->forward.page =
        mmap(NULL, sizeof *stage->forward.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stage->forward.page, MAP_FAILED);
    stage->forward.page->bounds.connections = 64;
    return stage;
}

static void start(struct stage *stage) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    stage->forward.end_fd = fds[0];
    stage->end_fd = fds[1];
    stage->forwarder = fork();
    assert_true(stage->forwarder >= 0);
    if (stage->forwarder == 0) {
        close(fds[1]);
        close(stage->server_fd);
        signal(SIGPIPE, SIG_IGN);
        _exit(forward_run(&stage->forward));
    }
    close(fds[0]);
}

static int set_up_streams(void **state) {
    *state = raise_stage(SOCK_STREAM);
    start(*state);
    return 0;
}

static int set_up_quiet(void **state) {
    *state = raise_stage(SOCK_STREAM);
    return 0;
}

static int set_up_datagrams(void **state) {
    *state = raise_stage(SOCK_DGRAM);
    start(*state);
    return 0;
}

/* It ends when the node does, in good order. */
static int tear_down(void **state) {
    struct stage *stage = *state;
    int status = 0;
    close(stage->end_fd);
    assert_int_equal(waitpid(stage->forwarder, &status, 0), stage->forwarder);
    assert_int_equal(status, 0);
    close(stage->listener_fd);
    close(stage->server_fd);
    munmap(stage->forward.page, sizeof *stage->forward.page);
    free(stage);
    return 0;
}

static bool is_ready(int fd, short events) {
    return poll(&(struct pollfd){.fd = fd, .events = events}, 1, PATIENCE_MS) == 1;
}

static int dial(const struct stage *stage) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, &stage->place.any, sizeof stage->place.v4), 0);
    return fd;
}

static int take(const struct stage *stage) {
    assert_true(is_ready(stage->server_fd, POLLIN));
    return accept4(stage->server_fd, NULL, NULL, SOCK_CLOEXEC);
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void assert_hears(int fd, const char *text) {
    char heard[256] = "";
    size_t size = 0;
    while (size < strlen(text)) {
        assert_true(is_ready(fd, POLLIN));
        ssize_t got = recv(fd, heard + size, sizeof heard - 1 - size, 0);
        if (got <= 0) fail_msg("heard '%s' and then the end, not '%s'", heard, text);
        size += (size_t)got;
    }
    assert_string_equal(heard, text);
}

static void assert_ends(int fd) {
    char byte;
    assert_true(is_ready(fd, POLLIN));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void assert_is_reset(int fd) {
    char byte;
    assert_true(is_ready(fd, POLLIN));
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
}

/* The counts are written at the end of a turn. */
static void await_count(const uint64_t *count, uint64_t wanted) {
    uint64_t due_ms = clock_monotonic_ms() + PATIENCE_MS;
    while (__atomic_load_n(count, __ATOMIC_RELAXED) != wanted) {
        if (clock_monotonic_ms() > due_ms)
            fail_msg("the count is %llu, not %llu", (unsigned long long)*count, (unsigned long long)wanted);
        poll(NULL, 0, 1);
    }
}

static void carries_both_ways(void **state) {
    struct stage *stage = *state;
    CLEANUP_FD int client = dial(stage), server = take(stage);
    say(client, "question");
    assert_hears(server, "question");
    say(server, "answer");
    assert_hears(client, "answer");
    await_count(&stage->forward.page->counts.in_bytes, 8);
    await_count(&stage->forward.page->counts.out_bytes, 6);
    await_count(&stage->forward.page->counts.open, 1);
    client = fd_close(client);
    assert_ends(server);
    server = fd_close(server);
    await_count(&stage->forward.page->counts.open, 0);
    await_count(&stage->forward.page->counts.connections, 1);
}

/* What a side says after the other has said all arrives. */
static void carries_half_closes(void **state) {
    struct stage *stage = *state;
    CLEANUP_FD int client = dial(stage), server = take(stage);
    say(client, "all of it");
    shutdown(client, SHUT_WR);
    assert_hears(server, "all of it");
    assert_ends(server);
    say(server, "and the answer");
    assert_hears(client, "and the answer");
    shutdown(server, SHUT_WR);
    assert_ends(client);
    await_count(&stage->forward.page->counts.open, 0);
}

static void carries_resets(void **state) {
    struct stage *stage = *state;
    struct linger at_once = {.l_onoff = 1};
    CLEANUP_FD int client = dial(stage), server = take(stage);
    say(client, "x");
    assert_hears(server, "x");
    setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    server = fd_close(server);
    assert_is_reset(client);
    await_count(&stage->forward.page->counts.open, 0);
}

static _Noreturn void send_bulk(int fd) {
    static const char bytes[BULK_BYTES];
    bool is_sent = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) == BULK_BYTES && shutdown(fd, SHUT_WR) == 0;
    _exit(!is_sent);
}

/* One that takes nothing holds up its own connection alone, and gets all of it once it reads. */
static void a_stall_holds_up_itself_alone(void **state) {
    struct stage *stage = *state;
    CLEANUP_FD int client = dial(stage), server = take(stage);
    pid_t sender = fork();
    if (sender == 0) send_bulk(client);
    assert_true(is_ready(server, POLLIN));
    CLEANUP_FD int other = dial(stage), other_server = take(stage);
    say(other, "meanwhile");
    assert_hears(other_server, "meanwhile");
    static char bytes[64 * 1024];
    size_t size = 0;
    for (ssize_t got; is_ready(server, POLLIN) && (got = recv(server, bytes, sizeof bytes, 0)) > 0;)
        size += (size_t)got;
    assert_int_equal(size, BULK_BYTES);
    assert_int_equal(waitpid(sender, NULL, 0), sender);
}

static void turns_away_what_is_too_much(void **state) {
    struct stage *stage = *state;
    stage->forward.page->bounds.connections = 2;
    CLEANUP_FD int first = dial(stage), first_server = take(stage);
    CLEANUP_FD int second = dial(stage), second_server = take(stage);
    CLEANUP_FD int third = dial(stage);
    assert_is_reset(third);
    await_count(&stage->forward.page->counts.refused, 1);
    say(second, "still here");
    assert_hears(second_server, "still here");
    first = fd_close(first);
    assert_ends(first_server);
    first_server = fd_close(first_server);
    await_count(&stage->forward.page->counts.open, 1);
    CLEANUP_FD int fourth = dial(stage), fourth_server = take(stage);
    say(fourth, "let in");
    assert_hears(fourth_server, "let in");
}

static void nobody_listens(void **state) {
    struct stage *stage = *state;
    shutdown(stage->server_fd, SHUT_RD);
    CLEANUP_FD int client = dial(stage);
    assert_is_reset(client);
    await_count(&stage->forward.page->counts.refused, 1);
    await_count(&stage->forward.page->counts.open, 0);
}

static void tells_a_server_its_client(void **state) {
    struct stage *stage = *state;
    char expected[FORWARD_HEADER_BYTES];
    union forward_address own;
    socklen_t size = sizeof own;
    stage->forward.proxy = 1;
    start(stage);
    CLEANUP_FD int client = dial(stage), server = take(stage);
    say(client, "GET");
    getsockname(client, &own.any, &size);
    snprintf(expected, sizeof expected, "PROXY TCP4 127.0.0.1 127.0.0.1 %u %u\r\nGET", ntohs(own.v4.sin_port),
             ntohs(stage->place.v4.sin_port));
    assert_hears(server, expected);
}

/* Each brings a byte, hears it back, and leaves. */
static void many_leave_nothing(void **state) {
    enum { MANY = 10000 };
    struct stage *stage = *state;
    for (int i = 0; i < MANY; i++) {
        CLEANUP_FD int client = dial(stage), server = take(stage);
        say(client, "x");
        assert_hears(server, "x");
        /* The client first, so that no port of this side waits. */
        struct linger at_once = {.l_onoff = 1};
        setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    await_count(&stage->forward.page->counts.connections, MANY);
    await_count(&stage->forward.page->counts.open, 0);
    char path[64];
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)stage->forwarder, fd);
        count += access(path, F_OK) == 0;
    }
    assert_in_range(count, 1, 160); /* its own few, and the pipes that it keeps */
}

static void rates_refill_as_time_passes(void **state) {
    struct forward_rate rate = {0};
    uint64_t due_ms = 0;
    (void)state;
    for (int i = 0; i < 10; i++) assert_true(forward_rate_take(&rate, 10, 5000, &due_ms));
    assert_false(forward_rate_take(&rate, 10, 5000, &due_ms));
    assert_int_equal(due_ms, 5100);
    assert_false(forward_rate_take(&rate, 10, 5099, &due_ms));
    assert_true(forward_rate_take(&rate, 10, 5100, &due_ms));
    assert_true(forward_rate_take(&rate, 0, 5100, &due_ms));
    for (int i = 0; i < 10; i++) assert_true(forward_rate_take(&rate, 10, 99000, &due_ms));
    assert_false(forward_rate_take(&rate, 10, 99000, &due_ms));
}

/* ---- datagrams ---- */

static int dial_datagrams(const struct stage *stage) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, &stage->place.any, sizeof stage->place.v4), 0);
    return fd;
}

static void answers_find_their_clients(void **state) {
    struct stage *stage = *state;
    int clients[8];
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        char text[16];
        snprintf(text, sizeof text, "client %zu", i);
        clients[i] = dial_datagrams(stage);
        say(clients[i], text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        char text[16] = "";
        union forward_address from;
        socklen_t size = sizeof from;
        assert_true(is_ready(stage->server_fd, POLLIN));
        ssize_t got = recvfrom(stage->server_fd, text, sizeof text - 1, 0, &from.any, &size);
        assert_int_equal(sendto(stage->server_fd, text, (size_t)got, 0, &from.any, size), got);
    }
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        char text[16];
        snprintf(text, sizeof text, "client %zu", i);
        assert_hears(clients[i], text);
        close(clients[i]);
    }
    await_count(&stage->forward.page->counts.connections, ARRAY_SIZE(clients));
}

/* ---- a service at a path ---- */

enum { EXCHANGES = 5000 };

static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4096), 0);
    return fd;
}

static size_t accept_all(int listener_fd) {
    size_t count = 0;
    for (int fd; (fd = accept(listener_fd, NULL, NULL)) >= 0; count++) close(fd);
    return count;
}

/* The place of a service is a link to another at one moment, and the service itself at the next. */
static void a_link_that_comes_and_goes_is_not_followed(void **state) {
    char folder[] = "/tmp/sandbox-forward-XXXXXX";
    struct forward forward = {.way = JAIL_PORT_OUT, .protocol = JAIL_PORT_UNIX, .sees_host = true};
    size_t reached = 0, elsewhere = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    int service_fd = listen_at("service"), other_fd = listen_at("other");
    assert_int_equal(symlink("other", "link"), 0);
    forward_aim(&forward, &(struct jail_port){.way = JAIL_PORT_OUT, .protocol = JAIL_PORT_UNIX, .path = "/x/service"});
    pid_t exchanger = fork();
    if (exchanger == 0)
        for (;;) renameat2(AT_FDCWD, "service", AT_FDCWD, "link", RENAME_EXCHANGE);
    for (size_t i = 0; i < EXCHANGES; i++) {
        fd_close(forward_dial(&forward, 0));
        reached += accept_all(service_fd);
        elsewhere += accept_all(other_fd);
    }
    kill(exchanger, SIGKILL);
    waitpid(exchanger, NULL, 0);
    close(service_fd);
    close(other_fd);
    static const char *const names[] = {"service", "link", "other"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) unlink(names[i]);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_true(reached > 0);
    assert_int_equal(elsewhere, 0);
}

static void datagram_clients_are_bounded(void **state) {
    struct stage *stage = *state;
    stage->forward.page->bounds.connections = 1;
    CLEANUP_FD int first = dial_datagrams(stage), second = dial_datagrams(stage);
    say(first, "a");
    await_count(&stage->forward.page->counts.open, 1);
    say(second, "b");
    await_count(&stage->forward.page->counts.refused, 1);
    await_count(&stage->forward.page->counts.in_bytes, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(carries_both_ways, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(carries_half_closes, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(carries_resets, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(a_stall_holds_up_itself_alone, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(turns_away_what_is_too_much, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(nobody_listens, set_up_streams, tear_down),
        cmocka_unit_test_setup_teardown(tells_a_server_its_client, set_up_quiet, tear_down),
        cmocka_unit_test_setup_teardown(many_leave_nothing, set_up_streams, tear_down),
        cmocka_unit_test(a_link_that_comes_and_goes_is_not_followed),
        cmocka_unit_test(rates_refill_as_time_passes),
        cmocka_unit_test_setup_teardown(answers_find_their_clients, set_up_datagrams, tear_down),
        cmocka_unit_test_setup_teardown(datagram_clients_are_bounded, set_up_datagrams, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
