/* The threads that compile, hash, copy and free for callers. libuv's own have two faults here. They inherit the loop's
   priority, which is above that of nodes. And they wake the loop by uv_async_send, where the loop spins until the
   sender has the processor again: with many busy processes, for tens of milliseconds. These have a low priority, and
   share nothing with the loop that it would wait for. */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { POOL_THREADS = 4, POOL_NICE = 5 };

struct piece {
    STAILQ_ENTRY(piece) link;
    uv_work_t *request; /* the asker's */
    uv_work_cb run;
    uv_after_work_cb after;
};

struct pool_thread {
    struct loop_pool *pool;
    struct piece *piece; /* the loop's word: it runs, or has run and is not done yet */
    _Atomic(struct piece *) given, finished;
    int wake_fd; /* -1: it is not started */
    uv_thread_t thread;
};

struct loop_pool {
    STAILQ_HEAD(, piece) waiting;
    size_t under_way; /* and waiting */
    struct pool_thread each[POOL_THREADS];
    int done_fd;
    uv_poll_t done;
    bool is_ending;
};

static void signal_fd(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void await_signal(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* ---- on a thread ---- */

/* A signal without work is the end. */
static void serve(void *data) {
    struct pool_thread *thread = data;
    struct piece *piece;
    if (getpriority(PRIO_PROCESS, 0) < POOL_NICE) setpriority(PRIO_PROCESS, 0, POOL_NICE); /* of this thread alone */
    for (;;) {
        await_signal(thread->wake_fd);
        piece = atomic_exchange(&thread->given, NULL);
        if (!piece) return;
        piece->run(piece->request);
        atomic_store(&thread->finished, piece);
        signal_fd(thread->pool->done_fd);
    }
}

/* ---- on the loop ---- */

static bool is_started(struct pool_thread *thread) {
    if (thread->wake_fd >= 0) return true;
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE); /* a signal for each wake-up, none lost */
    if (thread->wake_fd >= 0 && uv_thread_create(&thread->thread, serve, thread) == 0) return true;
    thread->wake_fd = fd_close(thread->wake_fd);
    return false;
}

/* Without a thread the work is done here: late is better than never. */
static void give(struct pool_thread *thread, struct piece *piece) {
    thread->piece = piece;
    if (is_started(thread)) {
        atomic_store(&thread->given, piece);
        signal_fd(thread->wake_fd);
        return;
    }
    piece->run(piece->request);
    atomic_store(&thread->finished, piece);
    signal_fd(thread->pool->done_fd);
}

static void hand_out(struct loop_pool *pool) {
    for (size_t i = 0; i < POOL_THREADS && !STAILQ_EMPTY(&pool->waiting); i++) {
        struct piece *piece = STAILQ_FIRST(&pool->waiting);
        if (pool->each[i].piece) continue;
        STAILQ_REMOVE_HEAD(&pool->waiting, link);
        give(&pool->each[i], piece);
    }
}

static void on_closed(uv_handle_t *handle) {
    struct loop_pool *pool = handle->data;
    fd_close(pool->done_fd);
    free(pool);
}

static void end(struct loop_pool *pool) {
    for (size_t i = 0; i < POOL_THREADS; i++) {
        struct pool_thread *thread = &pool->each[i];
        if (thread->wake_fd < 0) continue;
        signal_fd(thread->wake_fd);
        uv_thread_join(&thread->thread);
        fd_close(thread->wake_fd);
    }
    uv_close((uv_handle_t *)&pool->done, on_closed);
}

/* The thread has its next piece first: what follows may queue more. */
static void take_finished(struct loop_pool *pool, struct pool_thread *thread) {
    struct piece *piece = atomic_exchange(&thread->finished, NULL);
    if (!piece) return;
    thread->piece = NULL;
    hand_out(pool);
    uv_work_t *request = piece->request;
    uv_after_work_cb after = piece->after;
    free(piece);
    if (--pool->under_way == 0) uv_unref((uv_handle_t *)&pool->done); /* the loop may end */
    if (after) after(request, 0);
}

static void on_done(uv_poll_t *poll, int status, int events) {
    struct loop_pool *pool = poll->data;
    (void)status, (void)events;
    await_signal(pool->done_fd);
    for (size_t i = 0; i < POOL_THREADS; i++) {
        loop_note(poll->loop, "pool", NULL);
        take_finished(pool, &pool->each[i]);
    }
    if (pool->is_ending && pool->under_way == 0) end(pool);
}

int loop_queue_work(uv_loop_t *loop, uv_work_t *request, uv_work_cb run, uv_after_work_cb after) {
    struct loop_pool *pool = loop_pool_of(loop);
    if (!pool) return uv_queue_work(loop, request, run, after);
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece) return UV_ENOMEM;
    *piece = (struct piece){.request = request, .run = run, .after = after};
    request->loop = loop;
    STAILQ_INSERT_TAIL(&pool->waiting, piece, link);
    if (pool->under_way++ == 0) uv_ref((uv_handle_t *)&pool->done);
    hand_out(pool);
    return 0;
}

/* ---- opening and closing ---- */

int loop_pool_open(uv_loop_t *loop, struct loop_pool **ret, struct error *reterr) {
    struct loop_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return error_set(reterr, E_NO_MEMORY, "no memory for the pool of threads");
    STAILQ_INIT(&pool->waiting);
    for (size_t i = 0; i < POOL_THREADS; i++) {
        pool->each[i].pool = pool;
        pool->each[i].wake_fd = -1;
    }
    pool->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status = pool->done_fd < 0 ? -errno : uv_poll_init(loop, &pool->done, pool->done_fd);
    if (status < 0) {
        fd_close(pool->done_fd);
        free(pool);
        return error_errno(reterr, -status, "preparing the pool of threads");
    }
    pool->done.data = pool;
    uv_poll_start(&pool->done, UV_READABLE, on_done);
    uv_unref((uv_handle_t *)&pool->done);
    *ret = pool;
    return 0;
}

void loop_pool_close(struct loop_pool *pool) {
    if (!pool) return;
    pool->is_ending = true;
    if (pool->under_way == 0) end(pool);
}
