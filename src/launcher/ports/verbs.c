/* What the daemon asks of ports. It is believed in nothing but which sandbox a port is for: whose it is tells the
   caller's own connection, and where it may lie the settings. */
#include <stdio.h>
#include <string.h>

#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"

int ports_check_allowed(const struct launcher *launcher, const struct jail_port *port, struct error *reterr) {
    return jail_port_check(port, port->way == JAIL_PORT_IN ? &launcher->publish_ranges : &launcher->connect_ranges,
                           reterr);
}

static int check_publish(struct launcher *launcher, struct launcher_port *wanted, int peer_fd, struct error *reterr) {
    if (launcher->shutting_down) return error_set(reterr, E_SHUTDOWN, "the launcher is shutting down");
    if (ports_check_allowed(launcher, &wanted->port, reterr) < 0) return -1;
    return project_caller(launcher, peer_fd, &wanted->caller, reterr);
}

void ports_publish(struct launcher *launcher, struct request request, const struct launcher_port *wanted, int peer_fd) {
    struct launcher_port entry = *wanted, *port;
    struct error error;
    if (check_publish(launcher, &entry, peer_fd, &error) < 0 || ports_add(launcher, &entry, &port, &error) < 0) {
        server_fail(launcher, request, &error);
        return;
    }
    port->request = request;
    int failed =
        ports_need_preparing(port) ? ports_prepare(launcher, port, &error) : ports_record_write(launcher, port, &error);
    if (failed) {
        ports_remove(launcher, port);
        server_fail(launcher, request, &error);
    } else if (port->state == PORT_KEPT) {
        ports_answer(launcher, port, NULL);
    }
}

void ports_serve(struct launcher *launcher, struct request request, struct launcher_port *port,
                 const struct jailed_node *node, const struct jail_port_bounds *bounds) {
    struct error error;
    bool is_its_own = port->forwarder.pidfd >= 0 && strcmp(port->forwarder.node, node->name) == 0;
    if (port->state != PORT_KEPT || is_its_own) {
        error_set(&error, E_CONFLICT, "a port of %s is being served or changed already", port->set);
        server_fail(launcher, request, &error);
        return;
    }
    port->request = request;
    port->bounds = *bounds;
    if (port->forwarder.pidfd < 0)
        ports_begin_serving(launcher, port, node);
    else
        ports_await_end(launcher, port, node->name);
}

/* One of the set, or all of it. What is not there has gone already. */
void ports_unpublish(struct launcher *launcher, struct request request, const char *set, const struct jail_port *port) {
    struct launcher_port *only = port ? ports_find(launcher, set, port) : NULL;
    launcher->ports.is_collecting = true;
    for (size_t i = 0; i < launcher->ports.end; i++) {
        struct launcher_port *item = &launcher->ports.items[i];
        if (item->state != PORT_FREE && strcmp(item->set, set) == 0 && (!port || item == only))
            ports_end(launcher, item, request);
    }
    launcher->ports.is_collecting = false;
    ports_answer_end(launcher, &request);
}
