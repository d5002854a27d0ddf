/* Tests HTTP exchanges byte by byte over a stand-in engine: keep-alive, pipelining, bodies, and callers that leave. */
#include "api_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

#include "api/api_internal.h"

static void an_operation_is_run_and_answered(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/api/v1/sandboxes/counter", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response_text(&response, "id"), "counter");
    assert_non_null(strcasestr(response.header, "\r\nContent-Type: application/json\r\n"));
    response_free(&response);
    client_close(&client);
}

static void the_kernel_says_who_asks(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(fixture->engine.last_caller.uid, geteuid());
    assert_int_equal(fixture->engine.last_caller.gid, getegid());
    assert_int_equal(fixture->engine.last_caller.role, geteuid() == 0 ? ROLE_ADMIN : ROLE_OPERATOR);
    assert_true(fixture->engine.last_caller.peer_fd >= 0);
    response_free(&response);
    client_close(&client);
}

static void one_connection_serves_a_thousand_requests(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    for (int i = 0; i < 1000; i++) {
        struct response response;
        client_ask(&client, "GET", "/api/v1/sandboxes/counter", NULL, NULL, &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
    }
    assert_int_equal(fixture->engine.started, 1000);
    assert_false(client.eof);
    client_close(&client);
}

static void pipelined_requests_are_answered_in_order(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    for (int i = 0; i < 20; i++) client_send(&client, "GET /api/v1/sandboxes/s%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
    for (int i = 0; i < 20; i++) {
        struct response response;
        char id[16];
        snprintf(id, sizeof id, "s%d", i);
        client_response(&client, &response);
        assert_string_equal(response_text(&response, "id"), id);
        response_free(&response);
    }
    client_close(&client);
}

static void garbage_after_a_request_ends_only_that_connection(void **state) {
    struct fixture *fixture = *state;
    struct client client, other;
    struct response response;
    client_open(fixture, &client);
    client_open(fixture, &other);
    client_send(&client, "GET /health HTTP/1.1\r\nHost: h\r\n\r\n\x01\x02 what\r\n: :\r\n\r\n");
    client_response(&client, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_wait_eof(&client);
    client_close(&client);
    client_ask(&other, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&other);
}

static void a_request_id_is_echoed_or_made(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/health", "X-Request-Id: mine-1\r\n", NULL, &response);
    assert_non_null(strstr(response.header, "\r\nX-Request-Id: mine-1\r\n"));
    response_free(&response);
    client_ask(&client, "GET", "/health", "X-Request-Id: with space\r\n", NULL, &response);
    assert_non_null(strstr(response.header, "\r\nX-Request-Id: "));
    assert_null(strstr(response.header, "with space"));
    response_free(&response);
    client_close(&client);
}

static void a_body_in_pieces_is_put_together(void **state) {
    struct fixture *fixture = *state;
    static const char body[] = "{\"id\":\"a\",\"source\":\"/srv/a\"}";
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    for (size_t i = 0; i < strlen(body); i++) {
        client_send_bytes(&client, body + i, 1);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    client_response(&client, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response_text(&response, "id"), "a");
    response_free(&response);
    client_close(&client);
}

static void a_body_that_is_announced_too_large_is_not_read(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    client_response(&client, &response);
    assert_problem(&response, 413, "too_large");
    response_free(&response);
    client_close(&client);
}

static void send_chunk(struct client *client, size_t size) {
    char bytes[1024];
    memset(bytes, ' ', sizeof bytes);
    client_send(client, "%zx\r\n", size);
    client_send_bytes(client, bytes, size);
    client_send(client, "\r\n");
}

static void a_chunked_body_is_bounded_too(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    send_chunk(&client, 600);
    send_chunk(&client, 600);
    client_send(&client, "0\r\n\r\n");
    client_response(&client, &response);
    assert_problem(&response, 413, "too_large");
    response_free(&response);
    client_close(&client);
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10; i++) send_chunk(&client, 600);
    client_wait_eof(&client);
    assert_int_equal(fixture->engine.started, 0);
    client_close(&client);
}

struct leaving {
    struct engine *engine;
    unsigned cancelled;
};

static bool was_cancelled(void *data) {
    struct leaving *leaving = data;
    return leaving->engine->cancelled == leaving->cancelled;
}

static bool has_started(void *data) {
    return ((struct engine *)data)->started > 0;
}

static void a_caller_who_leaves_cancels_the_operation(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes/a/eval HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n"
                         "{\"code\":\"1\"}");
    fixture_wait(fixture, has_started, &fixture->engine);
    assert_int_equal(fixture->engine.cancelled, 0);
    client_close(&client);
    fixture_wait(fixture, was_cancelled, &(struct leaving){&fixture->engine, 1});
}

static void a_caller_who_only_stops_sending_still_gets_the_answer(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(client.fd, SHUT_WR);
    fixture_wait(fixture, has_started, &fixture->engine);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:s}", "id", "held"), E_NONE);
    client_response(&client, &response);
    assert_string_equal(response_text(&response, "id"), "held");
    response_free(&response);
    client_close(&client);
}

static bool has_left(void *data) {
    const struct exchange *exchange = TAILQ_FIRST(&((struct api *)data)->exchanges);
    return exchange && exchange->gone && exchange->running;
}

static void a_caller_who_leaves_what_cannot_be_cancelled_does_no_harm(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, has_started, &fixture->engine);
    client_close(&client);
    fixture_wait(fixture, has_left, fixture->api);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_object(), E_NONE);
    client_open(fixture, &client);
    struct response response;
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_operation_is_run_and_answered, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_kernel_says_who_asks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(one_connection_serves_a_thousand_requests, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(pipelined_requests_are_answered_in_order, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(garbage_after_a_request_ends_only_that_connection, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_request_id_is_echoed_or_made, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_body_in_pieces_is_put_together, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_body_that_is_announced_too_large_is_not_read, fixture_setup_small,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_chunked_body_is_bounded_too, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_caller_who_leaves_cancels_the_operation, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_caller_who_only_stops_sending_still_gets_the_answer, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_caller_who_leaves_what_cannot_be_cancelled_does_no_harm, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
