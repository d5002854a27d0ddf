/* Calls without HTTP (ops/direct.h), for clients that ask often. */
#include "ops/direct.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "client/client_internal.h"

enum {
    CALLS_BEFORE = 3, /* the upgrade takes a round trip of its own: seldom worth it */
    READ_BYTES = 16384,
};

static int ignore_body(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)parser, (void)bytes, (void)size, (void)reterr;
    return 0;
}

/* A service that doesn't know of it is not asked again. */
static bool upgrade(struct sbx *sbx, const struct http_wait *wait, int *ret_fd) {
    CLEANUP_FD int fd = -1;
    CLEANUP(http_parser_free) struct http_parser parser;
    http_parser_init(&parser, ignore_body, NULL);
    if (!connections_take(sbx, &sbx->idle, &fd)) return false;
    struct http_request request = {.method = "GET", .path = DIRECT_PATH, .upgrade = DIRECT_PROTOCOL};
    int result = http_exchange(fd, &request, wait, &parser, NULL);
    if (result == 0 && parser.status == HTTP_SWITCHING_PROTOCOLS) {
        *ret_fd = take_fd(&fd);
        return true;
    }
    if (result == 0 && parser.status < HTTP_SERVER_ERROR) { /* what the service can't do now it may do later */
        pthread_mutex_lock(&sbx->lock);
        sbx->has_no_direct = true;
        pthread_mutex_unlock(&sbx->lock);
    }
    if (result == 0 && parser.keep_alive) connections_give(sbx, &sbx->idle, take_fd(&fd));
    return false;
}

bool direct_connect(struct sbx *sbx, const struct op *op, const struct http_wait *wait, int *ret_fd) {
    if (!direct_takes(op) || !service_is_whole(sbx)) return false;
    if (connections_take(sbx, &sbx->idle_direct, ret_fd)) return true;
    pthread_mutex_lock(&sbx->lock);
    bool is_often = sbx->calls >= CALLS_BEFORE, is_known = !sbx->has_no_direct;
    sbx->calls += !is_often;
    pthread_mutex_unlock(&sbx->lock);
    return is_often && is_known && upgrade(sbx, wait, ret_fd);
}

static int read_some(int fd, struct buf *in, struct error *reterr) {
    uint8_t bytes[READ_BYTES];
    ssize_t size = recv(fd, bytes, sizeof bytes, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (size < 0 && errno != ECONNRESET) return error_errno(reterr, errno, "reading from the service");
    if (size <= 0)
        return error_set(reterr, E_NO_DAEMON, "the service closed the connection before its answer was complete");
    buf_append(in, bytes, (size_t)size);
    return in->failed ? error_set(reterr, E_TOO_LARGE, "the service's answer is too large") : 0;
}

static unsigned own_processor(void) {
    int processor = sched_getcpu();
    return processor < 0 || processor > DIRECT_PROCESSOR_UNKNOWN ? DIRECT_PROCESSOR_UNKNOWN : (unsigned)processor;
}

int direct_exchange(int fd, const struct op *op, const json_t *params, const struct http_wait *wait, struct buf *in,
                    struct error *reterr) {
    CLEANUP(buf_free) struct buf question = BUF_INIT;
    size_t size = 0;
    direct_put_question(&question, &(struct direct_question){op, (json_t *)params, own_processor()});
    if (question.failed) return error_set(reterr, E_NO_MEMORY, "no memory for a question");
    int result = http_send(fd, question.data, question.size, wait, reterr);
    while (result == 0 && !direct_is_whole(in->data, in->size, &size)) {
        result = http_await(fd, wait, reterr);
        if (result == 0) result = read_some(fd, in, reterr);
    }
    if (result == 0 && in->size > size) return error_set(reterr, E_FORMAT, "the service says more than it was asked");
    return result;
}
