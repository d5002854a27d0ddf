/* The public calls, against a peer that answers what each test has written down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "peer.h"
#include "sandbox.h"

#define ANSWER(status, type, body)                                                                                     \
    "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nTransfer-Encoding: chunked\r\n\r\n" body "0\r\n\r\n"
#define STREAM(chunks) ANSWER("200 OK", "application/x-ndjson", chunks)
#define OBJECT(length, text)                                                                                           \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " length "\r\n\r\n" text

static struct sbx *open_client(struct peer *peer, const char *const *answers, size_t count) {
    assert_true(peer_start(peer, answers, count));
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *sbx = NULL;
    struct sbx_error error;
    options.home = peer->home;
    options.flags = SBX_NO_AUTOSTART;
    options.timeout_ms = PEER_DEADLINE_MS;
    if (sbx_open_with(&options, &sbx, &error) < 0) fail_msg("%s", error.detail);
    return sbx;
}

static void a_call_is_a_request(void **state) {
    (void)state;
    static const char *const answers[] = {OBJECT("10", "{\"id\":\"c\"}"), OBJECT("2", "{}")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 2);
    char *json = NULL;
    assert_int_equal(sbx_create(sbx, "c", "/src", "{\"memory_bytes\": \"64M\"}", &json, NULL), 0);
    assert_string_equal(json, "{\"id\":\"c\"}");
    free(json);
    assert_int_equal(sbx_destroy(sbx, "c", NULL), 0);
    sbx_close(sbx);
    assert_int_equal(peer.connection_count, 1);
    assert_non_null(strstr(buf_string(&peer.requests[0]), "POST /api/v1/sandboxes HTTP/1.1\r\n"));
    assert_non_null(strstr(buf_string(&peer.requests[0]), "\"memory_bytes\":67108864"));
    assert_non_null(strstr(buf_string(&peer.requests[1]), "DELETE /api/v1/sandboxes/c HTTP/1.1\r\n"));
    peer_stop(&peer);
}

static void a_list_comes_whole(void **state) {
    (void)state;
    static const char *const answers[] = {OBJECT("25", "{\"items\":[1],\"next\":\"p2\"}"),
                                          OBJECT("27", "{\"items\":[2,3],\"next\":null}")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 2);
    char *json = NULL;
    assert_int_equal(sbx_list(sbx, &json, NULL), 0);
    assert_string_equal(json, "[1,2,3]");
    free(json);
    sbx_close(sbx);
    assert_non_null(strstr(buf_string(&peer.requests[1]), "GET /api/v1/sandboxes?cursor=p2 HTTP/1.1"));
    peer_stop(&peer);
}

static void a_problem_is_reported(void **state) {
    (void)state;
    static const char *const answers[] = {ANSWER("404 Not Found", "application/problem+json",
                                                 "26\r\n{\"code\":\"not_found\",\"detail\":\"no 'c'\"}\r\n")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 1);
    char *json = (char *)"untouched";
    struct sbx_error error;
    assert_int_equal(sbx_info(sbx, "c", &json, &error), -1);
    assert_string_equal(json, "untouched");
    assert_string_equal(error.code, "not_found");
    assert_string_equal(error.detail, "no 'c'");
    assert_int_equal(error.exit_code, 3);
    sbx_error_clear(&error);
    sbx_close(sbx);
    peer_stop(&peer);
}

static void bad_parameters_never_leave(void **state) {
    (void)state;
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, NULL, 0);
    static const struct {
        const char *op, *params, *code;
    } cases[] = {
        {"info", "{\"id\":\"../x\"}", "invalid_input"},
        {"info", "[]", "invalid_input"},
        {"info", "{", "invalid_input"},
        {"info", NULL, "invalid_input"},
        {"nothing", NULL, "not_found"},
        {"version", NULL, "invalid_input"},
        {"info", "{\"id\":\"a\",\"id\":\"b\"}", "invalid_input"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sbx_error error;
        assert_int_equal(sbx_op(sbx, cases[i].op, cases[i].params, NULL, &error), -1);
        assert_string_equal(error.code, cases[i].code);
        sbx_error_clear(&error);
    }
    assert_int_equal(sbx_create(sbx, NULL, "/src", NULL, NULL, NULL), -1);
    sbx_close(sbx);
    assert_int_equal(peer.request_count, 0);
    peer_stop(&peer);
}

/* ---- streams ---- */

struct heard {
    char text[256];
    size_t count;
    size_t wanted; /* end the stream after so many; 0: never */
};

static int hear(const char *item, void *data) {
    struct heard *heard = data;
    strcat(heard->text, item);
    heard->count++;
    return heard->wanted && heard->count == heard->wanted;
}

#define TWO_ITEMS "b\r\n{\"item\":1}\n\r\n1\r\n\n\r\n7\r\n{\"item\"\r\n4\r\n:2}\n\r\n"

static void items_come_line_by_line(void **state) {
    (void)state;
    static const char *const answers[] = {STREAM(TWO_ITEMS "b\r\n{\"done\":{}}\r\n1\r\n\n\r\n")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 1);
    struct heard heard = {0};
    struct sbx_error error;
    char *json = NULL;
    assert_int_equal(sbx_run(sbx, "/src", NULL, hear, &heard, &json, &error), 0);
    assert_string_equal(heard.text, "12");
    assert_string_equal(json, "{}");
    free(json);
    sbx_close(sbx);
    peer_stop(&peer);
}

static void a_reader_may_leave(void **state) {
    (void)state;
    static const char *const answers[] = {STREAM(TWO_ITEMS), OBJECT("2", "{}")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 2);
    struct heard heard = {.wanted = 1};
    assert_int_equal(sbx_events(sbx, "{\"follow\": true}", hear, &heard, NULL), 0);
    assert_string_equal(heard.text, "1");
    /* The rest of the stream must not be taken for the next answer. */
    assert_int_equal(sbx_op(sbx, "health", NULL, NULL, NULL), 0);
    assert_int_equal(peer.connection_count, 2);
    sbx_close(sbx);
    peer_stop(&peer);
}

static void a_stream_may_end_in_a_problem(void **state) {
    (void)state;
    static const char *const answers[] = {
        STREAM("b\r\n{\"item\":1}\n\r\n33\r\n{\"problem\":{\"code\":\"node_failed\",\"detail\":\"died\"}}\n\r\n")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 1);
    struct heard heard = {0};
    struct sbx_error error;
    assert_int_equal(sbx_run(sbx, "/src", NULL, hear, &heard, NULL, &error), -1);
    assert_string_equal(heard.text, "1");
    assert_string_equal(error.code, "node_failed");
    assert_string_equal(error.detail, "died");
    sbx_error_clear(&error);
    sbx_close(sbx);
    peer_stop(&peer);
}

static void broken_streams_are_failures(void **state) {
    (void)state;
    static const char *const answers[] = {STREAM("b\r\n{\"item\":1}\n\r\n"), STREAM("6\r\nhello\n\r\n"),
                                          STREAM("3\r\n{}\n\r\n")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 3);
    static const char *const codes[] = {"no_daemon", "malformed_data", "malformed_data"};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        struct heard heard = {0};
        struct sbx_error error;
        assert_int_equal(sbx_events(sbx, NULL, hear, &heard, &error), -1);
        assert_string_equal(error.code, codes[i]);
        sbx_error_clear(&error);
    }
    sbx_close(sbx);
    peer_stop(&peer);
}

static void a_stream_by_name_is_an_array(void **state) {
    (void)state;
    static const char *const answers[] = {STREAM(TWO_ITEMS "c\r\n{\"done\":{}}\n\r\n")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 1);
    char *json = NULL;
    assert_int_equal(sbx_op(sbx, "events", NULL, &json, NULL), 0);
    assert_string_equal(json, "[1,2]");
    free(json);
    sbx_close(sbx);
    peer_stop(&peer);
}

/* ---- connections ---- */

static void a_stale_connection_is_replaced(void **state) {
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
                                          OBJECT("2", "{}")};
    struct peer peer = {0};
    struct sbx *sbx = open_client(&peer, answers, 2);
    assert_int_equal(sbx_op(sbx, "health", NULL, NULL, NULL), 0);
    assert_int_equal(sbx_op(sbx, "health", NULL, NULL, NULL), 0);
    sbx_close(sbx);
    assert_int_equal(peer.connection_count, 2);
    peer_stop(&peer);
}

static void no_service_is_told(void **state) {
    (void)state;
    struct sbx_options options = SBX_OPTIONS_INIT;
    struct sbx *sbx = NULL;
    struct sbx_error error;
    options.home = "/nonexistent";
    options.flags = SBX_NO_AUTOSTART;
    assert_int_equal(sbx_open_with(&options, &sbx, &error), -1);
    assert_null(sbx);
    assert_string_equal(error.code, "no_daemon");
    assert_int_equal(error.exit_code, 6);
    sbx_error_clear(&error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_a_request),
        cmocka_unit_test(a_list_comes_whole),
        cmocka_unit_test(a_problem_is_reported),
        cmocka_unit_test(bad_parameters_never_leave),
        cmocka_unit_test(items_come_line_by_line),
        cmocka_unit_test(a_reader_may_leave),
        cmocka_unit_test(a_stream_may_end_in_a_problem),
        cmocka_unit_test(broken_streams_are_failures),
        cmocka_unit_test(a_stream_by_name_is_an_array),
        cmocka_unit_test(a_stale_connection_is_replaced),
        cmocka_unit_test(no_service_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
