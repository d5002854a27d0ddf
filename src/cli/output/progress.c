/* Shows a line on the terminal while a call takes longer than half a second. */
#include <pthread.h>
#include <stdarg.h>
#include <time.h>

#include "cli/cli_internal.h"

enum { PATIENCE_MS = 500, REFRESH_MS = 100 };

/* A thread of its own, since the calls are synchronous. It writes to the terminal only. */
struct progress {
    char *what;
    uint64_t started_ms;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool is_over;
    bool is_shown;
};

/* False when the time is over, true when the work is. */
static bool wait_until(struct progress *progress, uint64_t until_ms) {
    struct timespec until = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    while (!progress->is_over)
        if (pthread_cond_timedwait(&progress->stopped, &progress->lock, &until) != 0) break;
    return progress->is_over;
}

static void *show(void *data) {
    struct progress *progress = data;
    pthread_mutex_lock(&progress->lock);
    uint64_t next_ms = progress->started_ms + PATIENCE_MS;
    while (!wait_until(progress, next_ms)) {
        progress->is_shown = true;
        double seconds = (double)(clock_monotonic_ms() - progress->started_ms) / 1000;
        fprintf(stderr, "\r%s… %.1f s\033[K", progress->what, seconds);
        fflush(stderr);
        next_ms += REFRESH_MS;
    }
    if (progress->is_shown) fputs("\r\033[K", stderr);
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

static void release(struct progress *progress) {
    pthread_cond_destroy(&progress->stopped);
    pthread_mutex_destroy(&progress->lock);
    free(progress->what);
    free(progress);
}

struct progress *progress_start(const struct cli *cli, const char *format, ...) {
    if (!cli->err_is_terminal || cli->json) return NULL;
    struct progress *progress = calloc(1, sizeof *progress);
    if (!progress) return NULL;
    struct buf what = BUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    buf_vprintf(&what, format, arguments);
    va_end(arguments);
    progress->what = buf_take_string(&what);
    progress->started_ms = clock_monotonic_ms();
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->stopped, &attributes);
    pthread_condattr_destroy(&attributes);
    if (progress->what && pthread_create(&progress->thread, NULL, show, progress) == 0) return progress;
    release(progress);
    return NULL;
}

struct progress *progress_stop(struct progress *progress) {
    if (!progress) return NULL;
    pthread_mutex_lock(&progress->lock);
    progress->is_over = true;
    pthread_cond_signal(&progress->stopped);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    release(progress);
    return NULL;
}
