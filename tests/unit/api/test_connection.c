/* Tests the bounds of connections against slow and silent clients: their timeouts, and how many connections there may
   be. */
#include "api_fixture.h"

#include <unistd.h>

#include "loop/loop.h"

static struct loop_watch *watch;

/* As in the service, whose deadlines are by the time in which it listened. */
static int setup_watched(void **state) {
    int result = fixture_setup_small(state);
    struct fixture *fixture = *state;
    assert_int_equal(loop_watch_open(&fixture->loop, &watch, NULL), 0);
    return result;
}

static int teardown_watched(void **state) {
    struct fixture *fixture = *state;
    if (fixture->api) fixture_close_api(fixture);
    loop_watch_close(watch);
    return fixture_teardown(state);
}

static void a_silent_connection_is_ended(void **state) {
    struct client client;
    client_open(*state, &client);
    client_wait_eof(&client);
    assert_int_equal(client.in.size, 0);
    client_close(&client);
}

/* It would keep one of the few places of those that are told why. */
static void a_refused_connection_that_is_silent_is_ended(void **state) {
    struct fixture *fixture = *state;
    struct client served[2], refused;
    struct response response;
    for (size_t i = 0; i < ARRAY_SIZE(served); i++) {
        client_open(fixture, &served[i]);
        client_send(&served[i], "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    fixture_turn(fixture, -1);
    client_open(fixture, &refused);
    client_wait_eof(&refused);
    assert_int_equal(refused.in.size, 0);
    client_close(&refused);
    client_open(fixture, &refused);
    client_ask(&refused, "GET", "/health", NULL, NULL, &response);
    assert_problem(&response, 503, "limit_reached");
    response_free(&response);
    client_close(&refused);
    for (size_t i = 0; i < ARRAY_SIZE(served); i++) client_close(&served[i]);
}

static void a_header_that_never_ends_is_ended(void **state) {
    struct client client;
    client_open(*state, &client);
    client_send(&client, "GET /health HTTP/1.1\r\nHo");
    client_wait_eof(&client);
    client_close(&client);
}

/* Bytes keep coming, one per turn of the loop, and still the time is over. */
static void a_body_that_trickles_is_ended(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n");
    uint64_t started_ms = clock_monotonic_ms();
    while (!client.eof) {
        client_send(&client, " ");
        char byte;
        fixture_turn(fixture, client.fd);
        if (read(client.fd, &byte, 1) == 0) client.eof = true;
        assert_true(clock_monotonic_ms() - started_ms < 10000);
    }
    assert_int_equal(fixture->engine.started, 0);
    client_close(&client);
}

static bool has_started(void *data) {
    return ((struct engine *)data)->started > 0;
}

static bool is_late(void *data) {
    return clock_monotonic_ms() > *(uint64_t *)data;
}

static void an_operation_may_take_longer_than_any_timeout(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, has_started, &fixture->engine);
    uint64_t until_ms = clock_monotonic_ms() + 2 * fixture->config.idle_timeout_ms;
    fixture_wait(fixture, is_late, &until_ms);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_object(), E_NONE);
    client_response(&client, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_wait_eof(&client);
    client_close(&client);
}

static void too_many_connections_are_told_so(void **state) {
    struct fixture *fixture = *state;
    struct client clients[3];
    struct response response;
    for (int i = 0; i < 3; i++) client_open(fixture, &clients[i]);
    client_ask(&clients[2], "GET", "/health", NULL, NULL, &response);
    assert_problem(&response, 503, "limit_reached");
    assert_non_null(strcasestr(response.header, "\r\nConnection: close\r\n"));
    response_free(&response);
    client_wait_eof(&clients[2]);
    client_ask(&clients[0], "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&clients[0]);
    client_close(&clients[2]);
    fixture_turn(fixture, -1);
    client_open(fixture, &clients[0]);
    client_ask(&clients[0], "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&clients[0]);
    client_close(&clients[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_silent_connection_is_ended, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_refused_connection_that_is_silent_is_ended, setup_watched, teardown_watched),
        cmocka_unit_test_setup_teardown(a_header_that_never_ends_is_ended, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_body_that_trickles_is_ended, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_operation_may_take_longer_than_any_timeout, fixture_setup_small,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(too_many_connections_are_told_so, fixture_setup_small, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
