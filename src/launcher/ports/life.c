/* What becomes of a port: prepared, served, left by its node, ended. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "jail/wire.h"
#include "launcher/forward/forward.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/helper.h"

enum { START_AGAIN_MS = 1000, END_PATIENCE_MS = 5000 };

/* ---- what is under way is over ---- */

static void forget_helper(struct launcher *launcher, struct launcher_port *port) {
    launcher_unwatch(launcher, port->helper_fd);
    port->helper_fd = fd_close(port->helper_fd);
    port->helper_pidfd = helper_end_of(launcher, port->caller.uid, port->helper_pidfd);
    port->due_ms = UINT64_MAX;
}

/* It was the launcher's own wish, for a node that lives. */
static void try_again_later(struct launcher *launcher, struct launcher_port *port) {
    port->due_ms = clock_monotonic_ms() + START_AGAIN_MS;
    launcher_due_at(launcher, port->due_ms);
}

/* Answers the request, once: nothing is under way any more. */
void ports_answer(struct launcher *launcher, struct launcher_port *port, const struct error *error) {
    struct request request = port->request;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    port->request = (struct request){0};
    forget_helper(launcher, port);
    port->state = PORT_KEPT;
    if (error && port->is_served && !request.link_serial) {
        try_again_later(launcher, port);
        return;
    }
    if (error) {
        port->is_served = false;
        if (port->forwarder.pidfd < 0) port->forwarder.node[0] = '\0';
        server_fail(launcher, request, error);
        return;
    }
    CLEANUP_FD int page_fd = ports_open_page(port);
    ports_describe(port, &text);
    server_ok(launcher, request, buf_string(&text), &page_fd, page_fd >= 0);
}

static void end_forwarder(struct launcher_port *port) {
    if (port->forwarder.pidfd >= 0) pidfd_send_signal(port->forwarder.pidfd, SIGKILL, NULL, 0);
}

void ports_begin_serving(struct launcher *launcher, struct launcher_port *port, const struct jailed_node *node) {
    struct error error;
    snprintf(port->forwarder.node, sizeof port->forwarder.node, "%s", node->name);
    int failed = ports_need_preparing(port) ? ports_prepare(launcher, port, &error)
                                            : ports_start_forwarder(launcher, port, node, &error);
    if (failed) ports_answer(launcher, port, &error);
}

void ports_await_end(struct launcher *launcher, struct launcher_port *port, const char *node) {
    snprintf(port->wanted_by, sizeof port->wanted_by, "%s", node);
    port->state = PORT_WAITING;
    port->due_ms = clock_monotonic_ms() + END_PATIENCE_MS;
    launcher_due_at(launcher, port->due_ms);
    end_forwarder(port);
}

static void prepared(struct launcher *launcher, struct launcher_port *port) {
    struct error error;
    bool is_new = !port->forwarder.node[0];
    const struct jailed_node *node = is_new ? NULL : nodes_find(launcher, port->forwarder.node);
    int failed = ports_take_prepared(port, &error);
    if (!failed) failed = ports_record_write(launcher, port, &error);
    forget_helper(launcher, port);
    port->state = PORT_KEPT;
    if (!failed && !is_new)
        failed = node ? ports_start_forwarder(launcher, port, node, &error)
                      : error_set(&error, E_CONFLICT, "the node has gone meanwhile");
    if (failed && is_new) {
        struct request request = port->request;
        port->request = (struct request){0};
        ports_end(launcher, port, (struct request){0});
        server_fail(launcher, request, &error);
    } else if (failed || is_new) {
        ports_answer(launcher, port, failed ? &error : NULL);
    }
}

static void started(struct launcher *launcher, struct launcher_port *port) {
    struct forwarder_report report = {0};
    struct error error;
    ssize_t size = fd_receive(port->helper_fd, &report, sizeof report, NULL, 0, MSG_DONTWAIT);
    int failed = size != (ssize_t)sizeof report || port->forwarder.pidfd < 0
                     ? error_set(&error, E_SYSTEM, "the forwarder ended while it was started")
                     : helper_error(&report.error, &error);
    if (!failed && !port->port.port) port->port.port = report.inside_port;
    if (!failed) failed = ports_record_write(launcher, port, &error);
    if (failed)
        end_forwarder(port);
    else
        port->is_served = true;
    ports_answer(launcher, port, failed ? &error : NULL);
}

static void finish_end(struct launcher *launcher, struct launcher_port *port);

void ports_helper_answered(struct launcher *launcher, struct launcher_port *port) {
    switch (port->state) {
    case PORT_PREPARING: prepared(launcher, port); break;
    case PORT_STARTING: started(launcher, port); break;
    case PORT_ENDING: finish_end(launcher, port); break;
    default: forget_helper(launcher, port);
    }
}

/* ---- the end of a port ---- */

static bool is_awaited(const struct launcher *launcher, const struct request *request) {
    for (size_t i = 0; i < launcher->ports.end; i++) {
        const struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_ENDING && port->request.id == request->id &&
            port->request.link_serial == request->link_serial)
            return true;
    }
    return false;
}

void ports_answer_end(struct launcher *launcher, const struct request *request) {
    if (request->link_serial && !launcher->ports.is_collecting && !is_awaited(launcher, request))
        server_ok(launcher, *request, "", NULL, 0);
}

static void finish_end(struct launcher *launcher, struct launcher_port *port) {
    struct request request = port->request;
    forget_helper(launcher, port);
    ports_remove(launcher, port);
    ports_answer_end(launcher, &request);
}

static void go_on_ending(struct launcher *launcher, struct launcher_port *port) {
    if (!ports_remove_file(launcher, port)) finish_end(launcher, port);
}

void ports_end(struct launcher *launcher, struct launcher_port *port, struct request request) {
    struct request before = port->request;
    struct error error;
    port->request = request;
    if (before.link_serial && port->state != PORT_ENDING) {
        error_set(&error, E_CONFLICT, "the port was unpublished");
        server_fail(launcher, before, &error);
    } else if (before.link_serial && !is_awaited(launcher, &before)) {
        server_ok(launcher, before, "", NULL, 0); /* the later one waits in its place */
    }
    if (port->state == PORT_ENDING) return;
    forget_helper(launcher, port);
    port->state = PORT_ENDING;
    port->fd = fd_close(port->fd);
    if (port->forwarder.pidfd < 0) {
        go_on_ending(launcher, port);
        return;
    }
    end_forwarder(port);
    port->due_ms = clock_monotonic_ms() + END_PATIENCE_MS;
    launcher_due_at(launcher, port->due_ms);
}

void ports_end_all(struct launcher *launcher) {
    for (size_t i = 0; i < launcher->ports.end; i++) {
        struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_FREE) continue;
        end_forwarder(port);
        if (ports_remove_file(launcher, port)) port->helper_pidfd = fd_close(port->helper_pidfd); /* it goes on */
        ports_remove(launcher, port);
    }
}

/* ---- the end of a forwarder ---- */

/* Nothing would answer there: clients are to be refused instead of waiting. The port stays taken, as long as it may not
   be used again. */
static void refuse_clients(const struct launcher_port *port) {
    int off = 0;
    if (port->fd < 0 || port->port.way == JAIL_PORT_OUT || port->port.protocol != JAIL_PORT_TCP) return;
    if (setsockopt(port->fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off) == 0) shutdown(port->fd, SHUT_RD);
}

static void forget_forwarder(struct launcher *launcher, struct launcher_port *port) {
    siginfo_t info;
    waitid(P_PIDFD, (id_t)port->forwarder.pidfd, &info, WEXITED | WNOHANG);
    launcher_unwatch(launcher, port->forwarder.pidfd);
    port->forwarder.pidfd = fd_close(port->forwarder.pidfd);
    port->forwarder.pid = 0;
}

bool ports_forwarder_is_dead(const struct launcher_port *port) {
    return poll(&(struct pollfd){.fd = port->forwarder.pidfd, .events = POLLIN}, 1, 0) != 0;
}

static void leave_node(struct launcher_port *port) {
    port->forwarder.page_fd = fd_close(port->forwarder.page_fd);
    port->forwarder.node[0] = '\0';
    port->is_served = false;
}

/* Until its next node. */
static void rest(const struct launcher *launcher, struct launcher_port *port) {
    leave_node(port);
    refuse_clients(port);
    ports_record_write(launcher, port, NULL);
}

static void serve_successor(struct launcher *launcher, struct launcher_port *port) {
    const struct jailed_node *node = nodes_find(launcher, port->wanted_by);
    struct error error;
    leave_node(port);
    port->state = PORT_KEPT;
    port->due_ms = UINT64_MAX;
    if (node) {
        ports_begin_serving(launcher, port, node);
        return;
    }
    error_set(&error, E_CONFLICT, "the node has gone meanwhile");
    ports_answer(launcher, port, &error);
}

void ports_forwarder_ended(struct launcher *launcher, struct launcher_port *port) {
    const struct jailed_node *node = nodes_find(launcher, port->forwarder.node);
    bool is_needed = port->is_served && node && !node->burial.under_way && !jailed_is_dead(node);
    forget_forwarder(launcher, port);
    if (port->state == PORT_ENDING) {
        go_on_ending(launcher, port);
    } else if (port->state == PORT_WAITING) {
        serve_successor(launcher, port);
    } else if (port->state == PORT_STARTING) {
        started(launcher, port);
    } else if (is_needed) { /* out of memory, most likely */
        launcher_log(launcher, LOG_WARN_LEVEL, "forwarder_ended", "set", port->set, NULL);
        try_again_later(launcher, port);
    } else {
        rest(launcher, port);
    }
}

void ports_end_of_node(struct launcher *launcher, const char *node) {
    for (size_t i = 0; i < launcher->ports.end; i++)
        if (launcher->ports.items[i].state != PORT_FREE && strcmp(launcher->ports.items[i].forwarder.node, node) == 0)
            end_forwarder(&launcher->ports.items[i]);
}

void ports_set_bounds(struct launcher *launcher, const char *node, const struct jail_port_bounds *bounds) {
    for (size_t i = 0; i < launcher->ports.end; i++) {
        struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_FREE || strcmp(port->forwarder.node, node) != 0) continue;
        if (bounds->connections) port->bounds.connections = bounds->connections;
        port->bounds.rate = bounds->rate;
        ports_write_bounds(port);
    }
}

/* ---- what takes too long ---- */

static void start_again(struct launcher *launcher, struct launcher_port *port) {
    const struct jailed_node *node = nodes_find(launcher, port->forwarder.node);
    port->due_ms = UINT64_MAX;
    if (port->forwarder.pidfd >= 0) /* one that failed, and is still dying */
        try_again_later(launcher, port);
    else if (node && !node->burial.under_way)
        ports_begin_serving(launcher, port, node);
    else
        rest(launcher, port);
}

static void run_out_of_time(struct launcher *launcher, struct launcher_port *port) {
    struct error error;
    error_set(&error, E_TIMEOUT, "a port of %s was not opened in time", port->set);
    if (port->state == PORT_KEPT) {
        start_again(launcher, port);
    } else if (port->state == PORT_ENDING) {
        finish_end(launcher, port);
    } else if (port->state == PORT_PREPARING && !port->forwarder.node[0]) {
        struct request request = port->request;
        port->request = (struct request){0};
        ports_end(launcher, port, (struct request){0});
        server_fail(launcher, request, &error);
    } else {
        end_forwarder(port);
        ports_answer(launcher, port, &error);
    }
}

uint64_t ports_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < launcher->ports.end; i++) {
        struct launcher_port *port = &launcher->ports.items[i];
        if (port->state == PORT_FREE) continue;
        if (now_ms >= port->due_ms) run_out_of_time(launcher, port);
        if (port->state != PORT_FREE && port->due_ms < next_ms) next_ms = port->due_ms;
    }
    return next_ms;
}
