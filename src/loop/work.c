/* Threads for work whose size strangers choose: large bodies, answers and frames. */
#include "loop/loop.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { WORKER_NICE = 5 };

static bool is_idle(const void *data, uint64_t key) {
    const struct loop_workers *workers = data;
    for (size_t i = 0; i < LOOP_WORKERS; i++)
        if (workers->running[i] && workers->running[i]->key == key) return false;
    return true;
}

/* ---- on a thread ---- */

static struct loop_work *await_work(struct loop_workers *workers) {
    uv_mutex_lock(&workers->mutex);
    while (STAILQ_EMPTY(&workers->ready) && !workers->is_ending) uv_cond_wait(&workers->changed, &workers->mutex);
    struct loop_work *work = STAILQ_FIRST(&workers->ready);
    if (work) STAILQ_REMOVE_HEAD(&workers->ready, link);
    uv_mutex_unlock(&workers->mutex);
    return work;
}

static void serve(void *data) {
    struct loop_workers *workers = data;
    struct loop_work *work;
    setpriority(PRIO_PROCESS, 0, WORKER_NICE); /* of this thread alone; the loop's turn comes first */
    while ((work = await_work(workers))) {
        work->run(work);
        uv_mutex_lock(&workers->mutex);
        STAILQ_INSERT_TAIL(&workers->finished, work, link);
        uv_mutex_unlock(&workers->mutex);
        uv_async_send(&workers->wake);
    }
}

/* ---- on the loop ---- */

static size_t free_slot(const struct loop_workers *workers) {
    size_t slot = 0;
    while (slot < LOOP_WORKERS && workers->running[slot]) slot++;
    return slot;
}

/* Without a thread the work is done here: late is better than never. */
static bool has_thread(struct loop_workers *workers, size_t slot) {
    if (slot < workers->thread_count) return true;
    if (uv_thread_create(&workers->threads[workers->thread_count], serve, workers) == 0) workers->thread_count++;
    return workers->thread_count > 0;
}

static void hand_out(struct loop_workers *workers) {
    size_t slot;
    struct fair_item *item;
    while ((slot = free_slot(workers)) < LOOP_WORKERS && (item = fair_take(&workers->waiting, is_idle, workers))) {
        struct loop_work *work = (struct loop_work *)((char *)item - offsetof(struct loop_work, item));
        workers->running[slot] = work;
        bool is_threaded = has_thread(workers, slot);
        if (!is_threaded) work->run(work);
        uv_mutex_lock(&workers->mutex);
        if (is_threaded)
            STAILQ_INSERT_TAIL(&workers->ready, work, link);
        else
            STAILQ_INSERT_TAIL(&workers->finished, work, link);
        uv_cond_signal(&workers->changed);
        uv_mutex_unlock(&workers->mutex);
        if (!is_threaded) uv_async_send(&workers->wake);
    }
}

static struct loop_work *take_finished(struct loop_workers *workers) {
    uv_mutex_lock(&workers->mutex);
    struct loop_work *work = STAILQ_FIRST(&workers->finished);
    if (work) STAILQ_REMOVE_HEAD(&workers->finished, link);
    uv_mutex_unlock(&workers->mutex);
    return work;
}

static void on_wake(uv_async_t *wake) {
    struct loop_workers *workers = wake->data;
    struct loop_work *work;
    while ((work = take_finished(workers))) {
        for (size_t i = 0; i < LOOP_WORKERS; i++)
            if (workers->running[i] == work) workers->running[i] = NULL;
        work->done(work);
    }
    if (!workers->is_ending) hand_out(workers);
}

void loop_work_submit(struct loop_workers *workers, uint64_t key, struct loop_work *work) {
    work->key = key;
    if (!fair_put(&workers->waiting, key, &work->item)) abort(); /* a few bytes: nothing sensible is left to do */
    hand_out(workers);
}

int loop_workers_open(struct loop_workers *workers, uv_loop_t *loop, struct error *reterr) {
    *workers = (struct loop_workers){.loop = loop};
    fair_init(&workers->waiting);
    STAILQ_INIT(&workers->ready);
    STAILQ_INIT(&workers->finished);
    int status = uv_async_init(loop, &workers->wake, on_wake);
    if (status < 0) return error_set(reterr, E_SYSTEM, "threads for large requests: %s", uv_strerror(status));
    workers->wake.data = workers;
    uv_mutex_init(&workers->mutex);
    uv_cond_init(&workers->changed);
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    struct loop_workers *workers = handle->data;
    uv_mutex_destroy(&workers->mutex);
    uv_cond_destroy(&workers->changed);
    if (workers->closed) workers->closed(workers->closed_data);
}

void loop_workers_close(struct loop_workers *workers, void (*closed)(void *data), void *data) {
    workers->closed = closed;
    workers->closed_data = data;
    uv_mutex_lock(&workers->mutex);
    workers->is_ending = true;
    uv_cond_broadcast(&workers->changed);
    uv_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < workers->thread_count; i++) uv_thread_join(&workers->threads[i]);
    on_wake(&workers->wake);
    uv_close((uv_handle_t *)&workers->wake, on_closed);
}
