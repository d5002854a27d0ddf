/* The queue of deliveries between the loop and the thread that delivers them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "webhook/webhook_internal.h"

enum { POLL_MAX_MS = 3600000 };

struct waiting {
    STAILQ_ENTRY(waiting) link;
    uint64_t id;
    uint32_t tries;
    char kind[32];
    size_t size;
    char body[];
};

struct told {
    STAILQ_ENTRY(told) link;
    struct webhook_report report;
};

STAILQ_HEAD(waiting_list, waiting);
STAILQ_HEAD(told_list, told);

struct webhook {
    struct webhook_sender sender; /* used by the thread only */
    struct webhook_retry retry;
    uint32_t queue_max;
    uv_thread_t thread;

    uv_mutex_t mutex; /* protects what follows */
    struct waiting_list queue;
    struct told_list told;
    struct webhook_status status;
    bool is_dropping, closing, ended;

    uv_async_t async;
    webhook_report_fn *report;
    void *report_data;
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- both sides, under the mutex ---- */

static void tell(struct webhook *webhook, enum webhook_state state, uint32_t tries, const char *reason) {
    struct told *told = calloc(1, sizeof *told);
    if (!told) return;
    told->report = (struct webhook_report){.state = state, .tries = tries, .lost = webhook->status.lost};
    snprintf(told->report.reason, sizeof told->report.reason, "%s", reason);
    STAILQ_INSERT_TAIL(&webhook->told, told, link);
    uv_async_send(&webhook->async);
}

static void remove_first(struct webhook *webhook) {
    struct waiting *first = STAILQ_FIRST(&webhook->queue);
    STAILQ_REMOVE_HEAD(&webhook->queue, link);
    webhook->status.queued--;
    webhook->is_dropping = false;
    free(first);
}

/* ---- the thread ---- */

static bool is_over(void *data) {
    struct webhook *webhook = data;
    uv_mutex_lock(&webhook->mutex);
    bool closing = webhook->closing;
    uv_mutex_unlock(&webhook->mutex);
    return closing;
}

static void note_arrival(struct webhook *webhook, const struct waiting *first) {
    bool had_failed = webhook->status.failures > 0;
    webhook->status.failures = 0;
    webhook->status.delivered++;
    webhook->status.last_error[0] = '\0';
    if (had_failed) tell(webhook, WEBHOOK_ARRIVING, first->tries, "");
    remove_first(webhook);
}

static void note_failure(struct webhook *webhook, const struct waiting *first, const struct webhook_outcome *outcome,
                         bool is_unwanted) {
    struct webhook_status *status = &webhook->status;
    memcpy(status->last_error, outcome->reason, sizeof status->last_error);
    if (status->failures++ == 0 && !is_unwanted) tell(webhook, WEBHOOK_FAILING, first->tries, outcome->reason);
    if (!is_unwanted && first->tries < webhook->retry.tries_max) return;
    status->lost++;
    tell(webhook, WEBHOOK_GIVEN_UP, first->tries, outcome->reason);
    remove_first(webhook);
}

/* Returns the pause before the next try. */
static uint64_t take_outcome(struct webhook *webhook, struct waiting *first, const struct webhook_outcome *outcome) {
    enum webhook_verdict verdict = webhook_judge(outcome->status);
    uint64_t pause_ms = 0;
    uv_mutex_lock(&webhook->mutex);
    first->tries++;
    if (verdict == WEBHOOK_ARRIVED)
        note_arrival(webhook, first);
    else
        note_failure(webhook, first, outcome, verdict == WEBHOOK_UNWANTED);
    if (verdict == WEBHOOK_TRY_AGAIN)
        pause_ms = webhook_pause_ms(&webhook->retry, webhook->status.failures, outcome->asked_ms);
    uv_mutex_unlock(&webhook->mutex);
    return pause_ms;
}

/* The first delivery stays in the queue meanwhile: only this thread removes it. */
static struct waiting *first_of(struct webhook *webhook, struct webhook_delivery *ret) {
    uv_mutex_lock(&webhook->mutex);
    struct waiting *first = STAILQ_FIRST(&webhook->queue);
    if (first)
        *ret = (struct webhook_delivery){.kind = first->kind,
                                         .body = first->body,
                                         .size = first->size,
                                         .id = first->id,
                                         .lost_before = webhook->status.lost};
    uv_mutex_unlock(&webhook->mutex);
    return first;
}

static void rest(struct webhook *webhook, uint64_t until_ms) {
    const struct webhook_sender *sender = &webhook->sender;
    uint64_t now_ms = clock_monotonic_ms(), left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    sender->curl.curl_multi_poll(sender->multi, NULL, 0, left_ms < POLL_MAX_MS ? (int)left_ms : POLL_MAX_MS, NULL);
}

/* After every wake-up it checks again whether it may go on. */
static void thread_main(void *argument) {
    struct webhook *webhook = argument;
    uint64_t due_ms = 0;
    while (!is_over(webhook)) {
        struct webhook_delivery delivery;
        struct webhook_outcome outcome;
        struct waiting *first = first_of(webhook, &delivery);
        if (!first || clock_monotonic_ms() < due_ms) {
            rest(webhook, first ? due_ms : UINT64_MAX);
            continue;
        }
        webhook_attempt(&webhook->sender, &delivery, &outcome);
        if (!is_over(webhook)) due_ms = clock_monotonic_ms() + take_outcome(webhook, first, &outcome);
    }
    uv_mutex_lock(&webhook->mutex);
    webhook->ended = true;
    uv_async_send(&webhook->async); /* under the lock: the loop closes the handle as soon as it sees `ended` */
    uv_mutex_unlock(&webhook->mutex);
}

/* ---- the loop's side ---- */

static void free_webhook(struct webhook *webhook) {
    while (!STAILQ_EMPTY(&webhook->queue)) remove_first(webhook);
    while (!STAILQ_EMPTY(&webhook->told)) {
        struct told *told = STAILQ_FIRST(&webhook->told);
        STAILQ_REMOVE_HEAD(&webhook->told, link);
        free(told);
    }
    if (webhook->sender.multi) webhook->sender.curl.curl_multi_cleanup(webhook->sender.multi);
    free(webhook);
}

static void on_async_closed(uv_handle_t *handle) {
    struct webhook *webhook = handle->data;
    void (*closed)(void *data) = webhook->closed;
    void *data = webhook->closed_data;
    free_webhook(webhook);
    if (closed) closed(data);
}

static void hand_out(struct webhook *webhook, struct told_list *told) {
    while (!STAILQ_EMPTY(told)) {
        struct told *first = STAILQ_FIRST(told);
        STAILQ_REMOVE_HEAD(told, link);
        webhook->report(webhook->report_data, &first->report);
        free(first);
    }
}

static void on_async(uv_async_t *async) {
    struct webhook *webhook = async->data;
    struct told_list told = STAILQ_HEAD_INITIALIZER(told);
    uv_mutex_lock(&webhook->mutex);
    STAILQ_CONCAT(&told, &webhook->told);
    bool ended = webhook->ended;
    uv_mutex_unlock(&webhook->mutex);
    hand_out(webhook, &told);
    if (!ended || uv_is_closing((uv_handle_t *)async)) return;
    uv_thread_join(&webhook->thread);
    uv_mutex_destroy(&webhook->mutex);
    uv_close((uv_handle_t *)async, on_async_closed);
}

static bool has_room(struct webhook *webhook, size_t size) {
    bool is_full = webhook->status.queued >= webhook->queue_max;
    if (!is_full && size <= WEBHOOK_BODY_MAX_BYTES) return true;
    webhook->status.lost++;
    if (!webhook->is_dropping)
        tell(webhook, WEBHOOK_DROPPING, 0, is_full ? "too many deliveries wait" : "it is too long");
    webhook->is_dropping = true;
    return false;
}

void webhook_post(struct webhook *webhook, const char *kind, uint64_t id, const char *body, size_t size) {
    uv_mutex_lock(&webhook->mutex);
    struct waiting *waiting = has_room(webhook, size) ? calloc(1, sizeof *waiting + size) : NULL;
    if (waiting) {
        waiting->id = id;
        waiting->size = size;
        snprintf(waiting->kind, sizeof waiting->kind, "%s", kind);
        memcpy(waiting->body, body, size);
        STAILQ_INSERT_TAIL(&webhook->queue, waiting, link);
        webhook->status.queued++;
    }
    uv_mutex_unlock(&webhook->mutex);
    if (waiting) webhook->sender.curl.curl_multi_wakeup(webhook->sender.multi);
}

void webhook_status(struct webhook *webhook, struct webhook_status *ret) {
    uv_mutex_lock(&webhook->mutex);
    *ret = webhook->status;
    uv_mutex_unlock(&webhook->mutex);
}

/* ---- opening and closing ---- */

static int prepare_sender(struct webhook *webhook, const struct webhook_settings *settings, struct error *reterr) {
    struct webhook_sender *sender = &webhook->sender;
    const char *secret = settings->secret ? settings->secret : "";
    *sender = (struct webhook_sender){.timeout_ms = settings->timeout_ms, .is_over = is_over, .data = webhook};
    if (!string_starts(settings->url, "http://") && !string_starts(settings->url, "https://"))
        return error_set(reterr, E_INVALID, "a webhook's address begins with http:// or https://");
    int result = string_format(sender->url, sizeof sender->url, reterr, "%s", settings->url);
    if (result == 0) result = string_format(sender->secret, sizeof sender->secret, reterr, "%s", secret);
    if (result == 0) result = curl_library_load(&sender->curl, reterr);
    if (result < 0) return result;
    sender->multi = sender->curl.curl_multi_init();
    return sender->multi ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a webhook");
}

static int start(struct webhook *webhook, uv_loop_t *loop, struct error *reterr) {
    int result = uv_mutex_init(&webhook->mutex);
    if (result == 0 && (result = uv_async_init(loop, &webhook->async, on_async)) < 0) uv_mutex_destroy(&webhook->mutex);
    if (result < 0) {
        free_webhook(webhook);
        return error_errno(reterr, -result, "preparing the webhook's thread");
    }
    webhook->async.data = webhook;
    result = uv_thread_create(&webhook->thread, thread_main, webhook);
    if (result == 0) return 0;
    uv_mutex_destroy(&webhook->mutex);
    uv_close((uv_handle_t *)&webhook->async, on_async_closed);
    return error_errno(reterr, -result, "starting the webhook's thread");
}

int webhook_open(uv_loop_t *loop, const struct webhook_settings *settings, webhook_report_fn *report, void *data,
                 struct webhook **ret, struct error *reterr) {
    struct webhook *webhook = calloc(1, sizeof *webhook);
    if (!webhook) return error_set(reterr, E_NO_MEMORY, "no memory for a webhook");
    STAILQ_INIT(&webhook->queue);
    STAILQ_INIT(&webhook->told);
    webhook->retry = settings->retry;
    webhook->queue_max = settings->queue_max;
    webhook->report = report;
    webhook->report_data = data;
    int result = prepare_sender(webhook, settings, reterr);
    if (result < 0) {
        free_webhook(webhook);
        return result;
    }
    result = start(webhook, loop, reterr);
    if (result == 0) *ret = webhook;
    return result;
}

void webhook_close(struct webhook *webhook, void (*closed)(void *data), void *data) {
    webhook->closed = closed;
    webhook->closed_data = data;
    uv_mutex_lock(&webhook->mutex);
    webhook->closing = true;
    uv_mutex_unlock(&webhook->mutex);
    webhook->sender.curl.curl_multi_wakeup(webhook->sender.multi);
}
