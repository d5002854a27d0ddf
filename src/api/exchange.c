/* One request and its answer over HTTP. An exchange is suspended in MHD while its operation runs, and outlives a
   caller that leaves until the operation is done. */
#include "api/api_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static struct exchange *exchange_of_turn(struct loop_waiter *turn) {
    return (struct exchange *)((char *)turn - offsetof(struct exchange, turn));
}

/* Here and not when the server runs again: it would dispatch all that have waited in one run. */
static void on_turn(struct loop_waiter *turn) {
    struct exchange *exchange = exchange_of_turn(turn);
    exchange->dispatched = true;
    if (!exchange->gone) dispatch(exchange, exchange->method, exchange->url);
    if (!exchange->running && !exchange->waiting && !exchange->in_work) exchange_wake(exchange);
}

static struct exchange *new_exchange(struct api *api, struct MHD_Connection *mhd) {
    struct connection *connection = connection_of(mhd);
    struct exchange *exchange = connection ? calloc(1, sizeof *exchange) : NULL;
    if (!exchange) return NULL;
    exchange->api = api;
    exchange->mhd = mhd;
    exchange->connection = connection;
    exchange->header_ms = uv_now(api->loop);
    exchange->turn.go = on_turn;
    input_request_id(mhd, api->next_request_id++, exchange->request_id);
    TAILQ_INSERT_TAIL(&api->exchanges, exchange, link);
    return exchange;
}

/* Its connection may be gone: its operation is still being called off. */
bool exchange_is_of(const struct exchange *exchange, const uid_t *principal) {
    return !principal || api_principal(exchange->api, exchange->request.caller.uid) == *principal;
}

void exchange_free_body(struct exchange *exchange) {
    struct buf *body = &exchange->body;
    answers_free(exchange->api, exchange->request.caller.uid, take_ptr(body->data), body->capacity);
    *body = (struct buf){.max = body->max};
}

static void free_exchange(struct exchange *exchange) {
    struct api *api = exchange->api;
    TAILQ_REMOVE(&api->exchanges, exchange, link);
    loop_turns_remove(&api->turns, &exchange->turn);
    stream_free(exchange->stream);
    answer_release(exchange->answer);
    json_decref(exchange->request.params);
    json_decref(exchange->intake.params);
    exchange_free_body(exchange);
    free(exchange->intake.page.cursor);
    free(exchange);
    api_maybe_stop(api);
}

struct exchange *exchange_of_work(struct loop_work *work) {
    return (struct exchange *)((char *)work - offsetof(struct exchange, work));
}

void exchange_work(struct exchange *exchange, void (*run)(struct loop_work *work),
                   void (*done)(struct loop_work *work)) {
    exchange->in_work = true;
    exchange->work = (struct loop_work){.run = run, .done = done};
    loop_work_submit(&exchange->api->workers, api_principal(exchange->api, exchange->request.caller.uid),
                     &exchange->work);
}

void exchange_suspend(struct exchange *exchange) {
    exchange->suspended = true;
    MHD_suspend_connection(exchange->mhd);
    api_watch_caller(exchange->api, exchange);
}

void exchange_wake(struct exchange *exchange) {
    if (!exchange->suspended) return;
    exchange->suspended = false;
    api_unwatch_caller(exchange->api, exchange);
    MHD_resume_connection(exchange->mhd);
    api_run_soon(exchange->api);
}

void exchange_wake_or_free(struct exchange *exchange) {
    if (exchange->completed)
        free_exchange(exchange);
    else
        exchange_wake(exchange);
}

void exchange_cancel(struct exchange *exchange) {
    if (exchange->running && exchange->request.cancel) exchange->request.cancel(&exchange->request);
}

/* The connection stays suspended, and with it the caller's socket open, until the engine has answered. A request with
   an Idempotency-Key goes on: its caller will ask again for the answer. */
void exchange_caller_left(struct exchange *exchange) {
    exchange->gone = true;
    api_unwatch_caller(exchange->api, exchange);
    if (!exchange->remembered) exchange_cancel(exchange);
}

/* ---- the end ---- */

static void record(const struct exchange *exchange) {
    record_write(exchange->api,
                 &(struct record){.op = exchange->op,
                                  .sandbox_id = json_string_value(json_object_get(exchange->request.params, "id")),
                                  .status = exchange->status,
                                  .uid = exchange->connection->caller.uid,
                                  .begun_ms = exchange->header_ms,
                                  .request_id = exchange->request_id});
}

/* The caller has its answer by now, or has left. */
void exchange_completed(void *data, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code) {
    (void)mhd, (void)code;
    struct exchange *exchange = *context;
    if (!exchange) return;
    *context = NULL;
    exchange->completed = true;
    record(exchange);
    connection_await_request(data, exchange->connection);
    if (exchange->running || exchange->in_work)
        exchange_cancel(exchange);
    else
        free_exchange(exchange);
}

/* ---- answering ---- */

static void release_answer(void *answer) {
    answer_release(answer);
}

static struct MHD_Response *response_of(struct answer *answer) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(answer->size, answer->body, release_answer, answer);
    if (!response) return NULL;
    answer_reference(answer);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    if (answer->allow[0]) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    return response;
}

/* Without memory for an answer there is nothing to say: the connection closes. */
static enum MHD_Result respond(struct exchange *exchange) {
    unsigned status = exchange->answer       ? exchange->answer->status
                      : exchange->is_upgrade ? MHD_HTTP_SWITCHING_PROTOCOLS
                                             : MHD_HTTP_OK;
    struct MHD_Response *response = exchange->answer       ? response_of(exchange->answer)
                                    : exchange->is_upgrade ? direct_response(exchange->api)
                                                           : stream_response(exchange->stream);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "X-Request-Id", exchange->request_id);
    if (exchange->api->closing || exchange->connection->is_refused)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(exchange->mhd, status, response);
    MHD_destroy_response(response);
    exchange->status = status;
    return result;
}

static enum MHD_Result proceed(struct exchange *exchange) {
    bool streaming = exchange->stream && exchange->stream->started;
    bool is_under_way = exchange->running || exchange->in_work;
    if (exchange->gone && !is_under_way) return MHD_NO;
    if (exchange->answer && !exchange->in_work) return respond(exchange);
    if (exchange->is_upgrade || streaming) return respond(exchange);
    if (!is_under_way && !exchange->waiting) return MHD_NO;
    exchange_suspend(exchange);
    return MHD_YES;
}

/* ---- receiving ---- */

/* What the header says of the body's length. One that comes in chunks may have as much as is allowed, whatever length
   is told beside that: the server counts the chunks. */
static uint64_t announced_bytes(struct exchange *exchange) {
    struct MHD_Connection *mhd = exchange->mhd;
    const char *text = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t length = 0;
    if (MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return exchange->body_max_bytes;
    return text && parse_u64(text, &length) ? length : 0;
}

static int admit_body(struct exchange *exchange, struct error *reterr) {
    uint64_t length = announced_bytes(exchange);
    if (length > exchange->body_max_bytes)
        return error_set(reterr, E_TOO_LARGE, "the body is longer than %zu bytes", exchange->body_max_bytes);
    int result = bodies_reserve(exchange->api, &exchange->connection->caller, (size_t)length, reterr);
    if (result == 0) exchange->reserved_bytes = (size_t)length;
    return result;
}

/* The header has come. What is refused now is refused before its body is read. */
static enum MHD_Result begin(struct api *api, struct MHD_Connection *mhd, const char *url, const char *method,
                             void **context) {
    struct error error;
    struct exchange *exchange = new_exchange(api, mhd);
    if (!exchange) return MHD_NO;
    *context = exchange;
    connection_begin_body(api, exchange->connection);
    dispatch_route(exchange, method, url);
    if (exchange->connection->is_refused)
        exchange->answer = connection_refusal(api, exchange->connection);
    else if (admit_body(exchange, &error) < 0)
        dispatch_fail(exchange, &error);
    else
        return MHD_YES;
    exchange->dispatched = true;
    return proceed(exchange);
}

/* MHD takes no answer in the middle of a body, so one of unknown length is read past the bound, but not without end. */
static enum MHD_Result receive(struct exchange *exchange, const char *data, size_t *size) {
    size_t max = exchange->body_max_bytes;
    exchange->received += *size;
    if (exchange->received > 2 * max) return MHD_NO;
    if (exchange->received <= max)
        buf_append(&exchange->body, data, *size);
    else
        exchange_free_body(exchange);
    connection_await_body(exchange->api, exchange->connection, exchange->received);
    *size = 0;
    return MHD_YES;
}

enum MHD_Result exchange_handle(void *data, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context) {
    (void)version;
    struct api *api = data;
    struct exchange *exchange = *context;
    if (!exchange) return begin(api, mhd, url, method, context);
    if (*upload_size > 0) return receive(exchange, upload, upload_size);
    if (!exchange->dispatched) {
        connection_await_nothing(exchange->connection);
        if (exchange->gone) return MHD_NO;
        if (api_must_wait(api, exchange->connection->caller.uid, &exchange->turn)) {
            exchange->method = method;
            exchange->url = url;
            exchange_suspend(exchange);
            return MHD_YES;
        }
        exchange->dispatched = true;
        dispatch(exchange, method, url);
    }
    return proceed(exchange);
}
