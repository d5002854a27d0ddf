/* What one run of the HTTP server does at most, and that whatever it leaves is done in the runs after it. */
#include "api/api_internal.h"
#include "api_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

enum { FLOODER = 65534, OTHER = 65533, CONNECTIONS = 60, CALLS_PER_USER = 8, BURN_US = 2000, TURN_MAX_US = 25000 };

static const char info[] = "GET /api/v1/sandboxes/a HTTP/1.1\r\nHost: h\r\n\r\n";

static struct quota_rules rules;
static struct quotas *quotas;
static struct loop_watch *watch;

static int setup(void **state) {
    struct error error;
    struct quotas_config config = {.rules = &rules, .service_uid = getuid()};
    quota_rules_init(&rules, UINT64_C(1) << 30);
    if (quotas_open(&config, &quotas, &error) < 0) return -1;
    fixture_setup_with(state, quotas, NULL);
    struct fixture *fixture = *state;
    return chmod(fixture->folder, 0755) == 0 ? chmod(fixture->path, 0777) : -1;
}

static int setup_watched(void **state) {
    int result = setup(state);
    struct fixture *fixture = *state;
    assert_int_equal(loop_watch_open(&fixture->loop, &watch, NULL), 0);
    return result;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    if (fixture->api) fixture_close_api(fixture);
    loop_watch_close(watch);
    watch = NULL;
    int result = fixture_teardown(state);
    quotas = quotas_close(quotas);
    return result;
}

/* The kernel takes the caller's uid from the effective user at that moment. */
static void open_as(struct fixture *fixture, uid_t uid, struct client *ret) {
    struct response response;
    assert_int_equal(seteuid(uid), 0);
    client_open(fixture, ret);
    assert_int_equal(seteuid(getuid()), 0);
    client_ask(ret, "GET", "/health", NULL, NULL, &response);
    response_free(&response);
}

static void ask_all(struct fixture *fixture, struct client clients[CONNECTIONS]) {
    for (size_t i = 0; i < CONNECTIONS; i++) open_as(fixture, FLOODER, &clients[i]);
    fixture->engine.started = 0;
    for (size_t i = 0; i < CONNECTIONS; i++) client_send(&clients[i], info);
}

static void hear_all(struct client clients[CONNECTIONS]) {
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct response response;
        client_response(&clients[i], &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
        client_close(&clients[i]);
    }
}

static void a_run_serves_a_few_of_each_user(void **state) {
    struct fixture *fixture = *state;
    struct client clients[CONNECTIONS], other;
    open_as(fixture, OTHER, &other);
    ask_all(fixture, clients);
    client_send(&other, info);
    while (fixture->engine.started == 0) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_in_range(fixture->engine.started, 1, CALLS_PER_USER + 1);
    struct response response;
    client_response(&other, &response);
    assert_int_equal(response.status, 200);
    assert_true(fixture->engine.started < CONNECTIONS);
    response_free(&response);
    hear_all(clients);
    assert_int_equal(fixture->engine.started, CONNECTIONS + 1);
    client_close(&other);
}

static void requests_that_waited_are_shared_out_over_turns(void **state) {
    struct fixture *fixture = *state;
    struct client clients[CONNECTIONS];
    fixture->engine.burn_us = BURN_US;
    ask_all(fixture, clients);
    hear_all(clients);
    assert_int_equal(fixture->engine.started, CONNECTIONS);
    const struct loop_turn *worst = &loop_report(&fixture->loop)->worst[0];
    if (worst->cpu_us > TURN_MAX_US)
        fail_msg("a turn took %llu us: %s %s", (unsigned long long)worst->cpu_us, worst->work, worst->detail);
}

/* Bodies that come in pieces, and answers that are longer than a socket holds. */
static void long_messages_come_whole(void **state) {
    struct fixture *fixture = *state;
    struct client clients[CONNECTIONS];
    static char filling[100 << 10];
    memset(filling, ' ', sizeof filling);
    fixture->engine.list_size = 3000;
    for (size_t i = 0; i < CONNECTIONS; i++) open_as(fixture, FLOODER, &clients[i]);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_send(&clients[i], "POST /api/v1/sandboxes/a/eval HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                    sizeof filling + 12);
        client_send_bytes(&clients[i], filling, sizeof filling);
    }
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct response response;
        client_send(&clients[i], "{\"code\":\"1\"}GET /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\n\r\n");
        while (!fixture->engine.last) fixture_turn(fixture, clients[i].fd);
        stand_in_answer(&fixture->engine, fixture->engine.last, json_object(), E_NONE);
        fixture->engine.last = NULL;
        client_response(&clients[i], &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
        client_response(&clients[i], &response);
        assert_int_equal(response.status, 200);
        response_free(&response);
        client_close(&clients[i]);
    }
}

int main(void) {
    if (getuid() != 0) return 0; /* no other user to be */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_serves_a_few_of_each_user, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_that_waited_are_shared_out_over_turns, setup_watched, teardown),
        cmocka_unit_test_setup_teardown(long_messages_come_whole, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
