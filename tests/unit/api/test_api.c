/* Tests how the api closes: idle connections end, running requests finish or are cancelled, and new ones are refused.
 */
#include "api_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has_started(void *data) {
    return ((struct engine *)data)->started > 0;
}

static void on_closed(void *data) {
    *(bool *)data = true;
}

static bool is_set(void *data) {
    return *(bool *)data;
}

static void closing_with_nobody_there_is_quick(void **state) {
    struct fixture *fixture = *state;
    uint64_t started_ms = clock_monotonic_ms();
    fixture_close_api(fixture);
    assert_true(clock_monotonic_ms() - started_ms < 1000);
}

static void closing_ends_idle_connections(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    response_free(&response);
    fixture_close_api(fixture);
    client_wait_eof(&client);
    client_close(&client);
}

static void closing_lets_a_running_request_finish(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, has_started, &fixture->engine);
    api_close(fixture->api, on_closed, &fixture->closed);
    fixture->api = NULL;
    for (int i = 0; i < 3; i++) fixture_turn(fixture, -1);
    assert_false(fixture->closed);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:s}", "id", "held"), E_NONE);
    client_response(&client, &response);
    assert_string_equal(response_text(&response, "id"), "held");
    assert_non_null(strcasestr(response.header, "\r\nConnection: close\r\n"));
    response_free(&response);
    fixture_wait(fixture, is_set, &fixture->closed);
    client_close(&client);
}

static void closing_cancels_what_can_be_cancelled(void **state) {
    struct fixture *fixture = *state;
    struct client eval, events;
    struct response response;
    client_open(fixture, &eval);
    client_open(fixture, &events);
    client_send(&eval,
                "POST /api/v1/sandboxes/a/eval HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n{\"code\":\"1\"}");
    fixture_wait(fixture, has_started, &fixture->engine);
    client_send(&events, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(client_wait_text(&events, "200 OK"));
    fixture_close_api(fixture);
    assert_int_equal(fixture->engine.cancelled, 2);
    client_response(&eval, &response);
    assert_problem(&response, 504, "timeout");
    response_free(&response);
    assert_true(client_wait_text(&events, "{\"problem\":"));
    client_close(&eval);
    client_close(&events);
}

static void a_request_during_closing_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct client held, late;
    struct response response;
    client_open(fixture, &held);
    client_open(fixture, &late);
    client_ask(&late, "GET", "/health", NULL, NULL, &response);
    response_free(&response);
    fixture->engine.started = 0;
    client_send(&held, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, has_started, &fixture->engine);
    api_close(fixture->api, on_closed, &fixture->closed);
    fixture->api = NULL;
    client_ask(&late, "GET", "/health", NULL, NULL, &response);
    assert_problem(&response, 503, "shutting_down");
    response_free(&response);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_object(), E_NONE);
    fixture_wait(fixture, is_set, &fixture->closed);
    client_close(&held);
    client_close(&late);
}

static void a_socket_that_does_not_listen_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct api_config config = fixture->config;
    struct api *api = NULL;
    struct error error = {0};
    config.listen_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(api_open(&fixture->loop, &fixture->engine, &config, &api, &error) < 0);
    assert_null(api);
    assert_int_equal(error.code, E_SYSTEM);
    assert_int_equal(fcntl(config.listen_fd, F_GETFD), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(closing_with_nobody_there_is_quick, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_ends_idle_connections, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_lets_a_running_request_finish, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_cancels_what_can_be_cancelled, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_request_during_closing_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_socket_that_does_not_listen_is_refused, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
