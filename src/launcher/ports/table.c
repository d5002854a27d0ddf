/* The table of ports. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/schedule/share.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/ports/ports.h"
#include "launcher/project/helper.h"

struct launcher_port *ports_find(struct launcher *launcher, const char *set, const struct jail_port *port) {
    for (size_t i = 0; i < launcher->ports.end; i++) {
        struct launcher_port *item = &launcher->ports.items[i];
        if (item->state != PORT_FREE && strcmp(item->set, set) == 0 && jail_port_is_same(&item->port, port))
            return item;
    }
    return NULL;
}

size_t ports_index(const struct launcher *launcher, const struct launcher_port *port) {
    return (size_t)(port - launcher->ports.items);
}

static struct launcher_port *find_free(struct launcher *launcher) {
    for (size_t i = 0; i < JAIL_PORTS_OF_LAUNCHER; i++)
        if (launcher->ports.items[i].state == PORT_FREE) return &launcher->ports.items[i];
    return NULL;
}

/* Root and the service's own user are not bound, and have entries kept for them. */
static int check_share(const struct launcher *launcher, uid_t uid, struct error *reterr) {
    uid_t principal = principals_of(&launcher->principals, uid);
    struct share share = {.all = JAIL_PORTS_OF_LAUNCHER, .used = 1, .own = 1};
    if (uid == 0 || uid == launcher->daemon_uid) return 0;
    for (size_t i = 0; i < launcher->ports.end; i++) {
        const struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_FREE) continue;
        share.used++;
        share.own += principals_of(&launcher->principals, port->caller.uid) == principal;
    }
    if (share_is_fair(&share, true)) return 0;
    return error_set(reterr, E_LIMIT, "%d ports are open, %d of them of uid %u, and no more are opened for it",
                     (int)share.used - 1, (int)share.own - 1, uid);
}

static int check_collisions(const struct launcher *launcher, const struct launcher_port *wanted, struct error *reterr) {
    size_t count = 0;
    for (size_t i = 0; i < launcher->ports.end; i++) {
        const struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_FREE || strcmp(port->set, wanted->set) != 0) continue;
        count++;
        if (jail_port_collides(&port->port, &wanted->port))
            return error_set(reterr, E_EXISTS, "%s has this port already", wanted->set);
    }
    if (count < JAIL_PORTS_OF_SANDBOX) return 0;
    return error_set(reterr, E_LIMIT, "%s has %d ports already", wanted->set, JAIL_PORTS_OF_SANDBOX);
}

int ports_add(struct launcher *launcher, const struct launcher_port *wanted, struct launcher_port **ret,
              struct error *reterr) {
    if (check_collisions(launcher, wanted, reterr) < 0 || check_share(launcher, wanted->caller.uid, reterr) < 0 ||
        helper_check_dying(launcher, principals_of(&launcher->principals, wanted->caller.uid), reterr) < 0)
        return -1;
    if (nodes_check_room(launcher, reterr) < 0) return -1;
    struct launcher_port *port = find_free(launcher);
    if (!port) return error_set(reterr, E_LIMIT, "%d ports are open already", JAIL_PORTS_OF_LAUNCHER);
    *port = *wanted;
    port->state = PORT_KEPT;
    port->fd = port->helper_fd = port->helper_pidfd = -1;
    port->forwarder = (struct forwarder){.pidfd = -1, .page_fd = -1};
    port->due_ms = UINT64_MAX;
    size_t index = ports_index(launcher, port);
    if (index >= launcher->ports.end) launcher->ports.end = index + 1;
    *ret = port;
    return 0;
}

static void close_all(struct launcher *launcher, struct launcher_port *port) {
    int *const fds[] = {&port->fd, &port->helper_fd, &port->helper_pidfd, &port->forwarder.pidfd,
                        &port->forwarder.page_fd};
    launcher_unwatch(launcher, port->helper_fd);
    launcher_unwatch(launcher, port->forwarder.pidfd);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) *fds[i] = fd_close(*fds[i]);
}

void ports_remove(struct launcher *launcher, struct launcher_port *port) {
    ports_record_remove(launcher, port);
    close_all(launcher, port);
    port->state = PORT_FREE;
}

void ports_close(struct launcher *launcher) {
    for (size_t i = 0; i < launcher->ports.end; i++)
        if (launcher->ports.items[i].state != PORT_FREE) close_all(launcher, &launcher->ports.items[i]);
    free(launcher->ports.items);
    launcher->ports = (struct launcher_ports){0};
}

size_t ports_count(const struct launcher *launcher) {
    size_t count = 0;
    for (size_t i = 0; i < launcher->ports.end; i++) count += launcher->ports.items[i].state != PORT_FREE;
    return count;
}

bool ports_use_uid(const struct launcher *launcher, uid_t uid) {
    for (size_t i = 0; i < launcher->ports.end; i++) {
        const struct launcher_port *port = &launcher->ports.items[i];
        if (port->state != PORT_FREE && port->forwarder.pidfd >= 0 && port->forwarder.uid == uid) return true;
    }
    return false;
}

void ports_describe(const struct launcher_port *port, struct buf *text) {
    char words[JAIL_PORT_TEXT_BYTES];
    jail_port_print(&port->port, words);
    wire_put_pair(text, "way", jail_port_way_name(port->port.way));
    wire_put_pair(text, "text", words);
}

int ports_open_page(const struct launcher_port *port) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", port->forwarder.page_fd);
    return port->forwarder.page_fd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}
