/* A webhook's receiver on a thread of its own, which answers as a script says and keeps what it got. */
#include "receiver.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <uv.h>

#include "base/base.h"

enum { REQUEST_MAX_BYTES = 64 << 10, CONNECTIONS_MAX = 16 };

struct receiver {
    int listen_fd, end_fd;
    const int *script;
    uint16_t port;
    bool listens;
    uv_thread_t thread;
    uv_mutex_t mutex;
    uv_cond_t came;
    char *requests[RECEIVER_REQUESTS_MAX];
    size_t count;
};

struct connection {
    int fd;
    struct buf got;
    bool is_held; /* it gets no answer */
};

static int answer_of(const struct receiver *receiver, size_t number) {
    for (size_t i = 0; receiver->script && receiver->script[i]; i++)
        if (i == number) return receiver->script[i];
    return 200;
}

static void send_text(int fd, const char *text) {
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return;
}

static bool is_whole(struct connection *connection) {
    const char *text = buf_string(&connection->got);
    const char *end = strstr(text, "\r\n\r\n");
    if (!end) return false;
    const char *length = strcasestr(text, "content-length:");
    return length && strlen(end + 4) >= strtoul(length + strlen("content-length:"), NULL, 10);
}

static size_t keep(struct receiver *receiver, struct connection *connection) {
    uv_mutex_lock(&receiver->mutex);
    size_t number = receiver->count;
    if (number < RECEIVER_REQUESTS_MAX) receiver->requests[receiver->count++] = strdup(buf_string(&connection->got));
    uv_cond_broadcast(&receiver->came);
    uv_mutex_unlock(&receiver->mutex);
    buf_clear(&connection->got);
    return number;
}

static void answer(struct connection *connection, int status) {
    char head[128];
    connection->is_held = status == RECEIVER_SILENT;
    if (status == RECEIVER_ENDLESS) {
        connection->is_held = true;
        send_text(connection->fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx");
    } else if (status > 0) {
        snprintf(head, sizeof head, "HTTP/1.1 %d Said\r\nContent-Length: 2\r\n\r\n{}", status);
        send_text(connection->fd, head);
    }
}

/* False: it is over. */
static bool serve(struct receiver *receiver, struct connection *connection) {
    char chunk[4096];
    ssize_t length = recv(connection->fd, chunk, sizeof chunk, 0);
    if (length <= 0 || connection->got.size > REQUEST_MAX_BYTES) return false;
    buf_append(&connection->got, chunk, (size_t)length);
    if (is_whole(connection)) answer(connection, answer_of(receiver, keep(receiver, connection)));
    return true;
}

static void end(struct connection *connection) {
    close(connection->fd);
    buf_free(&connection->got);
}

static void thread_main(void *argument) {
    struct receiver *receiver = argument;
    struct connection connections[CONNECTIONS_MAX];
    size_t count = 0;
    for (;;) {
        struct pollfd fds[CONNECTIONS_MAX + 2] = {{.fd = receiver->end_fd, .events = POLLIN},
                                                  {.fd = receiver->listen_fd, .events = POLLIN}};
        for (size_t i = 0; i < count; i++) fds[i + 2] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
        if (poll(fds, count + 2, -1) < 0 || fds[0].revents) break;
        for (size_t i = count; i-- > 0;) {
            if (!fds[i + 2].revents || serve(receiver, &connections[i])) continue;
            end(&connections[i]);
            connections[i] = connections[--count];
        }
        if (fds[1].revents && count < CONNECTIONS_MAX)
            connections[count++] = (struct connection){.fd = accept(receiver->listen_fd, NULL, NULL), .got = BUF_INIT};
    }
    for (size_t i = 0; i < count; i++) end(&connections[i]);
}

struct receiver *receiver_open(const int *script) {
    struct receiver *receiver = calloc(1, sizeof *receiver);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    receiver->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    receiver->end_fd = eventfd(0, EFD_CLOEXEC);
    receiver->script = script;
    if (bind(receiver->listen_fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(receiver->listen_fd, (struct sockaddr *)&address, &length) < 0)
        abort();
    receiver->port = ntohs(address.sin_port);
    uv_mutex_init(&receiver->mutex);
    uv_cond_init(&receiver->came);
    return receiver;
}

void receiver_listen(struct receiver *receiver) {
    if (listen(receiver->listen_fd, SOMAXCONN) < 0 || uv_thread_create(&receiver->thread, thread_main, receiver) < 0)
        abort();
    receiver->listens = true;
}

void receiver_close(struct receiver *receiver) {
    if (eventfd_write(receiver->end_fd, 1) < 0) abort();
    if (receiver->listens) uv_thread_join(&receiver->thread);
    for (size_t i = 0; i < receiver->count; i++) free(receiver->requests[i]);
    close(receiver->listen_fd);
    close(receiver->end_fd);
    uv_cond_destroy(&receiver->came);
    uv_mutex_destroy(&receiver->mutex);
    free(receiver);
}

void receiver_url(const struct receiver *receiver, char *ret, size_t size) {
    snprintf(ret, size, "http://127.0.0.1:%u/hook", receiver->port);
}

const char *receiver_wait(struct receiver *receiver, size_t number, uint64_t timeout_ms) {
    uint64_t over_ms = clock_monotonic_ms() + timeout_ms, now_ms;
    uv_mutex_lock(&receiver->mutex);
    while (receiver->count <= number && (now_ms = clock_monotonic_ms()) < over_ms)
        uv_cond_timedwait(&receiver->came, &receiver->mutex, (over_ms - now_ms) * 1000000);
    const char *request = receiver->count > number ? receiver->requests[number] : NULL;
    uv_mutex_unlock(&receiver->mutex);
    return request;
}

size_t receiver_count(struct receiver *receiver) {
    uv_mutex_lock(&receiver->mutex);
    size_t count = receiver->count;
    uv_mutex_unlock(&receiver->mutex);
    return count;
}

char *receiver_header(const char *request, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\r\n%s: ", name);
    const char *at = strcasestr(request, wanted);
    if (!at || at > strstr(request, "\r\n\r\n")) return NULL;
    at += strlen(wanted);
    return strndup(at, strcspn(at, "\r"));
}

const char *receiver_body(const char *request) {
    return strstr(request, "\r\n\r\n") + 4;
}
