/* Tests the client's HTTP connection against a peer that the test plays: reuse, deadlines, and cancelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/http.h"
#include "peer.h"

static int collect(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)reterr;
    buf_append(parser->data, bytes, size);
    return 0;
}

struct fixture {
    struct peer peer;
    int fd;
    struct buf body;
    struct http_parser parser;
    struct error error;
};

static void open_fixture(struct fixture *fixture, const char *const *answers, size_t count) {
    assert_true(peer_start(&fixture->peer, answers, count));
    struct http_wait wait = {.cancel_fd = -1};
    assert_int_equal(http_connect(fixture->peer.socket_path, &wait, &fixture->fd, &fixture->error), 0);
    http_parser_init(&fixture->parser, collect, &fixture->body);
}

static void close_fixture(struct fixture *fixture) {
    http_parser_free(&fixture->parser);
    buf_free(&fixture->body);
    fd_close(fixture->fd);
    peer_stop(&fixture->peer);
}

static int get(struct fixture *fixture, const struct http_wait *wait) {
    http_parser_free(&fixture->parser);
    http_parser_init(&fixture->parser, collect, &fixture->body);
    buf_clear(&fixture->body);
    struct http_request request = {.method = "GET", .path = "/x"};
    return http_exchange(fixture->fd, &request, wait, &fixture->parser, &fixture->error);
}

static void two_requests_share_a_connection(void **state) {
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"};
    struct fixture fixture = {0};
    struct http_wait wait = {.cancel_fd = -1};
    open_fixture(&fixture, answers, 2);
    assert_int_equal(get(&fixture, &wait), 0);
    assert_string_equal(buf_string(&fixture.body), "one");
    assert_true(http_usable(fixture.fd));
    assert_int_equal(get(&fixture, &wait), 0);
    assert_string_equal(buf_string(&fixture.body), "two");
    assert_int_equal(fixture.peer.connection_count, 1);
    assert_non_null(strstr(buf_string(&fixture.peer.requests[0]), "GET /x HTTP/1.1\r\nHost: sandbox\r\n"));
    close_fixture(&fixture);
}

static void a_body_is_sent_whole(void **state) {
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    struct fixture fixture = {0};
    struct http_wait wait = {.cancel_fd = -1};
    open_fixture(&fixture, answers, 1);
    size_t size = 3 << 20;
    char *body = malloc(size);
    memset(body, 'b', size);
    struct http_request request = {.method = "POST", .path = "/", .body = body, .body_size = size};
    assert_int_equal(http_exchange(fixture.fd, &request, &wait, &fixture.parser, &fixture.error), 0);
    struct buf *sent = &fixture.peer.requests[0];
    assert_true(sent->size > size);
    assert_memory_equal(sent->data + sent->size - size, body, size);
    free(body);
    close_fixture(&fixture);
}

static void a_closed_connection_is_no_answer(void **state) {
    (void)state;
    struct fixture fixture = {0};
    struct http_wait wait = {.cancel_fd = -1};
    open_fixture(&fixture, NULL, 0);
    assert_int_equal(get(&fixture, &wait), -E_NO_DAEMON);
    close_fixture(&fixture);
}

static void a_deadline_ends_the_wait(void **state) {
    (void)state;
    struct fixture fixture = {.peer = {.silent = true}};
    open_fixture(&fixture, NULL, 0);
    struct http_wait wait = {.deadline_ms = clock_monotonic_ms() + 20, .cancel_fd = -1};
    assert_int_equal(get(&fixture, &wait), -E_TIMEOUT);
    assert_true(clock_monotonic_ms() < wait.deadline_ms + 2000);
    close_fixture(&fixture);
}

static void a_cancelled_wait_ends(void **state) {
    (void)state;
    struct fixture fixture = {.peer = {.silent = true}};
    open_fixture(&fixture, NULL, 0);
    int cancel[2];
    assert_int_equal(pipe(cancel), 0);
    assert_int_equal(write(cancel[1], "x", 1), 1);
    struct http_wait wait = {.cancel_fd = cancel[0]};
    assert_int_equal(get(&fixture, &wait), -E_TIMEOUT);
    assert_string_equal(fixture.error.detail, "interrupted");
    close(cancel[0]);
    close(cancel[1]);
    close_fixture(&fixture);
}

static void nobody_listening_is_no_daemon(void **state) {
    (void)state;
    struct http_wait wait = {.cancel_fd = -1};
    struct error error;
    int fd = -1;
    assert_int_equal(http_connect("/nonexistent/api.sock", &wait, &fd, &error), -E_NO_DAEMON);
    char path[200];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(http_connect(path, &wait, &fd, &error), -E_INVALID);
    assert_int_equal(fd, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_requests_share_a_connection),
        cmocka_unit_test(a_body_is_sent_whole),
        cmocka_unit_test(a_closed_connection_is_no_answer),
        cmocka_unit_test(a_deadline_ends_the_wait),
        cmocka_unit_test(a_cancelled_wait_ends),
        cmocka_unit_test(nobody_listening_is_no_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
