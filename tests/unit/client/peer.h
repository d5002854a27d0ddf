/* A peer for client tests: a thread that listens in a home of the test's own, reads requests and answers with text the
   test has chosen, one answer per request. */
#ifndef TESTS_CLIENT_PEER_H
#define TESTS_CLIENT_PEER_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"
#include "folder.h"

enum { PEER_REQUESTS_MAX = 16, PEER_DEADLINE_MS = 5000 };

struct peer {
    char home[64];
    char socket_path[96];
    int listen_fd;
    int stop_fds[2];
    pthread_t thread;
    /* Each connection takes these in order; NULL closes the connection without an answer. */
    const char *const *answers;
    size_t answer_count;
    bool silent; /* read and never answer */
    /* What came, whole: head and body. */
    struct buf requests[PEER_REQUESTS_MAX];
    size_t request_count;
    size_t connection_count;
};

static inline bool peer_wait(struct peer *peer, int fd) {
    struct pollfd polled[] = {{fd, POLLIN, 0}, {peer->stop_fds[0], POLLIN, 0}};
    return poll(polled, 2, PEER_DEADLINE_MS) > 0 && !polled[1].revents;
}

/* Until the head and as much body as it announces have come. */
static inline bool peer_read_request(struct peer *peer, int fd, struct buf *text) {
    for (;;) {
        const char *head_end = strstr(buf_string(text), "\r\n\r\n");
        const char *length = strstr(buf_string(text), "Content-Length: ");
        size_t body = length ? strtoul(length + strlen("Content-Length: "), NULL, 10) : 0;
        if (head_end && text->size >= (size_t)(head_end + 4 - buf_string(text)) + body) return true;
        char bytes[4096];
        if (!peer_wait(peer, fd)) return false;
        ssize_t size = read(fd, bytes, sizeof bytes);
        if (size <= 0) return false;
        buf_append(text, bytes, (size_t)size);
    }
}

static inline void peer_serve(struct peer *peer, int fd) {
    while (peer->request_count < PEER_REQUESTS_MAX) {
        struct buf *text = &peer->requests[peer->request_count];
        if (!peer_read_request(peer, fd, text)) {
            buf_clear(text);
            return;
        }
        size_t number = peer->request_count++;
        if (peer->silent) {
            peer_wait(peer, -1);
            return;
        }
        const char *answer = number < peer->answer_count ? peer->answers[number] : NULL;
        if (!answer || send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0) return;
        if (strstr(answer, "Connection: close")) return;
    }
}

static inline void *peer_main(void *data) {
    struct peer *peer = data;
    while (peer_wait(peer, peer->listen_fd)) {
        int fd = accept4(peer->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) break;
        peer->connection_count++;
        peer_serve(peer, fd);
        close(fd);
    }
    return NULL;
}

static inline bool peer_start(struct peer *peer, const char *const *answers, size_t answer_count) {
    bool silent = peer->silent;
    *peer = (struct peer){.answers = answers, .answer_count = answer_count, .silent = silent};
    if (!test_folder_make(peer->home)) return false;
    snprintf(peer->socket_path, sizeof peer->socket_path, "%s/api.sock", peer->home);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", peer->socket_path);
    peer->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(peer->listen_fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(peer->listen_fd, 8) == 0 &&
           pipe(peer->stop_fds) == 0 && pthread_create(&peer->thread, NULL, peer_main, peer) == 0;
}

static inline void peer_stop(struct peer *peer) {
    close(peer->stop_fds[1]);
    pthread_join(peer->thread, NULL);
    close(peer->stop_fds[0]);
    close(peer->listen_fd);
    for (size_t i = 0; i < PEER_REQUESTS_MAX; i++) buf_free(&peer->requests[i]);
    unlink(peer->socket_path);
    rmdir(peer->home);
}

#endif
