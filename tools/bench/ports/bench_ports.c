/* Requests a small answer again and again, over connections that stay or over a new one for each request, and prints
   how many were answered in a second, and how long they took: {"requests_per_s": …, "p50_us": …, "p99_us": …,
   "failed": …}. usage: bench_ports PORT CONNECTIONS DURATION_MS keep|close */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

enum { CONNECTIONS_MAX = 1024, ANSWER_BYTES = 52, TIMES_MAX = 4 << 20, EVENTS = 64, WAIT_MS = 1000 };

static const char request[] = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

struct client {
    int fd;
    size_t got;
    uint64_t asked_us;
};

struct bench {
    struct sockaddr_in place;
    bool keeps;
    int epoll_fd;
    struct client clients[CONNECTIONS_MAX];
    uint32_t *times_us;
    size_t count, failed;
};

static void ask(struct bench *bench, struct client *client) {
    struct linger at_once = {.l_onoff = 1};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    int on = 1;
    client->got = 0;
    client->asked_us = clock_monotonic_us();
    if (client->fd < 0) {
        client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* no port is left waiting */
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(client->fd, (struct sockaddr *)&bench->place, sizeof bench->place) < 0) {
            perror("connect");
            exit(EXIT_FAILURE);
        }
        epoll_ctl(bench->epoll_fd, EPOLL_CTL_ADD, client->fd, &event);
    }
    if (send(client->fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) bench->failed++;
}

static void hear(struct bench *bench, struct client *client) {
    char answer[256];
    ssize_t got = recv(client->fd, answer, sizeof answer, 0);
    client->got += got > 0 ? (size_t)got : 0;
    if (got > 0 && client->got < ANSWER_BYTES) return;
    if (got <= 0)
        bench->failed++;
    else if (bench->count < TIMES_MAX)
        bench->times_us[bench->count++] = (uint32_t)(clock_monotonic_us() - client->asked_us);
    if (got <= 0 || !bench->keeps) client->fd = fd_close(client->fd);
    ask(bench, client);
}

static int by_time(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void tell(struct bench *bench, uint64_t duration_us) {
    qsort(bench->times_us, bench->count, sizeof *bench->times_us, by_time);
    bool has_any = bench->count > 0;
    printf("{\"requests_per_s\": %.0f, \"p50_us\": %u, \"p99_us\": %u, \"failed\": %zu}\n",
           (double)bench->count * 1e6 / (double)duration_us, has_any ? bench->times_us[bench->count / 2] : 0,
           has_any ? bench->times_us[bench->count * 99 / 100] : 0, bench->failed);
}

int main(int count, char **words) {
    static struct bench bench;
    if (count != 5) return EXIT_FAILURE;
    size_t connections = (size_t)atoi(words[2]);
    uint64_t duration_us = (uint64_t)atoi(words[3]) * 1000;
    bench.place = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    bench.keeps = strcmp(words[4], "keep") == 0;
    bench.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bench.times_us = calloc(TIMES_MAX, sizeof *bench.times_us);
    if (!bench.times_us || connections == 0 || connections > CONNECTIONS_MAX) return EXIT_FAILURE;
    uint64_t began_us = clock_monotonic_us();
    for (size_t i = 0; i < connections; i++) {
        bench.clients[i].fd = -1;
        ask(&bench, &bench.clients[i]);
    }
    while (clock_monotonic_us() - began_us < duration_us) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(bench.epoll_fd, events, EVENTS, WAIT_MS);
        for (int i = 0; i < ready; i++) hear(&bench, events[i].data.ptr);
    }
    tell(&bench, clock_monotonic_us() - began_us);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
