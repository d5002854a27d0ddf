/* Calls to the agent: each has a deadline and gets exactly one answer. */
#include <string.h>

#include "node/node_internal.h"

enum { COPIED_MAX_BYTES = 64 << 10 }; /* of arguments: longer ones are sent from where they are */

static void free_call(uv_handle_t *handle) {
    struct call *call = handle->data;
    struct node *node = call->node;
    buf_free(&call->frame);
    host_discard(node->host, &call->rest);
    free(call);
    node_handle_closed(node);
}

static void unlink_call(struct call *call) {
    for (struct call **at = &call->node->calls; *at; at = &(*at)->next) {
        if (*at != call) continue;
        *at = call->next;
        return;
    }
}

/* Of a small answer. */
static void *make_here(const struct node_preparation *preparation, const struct term *result,
                       const struct term *reason) {
    if (result) return preparation->make(result);
    return reason && preparation->make_of_failure ? preparation->make_of_failure(reason) : NULL;
}

/* Take the call off the list, close its timer, and tell its caller. The caller may start other calls or end the node.
 */
static void finish(struct call *call, const struct term *result, void **made, const struct term *reason,
                   const struct error *error) {
    const struct node_preparation *preparation = call->preparation;
    node_prepared_fn prepared = call->prepared;
    node_reply_fn reply = call->reply;
    void *data = call->data;
    unlink_call(call);
    uv_close((uv_handle_t *)&call->timer, free_call);
    if (!preparation && reply) reply(data, result, reason, error);
    if (!preparation) return;
    void *own = made ? take_ptr(*made) : NULL;
    prepared(data, own ? own : make_here(preparation, result, reason), reason, error);
}

static void send_cancel(struct node *node, uint64_t id) {
    struct buf frame = BUF_INIT;
    buf_append_u32(&frame, 0);
    term_put_version(&frame);
    term_put_tuple(&frame, 2);
    term_put_atom(&frame, "cancel");
    term_put_uint64(&frame, id);
    channel_send(&node->channel, &frame, NULL);
}

static void on_deadline(uv_timer_t *timer) {
    struct call *call = timer->data;
    struct error error;
    if (!call->refused && loop_deadline_is_early(timer, call->due_ms, on_deadline)) return;
    if (call->refused)
        error_set(&error, E_NODE, "the node takes no more calls: it is ending, or has too many under way");
    else
        error_set(&error, E_TIMEOUT, "the node did not answer within %llu ms",
                  (unsigned long long)uv_timer_get_repeat(timer));
    if (call->sent && !call->refused) send_cancel(call->node, call->id);
    finish(call, NULL, NULL, NULL, &error);
}

static void encode(struct call *call, const char *op, struct buf *args) {
    buf_append_u32(&call->frame, 0); /* the length, which channel_send fills in */
    term_put_version(&call->frame);
    term_put_tuple(&call->frame, 4);
    term_put_atom(&call->frame, "call");
    term_put_uint64(&call->frame, call->id);
    term_put_atom(&call->frame, op);
    if (args->failed) call->frame.failed = true;
    if (args->size > COPIED_MAX_BYTES) {
        call->rest = *args;
        *args = (struct buf)BUF_INIT;
        return;
    }
    buf_append(&call->frame, args->data, args->size);
    buf_free(args);
}

/* A call that can't be sent fails like one that was not answered: through its timer, never from inside node_call. */
static void send_call(struct call *call) {
    call->sent = true;
    if (channel_send(&call->node->channel, &call->frame, &call->rest)) return;
    call->refused = true;
    uv_timer_start(&call->timer, on_deadline, 0, 1);
}

static unsigned count_calls(const struct node *node) {
    unsigned count = 0;
    for (const struct call *call = node->calls; call; call = call->next) count++;
    return count;
}

static uint64_t start_call(struct node *node, const char *op, struct buf *args, uint64_t timeout_ms,
                           const struct call *wanted) {
    struct call *call = new_or_abort(struct call);
    *call = *wanted;
    call->next = node->calls;
    call->node = node;
    call->id = ++node->next_call_id;
    node->calls = call;
    encode(call, op, args);
    uv_timer_init(node->host->loop, &call->timer);
    call->timer.data = call;
    node->open_handles++;
    /* Its own heartbeat must never be what a busy node has no room for: a missed one ends it. */
    bool too_many = count_calls(node) > CALLS_MAX && strcmp(op, "beat") != 0;
    call->refused = call->frame.failed || too_many || node->state >= NODE_ENDING;
    call->due_ms = loop_attended_ms(node->host->loop) + timeout_ms;
    uv_timer_start(&call->timer, on_deadline, call->refused ? 0 : timeout_ms, timeout_ms ? timeout_ms : 1);
    if (!call->refused && node->channel.agent) send_call(call);
    return call->id;
}

uint64_t node_call(struct node *node, const char *op, struct buf *args, uint64_t timeout_ms, node_reply_fn reply,
                   void *data) {
    return start_call(node, op, args, timeout_ms, &(struct call){.reply = reply, .data = data});
}

uint64_t node_call_prepared(struct node *node, const char *op, struct buf *args, uint64_t timeout_ms,
                            const struct node_preparation *preparation, node_prepared_fn reply, void *data) {
    return start_call(node, op, args, timeout_ms,
                      &(struct call){.preparation = preparation, .prepared = reply, .data = data});
}

void node_cancel(struct node *node, uint64_t id) {
    for (struct call *call = node->calls; call; call = call->next) {
        if (call->id != id) continue;
        if (call->sent) send_cancel(node, id);
        unlink_call(call);
        uv_close((uv_handle_t *)&call->timer, free_call);
        return;
    }
}

/* The list is newest first; the oldest is to be sent first. */
static void flush_oldest_first(struct call *call) {
    if (!call) return;
    flush_oldest_first(call->next);
    if (!call->sent) send_call(call);
}

void calls_flush(struct node *node) {
    flush_oldest_first(node->calls);
}

static struct call *first_sent(struct node *node) {
    struct call *call = node->calls;
    while (call && !call->sent) call = call->next;
    return call;
}

void calls_lose_sent(struct node *node) {
    struct error error;
    error_set(&error, E_NODE, "the node closed its control channel before it answered");
    struct call *call;
    while ((call = first_sent(node))) finish(call, NULL, NULL, NULL, &error);
}

void calls_fail_all(struct node *node, const struct error *error) {
    while (node->calls) finish(node->calls, NULL, NULL, NULL, error);
}

/* No more of it than can be kept: a stranger may have sent megabytes. */
static char *message_of(const struct term *reason) {
    enum { TEXT_MAX = 4 * ERROR_DETAIL_BYTES };
    char *message = NULL;
    return term_to_text(term_map_get(reason, "message"), TEXT_MAX, &message) ? message : NULL;
}

/* The agent's reason as an error of ours: its kind chooses the code, its message is the detail. */
static void reason_to_error(const struct term *reason, struct error *ret) {
    static const struct {
        const char *kind;
        enum error_code code;
    } kinds[] = {{"timeout", E_TIMEOUT},   {"start", E_START},           {"compile", E_COMPILE},
                 {"busy", E_LIMIT},        {"empty_project", E_INVALID}, {"toolchain", E_TOOLCHAIN},
                 {"limit", E_LIMIT},       {"badarg", E_INVALID},        {"reload", E_RELOAD},
                 {"conflict", E_CONFLICT}, {"too_new", E_TOO_NEW}};
    enum error_code code = E_RUNTIME;
    const struct term *kind = term_map_get(reason, "kind");
    for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++)
        if (term_is_atom(kind, kinds[i].kind)) code = kinds[i].code;
    CLEANUP_FREE char *message = message_of(reason);
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    bool clean = !message || utf8_valid((const uint8_t *)message, strlen(message));
    if (!clean) escape_text(&escaped, message, strnlen(message, ERROR_DETAIL_BYTES)); /* it becomes JSON later */
    error_set(ret, code, "%s", !message ? "the agent gave no reason" : clean ? message : buf_string(&escaped));
}

static struct call *find_call(const struct node *node, uint64_t id) {
    struct call *call = node->calls;
    while (call && call->id != id) call = call->next;
    return call;
}

const struct node_preparation *calls_preparation(const struct node *node, const struct term *frame,
                                                 const struct term **ret_part) {
    uint64_t id;
    const struct term *result = term_at(frame, 2);
    if (!term_is_tagged(frame, "reply", 3) || !term_to_uint64(term_at(frame, 1), &id)) return NULL;
    const struct call *call = find_call(node, id);
    const struct node_preparation *preparation = call && call->sent ? call->preparation : NULL;
    bool is_wanted = preparation && (term_is_tagged(result, "ok", 2) ||
                                     (term_is_tagged(result, "error", 2) && preparation->make_of_failure));
    if (!is_wanted) return NULL;
    *ret_part = term_at(result, 1);
    return preparation;
}

bool calls_answer(struct node *node, uint64_t id, const struct term *result, void **made) {
    struct call *call = find_call(node, id);
    if (!call) return id <= node->next_call_id && id > 0; /* cancelled or timed out: late, not forged */
    if (!call->sent) return false;
    if (term_is_tagged(result, "ok", 2)) {
        finish(call, term_at(result, 1), made, NULL, NULL);
    } else if (term_is_tagged(result, "error", 2)) {
        struct error error;
        reason_to_error(term_at(result, 1), &error);
        finish(call, NULL, made, term_at(result, 1), &error);
    } else {
        return false;
    }
    return true;
}
