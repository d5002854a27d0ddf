/* As many requests as the service answers: connections that are kept, each with one request under way, on one thread. A
   program of its own would not be asked any faster by a library that also reads the answers. */
#include "rows.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CONNECTIONS = 16, ROUNDS = 3, ROUND_MS = 2000, ANSWER_MAX_BYTES = 16384 };

struct caller {
    int fd;
    uint64_t asked_us;
    size_t received;
    char answer[ANSWER_MAX_BYTES];
};

static int dial(const struct sbx *service) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (string_format(address.sun_path, sizeof address.sun_path, NULL, "%s/api.sock", sbx_home(service)) < 0 ||
        fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        bench_end("the service's socket", strerror(errno));
    return fd;
}

static void ask(struct caller *caller, const struct batch *batch, unsigned member) {
    char request[256];
    int size = snprintf(request, sizeof request, "GET /api/v1/sandboxes/%s-%u HTTP/1.1\r\nHost: sandbox\r\n\r\n",
                        batch->prefix, member % batch->count);
    caller->received = 0;
    caller->asked_us = clock_monotonic_us();
    if (send(caller->fd, request, (size_t)size, MSG_NOSIGNAL) != size) bench_end("the service", "it does not read");
}

static bool is_whole(const struct caller *caller) {
    const char *end = memmem(caller->answer, caller->received, "\r\n\r\n", 4);
    const char *length = end ? memmem(caller->answer, caller->received, "Content-Length: ", 16) : NULL;
    if (!length) return false;
    return caller->received >= (size_t)(end - caller->answer) + 4 + strtoul(length + 16, NULL, 10);
}

static bool take(struct caller *caller) {
    ssize_t count = recv(caller->fd, caller->answer + caller->received, ANSWER_MAX_BYTES - caller->received, 0);
    if (count <= 0) bench_end("the service", "it closed the connection, or says too much");
    caller->received += (size_t)count;
    if (!is_whole(caller)) return false;
    if (strncmp(caller->answer, "HTTP/1.1 200", 12) != 0) bench_end("info", "it was refused");
    return true;
}

static unsigned ask_for_a_while(struct bench *bench, const struct batch *batch, struct caller *callers, int epoll) {
    uint64_t begun_us = clock_monotonic_us();
    struct epoll_event events[CONNECTIONS];
    unsigned answered = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++) ask(&callers[i], batch, i);
    for (unsigned under_way = CONNECTIONS; under_way > 0;) {
        int count = epoll_wait(epoll, events, CONNECTIONS, -1);
        bool is_over = clock_monotonic_us() - begun_us >= (uint64_t)ROUND_MS * 1000;
        for (int i = 0; i < count; i++) {
            struct caller *caller = events[i].data.ptr;
            if (!take(caller)) continue;
            bench_note(bench->times, "info", bench_since_ms(caller->asked_us));
            answered++;
            if (is_over)
                under_way--;
            else
                ask(caller, batch, answered);
        }
    }
    return answered;
}

void bench_info(struct bench *bench, const struct batch *batch) {
    struct caller *callers = calloc(CONNECTIONS, sizeof *callers);
    CLEANUP_FD int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!callers || epoll < 0) bench_end("info", "no memory");
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &callers[i]};
        callers[i].fd = dial(batch->wish.service);
        epoll_ctl(epoll, EPOLL_CTL_ADD, callers[i].fd, &event);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t begun_us = clock_monotonic_us();
        unsigned answered = ask_for_a_while(bench, batch, callers, epoll);
        bench_note(bench->times, "info.per_second", answered * 1000 / bench_since_ms(begun_us));
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) fd_close(callers[i].fd);
    free(callers);
}
