/* Tests deliveries to a receiver that the test plays: it is absent, slow, refuses, or fails for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "receiver.h"
#include "webhook/webhook_internal.h"

enum { DEADLINE_MS = 20000 };

struct fixture {
    uv_loop_t loop;
    uv_timer_t deadline;
    struct receiver *receiver;
    struct webhook *webhook;
    struct buf story; /* of the reports */
    uint64_t lost;
};

static void on_report(void *data, const struct webhook_report *report) {
    struct fixture *fixture = data;
    buf_printf(&fixture->story, "%s ", webhook_state_name(report->state));
    fixture->lost = report->lost;
}

static void on_deadline(uv_timer_t *timer) {
    (void)timer;
    fail_msg("it takes too long");
}

static void on_closed(void *data) {
    uv_close((uv_handle_t *)&((struct fixture *)data)->deadline, NULL);
}

static struct webhook_settings settings_of(const struct fixture *fixture, char url[128]) {
    struct webhook_settings settings = webhook_defaults;
    receiver_url(fixture->receiver, url, 128);
    settings.url = url;
    settings.secret = "secret";
    settings.retry = (struct webhook_retry){.tries_max = 4, .first_ms = 5, .max_ms = 20};
    return settings;
}

static void begin(struct fixture *fixture, const struct webhook_settings *settings) {
    struct error error;
    if (webhook_open(&fixture->loop, settings, on_report, fixture, &fixture->webhook, &error) < 0)
        fail_msg("%s", error.detail);
}

static struct fixture *new_fixture(const int *script) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    uv_loop_init(&fixture->loop);
    uv_timer_init(&fixture->loop, &fixture->deadline);
    uv_timer_start(&fixture->deadline, on_deadline, DEADLINE_MS, 0);
    fixture->receiver = receiver_open(script);
    return fixture;
}

static struct fixture *open_fixture(const int *script) {
    char url[128];
    struct fixture *fixture = new_fixture(script);
    struct webhook_settings settings = settings_of(fixture, url);
    receiver_listen(fixture->receiver);
    begin(fixture, &settings);
    return fixture;
}

static void close_fixture(struct fixture *fixture) {
    uint64_t began_ms = clock_monotonic_ms();
    webhook_close(fixture->webhook, on_closed, fixture);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_in_range(clock_monotonic_ms() - began_ms, 0, DEADLINE_MS / 4); /* whatever the receiver does */
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    receiver_close(fixture->receiver);
    buf_free(&fixture->story);
    free(fixture);
}

static void post(struct fixture *fixture, uint64_t id, const char *body) {
    webhook_post(fixture->webhook, "alert", id, body, strlen(body));
}

static const char *wait_request(struct fixture *fixture, size_t number) {
    const char *request = receiver_wait(fixture->receiver, number, DEADLINE_MS);
    if (!request) fail_msg("request %zu does not come", number);
    return request;
}

static void assert_header(const char *request, const char *name, const char *value) {
    CLEANUP_FREE char *got = receiver_header(request, name);
    if (!got || strcmp(got, value) != 0) fail_msg("%s is '%s', not '%s'", name, got ? got : "missing", value);
}

/* Turn by turn, until the story has come so far. */
static void wait_story(struct fixture *fixture, const char *story) {
    while (!strstr(buf_string(&fixture->story), story)) uv_run(&fixture->loop, UV_RUN_ONCE);
}

/* ---- tests ---- */

static void test_it_arrives_signed_and_in_order(void **state) {
    (void)state;
    struct fixture *fixture = open_fixture(NULL);
    for (uint64_t i = 1; i <= 20; i++) {
        char body[32];
        snprintf(body, sizeof body, "{\"seq\":%llu}", (unsigned long long)i);
        post(fixture, i, body);
    }
    for (size_t i = 1; i <= 20; i++) {
        const char *request = wait_request(fixture, i - 1);
        char expected[32], signature[WEBHOOK_SIGNATURE_BYTES];
        snprintf(expected, sizeof expected, "{\"seq\":%zu}", i);
        assert_string_equal(receiver_body(request), expected);
        CLEANUP_FREE char *timestamp = receiver_header(request, "X-Sandbox-Timestamp");
        webhook_sign("secret", strtoll(timestamp, NULL, 10), expected, strlen(expected), signature);
        assert_header(request, "X-Sandbox-Signature", signature);
        assert_in_range(strtoll(timestamp, NULL, 10), clock_wall_ms() / 1000 - 60, clock_wall_ms() / 1000 + 1);
        assert_header(request, "X-Sandbox-Event", "alert");
        assert_header(request, "Content-Type", "application/json");
        assert_int_equal(strncmp(request, "POST /hook HTTP/1.1\r\n", 21), 0);
        snprintf(expected, sizeof expected, "%zu", i);
        assert_header(request, "X-Sandbox-Delivery", expected);
    }
    assert_string_equal(buf_string(&fixture->story), "");
    close_fixture(fixture);
}

static void test_an_error_of_the_receiver_is_tried_again(void **state) {
    (void)state;
    static const int script[] = {500, 503, 0};
    struct fixture *fixture = open_fixture(script);
    post(fixture, 1, "{}");
    post(fixture, 2, "[]");
    for (size_t i = 0; i < 3; i++) assert_header(wait_request(fixture, i), "X-Sandbox-Delivery", "1");
    assert_header(wait_request(fixture, 3), "X-Sandbox-Delivery", "2");
    wait_story(fixture, "failing arriving ");
    close_fixture(fixture);
}

static void test_a_receiver_that_is_not_there_yet(void **state) {
    (void)state;
    char url[128];
    struct fixture *fixture = new_fixture(NULL);
    struct webhook_settings settings = settings_of(fixture, url);
    settings.retry.tries_max = 10000;
    begin(fixture, &settings);
    post(fixture, 1, "{}");
    wait_story(fixture, "failing ");
    struct webhook_status status;
    webhook_status(fixture->webhook, &status);
    assert_true(status.failures > 0);
    assert_int_equal(status.queued, 1);
    assert_true(status.last_error[0] != '\0');
    receiver_listen(fixture->receiver);
    assert_string_equal(receiver_body(wait_request(fixture, 0)), "{}");
    wait_story(fixture, "arriving ");
    webhook_status(fixture->webhook, &status);
    assert_int_equal(status.delivered, 1);
    assert_int_equal(status.failures, 0);
    assert_int_equal(status.lost, 0);
    close_fixture(fixture);
}

static void test_it_is_given_up_in_the_end(void **state) {
    (void)state;
    static const int script[] = {500, 500, 500, 500, 0};
    struct fixture *fixture = open_fixture(script);
    post(fixture, 1, "{}");
    post(fixture, 2, "{}");
    wait_story(fixture, "failing given_up arriving ");
    assert_int_equal(fixture->lost, 1);
    const char *request = wait_request(fixture, 4);
    assert_header(request, "X-Sandbox-Delivery", "2");
    assert_header(request, "X-Sandbox-Lost", "1");
    close_fixture(fixture);
}

/* A redirect could lead anywhere; it is a refusal like any. */
static void test_a_receiver_that_does_not_want_it_is_not_asked_again(void **state) {
    (void)state;
    static const int script[] = {404, 302, 0};
    struct fixture *fixture = open_fixture(script);
    for (uint64_t i = 1; i <= 3; i++) post(fixture, i, "{}");
    wait_story(fixture, "given_up given_up arriving ");
    assert_header(wait_request(fixture, 2), "X-Sandbox-Delivery", "3");
    assert_int_equal(receiver_count(fixture->receiver), 3);
    close_fixture(fixture);
}

static void test_the_queue_is_bounded(void **state) {
    (void)state;
    char url[128];
    struct webhook_status status;
    struct fixture *fixture = new_fixture(NULL); /* no receiver listens */
    struct webhook_settings settings = settings_of(fixture, url);
    settings.queue_max = 3;
    settings.retry = (struct webhook_retry){.tries_max = 10000, .first_ms = 5, .max_ms = 5};
    begin(fixture, &settings);
    for (uint64_t i = 1; i <= 10; i++) post(fixture, i, "{}");
    wait_story(fixture, "dropping ");
    wait_story(fixture, "failing ");
    webhook_status(fixture->webhook, &status);
    assert_int_equal(status.queued, 3);
    assert_int_equal(status.lost, 7);
    receiver_listen(fixture->receiver);
    const char *last = wait_request(fixture, 2);
    assert_header(last, "X-Sandbox-Delivery", "3");
    assert_header(last, "X-Sandbox-Lost", "7");
    wait_story(fixture, "arriving ");
    assert_null(strstr(strstr(buf_string(&fixture->story), "dropping ") + 1, "dropping")); /* told once */
    close_fixture(fixture);
}

static void test_what_is_too_long_is_not_sent(void **state) {
    (void)state;
    struct fixture *fixture = open_fixture(NULL);
    CLEANUP_FREE char *body = calloc(1, WEBHOOK_BODY_MAX_BYTES + 1);
    webhook_post(fixture->webhook, "alert", 1, body, WEBHOOK_BODY_MAX_BYTES + 1);
    post(fixture, 2, "{}");
    assert_header(wait_request(fixture, 0), "X-Sandbox-Delivery", "2");
    wait_story(fixture, "dropping ");
    close_fixture(fixture);
}

/* One that never answers, and one that never ends: each is left after a while, and the loop never waits for it. */
static void test_a_slow_receiver_holds_up_nobody(void **state) {
    (void)state;
    static const int script[] = {RECEIVER_SILENT, RECEIVER_ENDLESS, 0};
    char url[128];
    struct fixture *fixture = new_fixture(script);
    struct webhook_settings settings = settings_of(fixture, url);
    settings.timeout_ms = 50;
    receiver_listen(fixture->receiver);
    begin(fixture, &settings);
    post(fixture, 1, "{}");
    assert_header(wait_request(fixture, 1), "X-Sandbox-Delivery", "1");
    assert_header(wait_request(fixture, 2), "X-Sandbox-Delivery", "1");
    wait_story(fixture, "failing arriving ");
    close_fixture(fixture);
}

/* Closing does not wait for the receiver either. */
static void test_closing_leaves_it(void **state) {
    (void)state;
    static const int script[] = {RECEIVER_SILENT, 0};
    struct fixture *fixture = open_fixture(script);
    for (uint64_t i = 1; i <= 3; i++) post(fixture, i, "{}");
    wait_request(fixture, 0);
    close_fixture(fixture);
}

static void test_bad_addresses(void **state) {
    static const char *const urls[] = {"", "ftp://example.org/", "file:///etc/passwd", "example.org"};
    (void)state;
    uv_loop_t loop = {0};
    uv_loop_init(&loop);
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
        struct webhook_settings settings = webhook_defaults;
        struct webhook *webhook = NULL;
        struct error error;
        settings.url = urls[i];
        assert_true(webhook_open(&loop, &settings, on_report, NULL, &webhook, &error) < 0);
        assert_int_equal(error.code, E_INVALID);
        assert_null(webhook);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_arrives_signed_and_in_order),
        cmocka_unit_test(test_an_error_of_the_receiver_is_tried_again),
        cmocka_unit_test(test_a_receiver_that_is_not_there_yet),
        cmocka_unit_test(test_it_is_given_up_in_the_end),
        cmocka_unit_test(test_a_receiver_that_does_not_want_it_is_not_asked_again),
        cmocka_unit_test(test_the_queue_is_bounded),
        cmocka_unit_test(test_what_is_too_long_is_not_sent),
        cmocka_unit_test(test_a_slow_receiver_holds_up_nobody),
        cmocka_unit_test(test_closing_leaves_it),
        cmocka_unit_test(test_bad_addresses),
    };
    unsetenv("http_proxy"); /* of the machine's */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
