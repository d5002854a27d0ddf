/* From a received request to the operation, or straight to an answer. What is long is read and printed on threads: the
   loop serves other callers meanwhile. */
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

/* All callers that sent the same key meanwhile get the same answer. */
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
    idempotency_settle(&exchange->api->answered, entry, exchange->answer);
}

static void print(struct loop_work *work) {
    struct exchange *exchange = exchange_of_work(work);
    exchange->answer = answer_print(&exchange->outcome);
}

/* One that its caller does not fetch, after many others, is not kept for it. */
static void admit_answer(struct exchange *exchange) {
    struct error error;
    struct answer *answer = exchange->answer;
    if (!answer) return;
    answer->api = exchange->api;
    answer->uid = exchange->request.caller.uid;
    if (exchange->completed || answers_admit(exchange->api, &exchange->request.caller, &error) == 0) return;
    answer_release(answer);
    dispatch_fail(exchange, &error);
}

static void on_printed(struct loop_work *work) {
    struct exchange *exchange = exchange_of_work(work);
    exchange->in_work = exchange->prints = false;
    admit_answer(exchange);
    settle(exchange);
    exchange_wake_or_free(exchange);
}

static struct outcome outcome_for(const struct exchange *exchange, json_t *result, const struct error *error) {
    struct outcome outcome = outcome_of(result, error, sandbox_of(exchange));
    if (!error && exchange->op->shape == OP_LIST && json_is_array(outcome.value))
        outcome.value = page_cut(outcome.value, &exchange->intake.page);
    return outcome;
}

static void answer(struct exchange *exchange, json_t *result, const struct error *error) {
    exchange->outcome = outcome_for(exchange, result, error);
    json_decref(result); /* the outcome holds what is left of it */
    struct error too_many;
    bool is_heavy = outcome_is_heavy(&exchange->outcome);
    if (is_heavy && answers_admit_value(exchange->api, &exchange->connection->caller, &too_many) == 0) {
        exchange->prints = true;
        exchange_work(exchange, print, on_printed);
        return;
    }
    if (is_heavy) {
        answers_discard(exchange->api, exchange->connection->caller.uid, exchange->outcome.value);
        dispatch_fail(exchange, &too_many);
    } else {
        exchange->answer = answer_print(&exchange->outcome);
    }
    settle(exchange);
    exchange_wake_or_free(exchange);
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct exchange *exchange = request->transport;
    exchange->running = false;
    if (!exchange->stream || !stream_finish(exchange->stream, result, error)) {
        stream_free(take_ptr(exchange->stream)); /* it has not started, and must not while the answer is printed */
        answer(exchange, result, error);
        return;
    }
    settle(exchange);
    if (!exchange->completed || !exchange->in_work) exchange_wake_or_free(exchange);
}

/* ---- on the way to it ---- */

static int find_key(struct exchange *exchange, const char *method, const char **ret, struct error *reterr) {
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0) return 0;
    int result = input_idempotency_key(exchange->mhd, ret, reterr);
    if (result == 0 && *ret && exchange->op->shape == OP_STREAM)
        return error_set(reterr, E_INVALID, "Idempotency-Key: '%s' answers with a stream, which is not remembered",
                         exchange->op->name);
    return result;
}

static int remember(struct exchange *exchange, struct error *reterr) {
    const char *key = NULL;
    struct remembered *entry = NULL;
    bool is_new = false;
    int result = find_key(exchange, exchange->op->method, &key, reterr);
    if (result < 0 || !key) return result;
    uid_t uid = exchange->request.caller.uid;
    struct idempotency_user user = {uid, api_principal(exchange->api, uid),
                                    quotas_is_bound(exchange->api->config.quotas, uid)};
    result = idempotency_recall(&exchange->api->answered, &user, key, exchange->intake.fingerprint,
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

static void run(struct exchange *exchange) {
    struct api *api = exchange->api;
    exchange->running = true;
    exchange->request.done = on_done;
    exchange->request.item = stream_item;
    exchange->request.item_text = stream_item_text;
    exchange->request.has_room = stream_has_room;
    exchange->request.transport = exchange;
    exchange->request.correlation_id = exchange->request_id;
    const struct page *page = &exchange->intake.page;
    if (exchange->op->shape == OP_LIST && !page->cursor) exchange->request.items_max = page->limit + 1;
    if (exchange->stream) exchange->request.caller.peer_fd = exchange->stream->peer_fd;
    bool is_checked = exchange->intake.outcome == INTAKE_CHECKED;
    ops_run(api->engine, exchange->op, &exchange->request, is_checked ? NULL : &exchange->intake.error);
}

/* Operations that the table itself answers; checked like any other. */
static void answer_locally(struct exchange *exchange) {
    struct api *api = exchange->api;
    const struct page *page = &exchange->intake.page;
    if (exchange->intake.outcome != INTAKE_CHECKED) {
        dispatch_fail(exchange, &exchange->intake.error);
        return;
    }
    if (page->cursor || page->limit < PAGE_LIMIT_MAX) {
        answer(exchange, ops_describe(), NULL);
        return;
    }
    if (!api->operations) api->operations = answer_json(MHD_HTTP_OK, page_cut(ops_describe(), page));
    if (api->operations) exchange->answer = answer_reference(api->operations);
}

static int go_on(struct exchange *exchange, struct error *reterr) {
    struct api *api = exchange->api;
    loop_note(api->loop, "request", exchange->op->name);
    if (api->closing) return error_set(reterr, E_SHUTDOWN, "the service takes no more requests");
    if (exchange->intake.outcome == INTAKE_MALFORMED) {
        *reterr = exchange->intake.error;
        return -1;
    }
    int result = exchange->op->shape == OP_STREAM ? stream_open(exchange, exchange->connection->fd, reterr) : 0;
    if (result == 0) result = remember(exchange, reterr);
    if (result < 0 || exchange->answer || exchange->waiting) return result;
    if (exchange->op->start == OP_LOCAL)
        answer_locally(exchange);
    else
        run(exchange);
    return 0;
}

static void take_in(struct loop_work *work) {
    intake_run(&exchange_of_work(work)->intake);
}

static void end_intake(struct exchange *exchange) {
    struct error error;
    exchange->request.params = take_ptr(exchange->intake.params);
    exchange->reserved_bytes = 0;
    exchange_free_body(exchange);
    if (!exchange->gone && go_on(exchange, &error) < 0) dispatch_fail(exchange, &error);
}

static void on_taken_in(struct loop_work *work) {
    struct exchange *exchange = exchange_of_work(work);
    exchange->in_work = false;
    end_intake(exchange);
    if (!exchange->running && !exchange->waiting && !exchange->in_work) exchange_wake_or_free(exchange);
}

static int begin_intake(struct exchange *exchange, const char *path, struct error *reterr) {
    const char *key = NULL;
    int result = input_merge_query(exchange->mhd, exchange->request.params, reterr);
    if (result == 0) result = find_key(exchange, exchange->op->method, &key, reterr);
    if (result < 0) return result;
    if (exchange->op->shape == OP_STREAM) resume_events(exchange);
    exchange->intake = (struct intake){.op = exchange->op,
                                       .params = take_ptr(exchange->request.params),
                                       .text = exchange->body.data,
                                       .size = exchange->body.size,
                                       .is_not = "the body is not",
                                       .path = key ? path : NULL};
    if (exchange->body.size > INTAKE_SHORT_BYTES) {
        exchange_work(exchange, take_in, on_taken_in);
        return 0;
    }
    intake_run(&exchange->intake);
    end_intake(exchange);
    return 0;
}

/* ---- the beginning ---- */

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

void dispatch_route(struct exchange *exchange, const char *method, const char *path) {
    struct error *error = &exchange->misrouted;
    size_t max = exchange->api->config.body_max_bytes;
    exchange->request.caller = exchange->connection->caller;
    exchange->request.params = json_object();
    if (!exchange->request.params)
        error_set(error, E_NO_MEMORY, "no memory for the request");
    else if (!utf8_valid((const uint8_t *)path, strlen(path)))
        error_set(error, E_INVALID, "the path is not UTF-8 text");
    else
        ops_route(method, path, exchange->request.params, &exchange->op, error);
    size_t own = exchange->op ? ops_body_max(exchange->op) : INTAKE_SHORT_BYTES;
    exchange->body_max_bytes = own < max ? own : max;
    exchange->body.max = exchange->body_max_bytes + 1;
}

static int refuse_early(struct exchange *exchange, struct error *reterr) {
    if (exchange->api->closing) return error_set(reterr, E_SHUTDOWN, "the service takes no more requests");
    if (exchange->received > exchange->body_max_bytes)
        return error_set(reterr, E_TOO_LARGE, "the body is longer than %zu bytes", exchange->body_max_bytes);
    if (exchange->body.failed) return error_set(reterr, E_NO_MEMORY, "no memory for the body");
    if (!exchange->op) *reterr = exchange->misrouted;
    return exchange->op ? 0 : -1;
}

void dispatch(struct exchange *exchange, const char *method, const char *path) {
    struct error error;
    if (!exchange->api->closing && strcmp(path, "/openapi.json") == 0 && strcmp(method, MHD_HTTP_METHOD_GET) == 0) {
        answer_openapi(exchange);
        return;
    }
    if (!exchange->api->closing && is_upgrade(exchange, method, path)) {
        exchange->is_upgrade = true;
        return;
    }
    int result = refuse_early(exchange, &error);
    if (result == 0) result = begin_intake(exchange, path, &error);
    if (result == 0) return;
    dispatch_fail(exchange, &error);
    if (exchange->answer && error.code == E_METHOD) ops_allow(path, exchange->answer->allow);
}
