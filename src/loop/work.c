/* Threads for work whose size strangers choose: large bodies, answers and frames. */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WORKER_NICE = 10 }; /* nodes and callers go first; a tenth of a full core is left */

static void signal_fd(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* ---- on a thread ---- */

static void await_signal(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* A signal without work is the end. */
static void serve(void *data) {
    struct loop_worker *worker = data;
    struct loop_work *work;
    setpriority(PRIO_PROCESS, 0, WORKER_NICE); /* of this thread alone: the loop's turn comes first */
    for (;;) {
        await_signal(worker->wake_fd);
        work = atomic_exchange(&worker->given, NULL);
        if (!work) return;
        work->run(work);
        atomic_store(&worker->finished, work);
        signal_fd(worker->workers->done_fd);
    }
}

/* ---- on the loop ---- */

static bool may_begin(const void *data, uint64_t key) {
    const struct loop_workers *workers = data;
    for (size_t i = 0; i < LOOP_WORKERS; i++)
        if (workers->each[i].work && workers->each[i].work->key == key) return false;
    return true;
}

static struct loop_worker *idle_worker(struct loop_workers *workers) {
    for (size_t i = 0; i < LOOP_WORKERS; i++)
        if (!workers->each[i].work) return &workers->each[i];
    return NULL;
}

static bool is_started(struct loop_worker *worker) {
    if (worker->wake_fd >= 0) return true;
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE); /* a signal for each wake-up, none lost */
    if (worker->wake_fd >= 0 && uv_thread_create(&worker->thread, serve, worker) == 0) return true;
    worker->wake_fd = fd_close(worker->wake_fd);
    return false;
}

/* Without a thread the work is done here: late is better than never. */
static void give(struct loop_worker *worker, struct loop_work *work) {
    worker->work = work;
    if (is_started(worker)) {
        atomic_store(&worker->given, work);
        signal_fd(worker->wake_fd);
        return;
    }
    work->run(work);
    atomic_store(&worker->finished, work);
    signal_fd(worker->workers->done_fd);
}

static struct loop_work *work_of(struct fair_item *item) {
    return (struct loop_work *)((char *)item - offsetof(struct loop_work, item));
}

static void hand_out(struct loop_workers *workers) {
    struct loop_worker *worker;
    struct fair_item *item;
    while ((worker = idle_worker(workers)) && (item = fair_take(&workers->waiting, may_begin, workers)))
        give(worker, work_of(item));
}

static void take_finished(struct loop_workers *workers) {
    for (size_t i = 0; i < LOOP_WORKERS; i++) {
        struct loop_work *work = atomic_exchange(&workers->each[i].finished, NULL);
        if (!work) continue;
        workers->each[i].work = NULL;
        work->done(work);
    }
}

static void on_done(uv_poll_t *poll, int status, int events) {
    struct loop_workers *workers = poll->data;
    (void)status, (void)events;
    loop_note(workers->loop, "work", NULL);
    await_signal(workers->done_fd);
    take_finished(workers);
    hand_out(workers);
}

void loop_work_submit(struct loop_workers *workers, uint64_t key, struct loop_work *work) {
    work->key = key;
    if (!fair_put(&workers->waiting, key, &work->item)) abort(); /* a few bytes: nothing sensible is left to do */
    if (!workers->is_ending) hand_out(workers);
}

/* ---- beginning and end ---- */

int loop_workers_open(struct loop_workers *workers, uv_loop_t *loop, struct error *reterr) {
    *workers = (struct loop_workers){.loop = loop};
    fair_init(&workers->waiting);
    for (size_t i = 0; i < LOOP_WORKERS; i++) {
        workers->each[i].workers = workers;
        workers->each[i].wake_fd = -1;
    }
    workers->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (workers->done_fd < 0) return error_errno(reterr, errno, "preparing threads for long requests");
    int status = uv_poll_init(loop, &workers->done, workers->done_fd);
    if (status < 0) {
        fd_close(workers->done_fd);
        return error_errno(reterr, -status, "preparing threads for long requests");
    }
    workers->done.data = workers;
    uv_poll_start(&workers->done, UV_READABLE, on_done);
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    struct loop_workers *workers = handle->data;
    fd_close(workers->done_fd);
    if (workers->closed) workers->closed(workers->closed_data);
}

static void end_worker(struct loop_worker *worker) {
    if (worker->wake_fd < 0) return;
    signal_fd(worker->wake_fd);
    uv_thread_join(&worker->thread);
    worker->wake_fd = fd_close(worker->wake_fd);
}

/* On the loop itself: the service ends, so no caller is kept waiting by it. */
static void run_waiting(struct loop_workers *workers) {
    struct fair_item *item;
    while ((item = fair_take(&workers->waiting, NULL, NULL))) {
        struct loop_work *work = work_of(item);
        work->run(work);
        work->done(work);
    }
}

void loop_workers_close(struct loop_workers *workers, void (*closed)(void *data), void *data) {
    workers->closed = closed;
    workers->closed_data = data;
    workers->is_ending = true;
    for (size_t i = 0; i < LOOP_WORKERS; i++) end_worker(&workers->each[i]);
    take_finished(workers);
    run_waiting(workers);
    uv_close((uv_handle_t *)&workers->done, on_closed);
}
