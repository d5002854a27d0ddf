/* Long requests and answers: they are read and printed on threads, so no turn of the loop is long because of them. */
#include "api_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "ops/direct.h"

enum {
    KEYS = 150000,       /* of a body: they take a tenth of a second to read */
    VALUES = 300000,     /* of an answer: likewise to print */
    TURN_MAX_US = 25000, /* a fifth of either, and enough for a build with sanitizers */
    CONNECTIONS = 50,
    BURN_US = 2000,
};

static struct loop_watch *watch;

static int setup(void **state) {
    int result = fixture_setup(state);
    struct fixture *fixture = *state;
    assert_int_equal(loop_watch_open(&fixture->loop, &watch, NULL), 0);
    return result;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    if (fixture->api) fixture_close_api(fixture);
    loop_watch_close(watch);
    return fixture_teardown(state);
}

static void assert_turns_short(struct fixture *fixture) {
    const struct loop_report *report = loop_report(&fixture->loop);
    if (report->worst_count > 0 && report->worst[0].cpu_us > TURN_MAX_US)
        fail_msg("a turn took %llu us: %s %s", (unsigned long long)report->worst[0].cpu_us, report->worst[0].work,
                 report->worst[0].detail);
}

/* The test works on the loop's own thread: what it did itself so far is no turn of the service's. */
static void forget_own_work(struct fixture *fixture) {
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    *(struct loop_report *)(uintptr_t)loop_report(&fixture->loop) = (struct loop_report){0};
}

static void put_keys(struct buf *body) {
    buf_append_string(body, "{\"k\":0");
    for (int i = 0; i < KEYS; i++) buf_printf(body, ",\"k%d\":0", i);
    buf_append_string(body, "}");
}

/* ---- HTTP ---- */

static void a_long_body_is_read_beside_the_loop(void **state) {
    struct fixture *fixture = *state;
    struct client client, other;
    struct response response;
    struct buf body = BUF_INIT;
    put_keys(&body);
    client_open(fixture, &client);
    client_open(fixture, &other);
    forget_own_work(fixture);
    client_send(&client, "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                body.size);
    client_send_bytes(&client, body.data, body.size);
    client_ask(&other, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_response(&client, &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    assert_turns_short(fixture);
    client_close(&client);
    client_close(&other);
    buf_free(&body);
}

static void a_long_body_that_is_right_runs(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    struct buf body = BUF_INIT;
    buf_append_string(&body, "{\"id\":\"a\",\"source\":\"/srv/a\",\"env\":{\"LONG\":\"");
    for (int i = 0; i < 30000; i++) buf_append_byte(&body, 'x');
    buf_append_string(&body, "\"}}");
    client_open(fixture, &client);
    client_ask(&client, "POST", "/api/v1/sandboxes", "Idempotency-Key: k\r\n", buf_string(&body), &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_ask(&client, "POST", "/api/v1/sandboxes", "Idempotency-Key: k\r\n", buf_string(&body), &response);
    assert_int_equal(response.status, 200);
    assert_int_equal(fixture->engine.created, 1);
    response_free(&response);
    client_close(&client);
    buf_free(&body);
}

static void a_caller_may_leave_while_its_body_is_read(void **state) {
    struct fixture *fixture = *state;
    struct client client, other;
    struct response response;
    struct buf body = BUF_INIT;
    put_keys(&body);
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                body.size);
    client_send_bytes(&client, body.data, body.size);
    client_close(&client);
    client_open(fixture, &other);
    client_ask(&other, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&other);
    buf_free(&body);
}

/* Freeing megabytes takes a good part of a millisecond, and many callers may leave at once. */
static void a_long_body_is_freed_beside_the_loop(void **state) {
    enum { SENT = 1 << 20, ANNOUNCED = 4 << 20 };
    struct fixture *fixture = *state;
    struct client client;
    CLEANUP_FREE char *bytes = calloc(1, SENT);
    memset(bytes, ' ', SENT);
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
                ANNOUNCED);
    client_send_bytes(&client, bytes, SENT);
    client_close(&client);
    while (TAILQ_EMPTY(&fixture->api->exchanges)) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    while (!TAILQ_EMPTY(&fixture->api->exchanges)) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(fixture->api->freeing_count, 1);
}

static void each_operation_has_a_bound_of_its_own(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes/a/freeze HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    client_response(&client, &response);
    assert_problem(&response, 413, "too_large");
    response_free(&response);
    client_close(&client);
}

/* Announced is reserved: 64 MiB in all, and no quota binds this test. */
static void bodies_share_a_bounded_memory(void **state) {
    enum { FITTING = 16 };
    struct fixture *fixture = *state;
    struct client clients[FITTING + 1];
    struct response response;
    for (size_t i = 0; i <= FITTING; i++) {
        client_open(fixture, &clients[i]);
        client_send(&clients[i], "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
                    4 << 20);
        if (i < FITTING) client_send(&clients[i], "{");
        for (int turn = 0; turn < 3; turn++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    client_response(&clients[FITTING], &response);
    assert_problem(&response, 429, "limit_reached");
    response_free(&response);
    for (size_t i = 0; i <= FITTING; i++) client_close(&clients[i]);
}

/* libmicrohttpd reads chunks then, whatever length was told before. Since 1.0 it refuses the request. */
static void a_told_length_counts_for_nothing_beside_chunks(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n");
    for (int turn = 0; turn < 3; turn++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    const struct exchange *exchange = TAILQ_FIRST(&fixture->api->exchanges);
    if (exchange) {
        assert_int_equal(exchange->reserved_bytes, exchange->body_max_bytes);
    } else {
        client_response(&client, &response);
        assert_int_equal(response.status, 400);
        response_free(&response);
    }
    client_close(&client);
}

static json_t *many_values(void) {
    json_t *list = json_array();
    for (int i = 0; i < VALUES; i++) json_array_append_new(list, json_integer(i));
    return json_pack("{s:o}", "result", list);
}

static bool is_held(void *data) {
    return ((struct engine *)data)->last != NULL;
}

static void a_long_answer_is_printed_beside_the_loop(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    json_t *values = many_values();
    client_open(fixture, &client);
    forget_own_work(fixture);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, is_held, &fixture->engine);
    stand_in_answer(&fixture->engine, fixture->engine.last, values, E_NONE);
    client_response(&client, &response);
    assert_int_equal(response.status, 200);
    assert_int_equal(json_array_size(json_object_get(response.json, "result")), VALUES);
    assert_turns_short(fixture);
    response_free(&response);
    client_close(&client);
}

static json_t *long_text(size_t size) {
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'a', size);
    json_t *value = json_pack("{s:s%}", "result", text, size);
    free(text);
    return value;
}

static void ask_held(struct fixture *fixture, struct client *client, size_t size) {
    fixture->engine.last = NULL;
    client_open(fixture, client);
    client_send(client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, is_held, &fixture->engine);
    stand_in_answer(&fixture->engine, fixture->engine.last, long_text(size), E_NONE);
}

static void an_answer_that_is_too_long_is_a_problem(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    ask_held(fixture, &client, 33 << 20);
    client_response(&client, &response);
    assert_problem(&response, 413, "too_large");
    response_free(&response);
    client_close(&client);
}

/* 256 MiB in all: of those who don't read them, the ninth gets none. What it asked for has been done. The first is
   counted as seven, since printing takes long. */
static void answers_share_a_bounded_memory(void **state) {
    enum { SIZE = 31 << 20, PRETENDED = 6, FITTING = 2 };
    struct fixture *fixture = *state;
    struct client clients[FITTING + 1];
    struct response response;
    for (size_t i = 0; i <= FITTING; i++) {
        ask_held(fixture, &clients[i], SIZE);
        if (i < FITTING) assert_true(client_wait_text(&clients[i], "200 OK"));
        if (i == 0) TAILQ_FIRST(&fixture->api->exchanges)->answer->size += (size_t)PRETENDED * SIZE;
    }
    client_response(&clients[FITTING], &response);
    assert_problem(&response, 413, "answer_discarded");
    assert_true(json_is_false(json_object_get(response.json, "retry")));
    response_free(&response);
    forget_own_work(fixture);
    for (size_t i = 0; i <= FITTING; i++) client_close(&clients[i]);
    ask_held(fixture, &clients[0], 1 << 20); /* there is room again */
    client_response(&clients[0], &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&clients[0]);
}

/* 20 in all: values that wait to be printed take much more memory than their text. */
static void few_long_answers_wait_to_be_printed(void **state) {
    enum { FITTING = 20 };
    struct fixture *fixture = *state;
    struct client clients[FITTING + 1];
    struct request *requests[FITTING + 1];
    struct response response;
    for (size_t i = 0; i <= FITTING; i++) {
        fixture->engine.last = NULL;
        client_open(fixture, &clients[i]);
        client_send(&clients[i], "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
        fixture_wait(fixture, is_held, &fixture->engine);
        requests[i] = fixture->engine.last;
    }
    for (size_t i = 0; i <= FITTING; i++) stand_in_answer(&fixture->engine, requests[i], long_text(256 << 10), E_NONE);
    for (size_t i = 0; i <= FITTING; i++) {
        client_response(&clients[i], &response);
        if (i < FITTING)
            assert_int_equal(response.status, 200);
        else
            assert_problem(&response, 413, "answer_discarded");
        response_free(&response);
        client_close(&clients[i]);
    }
}

static void closing_waits_for_what_is_printed(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/sandboxes/held HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, is_held, &fixture->engine);
    stand_in_answer(&fixture->engine, fixture->engine.last, many_values(), E_NONE);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    fixture_begin_closing_api(fixture);
    assert_true(client_wait_text(&client, "200 OK"));
    client_close(&client);
    fixture_end_closing_api(fixture);
}

struct blocked {
    struct loop_work work;
    uv_sem_t sem;
    bool is_done;
};

static void block(struct loop_work *work) {
    uv_sem_wait(&((struct blocked *)work)->sem);
}

static void on_unblocked(struct loop_work *work) {
    ((struct blocked *)work)->is_done = true;
}

static bool is_done(void *data) {
    return ((struct blocked *)data)->is_done;
}

static bool has_passed(void *data) {
    return clock_monotonic_ms() > *(uint64_t *)data;
}

/* A stream starts after a while without an item. One that has failed before is answered, however late. */
static void a_stream_that_failed_does_not_start_while_its_answer_is_printed(void **state) {
    enum { START_MS = 100 };
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    struct blocked blocked = {.work = {.run = block, .done = on_unblocked}};
    uv_sem_init(&blocked.sem, 0);
    loop_work_submit(&fixture->api->workers, getuid(), &blocked.work);
    client_open(fixture, &client);
    client_send(&client, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    json_t *values = many_values();
    while (!fixture->engine.open_stream) uv_run(&fixture->loop, UV_RUN_NOWAIT); /* without waiting for its start */
    stand_in_answer(&fixture->engine, fixture->engine.open_stream, values, E_COMPILE);
    fixture->engine.open_stream = NULL;
    uint64_t started_ms = clock_monotonic_ms() + START_MS + START_MS / 2;
    fixture_wait(fixture, has_passed, &started_ms);
    uv_sem_post(&blocked.sem);
    fixture_wait(fixture, is_done, &blocked);
    client_response(&client, &response);
    assert_problem(&response, 422, "compile_failed");
    response_free(&response);
    client_close(&client);
    uv_sem_destroy(&blocked.sem);
}

/* ---- streams ---- */

static bool has_stream(void *data) {
    return ((struct engine *)data)->open_stream != NULL;
}

static struct request *follow(struct fixture *fixture, struct client *client) {
    client_open(fixture, client);
    client_send(client, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, has_stream, &fixture->engine);
    assert_true(client_wait_text(client, "\r\n\r\n")); /* it has started */
    return fixture->engine.open_stream;
}

static void end_stream(struct fixture *fixture, json_t *result, enum error_code code) {
    struct request *request = fixture->engine.open_stream;
    fixture->engine.open_stream = NULL;
    stand_in_answer(&fixture->engine, request, result, code);
}

static void the_long_end_of_a_stream_is_printed_beside_the_loop(void **state) {
    struct fixture *fixture = *state;
    const enum error_code codes[] = {E_NONE, E_RUNTIME};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        struct client client;
        json_t *values = many_values();
        follow(fixture, &client);
        forget_own_work(fixture);
        end_stream(fixture, values, codes[i]);
        assert_true(client_wait_text(&client, i == 0 ? "{\"done\":{\"result\":[0,1," : "{\"problem\":{"));
        assert_true(client_wait_text(&client, "\r\n0\r\n\r\n"));
        assert_turns_short(fixture);
        client_close(&client);
    }
}

/* What comes behind a long item waits for it, and there is no room meanwhile. */
static void a_long_item_is_printed_there_too(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    json_t *values = many_values();
    struct request *request = follow(fixture, &client);
    forget_own_work(fixture);
    request->item(request, values);
    assert_false(request->has_room(request));
    request->item(request, json_pack("{s:i}", "seq", 77));
    request->item_text(request, 78, "{\"seq\":78}", strlen("{\"seq\":78}"));
    assert_true(client_wait_text(&client, "{\"item\":{\"result\":[0,1,"));
    assert_true(client_wait_text(&client, "299999]}}\n"));
    assert_true(client_wait_text(&client, "{\"item\":{\"seq\":77}}\n{\"item\":{\"seq\":78}}\n"));
    assert_true(request->has_room(request));
    assert_turns_short(fixture);
    end_stream(fixture, json_object(), E_NONE);
    assert_true(client_wait_text(&client, "{\"done\":{}}\n"));
    client_close(&client);
}

static void a_reader_may_leave_while_a_line_is_printed(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    for (int ends = 0; ends <= 1; ends++) {
        struct request *request = follow(fixture, &client);
        request->item(request, many_values());
        request->item(request, many_values());
        if (ends) end_stream(fixture, many_values(), E_NONE);
        client_close(&client);
        while (!TAILQ_EMPTY(&fixture->api->exchanges)) uv_run(&fixture->loop, UV_RUN_NOWAIT);
        fixture->engine.open_stream = NULL;
    }
}

static void a_line_that_is_too_long_is_left_out(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct request *request = follow(fixture, &client);
    request->item(request, long_text(33 << 20));
    assert_true(client_wait_text(&client, "{\"item\":{\"skipped\":1}}\n"));
    end_stream(fixture, long_text(33 << 20), E_NONE);
    assert_true(client_wait_text(&client, "urn:sandbox:problem:too_large"));
    assert_true(client_wait_text(&client, "\r\n0\r\n\r\n"));
    client_close(&client);
}

/* Of those who don't read, as with answers. */
static void long_lines_share_the_memory_of_answers(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct request *request = follow(fixture, &client);
    struct exchange *exchange = request->transport;
    request->item(request, long_text(1 << 20));
    while (exchange->stream->long_bytes == 0) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    exchange->stream->long_bytes += (size_t)256 << 20;
    end_stream(fixture, long_text(1 << 20), E_NONE);
    while (!exchange->stream->ended || exchange->prints) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_true(client_wait_text(&client, "urn:sandbox:problem:answer_discarded"));
    client_close(&client);
}

static void a_reader_with_too_many_lines_behind_a_long_one_is_cut_off(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct request *request = follow(fixture, &client);
    request->item(request, many_values());
    for (int i = 0; i <= STREAM_LINES_MAX; i++) request->item(request, json_pack("{s:i}", "seq", i));
    assert_int_equal(fixture->engine.cancelled, 1);
    assert_true(client_wait_text(&client, "urn:sandbox:problem:limit_reached"));
    assert_true(client_wait_text(&client, "\r\n0\r\n\r\n"));
    client_close(&client);
}

/* ---- many callers at once ---- */

static void many_requests_are_shared_out_over_turns(void **state) {
    struct fixture *fixture = *state;
    struct client clients[CONNECTIONS];
    fixture->engine.burn_us = BURN_US;
    for (size_t i = 0; i < CONNECTIONS; i++) client_open(fixture, &clients[i]);
    for (int turn = 0; turn < 3; turn++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < CONNECTIONS; i++)
        client_send(&clients[i], "GET /api/v1/sandboxes/a HTTP/1.1\r\nHost: h\r\n\r\n");
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct response response;
        client_response(&clients[i], &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
        client_close(&clients[i]);
    }
    assert_int_equal(fixture->engine.started, CONNECTIONS);
    assert_turns_short(fixture);
}

/* ---- direct calls ---- */

static void open_direct(struct fixture *fixture, struct client *ret) {
    client_open(fixture, ret);
    client_send(ret, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", DIRECT_PATH,
                DIRECT_PROTOCOL);
    assert_true(client_wait_text(ret, "\r\n\r\n"));
    buf_clear(&ret->in);
}

static void ask_direct(struct client *client, const char *op, const struct buf *params) {
    struct buf frame = BUF_INIT;
    size_t length = strlen(op);
    buf_append_u32(&frame, (uint32_t)(2 + 1 + length + params->size));
    buf_append_u16(&frame, DIRECT_PROCESSOR_UNKNOWN);
    buf_append_byte(&frame, (uint8_t)length);
    buf_append(&frame, op, length);
    buf_append(&frame, params->data, params->size);
    client_send_bytes(client, frame.data, frame.size);
    buf_free(&frame);
}

static unsigned hear_direct(struct client *client, json_t **ret) {
    const char *body;
    size_t body_size, size = 0;
    unsigned status = 0;
    client_read(client, DIRECT_SIZE_BYTES);
    direct_is_whole(client->in.data, client->in.size, &size);
    client_read(client, size);
    assert_int_equal(direct_read_answer(client->in.data, size, &status, &body, &body_size, NULL), 0);
    *ret = json_loadb(body, body_size, 0, NULL);
    buf_clear(&client->in);
    return status;
}

static void direct_calls_are_read_and_printed_there_too(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct buf params = BUF_INIT;
    json_t *answer;
    open_direct(fixture, &client);
    put_keys(&params);
    forget_own_work(fixture);
    ask_direct(&client, "eval", &params);
    assert_int_equal(hear_direct(&client, &answer), 400);
    json_decref(answer);
    assert_turns_short(fixture);
    buf_clear(&params);
    buf_append_string(&params, "{\"id\":\"held\"}");
    json_t *values = many_values();
    forget_own_work(fixture);
    ask_direct(&client, "info", &params);
    fixture_wait(fixture, is_held, &fixture->engine);
    stand_in_answer(&fixture->engine, fixture->engine.last, values, E_NONE);
    assert_int_equal(hear_direct(&client, &answer), 200);
    assert_int_equal(json_array_size(json_object_get(answer, "result")), VALUES);
    json_decref(answer);
    assert_turns_short(fixture);
    client_close(&client);
    buf_free(&params);
}

static void a_direct_caller_may_leave_or_talk_meanwhile(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct buf params = BUF_INIT;
    put_keys(&params);
    open_direct(fixture, &client);
    ask_direct(&client, "eval", &params);
    client_close(&client);
    open_direct(fixture, &client);
    ask_direct(&client, "eval", &params);
    client_send(&client, "more");
    client_wait_eof(&client);
    client_close(&client);
    buf_free(&params);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_body_is_read_beside_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_body_that_is_right_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_caller_may_leave_while_its_body_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_body_is_freed_beside_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(each_operation_has_a_bound_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_share_a_bounded_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_told_length_counts_for_nothing_beside_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_answer_is_printed_beside_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_too_long_is_a_problem, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_share_a_bounded_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(few_long_answers_wait_to_be_printed, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_waits_for_what_is_printed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_failed_does_not_start_while_its_answer_is_printed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_long_end_of_a_stream_is_printed_beside_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_item_is_printed_there_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_may_leave_while_a_line_is_printed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(long_lines_share_the_memory_of_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_with_too_many_lines_behind_a_long_one_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(many_requests_are_shared_out_over_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(direct_calls_are_read_and_printed_there_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_direct_caller_may_leave_or_talk_meanwhile, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
