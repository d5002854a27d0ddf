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
    RESUMED_PER_RUN = 8,  /* of the connections that wait */
    SOCKETS_AT_ONCE = 64, /* the table grows by so many */
};

/* A call that is put off waits with others of its user, and the users take turns. Until its turn comes the server hears
   nothing of the socket; then the call is made, however full the loop's turn is. */
struct server_socket {
    struct fair_item item;         /* while a call waits */
    struct connection *connection; /* NULL: none has this descriptor */
    bool is_polled;
    bool has_waited;          /* its next call is made */
    struct epoll_event event; /* as the server asked for it */
    int fd;
};

static _Thread_local struct api *served;

static int server_epoll(const struct api *api) {
    return MHD_get_daemon_info(api->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

/* Events come once for each change: to ask for them anew has the kernel report again what is ready. */
static void poll_again(const struct api *api, struct server_socket *socket) {
    socket->has_waited = true;
    if (socket->is_polled) syscall(SYS_epoll_ctl, server_epoll(api), EPOLL_CTL_MOD, socket->fd, &socket->event);
}

static void end_waiting(struct api *api) {
    struct fair_item *item;
    for (size_t i = 0; i < RESUMED_PER_RUN && (item = fair_take(&api->server.waiting, NULL, NULL)); i++)
        poll_again(api, (struct server_socket *)item);
}

void server_init(struct api *api) {
    fair_init(&api->server.waiting);
}

void server_run_begin(struct api *api) {
    served = api;
    api->server.calls = 0;
    api->server.user_count = 0;
    end_waiting(api);
}

bool server_is_behind(const struct api *api) {
    return api->server.waiting.count > 0;
}

void server_run_end(void) {
    served = NULL;
}

/* ---- sockets by their descriptors ---- */

static struct server_socket *socket_of(const struct server *server, int fd) {
    return fd >= 0 && (size_t)fd < server->socket_count ? server->sockets[fd] : NULL;
}

/* By reference: a socket that waits must not move. */
static bool make_room(struct server *server, int fd) {
    size_t count = (size_t)fd + SOCKETS_AT_ONCE;
    if ((size_t)fd < server->socket_count) return true;
    struct server_socket **sockets = realloc(server->sockets, count * sizeof(struct server_socket *));
    if (!sockets) return false;
    for (size_t i = server->socket_count; i < count; i++) sockets[i] = NULL;
    server->sockets = sockets;
    server->socket_count = count;
    return true;
}

void server_connection_began(struct api *api, struct connection *connection) {
    struct server *server = &api->server;
    struct server_socket *socket = make_room(server, connection->fd) ? calloc(1, sizeof *socket) : NULL;
    if (!socket) return; /* its calls are not bounded */
    *socket = (struct server_socket){.connection = connection, .fd = connection->fd};
    server->sockets[connection->fd] = socket;
}

void server_connection_ended(struct api *api, const struct connection *connection) {
    struct server_socket *socket = socket_of(&api->server, connection->fd);
    if (!socket) return;
    fair_remove(&api->server.waiting, &socket->item);
    api->server.sockets[connection->fd] = NULL;
    free(socket);
}

void server_free(struct api *api) {
    for (size_t i = 0; i < api->server.socket_count; i++) free(api->server.sockets[i]);
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

static bool is_too_much(struct api *api, struct server_socket *socket) {
    struct server *server = &api->server;
    uid_t uid = socket->connection->caller.uid;
    if (!quotas_is_bound(api->config.quotas, uid)) return false;
    if (socket->has_waited) {
        socket->has_waited = false;
        return false;
    }
    if (server->calls++ >= CALLS_AT_LEAST && loop_turn_is_full(api->loop)) return true;
    return count_call(server, api_principal(api, uid)) > CALLS_PER_USER;
}

/* A connection that the server does not poll yet is polled by it after this call has failed. */
static bool must_wait(struct api *api, int fd) {
    struct server_socket *socket = socket_of(&api->server, fd);
    if (!socket) return false;
    bool is_waiting = socket->item.line != NULL;
    if (!is_waiting && !is_too_much(api, socket)) return false;
    uid_t principal = api_principal(api, socket->connection->caller.uid);
    if (!is_waiting && !fair_put(&api->server.waiting, principal, &socket->item)) return false;
    errno = EAGAIN;
    return true;
}

/* What the server polls is noted. Of a socket that waits it hears nothing yet. */
static int control_server_epoll(struct api *api, int epoll_fd, int operation, int fd, struct epoll_event *event) {
    struct server_socket *socket = socket_of(&api->server, fd);
    struct epoll_event nothing = {.events = 0, .data.u64 = event ? event->data.u64 : 0};
    bool is_silent = socket && event && socket->item.line;
    int result = (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, is_silent ? &nothing : event);
    if (result < 0 || !socket) return result;
    socket->is_polled = operation != EPOLL_CTL_DEL;
    if (event) socket->event = *event;
    if (operation == EPOLL_CTL_DEL) fair_remove(&api->server.waiting, &socket->item);
    return result;
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
    if (served && epoll_fd == server_epoll(served)) return control_server_epoll(served, epoll_fd, operation, fd, event);
    return (int)syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}
