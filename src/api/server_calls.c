/* System calls of the HTTP server's library. The library serves all connections that are ready in one run, and takes
   no functions of ours for its reads, writes and waits. So the program has such functions of its own, which the library
   finds before libc's. While the server runs they bound what one run does, for each user and in all: a call too many is
   told to come again, and its connection is reported as ready once more in the next run. */
#include "api/api_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    EVENTS_PER_RUN = 64,  /* fewer than the library asks for: then it asks once */
    CALLS_PER_USER = 8,   /* in a run, for users whom quotas bind */
    CALLS_AT_LEAST = 4,   /* in a run, however full the turn is */
    SOCKETS_AT_ONCE = 64, /* the table grows by so many */
};

struct server_socket {
    struct connection *connection; /* NULL: none has this descriptor */
    bool is_polled;
    struct epoll_event event; /* as the server asked for it */
};

static _Thread_local struct api *served;

void server_run_begin(struct api *api) {
    served = api;
    api->server.calls = 0;
    api->server.user_count = 0;
}

void server_run_end(void) {
    served = NULL;
}

/* ---- sockets by their descriptors ---- */

static struct server_socket *socket_of(const struct server *server, int fd) {
    return fd >= 0 && (size_t)fd < server->socket_count ? &server->sockets[fd] : NULL;
}

static struct server_socket *make_socket(struct server *server, int fd) {
    size_t count = (size_t)fd + SOCKETS_AT_ONCE;
    if (socket_of(server, fd)) return socket_of(server, fd);
    struct server_socket *sockets = realloc(server->sockets, count * sizeof *sockets);
    if (!sockets) return NULL;
    for (size_t i = server->socket_count; i < count; i++) sockets[i] = (struct server_socket){0};
    server->sockets = sockets;
    server->socket_count = count;
    return &sockets[fd];
}

void server_connection_began(struct api *api, struct connection *connection) {
    struct server_socket *socket = make_socket(&api->server, connection->fd);
    if (socket) *socket = (struct server_socket){.connection = connection};
}

void server_connection_ended(struct api *api, const struct connection *connection) {
    struct server_socket *socket = socket_of(&api->server, connection->fd);
    if (socket) *socket = (struct server_socket){0};
}

void server_free(struct api *api) {
    free(api->server.sockets);
    api->server = (struct server){0};
}

/* ---- what one run may do ---- */

static unsigned count_call(struct server *server, uid_t uid) {
    for (size_t i = 0; i < server->user_count; i++)
        if (server->users[i].uid == uid) return ++server->users[i].calls;
    if (server->user_count == SERVER_USERS_COUNTED) return 0;
    server->users[server->user_count++] = (struct server_user){.uid = uid, .calls = 1};
    return 1;
}

static bool is_too_much(struct api *api, const struct connection *connection) {
    struct server *server = &api->server;
    if (server->calls++ >= CALLS_AT_LEAST && loop_turn_is_full(api->loop)) return true;
    uid_t uid = connection->caller.uid;
    return quotas_is_bound(api->config.quotas, uid) && count_call(server, uid) > CALLS_PER_USER;
}

/* Events come once for each change: to ask for them anew has the kernel report again what is ready. A connection that
   the server does not poll yet is polled by it after this call has failed. */
static bool must_wait(struct api *api, int fd) {
    struct server_socket *socket = socket_of(&api->server, fd);
    if (!socket || !socket->connection || !is_too_much(api, socket->connection)) return false;
    int epoll_fd = MHD_get_daemon_info(api->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (socket->is_polled && syscall(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_MOD, fd, &socket->event) < 0) return false;
    errno = EAGAIN;
    return true;
}

static void note_polling(struct api *api, int operation, int fd, const struct epoll_event *event) {
    struct server_socket *socket = socket_of(&api->server, fd);
    if (!socket || !socket->connection) return;
    socket->is_polled = operation != EPOLL_CTL_DEL;
    if (event) socket->event = *event;
}

/* ---- the calls. clang takes libc's checked inline functions for earlier definitions. ---- */

#define SEEN_BY_LIBRARIES __attribute__((visibility("default")))

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES ssize_t recv(int fd, void *data, size_t size, int flags) {
    if (!served) return recvfrom(fd, data, size, flags, NULL, NULL);
    return must_wait(served, fd) ? -1 : receive_bytes(served, fd, data, size);
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES ssize_t send(int fd, const void *data, size_t size, int flags) {
    return served && must_wait(served, fd) ? -1 : sendto(fd, data, size, flags, NULL, 0);
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return served && must_wait(served, fd) ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES int epoll_wait(int epoll_fd, struct epoll_event *events, int count, int timeout_ms) {
    return epoll_pwait(epoll_fd, events, served && count > EVENTS_PER_RUN ? EVENTS_PER_RUN : count, timeout_ms, NULL);
}

/* NOLINTNEXTLINE */
SEEN_BY_LIBRARIES int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event) {
    int result = (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
    if (result == 0 && served) note_polling(served, operation, fd, event);
    return result;
}
