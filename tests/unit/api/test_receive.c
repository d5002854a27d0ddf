/* Callers who send descriptors along with their requests. */
#include "api_fixture.h"
#include "descriptors.h"

#include <fcntl.h>

#include "ops/direct.h"

enum { SOON_MS = 30000 };

static const char upgrade[] =
    "GET " DIRECT_PATH " HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: " DIRECT_PROTOCOL "\r\n\r\n";
static bool is_old_kernel;

/* Its close waits for a minute, and the message has the last reference. */
static void send_lingering(struct client *client, const char *bytes) {
    int tcp[2];
    assert_true(test_open_lingering(tcp));
    bool is_sent = test_send_descriptor(client->fd, tcp[0], bytes, strlen(bytes));
    assert_int_equal(is_sent, is_old_kernel);
    if (!is_sent) {
        assert_int_equal(errno, EPERM);
        setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
        close(tcp[1]);
    }
    close(tcp[0]);
}

static void assert_served(struct fixture *fixture) {
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    assert_int_equal(response.status, 200);
    response_free(&response);
    client_close(&client);
}

static void expect_end(struct client *client) {
    if (is_old_kernel) client_wait_eof(client);
    client_close(client);
}

static void test_instead_of_a_request(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    uint64_t begun_ms = clock_monotonic_ms();
    client_open(fixture, &client);
    send_lingering(&client, "GET /health HTTP/1.1\r\n");
    assert_served(fixture);
    expect_end(&client);
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
}

static void test_behind_a_request(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    uint64_t begun_ms = clock_monotonic_ms();
    client_open(fixture, &client);
    client_ask(&client, "GET", "/health", NULL, NULL, &response);
    response_free(&response);
    send_lingering(&client, "GET /health HTTP/1.1\r\n");
    assert_served(fixture);
    expect_end(&client);
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
}

static void test_on_a_direct_connection(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    uint64_t begun_ms = clock_monotonic_ms();
    client_open(fixture, &client);
    client_send(&client, "%s", upgrade);
    assert_true(client_wait_text(&client, "\r\n\r\n"));
    send_lingering(&client, "x");
    assert_served(fixture);
    expect_end(&client);
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
}

/* Closed by us, with one connection that was served and one that was not let in yet. */
static void test_never_read(void **state) {
    struct fixture *fixture = *state;
    struct client served, waiting;
    int told[2];
    uint64_t begun_ms = clock_monotonic_ms();
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    client_open(fixture, &served);
    client_send(&served,
                "POST /api/v1/sandboxes/a/eval HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\"code\":\"1\"}");
    fixture_turn(fixture, served.fd);
    client_open(fixture, &waiting);
    struct client *clients[] = {&served, &waiting};
    for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
        send_lingering(clients[i], "x");
        test_send_descriptor(clients[i]->fd, told[1], "x", 1);
    }
    close(told[1]);
    fixture_close_api(fixture);
    assert_int_equal(read(told[0], &(char){0}, 1), 0); /* dropped */
    assert_true(clock_monotonic_ms() - begun_ms < SOON_MS);
    client_close(&served);
    client_close(&waiting);
    close(told[0]);
}

#define WITH_API(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* The second time on a kernel that refuses no descriptors. */
int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_API(test_instead_of_a_request),
        WITH_API(test_behind_a_request),
        WITH_API(test_on_a_direct_connection),
        WITH_API(test_never_read),
    };
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_old_kernel = !stranger_refuse_descriptors(probe);
    close(probe);
    int failed = cmocka_run_group_tests_name("this kernel", tests, NULL, NULL);
    if (!test_pretend_old_kernel()) return 1;
    is_old_kernel = true;
    return failed + cmocka_run_group_tests_name("an old kernel", tests, NULL, NULL);
}
