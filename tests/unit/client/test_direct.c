/* Direct calls, over one end of a pair of sockets whose other end has said everything already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/client_internal.h"
#include "ops/direct.h"
#include "peer.h"

static const struct http_wait no_time = {.deadline_ms = 1, .cancel_fd = -1};

struct line {
    int ours, theirs;
    struct buf in;
};

static void line_open(struct line *line, const void *said, size_t size) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    *line = (struct line){.ours = fds[0], .theirs = fds[1], .in = {.max = 1000}};
    assert_int_equal(write(line->theirs, said, size), size);
}

static void line_close(struct line *line) {
    close(line->ours);
    fd_close(line->theirs);
    buf_free(&line->in);
}

static int ask(struct line *line, struct error *reterr) {
    json_t *params = json_pack("{s:s}", "id", "c");
    struct http_wait wait = {clock_monotonic_ms() + PEER_DEADLINE_MS, -1};
    int result = direct_exchange(line->ours, ops_find("info"), params, &wait, &line->in, reterr);
    json_decref(params);
    return result;
}

static void a_question_and_its_answer(void **state) {
    (void)state;
    struct line line;
    struct error error;
    char bytes[64];
    unsigned status;
    const char *body;
    size_t size;
    line_open(&line, "\0\0\0\4\0\310{}", 8);
    assert_int_equal(ask(&line, &error), 0);
    assert_int_equal(direct_read_answer(line.in.data, line.in.size, &status, &body, &size, &error), 0);
    assert_int_equal(status, 200);
    assert_int_equal(size, 2);
    assert_memory_equal(body, "{}", 2);
    assert_int_equal(read(line.theirs, bytes, sizeof bytes), 21);
    assert_memory_equal(bytes, "\0\0\0\21", 4); /* then the processor, wherever that was */
    assert_memory_equal(bytes + 6, "\4info{\"id\":\"c\"}", 15);
    line_close(&line);
}

static void an_end_before_the_answer_is_told(void **state) {
    (void)state;
    struct line line;
    struct error error;
    line_open(&line, "\0\0\0\4\0", 5);
    line.theirs = fd_close(line.theirs);
    assert_int_equal(ask(&line, &error), -E_NO_DAEMON);
    assert_int_equal(line.in.size, 5);
    line_close(&line);
}

static void more_than_was_asked_is_refused(void **state) {
    (void)state;
    struct line line;
    struct error error;
    line_open(&line, "\0\0\0\4\0\310{}!", 9);
    assert_int_equal(ask(&line, &error), -E_FORMAT);
    line_close(&line);
}

static void an_answer_has_a_bound(void **state) {
    (void)state;
    struct line line;
    struct error error;
    char said[2000] = "\0\0\20\0";
    line_open(&line, said, sizeof said);
    assert_int_equal(ask(&line, &error), -E_TOO_LARGE);
    line_close(&line);
}

static void an_answer_without_a_status_is_refused(void **state) {
    (void)state;
    unsigned status;
    const char *body;
    size_t size;
    struct error error;
    assert_int_equal(direct_read_answer((const uint8_t *)"\0\0\0\1\0", 5, &status, &body, &size, &error), -E_FORMAT);
}

static void waiting_has_an_end(void **state) {
    (void)state;
    struct line line;
    struct error error;
    json_t *params = json_object();
    line_open(&line, "", 0);
    assert_int_equal(direct_exchange(line.ours, ops_find("info"), params, &no_time, &line.in, &error), -E_TIMEOUT);
    line_close(&line);
    json_decref(params);
}

#define OBJECT(length, text)                                                                                           \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " length "\r\n\r\n" text

/* The fourth call asks for it; a service that does not know it is asked as before, and never again. */
static void a_service_without_it_is_asked_by_http(void **state) {
    (void)state;
    static const char *const answers[] = {OBJECT("2", "{}"), OBJECT("2", "{}"),
                                          OBJECT("2", "{}"), "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                                          OBJECT("2", "{}"), OBJECT("2", "{}")};
    struct peer peer = {0};
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *sbx = NULL;
    assert_true(peer_start(&peer, answers, 6));
    options.home = peer.home;
    options.flags = SBX_NO_AUTOSTART;
    options.timeout_ms = PEER_DEADLINE_MS;
    assert_int_equal(sbx_open_with(&options, &sbx, NULL), 0);
    for (int i = 0; i < 5; i++) assert_int_equal(sbx_info(sbx, "c", NULL, NULL), 0);
    sbx_close(sbx);
    assert_int_equal(peer.request_count, 6);
    assert_non_null(strstr(buf_string(&peer.requests[3]), "GET " DIRECT_PATH " HTTP/1.1\r\n"));
    assert_non_null(strstr(buf_string(&peer.requests[3]), "\r\nUpgrade: " DIRECT_PROTOCOL "\r\n"));
    assert_non_null(strstr(buf_string(&peer.requests[5]), "GET /api/v1/sandboxes/c HTTP/1.1\r\n"));
    peer_stop(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_and_its_answer),
        cmocka_unit_test(an_end_before_the_answer_is_told),
        cmocka_unit_test(more_than_was_asked_is_refused),
        cmocka_unit_test(an_answer_has_a_bound),
        cmocka_unit_test(an_answer_without_a_status_is_refused),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(a_service_without_it_is_asked_by_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
