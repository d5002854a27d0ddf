/* Direct calls: connections that were upgraded from HTTP to frames (ops/direct.h). A call into a sandbox takes a tenth
   of a millisecond; HTTP's header, and the turns that its server takes for each request, took as long again. */
#include "api/api_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ops/direct.h"

enum { READ_BYTES = 16384, KEPT_BYTES = 65536 };

struct direct {
    TAILQ_ENTRY(direct) link;
    struct api *api;
    struct MHD_UpgradeResponseHandle *upgrade; /* the socket is MHD's to close */
    struct connection *connection;
    uv_poll_t poll;
    struct buf in, out;
    size_t sent;       /* of out */
    uint64_t begun_ms; /* when the first bytes of a question came */
    char request_id[REQUEST_ID_BYTES];
    const struct op *op;
    struct request request;
    bool running; /* the engine has it */
    bool ends;    /* with the answer that is being sent */
    bool gone;    /* the caller has left, or is not worth listening to */
    bool moves;   /* to the caller's processor, after the answer */
    unsigned processor;
};

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle) {
    struct direct *direct = handle->data;
    struct api *api = direct->api;
    TAILQ_REMOVE(&api->directs, direct, link);
    MHD_upgrade_action(direct->upgrade, MHD_UPGRADE_ACTION_CLOSE);
    json_decref(direct->request.params);
    buf_free(&direct->in);
    buf_free(&direct->out);
    free(direct);
    api_run_soon(api);
}

static void cancel(struct direct *direct) {
    if (direct->running && direct->request.cancel) direct->request.cancel(&direct->request);
}

/* The socket stays open while the engine may look at whose it is. */
static void leave(struct direct *direct) {
    if (direct->gone) return;
    direct->gone = true;
    uv_poll_stop(&direct->poll);
    connection_await_nothing(direct->connection);
    if (direct->running)
        cancel(direct);
    else
        uv_close((uv_handle_t *)&direct->poll, on_closed);
}

/* ---- answering ---- */

static void on_ready(uv_poll_t *poll, int status, int events);

/* Memory for a large question or answer is not kept. */
static void empty(struct buf *buf) {
    if (buf->capacity > KEPT_BYTES || buf->failed)
        buf_free(buf);
    else
        buf_clear(buf);
}

static void move_beside(struct direct *direct) {
    struct api *api = direct->api;
    if (direct->moves) beside_moved(&api->beside, uv_now(api->loop), beside_move_us(direct->processor));
    direct->moves = false;
}

static void await_question(struct direct *direct) {
    empty(&direct->out);
    direct->sent = 0;
    move_beside(direct);
    connection_await_request(direct->api, direct->connection);
    if (direct->ends || direct->api->closing) leave(direct);
}

static void flush(struct direct *direct) {
    while (direct->sent < direct->out.size) {
        ssize_t sent = send(direct->connection->fd, direct->out.data + direct->sent, direct->out.size - direct->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            connection_await_reader(direct->api, direct->connection);
            uv_poll_start(&direct->poll, UV_READABLE | UV_WRITABLE, on_ready);
            return;
        }
        if (sent < 0) {
            leave(direct);
            return;
        }
        direct->sent += (size_t)sent;
    }
    await_question(direct);
}

static const char *sandbox_of(const struct direct *direct) {
    const json_t *params = direct->request.params;
    const char *id = json_string_value(json_object_get(params, "id"));
    return id ? id : json_string_value(json_object_get(params, "sandbox_id"));
}

/* A question that was answered takes no memory. */
static void forget_question(struct direct *direct) {
    json_decref(direct->request.params);
    direct->request = (struct request){.params = NULL};
    direct->op = NULL;
}

static void answer_with(struct direct *direct, struct answer *answer) {
    unsigned status = answer ? answer->status : 0;
    if (answer) direct_put_answer(&direct->out, status, answer->body, answer->size);
    answer_release(answer);
    if (!answer || direct->out.failed)
        leave(direct); /* without memory for an answer there is nothing to say */
    else
        flush(direct);
    record_write(direct->api, &(struct record){.op = direct->op,
                                               .sandbox_id = sandbox_of(direct),
                                               .status = status,
                                               .uid = direct->connection->caller.uid,
                                               .begun_ms = direct->begun_ms,
                                               .request_id = direct->request_id});
    forget_question(direct);
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct direct *direct = request->transport;
    direct->running = false;
    if (direct->gone) {
        json_decref(result);
        uv_close((uv_handle_t *)&direct->poll, on_closed);
        return;
    }
    struct answer *answer = error ? answer_problem(error, sandbox_of(direct), result)
                                  : answer_json(MHD_HTTP_OK, result ? json_incref(result) : json_object());
    json_decref(result);
    answer_with(direct, answer);
}

/* ---- asking ---- */

static void run(struct direct *direct, const struct direct_question *question) {
    direct->op = question->op;
    direct->running = true;
    direct->request = (struct request){.params = question->params,
                                       .caller = direct->connection->caller,
                                       .done = on_done,
                                       .transport = direct,
                                       .correlation_id = direct->request_id};
    connection_await_nothing(direct->connection);
    ops_run(direct->api->engine, direct->op, &direct->request);
}

static void note_processor(struct direct *direct, unsigned processor) {
    struct api *api = direct->api;
    uint64_t now_ms = uv_now(api->loop);
    bool is_series = series_goes_on(&api->questions, direct, now_ms);
    if (!is_series) beside_forget(&api->beside); /* what one caller says is of no use for the next */
    if (!is_series || processor == DIRECT_PROCESSOR_UNKNOWN) return;
    direct->processor = processor;
    direct->moves = beside_is_due(&api->beside, processor == beside_own(), now_ms);
}

static void take_question(struct direct *direct) {
    struct direct_question question = {.params = NULL};
    struct error error;
    int result = direct_read_question(direct->in.data, direct->in.size, &question, &error);
    empty(&direct->in);
    if (result == 0) note_processor(direct, question.processor);
    input_request_id(NULL, direct->api->next_request_id++, direct->request_id);
    if (result == 0 && direct->api->closing) {
        json_decref(question.params);
        result = error_set(&error, E_SHUTDOWN, "the service takes no more requests");
    }
    if (result == 0)
        run(direct, &question);
    else if (result == -E_FORMAT)
        leave(direct);
    else
        answer_with(direct, answer_problem(&error, NULL, NULL));
}

/* What follows is the rest of a question that nobody reads. */
static void refuse_size(struct direct *direct) {
    struct error error;
    error_set(&error, E_TOO_LARGE, "the question is longer than %zu bytes", direct->api->config.body_max_bytes);
    buf_free(&direct->in);
    direct->ends = true;
    answer_with(direct, answer_problem(&error, NULL, NULL));
}

static bool is_busy(const struct direct *direct) {
    return direct->running || direct->out.size > 0;
}

/* One question at a time: whoever sends more before the answer has come does not speak this language. */
static void take_input(struct direct *direct) {
    struct api *api = direct->api;
    size_t frame_size = 0, max = DIRECT_HEAD_MAX_BYTES + api->config.body_max_bytes;
    bool is_whole = direct_is_whole(direct->in.data, direct->in.size, &frame_size);
    if (is_busy(direct) || (is_whole && frame_size < direct->in.size))
        leave(direct);
    else if (direct->in.failed || frame_size > max)
        refuse_size(direct);
    else if (is_whole)
        take_question(direct);
    else
        connection_await_body(api, direct->connection, direct->begun_ms, direct->in.size);
}

static void read_some(struct direct *direct) {
    uint8_t bytes[READ_BYTES];
    ssize_t size = receive_bytes(direct->api, direct->connection->fd, bytes, sizeof bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        leave(direct);
        return;
    }
    if (direct->in.size == 0) direct->begun_ms = uv_now(direct->api->loop);
    buf_append(&direct->in, bytes, (size_t)size);
    take_input(direct);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct direct *direct = poll->data;
    if (status < 0) {
        leave(direct);
        return;
    }
    if (events & UV_WRITABLE) {
        uv_poll_start(poll, UV_READABLE, on_ready);
        flush(direct);
    }
    if (events & UV_READABLE && !direct->gone) read_some(direct);
}

/* A question that has come is answered, if only with why not. */
static void close_soon(struct direct *direct) {
    cancel(direct);
    if (!direct->gone && !is_busy(direct)) read_some(direct);
    if (!is_busy(direct) && direct->in.size == 0) leave(direct);
}

void direct_close_all(struct api *api, bool is_late) {
    struct direct *direct = TAILQ_FIRST(&api->directs);
    while (direct) {
        struct direct *next = TAILQ_NEXT(direct, link);
        if (is_late)
            leave(direct);
        else if (!direct->gone)
            close_soon(direct);
        direct = next;
    }
}

/* ---- the beginning ---- */

static void begin(void *data, struct MHD_Connection *mhd, void *context, const char *bytes, size_t size, MHD_socket fd,
                  struct MHD_UpgradeResponseHandle *upgrade) {
    (void)context;
    struct api *api = data;
    struct direct *direct = calloc(1, sizeof *direct);
    if (!direct || uv_poll_init_socket(api->loop, &direct->poll, fd) < 0) {
        free(direct);
        MHD_upgrade_action(upgrade, MHD_UPGRADE_ACTION_CLOSE);
        api_run_soon(api);
        return;
    }
    direct->api = api;
    direct->upgrade = upgrade;
    direct->connection = connection_of(mhd);
    direct->poll.data = direct;
    TAILQ_INSERT_TAIL(&api->directs, direct, link);
    uv_poll_start(&direct->poll, UV_READABLE, on_ready);
    await_question(direct);
    if (size == 0 || direct->gone) return;
    direct->begun_ms = uv_now(api->loop);
    buf_append(&direct->in, bytes, size);
    take_input(direct);
}

struct MHD_Response *direct_response(struct api *api) {
    struct MHD_Response *response = MHD_create_response_for_upgrade(begin, api);
    if (response) MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, DIRECT_PROTOCOL);
    return response;
}
