/* The thread that writes to the registry: a bounded queue of writes, in batches of one transaction each. */
#include "store/store_internal.h"

#include <stdlib.h>

/* Bounds the memory of the queue while the disk stalls. */
enum { PENDING_MAX = 16384, PENDING_MAX_BYTES = 64 << 20, BATCH_MAX = 256 };

/* Waits for work. The batch is empty only if the queue is and the store closes. */
static void take_batch(struct store_thread *thread, struct store_write_list *ret) {
    STAILQ_INIT(ret);
    uv_mutex_lock(&thread->mutex);
    while (STAILQ_EMPTY(&thread->queued) && !thread->closing) uv_cond_wait(&thread->wake, &thread->mutex);
    for (int i = 0; i < BATCH_MAX && !STAILQ_EMPTY(&thread->queued); i++) {
        struct store_write *write = STAILQ_FIRST(&thread->queued);
        STAILQ_REMOVE_HEAD(&thread->queued, link);
        STAILQ_INSERT_TAIL(ret, write, link);
    }
    uv_mutex_unlock(&thread->mutex);
}

/* Only writes with a callback need an fsync. Others (events) survive the daemon's death, since the kernel has them, and
   may be lost with the power. */
static bool promises_durability(const struct store_write *first) {
    for (const struct store_write *write = first; write; write = STAILQ_NEXT(write, link))
        if (write->done) return true;
    return false;
}

/* One transaction for `first` and, if all is set, everything after it. */
static int write_transaction(struct store_sql *sql, const struct store_write *first, bool all, struct error *reterr) {
    int result = store_sql_begin(sql, all ? promises_durability(first) : first->done != NULL, reterr);
    for (const struct store_write *write = first; write && result == 0; write = STAILQ_NEXT(write, link)) {
        result = store_sql_apply(sql, write, reterr);
        if (!all) break;
    }
    if (result == 0) result = store_sql_commit(sql, reterr);
    if (result < 0) store_sql_rollback(sql);
    return result;
}

/* When the batch fails each write is tried alone, so that a bad one fails only itself. */
static void write_batch(struct store_sql *sql, struct store_write_list *batch) {
    struct error error;
    if (write_transaction(sql, STAILQ_FIRST(batch), true, &error) == 0) return;
    struct store_write *write;
    STAILQ_FOREACH(write, batch, link) {
        if (write_transaction(sql, write, false, &error) < 0) write->error = error;
    }
}

static void note_loss(struct store_thread *thread, const struct store_write *write) {
    if (write->done || write->error.code == E_NONE) return;
    thread->lost_writes++;
    thread->last_lost = write->error;
}

/* Writes with a callback return to the loop; others end here. */
static void hand_back(struct store_thread *thread, struct store_write_list *batch) {
    struct store_write_list unawaited = STAILQ_HEAD_INITIALIZER(unawaited);
    uv_mutex_lock(&thread->mutex);
    while (!STAILQ_EMPTY(batch)) {
        struct store_write *write = STAILQ_FIRST(batch);
        STAILQ_REMOVE_HEAD(batch, link);
        thread->pending--;
        thread->pending_bytes -= write->bytes;
        note_loss(thread, write);
        STAILQ_INSERT_TAIL(write->done ? &thread->finished : &unawaited, write, link);
    }
    bool tell = !STAILQ_EMPTY(&thread->finished);
    uv_mutex_unlock(&thread->mutex);
    if (tell) uv_async_send(thread->async);
    while (!STAILQ_EMPTY(&unawaited)) {
        struct store_write *write = STAILQ_FIRST(&unawaited);
        STAILQ_REMOVE_HEAD(&unawaited, link);
        free(write);
    }
}

static void thread_main(void *argument) {
    struct store_thread *thread = argument;
    for (;;) {
        struct store_write_list batch;
        take_batch(thread, &batch);
        if (STAILQ_EMPTY(&batch)) break;
        write_batch(thread->sql, &batch);
        hand_back(thread, &batch);
    }
    thread->sql = store_sql_close(thread->sql);
    uv_mutex_lock(&thread->mutex);
    thread->ended = true;
    /* Under the lock: the loop closes the handle as soon as it sees `ended`. */
    uv_async_send(thread->async);
    uv_mutex_unlock(&thread->mutex);
}

static void destroy_locks(struct store_thread *thread) {
    uv_cond_destroy(&thread->wake);
    uv_mutex_destroy(&thread->mutex);
}

int store_thread_start(struct store_thread *thread, struct store_sql *sql, uv_async_t *async, struct error *reterr) {
    *thread = (struct store_thread){.sql = sql, .async = async};
    STAILQ_INIT(&thread->queued);
    STAILQ_INIT(&thread->finished);
    int result = uv_mutex_init(&thread->mutex);
    if (result == 0 && (result = uv_cond_init(&thread->wake)) < 0) uv_mutex_destroy(&thread->mutex);
    if (result == 0 && (result = uv_thread_create(&thread->thread, thread_main, thread)) < 0) destroy_locks(thread);
    if (result == 0) return 0;
    store_sql_close(sql);
    return error_errno(reterr, -result, "starting the registry's thread");
}

static bool fits(const struct store_thread *thread, const struct store_write *write) {
    return thread->pending < PENDING_MAX && write->bytes <= PENDING_MAX_BYTES - thread->pending_bytes;
}

void store_thread_queue(struct store_thread *thread, struct store_write *write) {
    uv_mutex_lock(&thread->mutex);
    bool refused = !fits(thread, write);
    if (refused) {
        error_set(&write->error, E_LIMIT, "the registry has %zu writes waiting and takes no more", thread->pending);
        note_loss(thread, write);
        if (write->done) STAILQ_INSERT_TAIL(&thread->finished, write, link);
    } else {
        thread->pending++;
        thread->pending_bytes += write->bytes;
        STAILQ_INSERT_TAIL(&thread->queued, write, link);
        uv_cond_signal(&thread->wake);
    }
    uv_mutex_unlock(&thread->mutex);
    if (refused && write->done)
        uv_async_send(thread->async);
    else if (refused)
        free(write);
}

void store_thread_end(struct store_thread *thread) {
    uv_mutex_lock(&thread->mutex);
    thread->closing = true;
    uv_cond_signal(&thread->wake);
    uv_mutex_unlock(&thread->mutex);
}

bool store_thread_deliver(struct store_thread *thread) {
    struct store_write_list finished = STAILQ_HEAD_INITIALIZER(finished);
    uv_mutex_lock(&thread->mutex);
    STAILQ_CONCAT(&finished, &thread->finished);
    bool ended = thread->ended;
    uv_mutex_unlock(&thread->mutex);
    while (!STAILQ_EMPTY(&finished)) {
        struct store_write *write = STAILQ_FIRST(&finished);
        STAILQ_REMOVE_HEAD(&finished, link);
        write->done(write->data, write->error.code == E_NONE ? NULL : &write->error);
        free(write);
    }
    return ended;
}

void store_thread_join(struct store_thread *thread) {
    uv_thread_join(&thread->thread);
    destroy_locks(thread);
}

void store_thread_note_loss(struct store_thread *thread, const struct error *error) {
    uv_mutex_lock(&thread->mutex);
    thread->lost_writes++;
    thread->last_lost = *error;
    uv_mutex_unlock(&thread->mutex);
}

uint64_t store_thread_lost(struct store_thread *thread, struct error *ret_last) {
    uv_mutex_lock(&thread->mutex);
    uint64_t lost = thread->lost_writes;
    if (ret_last && lost) *ret_last = thread->last_lost;
    uv_mutex_unlock(&thread->mutex);
    return lost;
}
