/* Opens an api over the stand-in engine, and drives it with clients that write raw bytes. */
#include "api_fixture.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DEADLINE_MS = 20000 };

/* ---- the api ---- */

static struct sockaddr_un address_of(const struct fixture *fixture) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fixture->path);
    return address;
}

static int listen_on(const struct fixture *fixture) {
    struct sockaddr_un address = address_of(fixture);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 128), 0);
    return fd;
}

static struct fixture *prepare(void) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(test_folder_make(fixture->folder));
    snprintf(fixture->path, sizeof fixture->path, "%s/api.sock", fixture->folder);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    stand_in_init(&fixture->engine, &fixture->loop);
    api_config_defaults(&fixture->config);
    return fixture;
}

static void open_api(struct fixture *fixture) {
    struct error error = {0};
    fixture->config.listen_fd = listen_on(fixture);
    if (api_open(&fixture->loop, &fixture->engine, &fixture->config, &fixture->api, &error) < 0)
        fail_msg("%s", error.detail);
}

int fixture_setup(void **state) {
    struct fixture *fixture = prepare();
    open_api(fixture);
    *state = fixture;
    return 0;
}

int fixture_setup_with(void **state, struct quotas *quotas, const struct log *log) {
    struct fixture *fixture = prepare();
    fixture->config.quotas = quotas;
    fixture->config.log = log;
    open_api(fixture);
    *state = fixture;
    return 0;
}

int fixture_setup_small(void **state) {
    struct fixture *fixture = prepare();
    fixture->config.connections_max = 2;
    fixture->config.body_max_bytes = 1000;
    fixture->config.request_timeout_ms = 40;
    fixture->config.idle_timeout_ms = 80;
    fixture->config.keepalive_interval_ms = 10;
    fixture->config.stream_buffer_max_bytes = 4096;
    open_api(fixture);
    *state = fixture;
    return 0;
}

static void on_closed(void *data) {
    *(bool *)data = true;
}

static bool is_set(void *data) {
    return *(bool *)data;
}

void fixture_begin_closing_api(struct fixture *fixture) {
    api_close(fixture->api, on_closed, &fixture->closed);
    fixture->api = NULL;
}

void fixture_end_closing_api(struct fixture *fixture) {
    fixture_wait(fixture, is_set, &fixture->closed);
}

void fixture_close_api(struct fixture *fixture) {
    fixture_begin_closing_api(fixture);
    fixture_end_closing_api(fixture);
}

int fixture_teardown(void **state) {
    struct fixture *fixture = *state;
    if (fixture->api) fixture_close_api(fixture);
    stand_in_close(&fixture->engine);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    unlink(fixture->path);
    rmdir(fixture->folder);
    free(fixture);
    return 0;
}

void fixture_turn(struct fixture *fixture, int fd) {
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    struct pollfd fds[] = {{.fd = uv_backend_fd(&fixture->loop), .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int timeout_ms = uv_backend_timeout(&fixture->loop);
    poll(fds, 2, timeout_ms < 0 || timeout_ms > 100 ? 100 : timeout_ms);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

void fixture_wait(struct fixture *fixture, bool (*condition)(void *data), void *data) {
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    while (!condition(data)) {
        assert_true(clock_monotonic_ms() < deadline_ms);
        fixture_turn(fixture, -1);
    }
}

/* ---- clients ---- */

void client_open(struct fixture *fixture, struct client *ret) {
    struct sockaddr_un address = address_of(fixture);
    *ret = (struct client){.fixture = fixture, .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(connect(ret->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(ret->fd, F_SETFL, O_NONBLOCK), 0);
}

void client_close(struct client *client) {
    client->fd = fd_close(client->fd);
    buf_free(&client->in);
}

void client_send_bytes(struct client *client, const void *data, size_t size) {
    const char *at = data;
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    while (size > 0) {
        ssize_t sent = send(client->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return; /* the other side has had enough: the test reads why */
        if (sent < 0) fixture_turn(client->fixture, -1);
        if (sent > 0) at += sent, size -= (size_t)sent;
        assert_true(clock_monotonic_ms() < deadline_ms);
    }
}

void client_send(struct client *client, const char *format, ...) {
    struct buf text = BUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    buf_vprintf(&text, format, arguments);
    va_end(arguments);
    client_send_bytes(client, text.data, text.size);
    buf_free(&text);
}

static void receive(struct client *client) {
    char bytes[65536];
    ssize_t got = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) buf_append(&client->in, bytes, (size_t)got);
    if (got == 0 || (got < 0 && errno != EAGAIN)) client->eof = true;
    if (got < 0 && !client->eof) fixture_turn(client->fixture, client->fd);
}

void client_read(struct client *client, size_t at_least) {
    uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
    while (client->in.size < at_least && !client->eof) {
        assert_true(clock_monotonic_ms() < deadline_ms);
        receive(client);
    }
}

bool client_wait_text(struct client *client, const char *text) {
    while (!client->eof && !strstr(buf_string(&client->in), text)) client_read(client, client->in.size + 1);
    return strstr(buf_string(&client->in), text) != NULL;
}

void client_wait_eof(struct client *client) {
    client_read(client, SIZE_MAX);
}

/* ---- responses ---- */

static void take_bytes(struct client *client, size_t size, struct buf *to) {
    client_read(client, size);
    assert_true(client->in.size >= size);
    buf_append(to, client->in.data, size);
    buf_consume(&client->in, size);
}

static void take_chunks(struct client *client, struct buf *to) {
    struct buf ignored = BUF_INIT;
    size_t size;
    do {
        assert_true(client_wait_text(client, "\r\n"));
        char *end;
        size = strtoul(buf_string(&client->in), &end, 16);
        take_bytes(client, (size_t)(end - (char *)client->in.data) + 2, &ignored);
        take_bytes(client, size, to);
        take_bytes(client, 2, &ignored);
    } while (size > 0);
    buf_free(&ignored);
}

void client_response(struct client *client, struct response *ret) {
    *ret = (struct response){0};
    if (!client_wait_text(client, "\r\n\r\n")) fail_msg("no answer: '%s'", buf_string(&client->in));
    const char *start = buf_string(&client->in);
    size_t size = (size_t)(strstr(start, "\r\n\r\n") + 4 - start);
    assert_true(size < sizeof ret->header);
    memcpy(ret->header, start, size);
    buf_consume(&client->in, size);
    assert_int_equal(sscanf(ret->header, "HTTP/1.1 %d", &ret->status), 1);
    const char *length = strcasestr(ret->header, "\r\nContent-Length: ");
    if (length)
        take_bytes(client, strtoul(length + 18, NULL, 10), &ret->body);
    else if (strcasestr(ret->header, "\r\nTransfer-Encoding: chunked"))
        take_chunks(client, &ret->body);
    ret->json = json_loads(buf_string(&ret->body), JSON_DECODE_ANY, NULL);
}

void response_free(struct response *response) {
    json_decref(response->json);
    buf_free(&response->body);
}

void client_ask(struct client *client, const char *method, const char *target, const char *headers, const char *body,
                struct response *ret) {
    client_send(client, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, target, headers ? headers : "");
    if (body) client_send(client, "Content-Length: %zu\r\n", strlen(body));
    client_send(client, "\r\n%s", body ? body : "");
    client_response(client, ret);
}

const char *response_text(const struct response *response, const char *member) {
    const char *text = json_string_value(json_object_get(response->json, member));
    return text ? text : "";
}

void assert_problem(const struct response *response, int status, const char *code) {
    if (response->status != status || strcmp(response_text(response, "code"), code) != 0)
        fail_msg("expected %d %s, got %d: %s", status, code, response->status, (const char *)response->body.data);
    assert_non_null(strcasestr(response->header, "\r\nContent-Type: application/problem+json\r\n"));
    assert_int_equal(json_integer_value(json_object_get(response->json, "status")), status);
    static const char *const texts[] = {"type", "title", "detail", "category", "recovery"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) assert_true(strlen(response_text(response, texts[i])) > 0);
    assert_true(json_is_array(json_object_get(response->json, "errors")));
}
