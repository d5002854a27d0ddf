/* Connections themselves: as many as there are, held for ever; and descriptors that are passed on one. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "siege.h"

enum { LOOK_MS = 5, FOLLOWERS_MAX = 2048, LINGER_S = 1 };

/* Refused ones are not tried again within the window. */
void followers_volley(struct crew *crew) {
    int fds[FOLLOWERS_MAX];
    unsigned count = crew->attack->count;
    for (unsigned i = 0; i < count; i++) {
        fds[i] = crew_dial(crew);
        if (fds[i] < 0 || !crew_request(fds[i], "GET", "/api/v1/events?follow=true", NULL, 0)) crew->stage->refused++;
    }
    crew->stage->strikes++;
    while (crew->stage->is_on) poll(NULL, 0, LOOK_MS);
    for (unsigned i = 0; i < count; i++) fd_close(fds[i]);
}

/* ---- a descriptor whose last close waits ---- */

static int listen_on_loopback(struct sockaddr_in *ret_address) {
    socklen_t size = sizeof *ret_address;
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)ret_address, size) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)ret_address, &size) < 0)
        return -1;
    return take_fd(&fd);
}

/* The buffers on both sides are full, so closing waits for a reader that never comes. */
static int make_lingering(int *ret_peer) {
    static const char noise[65536];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in address;
    CLEANUP_FD int listener = listen_on_loopback(&address);
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return -1;
    *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (send(fd, noise, sizeof noise, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    return setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) < 0 ? -1 : take_fd(&fd);
}

static bool pass(int through, int fd) {
    char begin[] = "GET /health HTTP/1.1\r\nHost: sandbox\r\n\r\n";
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec part = {begin, sizeof begin - 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(through, &message, MSG_NOSIGNAL) > 0;
}

/* Ours is closed at once, so that the receiver's is the last. Where passing is refused, ours is: it must not wait. */
void descriptors_volley(struct crew *crew) {
    const struct linger none = {0};
    CLEANUP_FD int peer = -1;
    int lingering = make_lingering(&peer);
    CLEANUP_FD int fd = crew_dial(crew);
    if (lingering < 0 || fd < 0) {
        crew->stage->refused++;
    } else if (!pass(fd, lingering)) {
        crew->stage->refused++;
        setsockopt(lingering, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    }
    fd_close(lingering);
    if (fd >= 0) crew_await_answer(fd);
}
