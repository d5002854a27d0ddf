/* One request and its answer over HTTP, on a connection that is kept. Lists are read page by page. */
#include <string.h>

#include "client/client_internal.h"
#include "ops/direct.h"

enum {
    ANSWER_MAX_BYTES = 64 << 20,
    ITEM_MAX_BYTES = 32 << 20,
    PAGES_MAX = 10000,
    /* Longer than any deadline the service keeps itself, so that its own, better answer comes first. */
    DEFAULT_TIMEOUT_MS = 15 * 60 * 1000,
};

/* What has come of one exchange so far. */
struct answer {
    struct call *call;
    struct buf text;  /* the whole answer, or the unfinished line of a stream */
    json_t *result;   /* of a stream's last line */
    bool left;        /* the reader ended the stream */
    bool is_complete; /* a stream said how it ended */
};

static void answer_free(struct answer *answer) {
    buf_free(&answer->text);
    json_decref(answer->result);
}

/* ---- connections ---- */

bool connections_take(struct sbx *sbx, struct connections *connections, int *ret_fd) {
    int fd = -1;
    pthread_mutex_lock(&sbx->lock);
    while (fd < 0 && connections->count > 0) {
        fd = connections->fds[--connections->count];
        if (!http_usable(fd)) fd = fd_close(fd);
    }
    pthread_mutex_unlock(&sbx->lock);
    *ret_fd = fd;
    return fd >= 0;
}

void connections_give(struct sbx *sbx, struct connections *connections, int fd) {
    pthread_mutex_lock(&sbx->lock);
    bool kept = connections->count < CONNECTIONS_IDLE_MAX;
    if (kept) connections->fds[connections->count++] = fd;
    pthread_mutex_unlock(&sbx->lock);
    if (!kept) fd_close(fd);
}

/* ---- streams: one JSON object per line ---- */

static int take_line(struct answer *answer, const char *line, size_t size, struct error *reterr) {
    if (size == 0) return 0; /* keeps the connection alive */
    json_t *object = json_loadb(line, size, 0, NULL);
    json_t *item = json_object_get(object, "item");
    json_t *problem = json_object_get(object, "problem");
    json_t *done = json_object_get(object, "done");
    int result = 0;
    if (item) {
        answer->left = answer->call->item(item, answer->call->data) != 0;
        result = answer->left ? -1 : 0;
    } else if (problem) {
        struct error error;
        problem_read(problem, 500, &error);
        answer->call->problem = json_incref(problem);
        result = error_set(reterr, error.code, "%s", error.detail);
    } else if (done) {
        answer->result = json_incref(done);
        answer->is_complete = true;
    } else {
        result = error_set(reterr, E_FORMAT, "a line of the stream is neither item, done nor problem");
    }
    json_decref(object);
    return result;
}

static int take_lines(struct answer *answer, size_t searched, struct error *reterr) {
    const char *text = (const char *)answer->text.data;
    size_t start = 0;
    const char *newline;
    int result = 0;
    while (result == 0 && (newline = memchr(text + searched, '\n', answer->text.size - searched))) {
        size_t end = (size_t)(newline - text);
        result = take_line(answer, text + start, end - start, reterr);
        searched = start = end + 1;
    }
    buf_consume(&answer->text, start);
    return result;
}

static bool is_stream(const struct http_parser *parser) {
    return parser->status < 400 && strcmp(parser->type, "application/x-ndjson") == 0;
}

static int take_body(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    struct answer *answer = parser->data;
    bool stream = answer->call->op->shape == OP_STREAM && is_stream(parser);
    size_t searched = answer->text.size;
    buf_append(&answer->text, bytes, size);
    if (answer->text.failed || answer->text.size > (stream ? ITEM_MAX_BYTES : ANSWER_MAX_BYTES))
        return error_set(reterr, E_TOO_LARGE, "the service's answer is too large");
    return stream ? take_lines(answer, searched, reterr) : 0;
}

/* ---- one exchange ---- */

/* Nothing of the answer has come: the connection was closed under us, and asking again does no harm. */
static bool may_ask_again(const struct http_request *request, const struct http_parser *parser, bool reused) {
    return reused && parser->state == HTTP_STATUS_LINE && parser->line.size == 0 && strcmp(request->method, "GET") == 0;
}

static uint64_t deadline_of(const struct sbx *sbx, const struct op *op) {
    if (sbx->timeout_ms) return clock_monotonic_ms() + sbx->timeout_ms;
    return op->shape == OP_STREAM ? 0 : clock_monotonic_ms() + DEFAULT_TIMEOUT_MS;
}

static int exchange(struct sbx *sbx, const struct http_request *request, struct http_parser *parser,
                    struct answer *answer, struct error *reterr) {
    struct http_wait wait = {answer->call->deadline_ms, sbx->cancel_fd};
    CLEANUP_FD int fd = -1;
    bool reused = service_is_whole(sbx) && connections_take(sbx, &sbx->idle, &fd);
    int result = reused ? 0 : service_connect(sbx, wait.deadline_ms, &fd, reterr);
    if (result == 0) result = http_exchange(fd, request, &wait, parser, reterr);
    if (result == -E_NO_DAEMON && may_ask_again(request, parser, reused)) {
        fd = fd_close(fd);
        result = service_connect(sbx, wait.deadline_ms, &fd, reterr);
        if (result == 0) result = http_exchange(fd, request, &wait, parser, reterr);
    }
    if (result == 0 && parser->keep_alive) connections_give(sbx, &sbx->idle, take_fd(&fd));
    return result;
}

static int read_answer(struct call *call, int status, const void *text, size_t size, json_t **ret,
                       struct error *reterr) {
    json_t *object = json_loadb(text, size, 0, NULL);
    if (status >= 400) {
        struct error error;
        problem_read(object, status, &error);
        call->problem = json_is_object(object) ? object : NULL;
        if (!call->problem) json_decref(object);
        return error_set(reterr, error.code, "%s", error.detail);
    }
    if (!object) return error_set(reterr, E_FORMAT, "the service's answer is not JSON");
    *ret = object;
    return 0;
}

static int ask(struct sbx *sbx, struct call *call, const struct http_request *request, json_t **ret,
               struct error *reterr) {
    CLEANUP(answer_free) struct answer answer = {.call = call};
    CLEANUP(http_parser_free) struct http_parser parser;
    http_parser_init(&parser, take_body, &answer);
    int result = exchange(sbx, request, &parser, &answer, reterr);
    if (answer.left) {
        *ret = json_null();
        return 0;
    }
    if (result < 0) return result;
    if (call->op->shape != OP_STREAM || !is_stream(&parser))
        return read_answer(call, parser.status, answer.text.data, answer.text.size, ret, reterr);
    if (!answer.is_complete) return error_set(reterr, E_NO_DAEMON, "the stream ended without saying how");
    *ret = take_ptr(answer.result);
    return 0;
}

static int ask_page(struct sbx *sbx, struct call *call, const json_t *params, const char *cursor, json_t **ret,
                    struct error *reterr) {
    CLEANUP(target_free) struct target target = {BUF_INIT, BUF_INIT};
    int result = target_build(call->op, params, cursor, &target, reterr);
    if (result < 0) return result;
    struct http_request request = {.method = call->op->method, .path = buf_string(&target.path)};
    if (target.body.size > 0) {
        request.body = buf_string(&target.body);
        request.body_size = target.body.size;
    }
    return ask(sbx, call, &request, ret, reterr);
}

/* ---- whole operations ---- */

/* Lists page over HTTP; callers get them whole. */
static int ask_list(struct sbx *sbx, struct call *call, const json_t *params, json_t **ret, struct error *reterr) {
    json_t *all = json_array();
    CLEANUP_FREE char *cursor = NULL;
    int result = 0;
    for (int page_number = 0; result == 0 && page_number < PAGES_MAX; page_number++) {
        json_t *page = NULL;
        result = ask_page(sbx, call, params, cursor, &page, reterr);
        if (result < 0) break;
        if (json_array_extend(all, json_object_get(page, "items")) < 0)
            result = error_set(reterr, E_FORMAT, "the service's answer is not a list");
        const char *next = json_string_value(json_object_get(page, "next"));
        free(cursor);
        cursor = next ? strdup(next) : NULL;
        if (next && !cursor) result = error_set(reterr, E_NO_MEMORY, "no memory for a list");
        json_decref(page);
        if (!cursor) break;
    }
    if (result < 0)
        json_decref(all);
    else
        *ret = all;
    return result;
}

static int take_text(struct call *call, const char *text, size_t size, struct error *reterr) {
    if (memchr(text, '\0', size)) return error_set(reterr, E_FORMAT, "the service's answer is not JSON");
    call->text = strndup(text, size);
    return call->text ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for the answer");
}

/* False: nothing of an answer came, and it has to be asked for in another way. */
static bool ask_directly(struct sbx *sbx, struct call *call, const json_t *params, json_t **ret, int *ret_result,
                         struct error *reterr) {
    struct http_wait wait = {call->deadline_ms, sbx->cancel_fd};
    CLEANUP(buf_free) struct buf in = {.max = ANSWER_MAX_BYTES};
    CLEANUP_FD int fd = -1;
    unsigned status = 0;
    const char *body = NULL;
    size_t size = 0;
    if (!direct_connect(sbx, call->op, &wait, &fd)) return false;
    int result = direct_exchange(fd, call->op, params, &wait, &in, reterr);
    bool is_lost = result == -E_NO_DAEMON && in.size == 0;
    if (is_lost && string_equal(call->op->method, "GET")) return false;
    if (result == 0) result = direct_read_answer(in.data, in.size, &status, &body, &size, reterr);
    if (result == 0) {
        connections_give(sbx, &sbx->idle_direct, take_fd(&fd));
        result = status >= 400 ? read_answer(call, (int)status, body, size, ret, reterr)
                               : take_text(call, body, size, reterr);
    }
    *ret_result = result;
    return true;
}

static int ask_object(struct sbx *sbx, struct call *call, const json_t *params, json_t **ret, struct error *reterr) {
    int result = 0;
    if (ask_directly(sbx, call, params, ret, &result, reterr)) return result;
    return ask_page(sbx, call, params, NULL, ret, reterr);
}

int client_call(struct sbx *sbx, struct call *call, json_t **ret, struct error *reterr) {
    if (!call->op->path) return error_set(reterr, E_INVALID, "%s is not an operation of the service", call->op->name);
    json_t *params = NULL;
    int result = ops_check(call->op, call->params, &params, reterr);
    if (result < 0) return result;
    CLEANUP(folders_let_go) struct held_folders held;
    folders_hold(call->op, params, &held);
    call->deadline_ms = deadline_of(sbx, call->op);
    result = call->op->shape == OP_LIST ? ask_list(sbx, call, params, ret, reterr)
                                        : ask_object(sbx, call, params, ret, reterr);
    json_decref(params);
    return result;
}
