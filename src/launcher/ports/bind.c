/* The host's side of a port, opened by a process that has become its caller: a listener with the caller's right to bind
   it, or the folder of a socket that is to be connected to. What the caller may not do fails by the kernel's own rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "launcher/forward/forward.h"
#include "launcher/launcher.h"
#include "launcher/ports/ports.h"
#include "launcher/project/helper.h"
#include "launcher/start/spawn.h"

enum {
    BACKLOG = 4096, /* the kernel's own bound is less on most hosts */
    PATIENCE_MS = 11000,
    HELPER_PATIENCE_S = 10,
    FREE_PORT_ATTEMPTS = 8,
    HOME_DEPTH = 3, /* of agent.sock below its home */
    KEEPALIVE_IDLE_S = 60,
    KEEPALIVE_EVERY_S = 15,
    KEEPALIVE_COUNT = 4,
};

/* ---- in a process of its own ---- */

struct opening {
    const struct launcher *launcher;
    const struct launcher_port *port;
};

static int refuse_taken(const struct jail_port *port, struct error *reterr) {
    char host[JAIL_PORT_TEXT_BYTES];
    int failure = errno;
    jail_port_print_host(port, host);
    if (failure == EADDRINUSE) return error_set(reterr, E_CONFLICT, "%.150s is taken", host);
    if (failure == EACCES || failure == EPERM)
        return error_set(reterr, E_FORBIDDEN, "%.150s may not be taken by uid %u", host, geteuid());
    if (failure == EADDRNOTAVAIL) return error_set(reterr, E_INVALID, "%.150s is no address of this host", host);
    return error_errno(reterr, failure, "listen at %.150s", host);
}

static socklen_t address_of(const struct jail_port *port, union forward_address *ret) {
    *ret = (union forward_address){0};
    if (port->host.is_v6) {
        ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port->host.first_port)};
        memcpy(&ret->v6.sin6_addr, port->host.address, sizeof ret->v6.sin6_addr);
        return sizeof ret->v6;
    }
    ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port->host.first_port)};
    memcpy(&ret->v4.sin_addr, port->host.address, sizeof ret->v4.sin_addr);
    return sizeof ret->v4;
}

/* What the listener has, its connections have too. */
static void prepare_socket(int fd, bool is_stream, bool is_v6) {
    int on = 1, idle_s = KEEPALIVE_IDLE_S, every_s = KEEPALIVE_EVERY_S, count = KEEPALIVE_COUNT;
    if (is_v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (!is_stream) return;
    /* Connections of an earlier listener that linger are no reason to refuse. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static int bind_internet(const struct jail_port *port) {
    union forward_address address;
    socklen_t size = address_of(port, &address);
    bool is_stream = port->protocol == JAIL_PORT_TCP;
    CLEANUP_FD int fd =
        socket(address.any.sa_family, (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    prepare_socket(fd, is_stream, port->host.is_v6);
    if (bind(fd, &address.any, size) < 0 || (is_stream && listen(fd, BACKLOG) < 0)) return -1;
    return take_fd(&fd);
}

static uint16_t port_bound(int fd) {
    union forward_address address = {0};
    socklen_t size = sizeof address;
    return getsockname(fd, &address.any, &size) < 0 ? 0 : ntohs(address.v4.sin_port);
}

/* One that is free, then the same by its number: only so does the kernel keep it while nothing listens there. */
static int bind_any(const struct jail_port *port) {
    for (size_t i = 0; i < FREE_PORT_ATTEMPTS; i++) {
        struct jail_port found = *port;
        int fd = bind_internet(port);
        if (fd < 0) return -1;
        found.host.first_port = port_bound(fd);
        fd_close(fd);
        fd = bind_internet(&found);
        if (fd >= 0 || errno != EADDRINUSE) return fd;
    }
    return -1;
}

static int open_folder(const char *path, struct error *reterr) {
    char folder[JAIL_PORT_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    CLEANUP_FD int fd = sources_find(folder);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(reterr, errno == EACCES ? E_FORBIDDEN : E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return error_set(reterr, E_INVALID, "%s is no folder", folder);
    return take_fd(&fd);
}

/* Sockets of a service of ours are for its own parts and its callers, whichever name leads there. */
static int check_no_home(int folder_fd, const char *path, struct error *reterr) {
    struct stat status;
    CLEANUP_FD int above_fd = openat(folder_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t depth = 0; above_fd >= 0 && depth < HOME_DEPTH; depth++) {
        if (fstatat(above_fd, "launcher.sock", &status, AT_SYMLINK_NOFOLLOW) == 0)
            return error_set(reterr, E_FORBIDDEN, "%s lies in the home of a service that runs sandboxes", path);
        int next_fd = openat(above_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close(above_fd);
        above_fd = next_fd;
    }
    return 0;
}

/* Made in its folder, with no rights for others from the start. It takes no other file's place: then it is not made. */
static int bind_named(const struct jail_port *port, struct port_prepared *prepared) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    CLEANUP_FD int folder_fd = open_folder(port->path, &prepared->error);
    if (folder_fd < 0 || check_no_home(folder_fd, port->path, &prepared->error) < 0) return -1;
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", strrchr(port->path, '/') + 1);
    umask(0177);
    if (fd < 0 || fchdir(folder_fd) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0 || fstatat(AT_FDCWD, address.sun_path, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return refuse_taken(port, &prepared->error);
    prepared->device = status.st_dev;
    prepared->inode = status.st_ino;
    return take_fd(&fd);
}

/* Else a daemon gone bad could connect to any service as any of its callers. */
static int check_consent(const struct opening *opening, int folder_fd, struct error *reterr) {
    const struct caller *caller = &opening->port->caller;
    struct stat status;
    if (!opening->launcher->root || caller->pid == 0)
        return 0; /* the daemon is the caller's own; or it was agreed to */
    if (fstat(folder_fd, &status) == 0 && folder_is_held_open(caller, &status, HOLD_TO_CONNECT)) return 0;
    return error_set(reterr, E_FORBIDDEN,
                     "%s is connected to only for a process that holds its folder open (O_PATH), as `sandbox` does",
                     opening->port->port.path);
}

/* The socket itself may come and go. */
static int open_service(const struct opening *opening, struct error *reterr) {
    const char *path = opening->port->port.path;
    CLEANUP_FD int fd = open_folder(path, reterr);
    if (fd < 0 || check_no_home(fd, path, reterr) < 0 || check_consent(opening, fd, reterr) < 0) return -1;
    return take_fd(&fd);
}

static void prepare(const void *data) {
    const struct opening *opening = data;
    const struct jail_port *port = &opening->port->port;
    struct port_prepared prepared = {0};
    CLEANUP_FD int fd = -1;
    alarm(HELPER_PATIENCE_S);
    if (caller_become(&opening->port->caller, opening->launcher->root, &prepared.error) == 0) {
        if (port->way == JAIL_PORT_OUT)
            fd = open_service(opening, &prepared.error);
        else if (port->protocol == JAIL_PORT_UNIX)
            fd = bind_named(port, &prepared);
        else if ((fd = port->host.first_port ? bind_internet(port) : bind_any(port)) < 0)
            refuse_taken(port, &prepared.error);
    }
    fd_send(HELPER_FD, &prepared, sizeof prepared, &fd, fd >= 0, 0);
}

static void remove_file(const void *data) {
    const struct opening *opening = data;
    const struct launcher_port *port = opening->port;
    struct stat status;
    const char *name = strrchr(port->port.path, '/') + 1;
    alarm(HELPER_PATIENCE_S);
    if (caller_become(&port->caller, opening->launcher->root, NULL) < 0) return;
    CLEANUP_FD int folder_fd = open_folder(port->port.path, NULL);
    if (folder_fd >= 0 && fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode) &&
        status.st_dev == port->device && status.st_ino == port->inode)
        unlinkat(folder_fd, name, 0);
}

/* ---- the launcher's side ---- */

bool ports_need_preparing(const struct launcher_port *port) {
    return port->fd < 0 && (port->port.way == JAIL_PORT_IN || port->port.protocol == JAIL_PORT_UNIX);
}

int ports_prepare(struct launcher *launcher, struct launcher_port *port, struct error *reterr) {
    int fds[2];
    struct opening opening = {launcher, port};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    CLEANUP_FD int own_fd = fds[0], its_fd = fds[1];
    if (helper_start(prepare, &opening, &its_fd, 1, &port->helper_pidfd, reterr) < 0 ||
        launcher_watch(launcher, own_fd, SOURCE_PORT, ports_index(launcher, port), reterr) < 0) {
        port->helper_pidfd = helper_end(port->helper_pidfd);
        return -1;
    }
    port->helper_fd = take_fd(&own_fd);
    port->state = PORT_PREPARING;
    port->due_ms = clock_monotonic_ms() + PATIENCE_MS;
    launcher_due_at(launcher, port->due_ms);
    return 0;
}

/* It came from a process with the caller's rights: it is what was asked for, or nothing. */
static bool is_listener(const struct jail_port *port, int fd) {
    union forward_address own = {0}, wanted;
    socklen_t own_size = sizeof own, option_size = sizeof(int);
    int type = 0;
    address_of(port, &wanted);
    if (getsockname(fd, &own.any, &own_size) < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &option_size) < 0 ||
        type != (port->protocol == JAIL_PORT_UDP ? SOCK_DGRAM : SOCK_STREAM))
        return false;
    if (port->protocol == JAIL_PORT_UNIX) return own.any.sa_family == AF_UNIX;
    bool is_same_port = !port->host.first_port || own.v4.sin_port == wanted.v4.sin_port;
    if (own.any.sa_family != wanted.any.sa_family || !is_same_port || !own.v4.sin_port) return false;
    return port->host.is_v6 ? memcmp(&own.v6.sin6_addr, &wanted.v6.sin6_addr, sizeof own.v6.sin6_addr) == 0
                            : own.v4.sin_addr.s_addr == wanted.v4.sin_addr.s_addr;
}

int ports_take_prepared(struct launcher_port *port, struct error *reterr) {
    struct port_prepared prepared = {0};
    CLEANUP_FD int fd = -1;
    ssize_t size = fd_receive(port->helper_fd, &prepared, sizeof prepared, &fd, 1, MSG_DONTWAIT);
    if (size != sizeof prepared) return error_set(reterr, E_TIMEOUT, "the port was not opened in time");
    if (helper_error(&prepared.error, reterr) < 0) return -1;
    if (fd < 0 || (port->port.way == JAIL_PORT_IN && !is_listener(&port->port, fd)))
        return error_set(reterr, E_SYSTEM, "the port was opened without its socket");
    if (port->port.way == JAIL_PORT_IN && port->port.protocol != JAIL_PORT_UNIX)
        port->port.host.first_port = port->port.host.last_port = port_bound(fd);
    port->device = prepared.device;
    port->inode = prepared.inode;
    port->fd = take_fd(&fd);
    return 0;
}

bool ports_remove_file(struct launcher *launcher, struct launcher_port *port) {
    struct opening opening = {launcher, port};
    int fds[2];
    if (port->port.way != JAIL_PORT_IN || port->port.protocol != JAIL_PORT_UNIX || port->inode == 0) return false;
    if (pipe2(fds, O_CLOEXEC) < 0) return false;
    CLEANUP_FD int own_fd = fds[0], its_fd = fds[1];
    if (helper_start(remove_file, &opening, &its_fd, 1, &port->helper_pidfd, NULL) < 0) return false;
    port->inode = 0;
    if (launcher_watch(launcher, own_fd, SOURCE_PORT, ports_index(launcher, port), NULL) < 0) return false;
    port->helper_fd = take_fd(&own_fd);
    port->due_ms = clock_monotonic_ms() + PATIENCE_MS;
    launcher_due_at(launcher, port->due_ms);
    return true;
}
