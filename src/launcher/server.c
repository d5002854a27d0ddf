/* The socket the daemon dials: one message per packet, one daemon at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "jail/wire.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"
#include "launcher/server.h"
#include "launcher/volumes/volumes.h"

enum { SEND_BUFFER_BYTES = 4 << 20, BACKLOG = 4 };

static const char socket_name[] = "launcher.sock";

/* Made with the daemon's rights: the socket is its own, and no chown can be led astray in its directory. */
static int bind_as_daemon(const struct launcher *launcher, int fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.*s/%s",
             (int)(sizeof address.sun_path - sizeof socket_name - 1), launcher->home.path, socket_name);
    fs_rights_of_daemon(launcher);
    mode_t mask = umask(0177);
    unlinkat(launcher->home.fd, socket_name, 0);
    int failed = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    fs_rights_restore(launcher);
    return failed;
}

int server_open(struct launcher *launcher, struct error *reterr) {
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind_as_daemon(launcher, fd) < 0 || listen(fd, BACKLOG) < 0)
        return error_errno(reterr, errno, "listen at %s/%s", launcher->home.path, socket_name);
    if (launcher_watch(launcher, fd, SOURCE_SERVER, 0, reterr) < 0) return -1;
    launcher->server.fd = take_fd(&fd);
    return 0;
}

void server_drop_link(struct launcher *launcher) {
    if (launcher->server.link_fd < 0) return;
    launcher_unwatch(launcher, launcher->server.link_fd);
    launcher->server.link_fd = fd_close(launcher->server.link_fd);
    project_release_all(launcher);
    volumes_call_off(launcher);
    /* The next daemon is told what is frozen now. */
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used) freezing_call_off(launcher, &launcher->nodes.items[i]);
    shutdown_advance(launcher);
}

void server_accept(struct launcher *launcher) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int buffer_bytes = SEND_BUFFER_BYTES;
    struct error error;
    CLEANUP_FD int fd = accept4(launcher->server.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != launcher->daemon_uid) {
        launcher_log(launcher, LOG_WARN_LEVEL, "stranger_refused", NULL);
        return;
    }
    server_drop_link(launcher);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    if (launcher_watch(launcher, fd, SOURCE_LINK, 0, &error) < 0) return;
    launcher->server.link_fd = take_fd(&fd);
    launcher->server.link_serial++;
}

bool server_send(struct launcher *launcher, struct buf *text, const int *fds, size_t fd_count) {
    return launcher->server.link_fd >= 0 && !text->failed &&
           fd_send(launcher->server.link_fd, text->data, text->size, fds, fd_count, MSG_DONTWAIT) >= 0;
}

static void answer(struct launcher *launcher, struct request request, struct buf *text, const int *fds,
                   size_t fd_count) {
    if (request.link_serial != launcher->server.link_serial || launcher->server.link_fd < 0) return;
    if (!server_send(launcher, text, fds, fd_count)) server_drop_link(launcher);
}

void server_ok(struct launcher *launcher, struct request request, const char *text, const int *fds, size_t fd_count) {
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    buf_printf(&message, "ok %llu%s", (unsigned long long)request.id, text);
    answer(launcher, request, &message, fds, fd_count);
}

void server_fail(struct launcher *launcher, struct request request, const struct error *error) {
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    buf_printf(&message, "error %llu %s ", (unsigned long long)request.id, error_kind(error->code)->slug);
    wire_put_word(&message, error->detail);
    answer(launcher, request, &message, NULL, 0);
}

static bool announce_node(struct launcher *launcher, const struct jailed_node *node) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (!node->used || node->burial.under_way) return true;
    buf_append_string(&text, "node ");
    wire_put_word(&text, node->name);
    requests_describe_node(launcher, node, &text);
    return server_send(launcher, &text, &node->pidfd, 1);
}

static bool announce_port(struct launcher *launcher, const struct launcher_port *port) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP_FD int page_fd = -1;
    if (port->state == PORT_FREE || port->state == PORT_ENDING) return true;
    buf_append_string(&text, "port ");
    wire_put_word(&text, port->set);
    ports_describe(port, &text);
    if (port->is_served) page_fd = ports_open_page(port);
    return server_send(launcher, &text, &page_fd, page_fd >= 0);
}

/* Tell a new daemon of every node there is, then of every port. More than the socket holds are told when it has room
   again. */
static void announce(struct launcher *launcher) {
    size_t nodes = launcher->nodes.end, all = nodes + launcher->ports.end, *at = &launcher->server.announce_at;
    for (bool is_sent = true; is_sent && *at < all; *at += is_sent)
        is_sent = *at < nodes ? announce_node(launcher, &launcher->nodes.items[*at])
                              : announce_port(launcher, &launcher->ports.items[*at - nodes]);
    bool is_full = *at < all;
    if (is_full && errno != EAGAIN && errno != ETOOMANYREFS) {
        server_drop_link(launcher);
        return;
    }
    launcher_want_output(launcher, is_full);
    if (is_full) return;
    CLEANUP(buf_free) struct buf ready = BUF_INIT;
    buf_append_string(&ready, "ready");
    server_send(launcher, &ready, NULL, 0);
}

void server_announce_all(struct launcher *launcher) {
    launcher->server.announce_at = 0;
    announce(launcher);
}

void server_receive(struct launcher *launcher, uint32_t events) {
    struct server *server = &launcher->server;
    if (events & EPOLLOUT) announce(launcher);
    if (server->link_fd < 0 || !(events & ~(uint32_t)EPOLLOUT)) return;
    CLEANUP_FD int fd = -1;
    ssize_t size = fd_receive(server->link_fd, server->message, sizeof server->message - 1, &fd, 1, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0 || memchr(server->message, '\0', (size_t)size)) {
        server_drop_link(launcher);
        return;
    }
    server->message[size] = '\0';
    requests_handle(launcher, server->message, fd);
}
