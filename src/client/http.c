/* A small HTTP client over a unix socket, with a deadline for each exchange. */
#include "client/http.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { READ_BYTES = 64 * 1024, BACKLOG_RETRY_MS = 2 };

static int time_left_ms(const struct http_wait *wait) {
    if (wait->deadline_ms == 0) return -1;
    uint64_t now = clock_monotonic_ms();
    if (now >= wait->deadline_ms) return 0;
    uint64_t left = wait->deadline_ms - now;
    return left < 1000000000 ? (int)left : 1000000000;
}

/* Until the socket is ready for events, or at most for limit_ms (-1: the whole time there is). */
static int wait_for(int fd, short events, int limit_ms, const struct http_wait *wait, struct error *reterr) {
    for (;;) {
        struct pollfd polled[] = {{fd, events, 0}, {wait->cancel_fd, POLLIN, 0}};
        int left = time_left_ms(wait);
        int count = poll(polled, 2, limit_ms >= 0 && (left < 0 || limit_ms < left) ? limit_ms : left);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return error_errno(reterr, errno, "waiting for the service");
        if (polled[1].revents) return error_set(reterr, E_TIMEOUT, "interrupted");
        if (polled[0].revents || (count == 0 && limit_ms >= 0 && time_left_ms(wait) != 0)) return 0;
        if (count == 0) return error_set(reterr, E_TIMEOUT, "the service did not answer in time");
    }
}

static int connect_error(int errno_value, const char *socket_path, struct error *reterr) {
    if (errno_value == ENOENT || errno_value == ECONNREFUSED)
        return error_set(reterr, E_NO_DAEMON, "no service listens at %s", socket_path);
    if (errno_value == EACCES || errno_value == EPERM)
        return error_set(reterr, E_FORBIDDEN, "you may not connect to %s", socket_path);
    if (errno_value == ENOTDIR) return error_set(reterr, E_INVALID, "%s lies in no directory", socket_path);
    return error_errno(reterr, errno_value, "connecting to %s", socket_path);
}

int http_connect(const char *socket_path, const struct http_wait *wait, int *ret_fd, struct error *reterr) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (string_format(address.sun_path, sizeof address.sun_path, reterr, "%s", socket_path) < 0)
        return error_prefix(reterr, "the service's socket");
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_errno(reterr, errno, "making a socket");
    while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return connect_error(errno, socket_path, reterr);
        /* The queue of connections is full: unix sockets can only be tried again. */
        int result = wait_for(-1, 0, BACKLOG_RETRY_MS, wait, reterr);
        if (result < 0) return result;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

int http_send(int fd, const uint8_t *data, size_t size, const struct http_wait *wait, struct error *reterr) {
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent >= 0) {
            data += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN) {
            int result = wait_for(fd, POLLOUT, -1, wait, reterr);
            if (result < 0) return result;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            /* It may have answered before it closed, "too large" for instance. */
            return 0;
        } else if (errno != EINTR) {
            return error_errno(reterr, errno, "sending to the service");
        }
    }
    return 0;
}

static int send_request(int fd, const struct http_request *request, const struct http_wait *wait,
                        struct error *reterr) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: sandbox\r\nAccept: application/json, application/x-ndjson\r\n",
               request->method, request->path);
    if (request->body)
        buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", request->body_size);
    if (request->upgrade) buf_printf(&text, "Connection: Upgrade\r\nUpgrade: %s\r\n", request->upgrade);
    buf_append_string(&text, "\r\n");
    buf_append(&text, request->body, request->body ? request->body_size : 0);
    if (text.failed) return error_set(reterr, E_NO_MEMORY, "no memory for a request of %zu bytes", request->body_size);
    return http_send(fd, text.data, text.size, wait, reterr);
}

static int read_some(int fd, struct http_parser *parser, struct error *reterr) {
    uint8_t bytes[READ_BYTES];
    ssize_t size = recv(fd, bytes, sizeof bytes, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (size < 0 && errno != ECONNRESET) return error_errno(reterr, errno, "reading from the service");
    if (size <= 0) {
        parser->keep_alive = false;
        return http_parse_end(parser, reterr);
    }
    size_t used = 0;
    int result = http_parse(parser, bytes, (size_t)size, &used, reterr);
    /* We send one request at a time, so nothing may follow its response. */
    if (result == 0 && used < (size_t)size) parser->keep_alive = false;
    return result;
}

int http_await(int fd, const struct http_wait *wait, struct error *reterr) {
    return wait_for(fd, POLLIN, -1, wait, reterr);
}

int http_exchange(int fd, const struct http_request *request, const struct http_wait *wait, struct http_parser *parser,
                  struct error *reterr) {
    parser->takes_upgrade = request->upgrade != NULL;
    int result = send_request(fd, request, wait, reterr);
    while (result == 0 && parser->state != HTTP_DONE) {
        result = http_await(fd, wait, reterr);
        if (result == 0) result = read_some(fd, parser, reterr);
    }
    return result;
}

bool http_usable(int fd) {
    struct pollfd polled = {fd, POLLIN | POLLRDHUP, 0};
    return poll(&polled, 1, 0) == 0;
}
