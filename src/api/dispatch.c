#include "api/api_internal.h"

#include <string.h>

#include "ops/direct.h"

static const char *sandbox_of(const struct exchange *exchange) {
    const json_t *params = exchange->request.params;
    const char *id = json_string_value(json_object_get(params, "id"));
    return id ? id : json_string_value(json_object_get(params, "sandbox_id"));
}

void dispatch_fail(struct exchange *exchange, const struct error *error) {
    exchange->answer = answer_problem(error, sandbox_of(exchange), NULL);
}

/* ---- the engine's answer ---- */

static struct answer *answer_of(const struct exchange *exchange, json_t *result, const struct error *error) {
    if (error) return answer_problem(error, sandbox_of(exchange), result);
    json_t *value = result ? json_incref(result) : json_object();
    if (exchange->op->shape == OP_LIST && json_is_array(value)) value = page_cut(value, &exchange->page);
    return answer_json(MHD_HTTP_OK, value);
}

/* Everybody who sent the same key meanwhile gets the same answer. */
static void settle(struct exchange *exchange) {
    struct remembered *entry = exchange->remembered;
    if (!entry) return;
    exchange->remembered = NULL;
    struct exchange *waiter;
    while ((waiter = TAILQ_FIRST(&entry->waiters))) {
        TAILQ_REMOVE(&entry->waiters, waiter, waiter_link);
        if (exchange->answer) waiter->answer = answer_reference(exchange->answer);
        waiter->waiting = false;
        exchange_wake(waiter);
    }
    memory_settle(&exchange->api->memory, entry, exchange->answer, uv_now(exchange->api->loop));
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct exchange *exchange = request->transport;
    exchange->running = false;
    if (!exchange->stream || !stream_finish(exchange->stream, result, error))
        exchange->answer = answer_of(exchange, result, error);
    json_decref(result);
    settle(exchange);
    exchange_wake_or_free(exchange);
}

/* ---- on the way to it ---- */

static int remember(struct exchange *exchange, const char *method, const char *path, struct error *reterr) {
    const char *key = NULL;
    uint8_t fingerprint[FINGERPRINT_BYTES];
    struct remembered *entry = NULL;
    bool is_new = false;
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0) return 0;
    int result = input_idempotency_key(exchange->mhd, &key, reterr);
    if (result < 0 || !key) return result;
    if (exchange->op->shape == OP_STREAM)
        return error_set(reterr, E_INVALID, "Idempotency-Key: '%s' answers with a stream, which is not remembered",
                         exchange->op->name);
    result = memory_fingerprint(method, path, &exchange->body, fingerprint, reterr);
    if (result == 0)
        result = memory_recall(&exchange->api->memory, exchange->request.caller.uid, key, fingerprint,
                               uv_now(exchange->api->loop), &entry, &is_new, reterr);
    if (result < 0 || !entry) return result;
    if (is_new) {
        exchange->remembered = entry;
    } else if (entry->answer) {
        exchange->answer = answer_reference(entry->answer);
    } else {
        exchange->waiting = true;
        TAILQ_INSERT_TAIL(&entry->waiters, exchange, waiter_link);
    }
    return 0;
}

/* A browser that reconnects says what it has seen last. */
static void resume_events(struct exchange *exchange) {
    const char *last = MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, "Last-Event-ID");
    json_t *params = exchange->request.params;
    if (!last || !ops_param(exchange->op, "since") || json_object_get(params, "since")) return;
    json_object_set_new(params, "since", json_string(last));
}

static int prepare_shape(struct exchange *exchange, struct error *reterr) {
    switch (exchange->op->shape) {
    case OP_OBJECT: return 0;
    case OP_LIST: return page_take(exchange->request.params, &exchange->page, reterr);
    case OP_STREAM: resume_events(exchange); return stream_open(exchange, exchange->connection->fd, reterr);
    }
    return 0;
}

static void run(struct exchange *exchange) {
    exchange->running = true;
    exchange->request.done = on_done;
    exchange->request.item = stream_item;
    exchange->request.item_text = stream_item_text;
    exchange->request.has_room = stream_has_room;
    exchange->request.transport = exchange;
    exchange->request.correlation_id = exchange->request_id;
    if (exchange->stream) exchange->request.caller.peer_fd = exchange->stream->peer_fd;
    ops_run(exchange->api->engine, exchange->op, &exchange->request);
}

/* Operations that the table itself answers; checked like any other. */
static int answer_locally(struct exchange *exchange, struct error *reterr) {
    json_t *checked;
    int result = ops_check(exchange->op, exchange->request.params, &checked, reterr);
    if (result < 0) return result;
    json_decref(checked);
    json_t *description = ops_describe();
    if (description) exchange->answer = answer_of(exchange, description, NULL);
    json_decref(description);
    return 0;
}

/* What asks to be upgraded to something else, or can't be, is answered as a path that serves nothing. */
static bool is_upgrade(const struct exchange *exchange, const char *method, const char *path) {
    const char *protocol = MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_UPGRADE);
    return string_equal(path, DIRECT_PATH) && string_equal(method, MHD_HTTP_METHOD_GET) &&
           string_equal(protocol, DIRECT_PROTOCOL) && exchange->received == 0;
}

static void answer_openapi(struct exchange *exchange) {
    struct api *api = exchange->api;
    if (!api->openapi) api->openapi = answer_json(MHD_HTTP_OK, ops_openapi());
    if (api->openapi) exchange->answer = answer_reference(api->openapi);
}

static int find_operation(struct exchange *exchange, const char *method, const char *path, struct error *reterr) {
    int result = ops_route(method, path, exchange->request.params, &exchange->op, reterr);
    if (result == 0) result = input_merge_query(exchange->mhd, exchange->request.params, reterr);
    if (result == 0) result = input_merge_body(&exchange->body, exchange->request.params, reterr);
    if (result == 0) result = prepare_shape(exchange, reterr);
    return result;
}

static int refuse_early(struct exchange *exchange, const char *path, struct error *reterr) {
    struct api *api = exchange->api;
    if (api->closing) return error_set(reterr, E_SHUTDOWN, "the service takes no more requests");
    if (exchange->received > api->config.body_max_bytes)
        return error_set(reterr, E_TOO_LARGE, "the body is longer than %zu bytes", api->config.body_max_bytes);
    if (exchange->body.failed) return error_set(reterr, E_NO_MEMORY, "no memory for the body");
    if (!utf8_valid((const uint8_t *)path, strlen(path)))
        return error_set(reterr, E_INVALID, "the path is not UTF-8 text");
    exchange->request.params = json_object();
    return exchange->request.params ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for the request");
}

void dispatch(struct exchange *exchange, const char *method, const char *path) {
    struct error error;
    exchange->request.caller = exchange->connection->caller;
    int result = refuse_early(exchange, path, &error);
    if (result == 0 && strcmp(path, "/openapi.json") == 0 && strcmp(method, MHD_HTTP_METHOD_GET) == 0) {
        answer_openapi(exchange);
        return;
    }
    if (result == 0 && is_upgrade(exchange, method, path)) {
        exchange->is_upgrade = true;
        return;
    }
    if (result == 0) result = find_operation(exchange, method, path, &error);
    if (result == 0) result = remember(exchange, method, path, &error);
    if (result == 0 && exchange->op->start == OP_LOCAL) result = answer_locally(exchange, &error);
    if (result < 0) {
        dispatch_fail(exchange, &error);
        if (exchange->answer && error.code == E_METHOD) ops_allow(path, exchange->answer->allow);
        return;
    }
    if (!exchange->answer && !exchange->waiting && exchange->op->start != OP_LOCAL) run(exchange);
}
