/* The thread that writes the trail, so that a slow disk holds up nobody but those who must be in it. */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "guard/audit.h"

enum { PENDING_MAX = 16384, BATCH_MAX = 256 };

struct entry {
    STAILQ_ENTRY(entry) link;
    audit_done_fn *done;
    void *data;
    bool urgent;
    struct error error;
    char *line; /* as it was written; NULL: it was not */
    char members[];
};

STAILQ_HEAD(entry_list, entry);

struct audit {
    struct audit_log log; /* the thread's, while it runs */
    uv_thread_t thread;
    uv_mutex_t mutex;
    uv_cond_t wake;
    struct entry_list queued, finished;
    size_t pending;
    bool closing, ended;

    uv_async_t async;
    audit_record_fn *record;
    void *record_data;
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- the thread ---- */

static void take_batch(struct audit *audit, struct entry_list *ret) {
    STAILQ_INIT(ret);
    uv_mutex_lock(&audit->mutex);
    while (STAILQ_EMPTY(&audit->queued) && !audit->closing) uv_cond_wait(&audit->wake, &audit->mutex);
    for (int i = 0; i < BATCH_MAX && !STAILQ_EMPTY(&audit->queued); i++) {
        struct entry *entry = STAILQ_FIRST(&audit->queued);
        STAILQ_REMOVE_HEAD(&audit->queued, link);
        STAILQ_INSERT_TAIL(ret, entry, link);
    }
    uv_mutex_unlock(&audit->mutex);
}

static void write_batch(struct audit *audit, struct entry_list *batch) {
    struct entry *entry;
    STAILQ_FOREACH(entry, batch, link) {
        if (entry->members[0]) /* nothing: someone waits for those before */
            audit_log_add(&audit->log, entry->members, entry->urgent, &entry->line, &entry->error);
    }
}

static void hand_back(struct audit *audit, struct entry_list *batch) {
    uv_mutex_lock(&audit->mutex);
    STAILQ_CONCAT(&audit->finished, batch);
    uv_mutex_unlock(&audit->mutex);
    uv_async_send(&audit->async);
}

/* What is written survives the daemon; that it survives the power too is seen to afterwards, for all at once. */
static void thread_main(void *argument) {
    struct audit *audit = argument;
    for (;;) {
        struct entry_list batch;
        take_batch(audit, &batch);
        if (STAILQ_EMPTY(&batch)) break;
        write_batch(audit, &batch);
        hand_back(audit, &batch);
        audit_log_sync(&audit->log);
    }
    audit_log_close(&audit->log);
    uv_mutex_lock(&audit->mutex);
    audit->ended = true;
    uv_async_send(&audit->async); /* under the lock: the loop closes the handle as soon as it sees `ended` */
    uv_mutex_unlock(&audit->mutex);
}

/* ---- the loop's side ---- */

static void tell(struct audit *audit, struct entry *entry) {
    json_t *record = entry->line ? json_loads(entry->line, 0, NULL) : NULL;
    if (record) audit->record(audit->record_data, record);
    json_decref(record);
    if (entry->done) entry->done(entry->data, entry->error.code == E_NONE ? NULL : &entry->error);
    free(entry->line);
    free(entry);
}

static void on_async_closed(uv_handle_t *handle) {
    struct audit *audit = handle->data;
    void (*closed)(void *data) = audit->closed;
    void *data = audit->closed_data;
    free(audit);
    if (closed) closed(data);
}

static void on_async(uv_async_t *async) {
    struct audit *audit = async->data;
    struct entry_list finished = STAILQ_HEAD_INITIALIZER(finished);
    uv_mutex_lock(&audit->mutex);
    STAILQ_CONCAT(&finished, &audit->finished);
    bool ended = audit->ended;
    uv_mutex_unlock(&audit->mutex);
    while (!STAILQ_EMPTY(&finished)) {
        struct entry *entry = STAILQ_FIRST(&finished);
        STAILQ_REMOVE_HEAD(&finished, link);
        audit->pending--;
        tell(audit, entry);
    }
    if (!ended || uv_is_closing((uv_handle_t *)async)) return;
    uv_thread_join(&audit->thread);
    uv_cond_destroy(&audit->wake);
    uv_mutex_destroy(&audit->mutex);
    uv_close((uv_handle_t *)async, on_async_closed);
}

/* {"op":"create",…} without its braces; texts of JSON values are not safe between threads. */
static struct entry *new_entry(json_t *members) {
    size_t size = json_dumpb(members, NULL, 0, JSON_COMPACT);
    struct entry *entry = size > 2 ? malloc(sizeof *entry + size) : NULL;
    if (!entry) abort(); /* crash-only: nothing is done unseen */
    *entry = (struct entry){.done = NULL};
    json_dumpb(members, entry->members, size, JSON_COMPACT);
    memmove(entry->members, entry->members + 1, size - 2);
    entry->members[size - 2] = '\0';
    return entry;
}

static void queue(struct audit *audit, struct entry *entry) {
    bool is_refused = audit->pending++ >= PENDING_MAX;
    if (is_refused) error_set(&entry->error, E_LIMIT, "the audit trail has %d records waiting", PENDING_MAX);
    uv_mutex_lock(&audit->mutex);
    if (is_refused)
        STAILQ_INSERT_TAIL(&audit->finished, entry, link);
    else
        STAILQ_INSERT_TAIL(&audit->queued, entry, link);
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->mutex);
    if (is_refused) uv_async_send(&audit->async);
}

void audit_add(struct audit *audit, json_t *members, bool urgent, audit_done_fn *done, void *data) {
    struct entry *entry = new_entry(members);
    entry->urgent = urgent;
    entry->done = done;
    entry->data = data;
    queue(audit, entry);
}

void audit_flush(struct audit *audit, audit_done_fn *done, void *data) {
    struct entry *entry = calloc(1, sizeof *entry + 1);
    if (!entry) abort(); /* as above */
    entry->done = done;
    entry->data = data;
    queue(audit, entry);
}

static void on_failed_open_closed(uv_handle_t *handle) {
    free(handle->data);
}

static int start(struct audit *audit, struct error *reterr) {
    int result = uv_mutex_init(&audit->mutex);
    if (result == 0 && (result = uv_cond_init(&audit->wake)) < 0) uv_mutex_destroy(&audit->mutex);
    if (result == 0 && (result = uv_thread_create(&audit->thread, thread_main, audit)) < 0) {
        uv_cond_destroy(&audit->wake);
        uv_mutex_destroy(&audit->mutex);
    }
    if (result == 0) return 0;
    audit_log_close(&audit->log);
    uv_close((uv_handle_t *)&audit->async, on_failed_open_closed);
    return error_errno(reterr, -result, "starting the audit trail's thread");
}

int audit_open(uv_loop_t *loop, const char *home, const struct audit_limits *limits, audit_record_fn *record,
               void *data, struct audit **ret, struct error *reterr) {
    struct audit *audit = calloc(1, sizeof *audit);
    if (!audit) return error_set(reterr, E_NO_MEMORY, "opening the audit trail");
    audit->record = record;
    audit->record_data = data;
    STAILQ_INIT(&audit->queued);
    STAILQ_INIT(&audit->finished);
    int result = audit_log_open(home, limits, &audit->log, reterr);
    if (result == 0 && (result = uv_async_init(loop, &audit->async, on_async)) < 0) {
        audit_log_close(&audit->log);
        result = error_errno(reterr, -result, "preparing the audit trail's thread");
    }
    if (result < 0) {
        free(audit);
        return result;
    }
    audit->async.data = audit;
    result = start(audit, reterr);
    if (result == 0) *ret = audit;
    return result;
}

void audit_close(struct audit *audit, void (*closed)(void *data), void *data) {
    audit->closed = closed;
    audit->closed_data = data;
    uv_mutex_lock(&audit->mutex);
    audit->closing = true;
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->mutex);
}
