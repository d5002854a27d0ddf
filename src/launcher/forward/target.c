/* Where a forwarder connects to: fixed before it begins. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/forward/forward.h"
#include "launcher/home.h"

static void add_v4(struct forward *forward, const uint8_t *address, uint16_t port) {
    struct sockaddr_in *v4 = &forward->addresses[forward->address_count].v4;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    memcpy(&v4->sin_addr, address, sizeof v4->sin_addr);
    forward->address_sizes[forward->address_count++] = sizeof *v4;
}

static void add_v6(struct forward *forward, const uint8_t *address, uint16_t port) {
    struct sockaddr_in6 *v6 = &forward->addresses[forward->address_count].v6;
    *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&v6->sin6_addr, address, sizeof v6->sin6_addr);
    forward->address_sizes[forward->address_count++] = sizeof *v6;
}

/* The caller's own: its folder is the working directory. */
static void add_name(struct forward *forward, const char *path) {
    struct sockaddr_un *local = &forward->addresses[forward->address_count].local;
    *local = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(local->sun_path, sizeof local->sun_path, "%.*s", (int)sizeof local->sun_path - 1, strrchr(path, '/') + 1);
    forward->address_sizes[forward->address_count++] = sizeof *local;
}

void forward_aim(struct forward *forward, const struct jail_port *port) {
    static const uint8_t loopback[] = {127, 0, 0, 1};
    forward->address_count = 0;
    if (port->way == JAIL_PORT_IN) {
        add_v4(forward, loopback, port->port);
        add_v6(forward, in6addr_loopback.s6_addr, port->port);
    } else if (port->protocol == JAIL_PORT_UNIX) {
        add_name(forward, port->path);
    } else if (port->host.is_v6) {
        add_v6(forward, port->host.address, port->host.first_port);
    } else {
        add_v4(forward, port->host.address, port->host.first_port);
    }
}

/* A name may have become another file's since the connection was allowed: no link is followed, and no service that runs
   sandboxes is talked to. */
static bool is_plain_socket(int fd, const char *name) {
    struct stat status;
    return fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0 && S_ISSOCK(status.st_mode);
}

/* Where nothing keeps the kernel from following a link that comes after the look: what was looked at is connected to.
 */
static int open_name(struct sockaddr_un *address) {
    CLEANUP_FD int fd = open(address->sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || !is_plain_socket(fd, "")) return -1;
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d", fd);
    return take_fd(&fd);
}

static bool is_service(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return true;
    return peer.uid >= SLOT_UID_BASE && peer.uid - SLOT_UID_BASE < (uid_t)SLOT_UIDS * SLOTS_MAX;
}

static int dial_name(const struct forward *forward, size_t attempt) {
    union forward_address address = forward->addresses[attempt];
    CLEANUP_FD int named_fd = forward->sees_host ? open_name(&address.local) : -1;
    if (forward->sees_host ? named_fd < 0 : !is_plain_socket(AT_FDCWD, address.local.sun_path)) return -1;
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, &address.any, forward->address_sizes[attempt]) < 0 || is_service(fd)) return -1;
    errno = 0;
    return take_fd(&fd);
}

int forward_dial(const struct forward *forward, size_t attempt) {
    const union forward_address *address = &forward->addresses[attempt];
    int type = forward->protocol == JAIL_PORT_UDP ? SOCK_DGRAM : SOCK_STREAM, on = 1;
    if (address->any.sa_family == AF_UNIX) return dial_name(forward, attempt);
    CLEANUP_FD int fd = socket(address->any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (type == SOCK_STREAM) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    bool is_connected = connect(fd, &address->any, forward->address_sizes[attempt]) == 0;
    if (!is_connected && errno != EINPROGRESS) return -1;
    errno = is_connected ? 0 : EINPROGRESS;
    return take_fd(&fd);
}

int forward_run(const struct forward *forward) {
    return forward->protocol == JAIL_PORT_UDP ? forward_datagrams(forward) : forward_streams(forward);
}
