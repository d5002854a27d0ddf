/* A stream that a stranger's process writes is moved to a file, from the loop, without waiting for the writer. */
#include "link/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop/loop.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    SMALL_BYTES = 4 * CHUNK_BYTES, /* kept in memory, and moved by the loop, a chunk in a turn: most projects are */
    TURN_BYTES = 1 << 20,          /* moved by the pool before others get their turn */
    PIPE_BYTES = 4 * CHUNK_BYTES,
};

struct spool {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_work_t work;
    unsigned open_handles;
    char folder[PATH_MAX];
    struct spool_bounds bounds;
    uint64_t deadline_ms; /* of the whole, by the loop's clock */
    int pipe_fd, file_fd;
    bool is_on_disk;
    bool is_working; /* on the pool: nothing else touches it */
    bool has_ended, is_finishing;
    uint64_t bytes;
    struct error error;     /* of moving */
    struct error cancelled; /* from outside */
    spool_done_fn done;
    void *data;
    uint8_t chunk[CHUNK_BYTES];
};

static void on_readable(uv_poll_t *poll, int status, int events);
static void on_silent(uv_timer_t *timer);

/* ---- ending ---- */

static const struct error *error_of(const struct spool *spool) {
    if (spool->cancelled.code != E_NONE) return &spool->cancelled;
    return spool->error.code != E_NONE ? &spool->error : NULL;
}

static void on_closed(uv_handle_t *handle) {
    struct spool *spool = handle->data;
    if (--spool->open_handles > 0) return;
    const struct error *error = error_of(spool);
    if (error) spool->file_fd = fd_close(spool->file_fd);
    spool->done(spool->data, spool->file_fd, error);
    free(spool);
}

static void finish(struct spool *spool) {
    if (spool->is_finishing) return;
    spool->is_finishing = true;
    if (!error_of(spool) && lseek(spool->file_fd, 0, SEEK_SET) < 0)
        error_errno(&spool->error, errno, "read the project's files");
    uv_close((uv_handle_t *)&spool->poll, on_closed);
    uv_close((uv_handle_t *)&spool->timer, on_closed);
    spool->pipe_fd = fd_close(spool->pipe_fd);
}

void spool_cancel(struct spool *spool, const struct error *why) {
    if (spool->is_finishing) return;
    spool->cancelled = *why;
    if (!spool->is_working) finish(spool);
}

/* ---- moving ---- */

static int open_nameless(const char *folder) {
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || string_format(path, sizeof path, NULL, "%s/.spool-XXXXXX", folder) < 0) return fd;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

/* What came so far is small. The chunk at hand is not among it yet. */
static int go_to_disk(struct spool *spool, uint64_t kept_bytes) {
    CLEANUP_FD int fd = open_nameless(spool->folder);
    void *kept = fd < 0 || kept_bytes == 0 ? NULL : mmap(NULL, kept_bytes, PROT_READ, MAP_SHARED, spool->file_fd, 0);
    if (fd < 0 || kept == MAP_FAILED) return -1;
    int failed = kept ? file_write_all(fd, kept, kept_bytes) : 0;
    if (kept) munmap(kept, kept_bytes);
    if (failed < 0) return -1;
    fd_close(spool->file_fd);
    spool->file_fd = take_fd(&fd);
    spool->is_on_disk = true;
    fcntl(spool->pipe_fd, F_SETPIPE_SZ, PIPE_BYTES); /* or it takes more turns */
    return 0;
}

static int keep(struct spool *spool, size_t size) {
    uint64_t kept_bytes = spool->bytes;
    spool->bytes += size;
    if (spool->bytes > spool->bounds.bytes)
        return error_set(&spool->error, E_TOO_LARGE, "the project's files are more than %llu MiB",
                         (unsigned long long)spool->bounds.bytes >> 20);
    if ((!spool->is_on_disk && spool->bytes > SMALL_BYTES && go_to_disk(spool, kept_bytes) < 0) ||
        file_write_all(spool->file_fd, spool->chunk, size) < 0)
        return error_errno(&spool->error, errno, "keep the project's files");
    return 0;
}

/* Never waits. Whether there may be more. */
static bool move_chunk(struct spool *spool) {
    ssize_t got = read(spool->pipe_fd, spool->chunk, sizeof spool->chunk);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) error_errno(&spool->error, errno, "receive the project's files");
    if (got == 0) spool->has_ended = true;
    return got > 0 && keep(spool, (size_t)got) == 0;
}

static void move_many(uv_work_t *work) {
    struct spool *spool = work->data;
    uint64_t until_bytes = spool->bytes + TURN_BYTES;
    while (spool->bytes < until_bytes && move_chunk(spool)) {
    }
}

/* ---- waiting ---- */

static void await_more(struct spool *spool) {
    uint64_t now_ms = uv_now(spool->loop), wait_ms = spool->bounds.silence_ms;
    uint64_t left_ms = spool->deadline_ms > now_ms ? spool->deadline_ms - now_ms : 0;
    uv_poll_start(&spool->poll, UV_READABLE, on_readable);
    uv_timer_start(&spool->timer, on_silent, left_ms < wait_ms ? left_ms : wait_ms, 0);
}

static void go_on(struct spool *spool) {
    if (error_of(spool) || spool->has_ended)
        finish(spool);
    else
        await_more(spool);
}

static void on_moved(uv_work_t *work, int status) {
    struct spool *spool = work->data;
    (void)status;
    spool->is_working = false;
    go_on(spool);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    struct spool *spool = poll->data;
    (void)status, (void)events; /* reading tells */
    uv_poll_stop(&spool->poll);
    uv_timer_stop(&spool->timer);
    if (spool->bytes + CHUNK_BYTES <= SMALL_BYTES) {
        move_chunk(spool);
        go_on(spool);
        return;
    }
    spool->is_working = true;
    spool->work.data = spool;
    loop_queue_work(spool->loop, &spool->work, move_many, on_moved);
}

/* The loop itself may have stood still: what has come by now has come in time. */
static void on_silent(uv_timer_t *timer) {
    struct spool *spool = timer->data;
    bool is_over = uv_now(spool->loop) >= spool->deadline_ms;
    if (!is_over && poll(&(struct pollfd){.fd = spool->pipe_fd, .events = POLLIN}, 1, 0) > 0) {
        await_more(spool);
        return;
    }
    if (is_over)
        error_set(&spool->error, E_TIMEOUT, "the project's files did not come within %llu ms",
                  (unsigned long long)spool->bounds.whole_ms);
    else
        error_set(&spool->error, E_TIMEOUT, "the project's files did not come for %llu ms",
                  (unsigned long long)spool->bounds.silence_ms);
    finish(spool);
}

/* ---- beginning ---- */

static int open_files(struct spool *spool, const char *folder, struct error *reterr) {
    int flags = fcntl(spool->pipe_fd, F_GETFL);
    int failed = string_format(spool->folder, sizeof spool->folder, reterr, "%s", folder);
    if (failed) return failed;
    spool->file_fd = memfd_create("project", MFD_CLOEXEC);
    if (spool->file_fd < 0 || flags < 0 || fcntl(spool->pipe_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        uv_poll_init(spool->loop, &spool->poll, spool->pipe_fd) < 0)
        return error_set(reterr, E_SYSTEM, "the project's files can't be received");
    return 0;
}

struct spool *spool_start(uv_loop_t *loop, const char *folder, int pipe_fd, const struct spool_bounds *bounds,
                          spool_done_fn done, void *data, struct error *reterr) {
    struct spool *spool = calloc(1, sizeof *spool);
    if (!spool) {
        fd_close(pipe_fd);
        error_set(reterr, E_NO_MEMORY, "no memory for a project's files");
        return NULL;
    }
    spool->loop = loop, spool->bounds = *bounds;
    spool->pipe_fd = pipe_fd, spool->file_fd = -1;
    spool->open_handles = 2;
    spool->done = done, spool->data = data;
    spool->deadline_ms = uv_now(loop) + bounds->whole_ms;
    if (open_files(spool, folder, reterr) < 0) {
        fd_close(spool->pipe_fd);
        fd_close(spool->file_fd);
        free(spool);
        return NULL;
    }
    uv_timer_init(loop, &spool->timer);
    spool->poll.data = spool->timer.data = spool;
    await_more(spool);
    return spool;
}
