/* Sockets that strangers write to: no descriptor that they send is received, and no close of theirs keeps the caller's
   thread waiting. */
#include "base/io/stranger.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16 */
#endif

enum {
    CLOSERS_MAX = 4,
    CLOSE_PATIENCE_NS = 10 * 1000 * 1000,
    STACK_BYTES = 64 * 1024,
};

bool stranger_refuse_descriptors(int listener) {
    int result = setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
    return result == 0 || errno == ENOTSOCK || errno == EOPNOTSUPP; /* by those none can come */
}

/* Peeked at without room for descriptors, a message says that it has some (MSG_CTRUNC) and keeps them. What was peeked
   at had none, and no more than that is read. */
ssize_t stranger_receive(int fd, void *data, size_t size) {
    struct msghdr message = {.msg_iov = &(struct iovec){data, size}, .msg_iovlen = 1};
    ssize_t there = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
    if (there <= 0) return there;
    if (message.msg_flags & MSG_CTRUNC) {
        errno = EBADMSG;
        return -1;
    }
    return recvfrom(fd, data, (size_t)there, MSG_DONTWAIT, NULL, NULL);
}

/* ---- closing, on threads that are started when they are first needed ---- */

/* One for the process, as its table of descriptors is. Every entry of the queue is an open descriptor, so RLIMIT_NOFILE
   bounds it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    int *fds;
    size_t count, capacity;
    unsigned threads, idle;
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static void on_poke(int number) {
    (void)number;
}

/* A lingering close ends when a signal is pending. Without timers the thread waits for as long as the sender chose. */
static bool make_poke(timer_t *ret) {
    struct sigaction action = {.sa_handler = on_poke};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    event._sigev_un._tid = gettid();
    return sigaction(SIGURG, &action, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, ret) == 0;
}

static void poke_every(timer_t timer, long ns) {
    struct itimerspec times = {.it_value.tv_nsec = ns, .it_interval.tv_nsec = ns};
    timer_settime(timer, 0, &times, NULL);
}

static int await_one(void) {
    pthread_mutex_lock(&closer.lock);
    closer.idle++;
    while (closer.count == 0) pthread_cond_wait(&closer.filled, &closer.lock);
    closer.idle--;
    int fd = closer.fds[0];
    memmove(closer.fds, closer.fds + 1, --closer.count * sizeof fd);
    pthread_mutex_unlock(&closer.lock);
    return fd;
}

static void *run_closer(void *unused) {
    timer_t timer;
    bool is_poked = make_poke(&timer);
    for (;;) {
        int fd = await_one();
        if (is_poked) poke_every(timer, CLOSE_PATIENCE_NS);
        close(fd);
        if (is_poked) poke_every(timer, 0);
    }
    return unused;
}

/* With every signal blocked but its own: the others are for the threads that expect them. */
static bool start_closer(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t blocked, before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGURG);
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    bool is_started = pthread_create(&thread, &attributes, run_closer, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

static void queue(int fd) {
    if (closer.count == closer.capacity) {
        size_t capacity = closer.capacity ? 2 * closer.capacity : 64;
        int *fds = realloc(closer.fds, capacity * sizeof *fds);
        if (!fds) abort(); /* a few hundred bytes: nothing sensible is left to do */
        closer.fds = fds;
        closer.capacity = capacity;
    }
    closer.fds[closer.count++] = fd;
}

void stranger_close(int fd) {
    if (fd < 0) return;
    shutdown(fd, SHUT_RDWR); /* the other side sees the end now, and sends nothing more */
    pthread_mutex_lock(&closer.lock);
    queue(fd);
    if (closer.count > closer.idle && closer.threads < CLOSERS_MAX && start_closer()) closer.threads++;
    pthread_cond_signal(&closer.filled);
    pthread_mutex_unlock(&closer.lock);
}
