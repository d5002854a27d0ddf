/* How new connections get in: users by turns, root at once, and not more than there is room for. */
#include "api/api_internal.h"
#include "api_fixture.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLOODER = 65534, OTHER = 65533, FLOOD = 100, MANY = 500, PER_TURN = 50 };

static struct quota_rules rules;
static struct quotas *quotas;

static int setup(void **state) {
    struct error error;
    struct quotas_config config = {.rules = &rules, .service_uid = getuid()};
    quota_rules_init(&rules, UINT64_C(1) << 30);
    if (quota_rule_set(&rules.items[0], "connections", "900", &error) < 0) return -1;
    if (quotas_open(&config, &quotas, &error) < 0) return -1;
    fixture_setup_with(state, quotas, NULL);
    struct fixture *fixture = *state;
    return chmod(fixture->folder, 0755) == 0 ? chmod(fixture->path, 0777) : -1;
}

static int teardown(void **state) {
    int result = fixture_teardown(state);
    assert_int_equal(quotas_held(quotas, FLOODER, QUOTA_CONNECTIONS), 0);
    quotas = quotas_close(quotas);
    return result;
}

/* The kernel takes the caller's uid from the effective user at that moment. */
static void open_as(struct fixture *fixture, uid_t uid, struct client *ret) {
    assert_int_equal(seteuid(uid), 0);
    client_open(fixture, ret);
    assert_int_equal(seteuid(getuid()), 0);
}

static void close_all(struct client *clients, size_t count) {
    for (size_t i = 0; i < count; i++) client_close(&clients[i]);
}

static size_t handed_over; /* to libmicrohttpd, which counts some at once and some later, by its version */

enum MHD_Result __real_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket client, const struct sockaddr *address,
                                          socklen_t size);
enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket client, const struct sockaddr *address,
                                          socklen_t size);

enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket client, const struct sockaddr *address,
                                          socklen_t size) {
    handed_over++;
    return __real_MHD_add_connection(daemon, client, address, size);
}

static size_t served_count(const struct fixture *fixture) {
    return MHD_get_daemon_info(fixture->api->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

static void assert_healthy(struct client *client) {
    struct response response;
    client_ask(client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
}

static void a_flood_keeps_this_user_from_nothing(struct fixture *fixture, uid_t uid) {
    struct client flood[FLOOD], other;
    for (size_t i = 0; i < FLOOD; i++) open_as(fixture, FLOODER, &flood[i]);
    open_as(fixture, uid, &other);
    assert_healthy(&other);
    /* The other one came last, and was answered while the flood waited. */
    assert_true(fair_count(&fixture->api->listener.waiting, FLOODER) > FLOOD / 4);
    assert_healthy(&flood[FLOOD - 1]);
    assert_int_equal(fixture->api->listener.waiting.count, 0);
    client_close(&other);
    close_all(flood, FLOOD);
}

static void another_user_waits_for_no_flood(void **state) {
    a_flood_keeps_this_user_from_nothing(*state, OTHER);
}

static void the_service_s_own_user_waits_for_no_flood(void **state) {
    a_flood_keeps_this_user_from_nothing(*state, getuid());
}

static void connections_beyond_the_room_are_closed(void **state) {
    struct fixture *fixture = *state;
    struct client flood[MANY], other;
    for (size_t i = 0; i < ARRAY_SIZE(flood); i++) {
        open_as(fixture, FLOODER, &flood[i]);
        if (i % PER_TURN == 0) uv_run(&fixture->loop, UV_RUN_NOWAIT);
        assert_true(fixture->api->listener.waiting.count <= 256);
    }
    client_wait_eof(&flood[ARRAY_SIZE(flood) - 1]);
    assert_int_equal(flood[ARRAY_SIZE(flood) - 1].in.size, 0);
    open_as(fixture, OTHER, &other);
    assert_healthy(&other);
    assert_healthy(&flood[0]);
    client_close(&other);
    close_all(flood, ARRAY_SIZE(flood));
}

static void a_caller_who_left_without_a_word_is_not_served(void **state) {
    struct fixture *fixture = *state;
    struct client gone, stays;
    open_as(fixture, FLOODER, &gone);
    open_as(fixture, FLOODER, &stays);
    client_close(&gone);
    handed_over = 0;
    assert_healthy(&stays); /* which came after it */
    assert_int_equal(handed_over, 1);
    client_close(&stays);
}

static bool has_started(void *engine) {
    return ((struct engine *)engine)->started == 1;
}

/* What it asked for is done. */
static void a_caller_who_left_after_a_request_is_served(void **state) {
    struct fixture *fixture = *state;
    struct client gone;
    open_as(fixture, FLOODER, &gone);
    client_send(&gone, "GET /api/v1/sandboxes/box HTTP/1.1\r\nHost: h\r\n\r\n");
    client_close(&gone);
    fixture_wait(fixture, has_started, &fixture->engine);
    assert_int_equal(fixture->engine.last_caller.uid, FLOODER);
}

static void fill_turn(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    loop_note(poll->loop, "test", NULL);
    for (uint64_t begun_ns = uv_hrtime(); uv_hrtime() - begun_ns < 2 * LOOP_TURN_FULL_US * UINT64_C(1000);) {
    }
}

/* What others send may fill every turn before the listener has its part. */
static void connections_get_in_however_full_turns_are(void **state) {
    struct fixture *fixture = *state;
    struct loop_watch *watch;
    struct client client;
    uv_poll_t busy;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(loop_watch_open(&fixture->loop, &watch, NULL), 0);
    uv_poll_init(&fixture->loop, &busy, pipes[0]);
    uv_poll_start(&busy, UV_READABLE, fill_turn);
    assert_int_equal(write(pipes[1], "x", 1), 1); /* it is ready first, in each turn */
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    open_as(fixture, OTHER, &client);
    for (int turn = 0; turn < 3; turn++) uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(served_count(fixture), 1);
    assert_healthy(&client);
    client_close(&client);
    uv_close((uv_handle_t *)&busy, NULL);
    fixture_close_api(fixture);
    loop_watch_close(watch);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    close(pipes[0]);
    close(pipes[1]);
}

/* The socket stays readable, but the loop does not spin. */
static void without_a_descriptor_it_is_tried_again(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct rlimit limit, none;
    client_open(fixture, &client);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    bool is_waiting = uv_is_active((uv_handle_t *)&fixture->api->listener.again) &&
                      !uv_is_active((uv_handle_t *)&fixture->api->listener.poll);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(is_waiting);
    assert_healthy(&client);
    client_close(&client);
}

static void closing_ends_those_who_wait(void **state) {
    struct fixture *fixture = *state;
    struct client flood[FLOOD];
    for (size_t i = 0; i < FLOOD; i++) open_as(fixture, FLOODER, &flood[i]);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_true(fixture->api->listener.waiting.count > 0);
    fixture_close_api(fixture);
    client_wait_eof(&flood[FLOOD - 1]);
    close_all(flood, FLOOD);
}

int main(void) {
    if (getuid() != 0) return 0; /* no other user to be */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_user_waits_for_no_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(the_service_s_own_user_waits_for_no_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_beyond_the_room_are_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_caller_who_left_without_a_word_is_not_served, setup, teardown),
        cmocka_unit_test_setup_teardown(a_caller_who_left_after_a_request_is_served, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_get_in_however_full_turns_are, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_descriptor_it_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_ends_those_who_wait, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
