/* A monotonic clock that does not see its program stand still. A busy machine, or a debugger, stops a program between
   any two of its steps, and a test that compares times would take that for work that it did. On this clock, time
   between two readings counts for GAP_NS at most, and a wait for events counts for as long as the loop meant to wait.
   So timers, their deadlines and what the tests measure agree, however late the kernel runs the program.

   It stands before the C library's functions, which libuv calls too. A program that gives the kernel absolute times of
   this clock can't be linked with it. */
#include "steady_clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { GAP_NS = 200000 };

#define SEEN_BY_LIBRARIES __attribute__((visibility("default")))

/* Threads of the program share it. */
static struct {
    pthread_mutex_t lock;
    uint64_t real_ns; /* when it was last read; 0: never */
    uint64_t shown_ns;
    bool is_skipping;
} clock_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int read_real(clockid_t id, struct timespec *ret) {
    return (int)syscall(SYS_clock_gettime, id, ret);
}

static uint64_t real_now_ns(void) {
    struct timespec now;
    read_real(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* With the lock held. */
static uint64_t advance(void) {
    uint64_t real_ns = real_now_ns(), passed_ns = real_ns - clock_state.real_ns;
    if (clock_state.real_ns == 0)
        clock_state.shown_ns = real_ns;
    else
        clock_state.shown_ns += passed_ns < GAP_NS ? passed_ns : GAP_NS;
    clock_state.real_ns = real_ns;
    return clock_state.shown_ns;
}

static uint64_t now_ns(void) {
    pthread_mutex_lock(&clock_state.lock);
    uint64_t shown_ns = advance();
    pthread_mutex_unlock(&clock_state.lock);
    return shown_ns;
}

/* NOLINTNEXTLINE: clang takes the C library's declarations for earlier definitions. */
SEEN_BY_LIBRARIES int clock_gettime(clockid_t id, struct timespec *ret) {
    if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE) return read_real(id, ret);
    uint64_t ns = now_ns();
    *ret = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return 0;
}

void steady_clock_skip_waits(bool is_skipping) {
    pthread_mutex_lock(&clock_state.lock);
    clock_state.is_skipping = is_skipping;
    pthread_mutex_unlock(&clock_state.lock);
}

void steady_clock_pass(uint64_t ms) {
    pthread_mutex_lock(&clock_state.lock);
    advance();
    clock_state.shown_ns += ms * 1000000;
    pthread_mutex_unlock(&clock_state.lock);
}

struct wait {
    uint64_t begun_ns, begun_real_ns;
    int timeout_ms;
    bool is_skipped;
};

static struct wait begin_wait(int timeout_ms) {
    pthread_mutex_lock(&clock_state.lock);
    uint64_t begun_ns = advance();
    struct wait wait = {begun_ns, clock_state.real_ns, timeout_ms, clock_state.is_skipping && timeout_ms > 0};
    pthread_mutex_unlock(&clock_state.lock);
    return wait;
}

/* Other threads may have read the clock during the wait, and moved it as far or farther. */
static void end_wait(const struct wait *wait, bool is_over) {
    pthread_mutex_lock(&clock_state.lock);
    uint64_t shown_ns = advance(), waited_ns = clock_state.real_ns - wait->begun_real_ns;
    uint64_t most_ns = wait->timeout_ms < 0 ? waited_ns : (uint64_t)wait->timeout_ms * 1000000;
    if (waited_ns > most_ns || (wait->is_skipped && is_over)) waited_ns = most_ns;
    if (shown_ns < wait->begun_ns + waited_ns) clock_state.shown_ns = wait->begun_ns + waited_ns;
    pthread_mutex_unlock(&clock_state.lock);
}

static int finish_wait(const struct wait *wait, int result) {
    int error = errno;
    end_wait(wait, result == 0);
    errno = error;
    return result;
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask) {
    struct wait wait = begin_wait(timeout_ms);
    int real_timeout_ms = wait.is_skipped ? 0 : timeout_ms;
    return finish_wait(&wait, (int)syscall(SYS_epoll_pwait, fd, events, count, real_timeout_ms, mask, _NSIG / 8));
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    struct wait wait = begin_wait(timeout_ms);
    int ms = wait.is_skipped ? 0 : timeout_ms;
    struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return finish_wait(&wait, (int)syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &timeout, NULL, _NSIG / 8));
}

/* The daemon's own stands before this one (src/api/server_calls.c). NOLINTNEXTLINE */
SEEN_BY_LIBRARIES __attribute__((weak)) int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms) {
    return epoll_pwait(fd, events, count, timeout_ms, NULL);
}
