/* Tests streamed answers over a stand-in engine: lines, server-sent events, readers that leave, and slow readers. */
#include "api_fixture.h"

#include <stdlib.h>

#include "api/api_internal.h"

static bool stream_is_open(void *data) {
    return ((struct engine *)data)->open_stream != NULL;
}

static bool stream_is_cancelled(void *data) {
    return ((struct engine *)data)->cancelled > 0;
}

static void follow(struct fixture *fixture, struct client *client, const char *headers) {
    client_open(fixture, client);
    client_send(client, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n%s\r\n", headers);
    fixture_wait(fixture, stream_is_open, &fixture->engine);
}

static void give(struct fixture *fixture, int seq) {
    struct request *request = fixture->engine.open_stream;
    request->item(request, json_pack("{s:i, s:s}", "seq", seq, "kind", "sandbox.created"));
}

static void end(struct fixture *fixture, json_t *result, enum error_code code) {
    struct request *request = fixture->engine.open_stream;
    fixture->engine.open_stream = NULL;
    stand_in_answer(&fixture->engine, request, result, code);
}

static void items_are_lines_and_the_last_line_says_done(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/api/v1/sandboxes/a/logs", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    assert_non_null(strcasestr(response.header, "\r\nContent-Type: application/x-ndjson\r\n"));
    assert_string_equal((const char *)response.body.data,
                        "{\"item\":{\"line\":1}}\n{\"item\":{\"line\":2}}\n{\"item\":{\"line\":3}}\n"
                        "{\"done\":{\"lines\":3}}\n");
    response_free(&response);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&client);
}

static void items_arrive_as_they_come(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    for (int seq = 1; seq <= 3; seq++) {
        char line[64];
        give(fixture, seq);
        snprintf(line, sizeof line, "{\"item\":{\"seq\":%d,", seq);
        assert_true(client_wait_text(&client, line));
    }
    end(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "{\"done\":{}}\n\r\n0\r\n\r\n"));
    client_close(&client);
}

static void a_stream_starts_before_its_first_item(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    assert_true(client_wait_text(&client, "HTTP/1.1 200 OK\r\n"));
    assert_null(strstr(buf_string(&client.in), "item"));
    end(fixture, NULL, E_NODE);
    assert_true(client_wait_text(&client, "{\"problem\":{\"type\":\"urn:sandbox:problem:node_failed\""));
    assert_true(client_wait_text(&client, "\r\n0\r\n\r\n"));
    client_close(&client);
}

static void a_failure_at_once_is_an_ordinary_problem(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "POST", "/api/v1/run", NULL, "{\"source\":\"/a\"}", &response);
    assert_problem(&response, 422, "compile_failed");
    response_free(&response);
    client_ask(&client, "GET", "/api/v1/events?since=-1", NULL, NULL, &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    client_close(&client);
}

static void silence_is_filled_with_empty_lines(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    give(fixture, 1);
    assert_true(client_wait_text(&client, "\r\n1\r\n\n\r\n"));
    end(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "done"));
    client_close(&client);
}

static void browsers_get_server_sent_events(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "Accept: text/event-stream\r\nLast-Event-ID: 41\r\n");
    assert_string_equal(fixture->engine.last_params, "{\"follow\":true,\"since\":41}");
    give(fixture, 42);
    assert_true(client_wait_text(&client, "id: 42\ndata: {\"seq\":42,\"kind\":\"sandbox.created\"}\n\n"));
    assert_non_null(strcasestr(buf_string(&client.in), "\r\nContent-Type: text/event-stream\r\n"));
    end(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "event: done\ndata: {}\n\n"));
    client_close(&client);
}

static void a_reader_who_leaves_cancels(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    give(fixture, 1);
    assert_true(client_wait_text(&client, "item"));
    client_close(&client);
    fixture_wait(fixture, stream_is_cancelled, &fixture->engine);
    assert_int_equal(fixture->engine.cancelled, 1);
}

static void a_reader_who_leaves_before_the_first_item_cancels(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    client_close(&client);
    fixture_wait(fixture, stream_is_cancelled, &fixture->engine);
}

static bool reader_has_left(void *data) {
    return ((struct exchange *)data)->gone;
}

static bool has_no_exchange(void *data) {
    return TAILQ_EMPTY(&((struct api *)data)->exchanges);
}

/* An engine that can't be told to stop gives on. */
static void items_after_the_reader_left_are_dropped(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    struct request *request = fixture->engine.open_stream;
    struct exchange *exchange = request->transport;
    request->cancel = NULL;
    client_close(&client);
    fixture_wait(fixture, reader_has_left, exchange);
    size_t waiting = exchange->stream->out.size;
    for (int i = 0; i < 100; i++) {
        json_t *item = json_pack("{s:i}", "seq", i);
        request->item(request, json_incref(item));
        assert_int_equal(item->refcount, 1);
        json_decref(item);
        assert_true(request->has_room(request));
    }
    assert_int_equal(exchange->stream->out.size, waiting);
    end(fixture, json_object(), E_NONE);
    fixture_wait(fixture, has_no_exchange, fixture->api);
}

/* The kernel's socket buffer takes some hundred kilobytes before ours fills. */
static void a_slow_reader_is_cut_off_and_told(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    char text[1001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 5000 && fixture->engine.open_stream; i++) {
        struct request *request = fixture->engine.open_stream;
        request->item(request, json_pack("{s:s}", "text", text));
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(fixture->engine.cancelled, 1);
    assert_true(client_wait_text(&client, "{\"problem\":{\"type\":\"urn:sandbox:problem:limit_reached\""));
    assert_true(client_wait_text(&client, "\r\n0\r\n\r\n"));
    client_close(&client);
}

/* ---- what is sent only as it is read ---- */

enum { PULLED_ITEMS = 4000 };

static unsigned pulled; /* items so far */

static void pull(struct request *request) {
    char text[1001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    while (pulled < PULLED_ITEMS && request->has_room(request)) {
        char line[1100];
        int size = snprintf(line, sizeof line, "{\"n\":%u,\"text\":\"%s\"}", pulled++, text);
        request->item_text(request, pulled, line, (size_t)size);
    }
}

/* Four times the buffer: a reader that takes its time is asked to, and nothing is cut off. */
static void what_can_wait_waits_for_the_reader(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    struct request *request = fixture->engine.open_stream;
    pulled = 0;
    request->more = pull;
    pull(request);
    unsigned at_once = pulled;
    assert_in_range(at_once, 1, PULLED_ITEMS / 10);
    for (int i = 0; i < 100; i++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_true(pulled < PULLED_ITEMS);
    assert_true(client_wait_text(&client, "{\"n\":3999,"));
    end(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "done"));
    assert_null(strstr(buf_string(&client.in), "problem"));
    client_close(&client);
}

static void one_item_may_be_larger_than_the_buffer(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    follow(fixture, &client, "");
    size_t size = 100000;
    char *text = calloc(1, size + 1);
    memset(text, 'y', size);
    struct request *request = fixture->engine.open_stream;
    request->item(request, json_pack("{s:s}", "text", text));
    free(text);
    assert_true(client_wait_text(&client, "yyy\"}}\n"));
    end(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "done"));
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(items_are_lines_and_the_last_line_says_done, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(items_arrive_as_they_come, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_stream_starts_before_its_first_item, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_failure_at_once_is_an_ordinary_problem, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(silence_is_filled_with_empty_lines, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(browsers_get_server_sent_events, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_reader_who_leaves_cancels, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_reader_who_leaves_before_the_first_item_cancels, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(items_after_the_reader_left_are_dropped, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_is_cut_off_and_told, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(one_item_may_be_larger_than_the_buffer, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_can_wait_waits_for_the_reader, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
