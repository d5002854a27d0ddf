/* What one user may have of the transport: connections, streams, and lines in the log. */
#include "api/api_internal.h"
#include "api_fixture.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_internal.h"

enum { STRANGER = 65534, REFUSED_MAX = 32, MOMENT_MS = 2000, DEADLINE_MS = 20000 };

static struct quota_rules rules;
static struct quotas *quotas;
static struct log log_of_test;
static FILE *log_file;
static uint64_t now_ms;

static uint64_t get_now_ms(void) {
    return now_ms;
}

static void set_rule(const char *name, const char *value) {
    struct error error;
    if (quota_rule_set(&rules.items[0], name, value, &error) < 0) fail_msg("%s", error.detail);
}

/* The test's own user is the service's. */
static int setup(void **state) {
    struct error error;
    struct quotas_config config = {.rules = &rules, .service_uid = getuid(), .now_ms = get_now_ms};
    now_ms = 1;
    quota_rules_init(&rules, UINT64_C(1) << 30);
    set_rule("connections", "2");
    set_rule("streams", "1");
    set_rule("log", "4K");
    if (quotas_open(&config, &quotas, &error) < 0) return -1;
    log_file = tmpfile();
    log_of_test = (struct log){.fd = fileno(log_file), .level = LOG_INFO_LEVEL};
    fixture_setup_with(state, quotas, &log_of_test);
    struct fixture *fixture = *state;
    return chmod(fixture->folder, 0755) == 0 ? chmod(fixture->path, 0777) : -1;
}

static int teardown(void **state) {
    int result = fixture_teardown(state);
    uid_t uids[4];
    assert_int_equal(quotas_held(quotas, STRANGER, QUOTA_CONNECTIONS), 0);
    assert_int_equal(quotas_held(quotas, STRANGER, QUOTA_STREAMS), 0);
    assert_true(quotas_principals(quotas, uids, ARRAY_SIZE(uids)) <= 2);
    quotas = quotas_close(quotas);
    fclose(log_file);
    return result;
}

/* The kernel takes the caller's uid from the effective user at that moment. */
static void open_as(struct fixture *fixture, uid_t uid, struct client *ret) {
    assert_int_equal(seteuid(uid), 0);
    client_open(fixture, ret);
    assert_int_equal(seteuid(getuid()), 0);
}

static void open_as_stranger(struct fixture *fixture, struct client *ret) {
    open_as(fixture, STRANGER, ret);
}

static void assert_quota(const struct response *response, const char *quota) {
    char expected[64];
    assert_problem(response, 429, "limit_reached");
    snprintf(expected, sizeof expected, "quota \"%s\" is used up", quota);
    if (!strstr(response_text(response, "detail"), expected)) fail_msg("%s", response_text(response, "detail"));
}

static void assert_healthy(struct client *client) {
    struct response response;
    client_ask(client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
}

static void a_connection_over_the_quota_is_told_so(void **state) {
    struct fixture *fixture = *state;
    struct client half_open, other, third, own;
    struct response response;
    open_as_stranger(fixture, &half_open);
    client_send(&half_open, "GET /health HT");
    open_as_stranger(fixture, &other);
    assert_healthy(&other);
    open_as_stranger(fixture, &third);
    client_ask(&third, "GET", "/health", NULL, NULL, &response);
    assert_quota(&response, "connections");
    assert_non_null(strcasestr(response.header, "\r\nConnection: close\r\n"));
    response_free(&response);
    client_wait_eof(&third);
    client_close(&third);
    client_open(fixture, &own);
    assert_healthy(&own);
    client_close(&other);
    fixture_turn(fixture, -1);
    open_as_stranger(fixture, &third);
    assert_healthy(&third);
    client_close(&third);
    client_close(&half_open);
    client_close(&own);
}

/* They may not fill the places of those who are served. */
static void refused_ones_that_say_nothing_are_hung_up_on(void **state) {
    struct fixture *fixture = *state;
    struct client clients[2 + REFUSED_MAX + 1], own;
    size_t count = ARRAY_SIZE(clients);
    for (size_t i = 0; i < count; i++) {
        open_as_stranger(fixture, &clients[i]);
        fixture_turn(fixture, -1);
    }
    client_wait_eof(&clients[count - 1]);
    client_open(fixture, &own);
    assert_healthy(&own);
    client_close(&own);
    for (size_t i = 0; i < count; i++) client_close(&clients[i]);
}

/* By the clock that connections are swept by, which begins with the service and not with the machine. */
static void refused_ones_have_a_moment(void **state) {
    struct fixture *fixture = *state;
    struct loop_watch *watch;
    struct client clients[3];
    struct connection *connection;
    size_t refused = 0;
    assert_int_equal(loop_watch_open(&fixture->loop, &watch, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        open_as_stranger(fixture, &clients[i]);
        fixture_turn(fixture, -1);
    }
    TAILQ_FOREACH(connection, &fixture->api->connections, link) {
        if (!connection->is_refused) continue;
        refused++;
        assert_in_range(connection->deadline_ms, 1, loop_attended_ms(&fixture->loop) + MOMENT_MS);
    }
    assert_int_equal(refused, 1);
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) client_close(&clients[i]);
    fixture_close_api(fixture);
    loop_watch_close(watch);
}

static bool is_streaming(void *data) {
    return ((struct engine *)data)->open_stream != NULL;
}

static void a_stream_over_the_quota_is_told_so(void **state) {
    struct fixture *fixture = *state;
    struct client first, second;
    struct response response;
    open_as_stranger(fixture, &first);
    client_send(&first, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, is_streaming, &fixture->engine);
    open_as_stranger(fixture, &second);
    client_ask(&second, "GET", "/api/v1/events?follow=true", NULL, NULL, &response);
    assert_quota(&response, "streams");
    response_free(&response);
    assert_healthy(&second); /* on the same connection */
    client_close(&second);
    client_close(&first);
}

static bool stranger_is_gone(void *data) {
    (void)data;
    return quotas_held(quotas, STRANGER, QUOTA_CONNECTIONS) == 0;
}

/* The operation goes on for a while after its caller, and the connection is gone with the caller. */
static void a_body_is_counted_beside_a_stream_whose_caller_is_gone(void **state) {
    struct fixture *fixture = *state;
    struct client first, second;
    struct response response;
    open_as_stranger(fixture, &first);
    client_send(&first, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: h\r\n\r\n");
    fixture_wait(fixture, is_streaming, &fixture->engine);
    struct request *stream = fixture->engine.open_stream;
    stream->cancel = NULL;
    stream->item(stream, json_pack("{s:i}", "seq", 1));
    assert_true(client_wait_text(&first, "item"));
    client_close(&first);
    stream->item(stream, json_pack("{s:i}", "seq", 2));
    fixture_wait(fixture, stranger_is_gone, NULL);
    open_as_stranger(fixture, &second);
    client_send(&second, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n%8000s", "{}");
    client_response(&second, &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    client_close(&second);
    fixture->engine.open_stream = NULL;
    stand_in_answer(&fixture->engine, stream, NULL, E_TIMEOUT);
}

/* ---- memory that all share ---- */

static size_t reserved(const struct fixture *fixture) {
    const struct exchange *exchange;
    size_t bytes = 0;
    TAILQ_FOREACH(exchange, &fixture->api->exchanges, link) bytes += exchange->reserved_bytes;
    return bytes;
}

static bool is_readable(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* Announces a body, and says whether there is room for it. */
static bool announces(struct fixture *fixture, uid_t uid, size_t size, struct client *client) {
    size_t before = reserved(fixture);
    open_as(fixture, uid, client);
    client_send(client, "POST /api/v1/sandboxes/a/reload HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n{", size);
    uint64_t begun_ms = clock_monotonic_ms();
    while (reserved(fixture) == before && !is_readable(client->fd)) {
        assert_in_range(clock_monotonic_ms() - begun_ms, 0, DEADLINE_MS);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    return reserved(fixture) > before;
}

/* Their accounts go once what they logged is made good, when the next user comes. */
static bool strangers_are_gone(void *data) {
    (void)data;
    uid_t uids[4];
    now_ms += 120000;
    quotas_introduce(quotas, &(struct quota_identity){.uid = STRANGER});
    quotas_give(quotas, STRANGER, QUOTA_STREAMS, 0);
    return quotas_principals(quotas, uids, ARRAY_SIZE(uids)) <= 2;
}

/* Strangers who announce as much as they can leave room for one more, and for the service's own user. */
static void bodies_are_shared_fairly(void **state) {
    enum { USERS = 6, EACH = 8, BYTES = 2 << 20 };
    struct fixture *fixture = *state;
    static struct client clients[USERS][EACH], late, own[4];
    rules.items[0].values[QUOTA_CONNECTIONS] = 64;
    size_t counts[USERS] = {0}, opened[USERS] = {0};
    for (size_t user = 0; user < USERS; user++) {
        bool has_room = true;
        for (size_t i = 0; i < EACH && has_room; i++) {
            has_room = announces(fixture, STRANGER - 1 - (uid_t)user, BYTES, &clients[user][i]);
            opened[user]++;
            counts[user] += has_room;
        }
        assert_in_range(counts[user], 1, EACH); /* none found the room taken */
    }
    assert_true(counts[0] > counts[USERS - 1]);
    assert_true(announces(fixture, STRANGER, BYTES, &late));
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) assert_true(announces(fixture, getuid(), BYTES, &own[i]));
    for (size_t user = 0; user < USERS; user++)
        for (size_t i = 0; i < opened[user]; i++) client_close(&clients[user][i]);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) client_close(&own[i]);
    client_close(&late);
    fixture_wait(fixture, strangers_are_gone, NULL);
}

/* ---- the log ---- */

static char *read_log(void) {
    static char text[16384];
    ssize_t size = pread(fileno(log_file), text, sizeof text - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    return text;
}

static unsigned count_text(const char *text, const char *part) {
    unsigned count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
    return count;
}

static void create_some(struct client *client, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct response response;
        client_ask(client, "POST", "/api/v1/sandboxes", NULL, "{\"id\": \"a\", \"source\": \"/a\"}", &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
    }
}

/* A line is written when the request has ended, which may be after its answer has arrived. */
static bool has_lines(void *data) {
    return count_text(read_log(), " request ") >= *(unsigned *)data;
}

/* Lines over the quota are left out, and one line says how many. */
static void lines_over_the_quota_are_counted(void **state) {
    struct fixture *fixture = *state;
    struct client client, own;
    open_as_stranger(fixture, &client);
    create_some(&client, 50);
    unsigned written = count_text(read_log(), " request ");
    assert_in_range(written, 5, 20); /* of 4 KiB */
    assert_int_equal(count_text(read_log(), "left_out"), 0);
    client_open(fixture, &own);
    create_some(&own, 30); /* which is not bound */
    unsigned lines = written + 30;
    fixture_wait(fixture, has_lines, &lines);
    assert_int_equal(count_text(read_log(), " request "), lines);
    now_ms += 60000;
    create_some(&client, 2);
    fixture_turn(fixture, -1);
    char expected[64];
    snprintf(expected, sizeof expected, "left_out uid=\"65534\" count=\"%u\"", 50 - written);
    if (!strstr(read_log(), expected)) fail_msg("no %s in:\n%s", expected, read_log());
    client_close(&client);
    client_close(&own);
}

/* A caller can cause as many of these as it can connect. */
static void passed_descriptors_are_lines_too(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 50; i++) record_passed_descriptor(fixture->api, STRANGER);
    assert_in_range(count_text(read_log(), "descriptor_passed"), 5, 20); /* of 4 KiB */
}

/* Many users with as many as each may have leave some for the next one. */
static void connections_are_shared(void **state) {
    enum { USERS = 20, EACH = 64 };
    struct fixture *fixture = *state;
    struct client last;
    static struct client clients[USERS * EACH];
    size_t count = 0;
    rules.items[0].values[QUOTA_CONNECTIONS] = EACH;
    for (uid_t uid = 0; uid < USERS; uid++) {
        for (int i = 0; i < EACH; i++) {
            assert_int_equal(seteuid(40000 + uid), 0);
            client_open(fixture, &clients[count++]);
            assert_int_equal(seteuid(getuid()), 0);
            if (i % 16 == 15) fixture_turn(fixture, -1);
        }
        for (int turn = 0; turn < 8; turn++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    open_as_stranger(fixture, &last);
    assert_healthy(&last);
    client_close(&last);
    for (size_t i = 0; i < count; i++) client_close(&clients[i]);
    while (fixture->api->served_count + fixture->api->refused_count > 0) fixture_turn(fixture, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_over_the_quota_is_told_so, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_are_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_ones_that_say_nothing_are_hung_up_on, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_ones_have_a_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_over_the_quota_is_told_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_is_counted_beside_a_stream_whose_caller_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_are_shared_fairly, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_over_the_quota_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(passed_descriptors_are_lines_too, setup, teardown),
    };
    if (getuid() != 0) return 0; /* no other user to be */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
