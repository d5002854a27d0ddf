/* wait: answers once a sandbox has reached a status. It follows the sandbox's events, and decides in a later turn of
   the loop than each: a restart that its policy asks for is scheduled after the event of its end. */
#include "core/core_internal.h"

struct wait {
    struct sandbox_ref ref;
    struct request *request;
    struct request events; /* of the sandbox */
    bool is_following;
    enum sandbox_status wanted;
    uint64_t due_ms;
    uv_timer_t timer; /* for the next decision */
    bool is_decided;
    struct error error; /* E_NONE: the status is reached */
    json_t *result;
};

/* Whether the sandbox can't get there by itself. */
static bool is_at_rest(const struct sandbox *sandbox) {
    bool has_ended = sandbox->status == STATUS_ERROR || sandbox->status == STATUS_STOPPED;
    return has_ended && !sandbox->queue.jobs && !uv_is_active((const uv_handle_t *)&sandbox->restarts.backoff);
}

/* 0: it is there; E_NONE in reterr: it may still get there. */
static int check(const struct wait *wait, const struct sandbox *sandbox, struct error *reterr) {
    *reterr = (struct error){0};
    if (!sandbox) return error_set(reterr, E_NOT_FOUND, "the sandbox '%s' was destroyed", wait->ref.id);
    if (sandbox->status == wait->wanted) return 0;
    if (is_at_rest(sandbox))
        return error_set(reterr, E_CONFLICT, "the sandbox '%s' is %s, and does not become %s by itself", wait->ref.id,
                         status_name(sandbox->status), status_name(wait->wanted));
    if (uv_now(wait->ref.engine->loop) < wait->due_ms) return -1;
    return error_set(reterr, E_TIMEOUT, "the sandbox '%s' is still %s, not %s", wait->ref.id,
                     status_name(sandbox->status), status_name(wait->wanted));
}

static void on_closed(uv_handle_t *handle) {
    struct wait *wait = handle->data;
    struct engine *engine = wait->ref.engine;
    if (wait->error.code)
        answer_error(engine, wait->request, &wait->error, NULL);
    else
        answer_ok(engine, wait->request, wait->result);
    engine->listings--;
    free(wait);
    engine_wake(engine);
}

static void close_if_over(struct wait *wait) {
    if (wait->is_decided && !wait->is_following) uv_close((uv_handle_t *)&wait->timer, on_closed);
}

static void decide(struct wait *wait, const struct error *error) {
    if (wait->is_decided) return;
    wait->is_decided = true;
    if (error) wait->error = *error;
    wait->request->cancel = NULL;
    uv_timer_stop(&wait->timer);
    if (wait->is_following && wait->events.cancel)
        wait->events.cancel(&wait->events);
    else
        close_if_over(wait);
}

static void look(struct wait *wait) {
    struct sandbox *sandbox = sandbox_deref(&wait->ref);
    struct error error;
    int result = check(wait, sandbox, &error);
    if (result == 0) wait->result = sandbox_to_json(sandbox);
    if (result == 0 || error.code) decide(wait, error.code ? &error : NULL);
}

static void on_timer(uv_timer_t *timer) {
    struct wait *wait = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    loop_note(timer->loop, "request", "wait");
    look(wait);
    if (!wait->is_decided) uv_timer_start(timer, on_timer, wait->due_ms > now_ms ? wait->due_ms - now_ms : 0, 0);
}

static void on_event(struct request *request, json_t *event) {
    struct wait *wait = request->transport;
    json_decref(event);
    if (!wait->is_decided) uv_timer_start(&wait->timer, on_timer, 0, 0);
}

static void on_events_over(struct request *request, json_t *result, const struct error *error) {
    struct wait *wait = request->transport;
    struct error ended;
    json_decref(result);
    wait->is_following = false;
    error_set(&ended, E_SHUTDOWN, "the service is shutting down");
    if (wait->is_decided)
        close_if_over(wait);
    else
        decide(wait, error ? error : &ended);
}

static void on_cancel(struct request *request) {
    struct error gone;
    error_set(&gone, E_TIMEOUT, "the caller has gone");
    decide(request->state, &gone);
}

static void follow(struct wait *wait) {
    struct feed_filter filter = {
        .since = wait->ref.engine->events->next_seq - 1, .tail = SIZE_MAX, .sandbox_id = wait->ref.id};
    wait->events = (struct request){.item = on_event,
                                    .done = on_events_over,
                                    .is_prompt = true,
                                    .caller = wait->request->caller,
                                    .transport = wait};
    wait->is_following = true;
    feed_stream(wait->ref.engine, wait->ref.engine->events, &wait->events, &filter, true);
}

void engine_wait(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct wait *wait = new_or_abort(struct wait);
    *wait = (struct wait){.ref = sandbox_ref(sandbox), .request = request};
    status_find(json_string_value(json_object_get(request->params, "for")), &wait->wanted);
    wait->due_ms = uv_now(engine->loop) + (uint64_t)json_integer_value(json_object_get(request->params, "timeout_ms"));
    engine->listings++;
    uv_timer_init(engine->loop, &wait->timer);
    wait->timer.data = wait;
    request->state = wait;
    request->cancel = on_cancel;
    follow(wait);
    if (!wait->is_decided) uv_timer_start(&wait->timer, on_timer, 0, 0);
}
