/* Direct calls: frames over a connection that was upgraded. */
#include "api_fixture.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "ops/direct.h"

struct told {
    unsigned status;
    json_t *json;
};

static void told_free(struct told *told) {
    json_decref(told->json);
}

static const char upgrade[] =
    "GET " DIRECT_PATH " HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: " DIRECT_PROTOCOL "\r\n\r\n";

static void open_direct(struct fixture *fixture, struct client *ret) {
    client_open(fixture, ret);
    client_send_bytes(ret, upgrade, sizeof upgrade - 1);
    assert_true(client_wait_text(ret, "\r\n\r\n"));
    assert_non_null(strstr(buf_string(&ret->in), "HTTP/1.1 101 "));
    buf_clear(&ret->in);
}

static void ask_from(unsigned processor, struct client *client, const char *op, const char *params) {
    json_t *value = json_loads(params, 0, NULL);
    struct buf frame = BUF_INIT;
    assert_non_null(value);
    direct_put_question(&frame, &(struct direct_question){ops_find(op), value, processor});
    client_send_bytes(client, frame.data, frame.size);
    buf_free(&frame);
    json_decref(value);
}

static void ask(struct client *client, const char *op, const char *params) {
    ask_from(DIRECT_PROCESSOR_UNKNOWN, client, op, params);
}

static void hear(struct client *client, struct told *ret) {
    const char *body;
    size_t body_size, size = 0;
    client_read(client, DIRECT_SIZE_BYTES);
    direct_is_whole(client->in.data, client->in.size, &size);
    assert_true(size > 0);
    client_read(client, size);
    assert_int_equal(client->in.size, size);
    assert_int_equal(direct_read_answer(client->in.data, size, &ret->status, &body, &body_size, NULL), 0);
    ret->json = json_loadb(body, body_size, 0, NULL);
    assert_non_null(ret->json);
    buf_clear(&client->in);
}

static void assert_told(struct client *client, unsigned status, const char *member, const char *value) {
    struct told told;
    hear(client, &told);
    assert_int_equal(told.status, status);
    assert_string_equal(json_string_value(json_object_get(told.json, member)), value);
    told_free(&told);
}

static bool is_started(void *data) {
    const struct fixture *fixture = data;
    return fixture->engine.last != NULL;
}

static bool is_cancelled(void *data) {
    const struct fixture *fixture = data;
    return fixture->engine.cancelled > 0;
}

static void each_question_gets_its_answer(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    for (int i = 0; i < 100; i++) {
        ask(&client, "info", "{\"id\": \"counter\"}");
        assert_told(&client, 200, "id", "counter");
    }
    assert_int_equal(fixture->engine.started, 100);
    assert_int_equal(fixture->engine.last_caller.uid, geteuid());
    assert_true(fixture->engine.last_caller.peer_fd >= 0);
    client_close(&client);
}

static void an_error_is_a_problem_and_the_connection_goes_on(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    ask(&client, "info", "{\"id\": \"missing\"}");
    assert_told(&client, 404, "code", "not_found");
    ask(&client, "info", "{\"id\": \"missing\", \"what\": 1}");
    assert_told(&client, 400, "code", "invalid_input");
    ask(&client, "info", "[]");
    assert_told(&client, 400, "code", "invalid_input");
    ask(&client, "info", "{\"id\": \"counter\"}");
    assert_told(&client, 200, "id", "counter");
    client_close(&client);
}

/* Sanitizers count leaks themselves and tell nothing here. */
static size_t allocated_bytes(void) {
    return mallinfo2().uordblks;
}

static void questions_that_are_refused_leave_nothing_behind(void **state) {
    enum { QUESTIONS = 1000, LEFT_MAX_BYTES = 64 << 10 };
    struct fixture *fixture = *state;
    struct client client;
    size_t before = 0;
    open_direct(fixture, &client);
    for (int i = 0; i < QUESTIONS; i++) {
        ask(&client, "info", "[]");
        assert_told(&client, 400, "code", "invalid_input");
        if (i == 0) before = allocated_bytes();
    }
    assert_true(allocated_bytes() < before + LEFT_MAX_BYTES);
    client_close(&client);
}

/* No more is reserved for a question than for as long as it is read, whatever is answered. */
static void a_long_question_for_nothing_reserves_nothing_afterwards(void **state) {
    enum { LONG_BYTES = 100000 };
    struct fixture *fixture = *state;
    struct client client;
    struct buf frame = BUF_INIT;
    open_direct(fixture, &client);
    buf_append_u32(&frame, 2 + 1 + 1 + LONG_BYTES);
    buf_append_u16(&frame, DIRECT_PROCESSOR_UNKNOWN);
    buf_append_byte(&frame, 1);
    for (int i = 0; i <= LONG_BYTES; i++) buf_append_byte(&frame, 'x');
    client_send_bytes(&client, frame.data, frame.size);
    assert_told(&client, 404, "code", "not_found");
    assert_int_equal(direct_reserved_bytes(fixture->api, NULL), 0);
    client_close(&client);
    buf_free(&frame);
}

static void what_has_pages_or_pieces_is_not_there(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    ask(&client, "list", "{}");
    assert_told(&client, 404, "code", "not_found");
    ask(&client, "events", "{}");
    assert_told(&client, 404, "code", "not_found");
    assert_int_equal(fixture->engine.started, 0);
    client_close(&client);
}

static void a_question_may_come_byte_by_byte(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    json_t *params = json_pack("{s:s}", "id", "counter");
    struct buf frame = BUF_INIT;
    open_direct(fixture, &client);
    direct_put_question(&frame, &(struct direct_question){ops_find("info"), params, 0});
    for (size_t i = 0; i < frame.size; i++) {
        client_send_bytes(&client, frame.data + i, 1);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_told(&client, 200, "id", "counter");
    buf_free(&frame);
    json_decref(params);
    client_close(&client);
}

/* The service is this very thread. Wherever it is asked from again and again it is found, now or after a few more. */
static void the_service_comes_to_who_asks_again_and_again(void **state) {
    enum { QUESTIONS_MAX = 10000 };
    struct fixture *fixture = *state;
    struct client client;
    cpu_set_t allowed, still_allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    open_direct(fixture, &client);
    for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
        if (!CPU_ISSET(processor, &allowed)) continue;
        unsigned asked = 0, found = 0;
        while (found < BACK_TO_BACK_LEAST && asked++ < QUESTIONS_MAX) {
            fixture->api->affinity.not_before_ms = 0; /* a busy machine may have had it wait */
            ask_from(processor, &client, "info", "{\"id\": \"counter\"}");
            assert_told(&client, 200, "id", "counter");
            found += affinity_own() == processor;
        }
        assert_int_equal(found, BACK_TO_BACK_LEAST);
    }
    assert_int_equal(sched_getaffinity(0, sizeof still_allowed, &still_allowed), 0);
    assert_true(CPU_EQUAL(&allowed, &still_allowed));
    client_close(&client);
}

static void a_large_answer_waits_for_its_reader(void **state) {
    enum { LARGE_BYTES = 3 << 20 };
    struct fixture *fixture = *state;
    struct client client;
    struct told told;
    char *text = malloc(LARGE_BYTES + 1);
    memset(text, 'x', LARGE_BYTES);
    text[LARGE_BYTES] = '\0';
    open_direct(fixture, &client);
    ask(&client, "eval", "{\"id\": \"counter\", \"code\": \"1\"}");
    fixture_wait(fixture, is_started, fixture);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:s}", "text", text), E_NONE);
    hear(&client, &told);
    assert_int_equal(json_string_length(json_object_get(told.json, "text")), LARGE_BYTES);
    told_free(&told);
    free(text);
    ask(&client, "info", "{\"id\": \"counter\"}");
    assert_told(&client, 200, "id", "counter");
    client_close(&client);
}

/* Also to a socket that holds more. */
static void a_large_answer_is_sent_over_several_turns(void **state) {
    enum { TURN_BYTES = 128 << 10, TEXT_BYTES = 10000, TEXTS = 50 };
    struct fixture *fixture = *state;
    struct client client;
    struct told told;
    json_t *list = json_array();
    int waiting = 0;
    CLEANUP_FREE char *text = calloc(1, TEXT_BYTES + 1);
    memset(text, 'x', TEXT_BYTES);
    for (int i = 0; i < TEXTS; i++) json_array_append_new(list, json_string(text));
    open_direct(fixture, &client);
    ask(&client, "eval", "{\"id\": \"counter\", \"code\": \"1\"}");
    fixture_wait(fixture, is_started, fixture);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:o}", "list", list), E_NONE);
    while (waiting == 0) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
        assert_int_equal(ioctl(client.fd, FIONREAD, &waiting), 0);
    }
    assert_in_range(waiting, 1, TURN_BYTES);
    hear(&client, &told);
    assert_int_equal(json_array_size(json_object_get(told.json, "list")), TEXTS);
    told_free(&told);
    ask(&client, "info", "{\"id\": \"counter\"}");
    assert_told(&client, 200, "id", "counter");
    client_close(&client);
}

static void whoever_leaves_calls_off_what_runs(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    ask(&client, "eval", "{\"id\": \"counter\", \"code\": \"1\"}");
    fixture_wait(fixture, is_started, fixture);
    client_close(&client);
    fixture_wait(fixture, is_cancelled, fixture);
}

static void a_second_question_before_the_answer_ends_the_connection(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    ask(&client, "eval", "{\"id\": \"counter\", \"code\": \"1\"}");
    fixture_wait(fixture, is_started, fixture);
    ask(&client, "info", "{\"id\": \"counter\"}");
    client_wait_eof(&client);
    assert_int_equal(fixture->engine.started, 1);
    assert_int_equal(fixture->engine.cancelled, 1);
    client_close(&client);
}

static void what_is_no_question_ends_the_connection(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"\0\0\0\0", 4},                                    /* nothing */
        {"\0\0\0\1\0", 5},                                  /* half a processor */
        {"\0\0\0\2\0\0", 6},                                /* no name */
        {"\0\0\0\3\0\0\0", 7},                              /* an empty one */
        {"\0\0\0\5\0\0\5in", 9},                            /* less of it than announced */
        {"\0\0\0\6\0\0\3i\0o", 10},                         /* a name with an end inside */
        {"\0\0\0\11\0\0\4info{}\0\0\0\11\0\0\4info{}", 26}, /* two at once */
        {"GET /health HTTP/1.1\r\nHost: h\r\n\r\n", 33},    /* HTTP */
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct client client;
        open_direct(fixture, &client);
        client_send_bytes(&client, cases[i].bytes, cases[i].size);
        client_wait_eof(&client);
        client_close(&client);
    }
    assert_int_equal(fixture->engine.started, 0);
}

static void what_is_too_large_is_refused_for_good(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    client_send_bytes(&client, "\377\377\377\377\0\0\4info", 11);
    assert_told(&client, 413, "code", "too_large");
    client_wait_eof(&client);
    client_close(&client);
}

/* The upgrade and the first question in one piece. */
static void send_in_one_piece(struct client *client) {
    json_t *params = json_pack("{s:s}", "id", "counter");
    struct buf bytes = BUF_INIT;
    buf_append_string(&bytes, upgrade);
    direct_put_question(&bytes, &(struct direct_question){ops_find("info"), params, 0});
    client_send_bytes(client, bytes.data, bytes.size);
    buf_free(&bytes);
    json_decref(params);
}

static void a_question_may_come_with_the_upgrade(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    send_in_one_piece(&client);
    assert_true(client_wait_text(&client, "\r\n\r\n"));
    const char *end = strstr(buf_string(&client.in), "\r\n\r\n");
    buf_consume(&client.in, (size_t)(end + 4 - (const char *)client.in.data));
    assert_told(&client, 200, "id", "counter");
    client_close(&client);
}

static void other_upgrades_are_not_known(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", DIRECT_PATH, "Connection: Upgrade\r\nUpgrade: websocket\r\n", NULL, &response);
    assert_problem(&response, 404, "not_found");
    response_free(&response);
    client_ask(&client, "GET", DIRECT_PATH, NULL, NULL, &response);
    assert_problem(&response, 404, "not_found");
    response_free(&response);
    client_close(&client);
}

static void whoever_says_nothing_is_let_go(void **state) {
    struct fixture *fixture = *state;
    struct client idle, slow;
    open_direct(fixture, &idle);
    open_direct(fixture, &slow);
    client_send_bytes(&slow, "\0\0\0\11\0\0\4inf", 10);
    client_wait_eof(&slow);
    client_wait_eof(&idle);
    client_close(&slow);
    client_close(&idle);
}

static void closing_answers_what_runs_and_ends_the_rest(void **state) {
    struct fixture *fixture = *state;
    struct client idle, busy;
    open_direct(fixture, &idle);
    open_direct(fixture, &busy);
    ask(&busy, "eval", "{\"id\": \"counter\", \"code\": \"1\"}");
    fixture_wait(fixture, is_started, fixture);
    fixture_close_api(fixture);
    client_wait_eof(&idle);
    assert_told(&busy, 504, "code", "timeout");
    client_wait_eof(&busy);
    client_close(&idle);
    client_close(&busy);
}

static void a_question_that_comes_too_late_is_told_so(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    open_direct(fixture, &client);
    ask(&client, "info", "{\"id\": \"counter\"}");
    fixture_close_api(fixture);
    assert_told(&client, 503, "code", "shutting_down");
    client_wait_eof(&client);
    assert_int_equal(fixture->engine.started, 0);
    client_close(&client);
}

static bool is_connected(void *data) {
    return !TAILQ_EMPTY(&((struct fixture *)data)->api->connections);
}

/* The service's end of the only connection holds as much as it takes. */
static void fill_socket(const struct fixture *fixture) {
    static const char unread[4096];
    int fd = TAILQ_FIRST(&fixture->api->connections)->fd;
    while (send(fd, unread, sizeof unread, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    while (send(fd, unread, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    assert_int_equal(errno, EAGAIN);
}

static bool is_upgrade_answered(void *data) {
    const struct exchange *exchange = TAILQ_FIRST(&((struct fixture *)data)->api->exchanges);
    return exchange && exchange->is_upgrade && exchange->status == 101;
}

/* The caller reads nothing, so that the answer to the upgrade does not fit into the socket, and goes out while the api
   closes. */
static void an_upgrade_that_comes_too_late_does_no_harm(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    client_open(fixture, &client);
    fixture_wait(fixture, is_connected, fixture);
    fill_socket(fixture);
    send_in_one_piece(&client);
    fixture_wait(fixture, is_upgrade_answered, fixture);
    fixture_begin_closing_api(fixture);
    client_wait_eof(&client);
    assert_non_null(memmem(client.in.data, client.in.size, "101 Switching", 13));
    fixture_end_closing_api(fixture);
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_question_gets_its_answer, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_error_is_a_problem_and_the_connection_goes_on, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(questions_that_are_refused_leave_nothing_behind, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_long_question_for_nothing_reserves_nothing_afterwards, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(what_has_pages_or_pieces_is_not_there, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_question_may_come_byte_by_byte, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_service_comes_to_who_asks_again_and_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_large_answer_waits_for_its_reader, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_large_answer_is_sent_over_several_turns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(whoever_leaves_calls_off_what_runs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_second_question_before_the_answer_ends_the_connection, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_question_ends_the_connection, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_is_too_large_is_refused_for_good, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_question_may_come_with_the_upgrade, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_question_that_comes_too_late_is_told_so, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_upgrade_that_comes_too_late_does_no_harm, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(other_upgrades_are_not_known, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(whoever_says_nothing_is_let_go, fixture_setup_small, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_answers_what_runs_and_ends_the_rest, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
