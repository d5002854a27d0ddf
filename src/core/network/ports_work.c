/* The ports of a sandbox through the launcher: one after the other. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/network/ports.h"
#include "core/policy/audit.h"
#include "core/sandbox/sandbox.h"

/* One walk over a sandbox's ports. The sandbox may be gone before the launcher answers. */
struct walk {
    struct sandbox_ref ref;
    char node[NODE_NAME_BYTES]; /* of serving: "" otherwise */
    int peer_fd;
    size_t at, end;
    ports_done_fn done;
    void *data;
};

static struct walk *walk_new(const struct sandbox *sandbox, size_t from, ports_done_fn done, void *data) {
    struct walk *walk = new_or_abort(struct walk);
    *walk = (struct walk){.ref = sandbox_ref(sandbox),
                          .peer_fd = -1,
                          .at = from,
                          .end = sandbox->config.ports.count,
                          .done = done,
                          .data = data};
    return walk;
}

/* Ports that were undone meanwhile are none of it. */
static bool is_over(const struct walk *walk, const struct sandbox *sandbox) {
    return walk->at >= walk->end || walk->at >= sandbox->config.ports.count;
}

static void end_walk(struct walk *walk, const struct error *error) {
    ports_done_fn done = walk->done;
    void *data = walk->data;
    free(walk);
    done(data, error);
}

static void fail_port(struct walk *walk, const struct sandbox *sandbox, const struct error *error) {
    char text[JAIL_PORT_TEXT_BYTES];
    struct error told;
    jail_port_print(&sandbox->config.ports.items[walk->at].port, text);
    error_set(&told, error->code, "%.120s: %s", text, error->detail);
    end_walk(walk, &told);
}

/* ---- opening ---- */

static void open_next(struct walk *walk, struct sandbox *sandbox);

static void on_opened(void *data, const struct link_port *told, const struct error *error) {
    struct walk *walk = data;
    struct sandbox *sandbox = sandbox_deref(&walk->ref);
    struct error gone;
    fd_close(told ? told->page_fd : -1);
    if (!sandbox || is_over(walk, sandbox)) {
        error_set(&gone, E_CONFLICT, "the sandbox has gone");
        end_walk(walk, &gone);
    } else if (error && error->code != E_EXISTS) {
        fail_port(walk, sandbox, error);
    } else {
        struct jail_port *port = &sandbox->config.ports.items[walk->at].port;
        if (told && told->port.protocol == port->protocol && port->protocol != JAIL_PORT_UNIX)
            port->host = told->port.host;
        walk->at++;
        open_next(walk, sandbox);
    }
}

static void open_next(struct walk *walk, struct sandbox *sandbox) {
    const struct sandbox_ports *ports = &sandbox->config.ports;
    if (is_over(walk, sandbox)) {
        end_walk(walk, NULL);
        return;
    }
    const struct sandbox_port *port = &ports->items[walk->at];
    link_publish(sandbox->engine->host.link, walk->peer_fd, sandbox->id, &port->port, port->inside, on_opened, walk);
}

void ports_open(struct sandbox *sandbox, int peer_fd, size_t from, ports_done_fn done, void *data) {
    struct walk *walk = walk_new(sandbox, from, done, data);
    walk->peer_fd = peer_fd;
    open_next(walk, sandbox);
}

/* ---- serving ---- */

static void take_page(struct sandbox_port *port, int page_fd) {
    if (page_fd < 0) return;
    port->before = ports_counts(port);
    port->before.open = 0;
    fd_close(port->page_fd);
    port->page_fd = page_fd;
}

static bool is_same_node(const struct walk *walk, const struct sandbox *sandbox) {
    return sandbox && sandbox->node && strcmp(node_name(sandbox->node), walk->node) == 0;
}

static void serve_next(struct walk *walk, struct sandbox *sandbox);

static void on_served(void *data, const struct link_port *told, const struct error *error) {
    struct walk *walk = data;
    struct sandbox *sandbox = sandbox_deref(&walk->ref);
    struct error gone;
    if (!is_same_node(walk, sandbox) || is_over(walk, sandbox)) {
        fd_close(told ? told->page_fd : -1);
        error_set(&gone, E_CONFLICT, "its node has gone meanwhile");
        end_walk(walk, &gone);
    } else if (error) {
        fail_port(walk, sandbox, error);
    } else {
        struct sandbox_port *port = &sandbox->config.ports.items[walk->at++];
        if (!port->port.port) port->port.port = told->port.port; /* any that was free inside */
        take_page(port, told->page_fd);
        serve_next(walk, sandbox);
    }
}

static void serve_next(struct walk *walk, struct sandbox *sandbox) {
    const struct sandbox_ports *ports = &sandbox->config.ports;
    const struct jail_limits *limits = &sandbox->config.limits;
    struct jail_port_bounds bounds = {limits->port_connections, limits->port_rate};
    if (is_over(walk, sandbox))
        end_walk(walk, NULL);
    else
        link_serve(sandbox->engine->host.link, sandbox->id, &ports->items[walk->at].port, walk->node, &bounds,
                   on_served, walk);
}

void ports_serve(struct sandbox *sandbox, size_t from, ports_done_fn done, void *data) {
    struct walk *walk = walk_new(sandbox, from, done, data);
    snprintf(walk->node, sizeof walk->node, "%s", node_name(sandbox->node));
    serve_next(walk, sandbox);
}

/* ---- closing ---- */

static void close_next(struct walk *walk, struct sandbox *sandbox);

static void on_one_closed(void *data, const struct error *error) {
    struct walk *walk = data;
    struct sandbox *sandbox = sandbox_deref(&walk->ref);
    if (error || !sandbox) {
        end_walk(walk, error);
        return;
    }
    walk->at++;
    close_next(walk, sandbox);
}

static void close_next(struct walk *walk, struct sandbox *sandbox) {
    const struct sandbox_ports *ports = &sandbox->config.ports;
    if (is_over(walk, sandbox))
        end_walk(walk, NULL);
    else
        link_unpublish(sandbox->engine->host.link, sandbox->id, &ports->items[walk->at].port, on_one_closed, walk);
}

void ports_close(struct sandbox *sandbox, size_t from, size_t count, ports_done_fn done, void *data) {
    struct walk *walk = walk_new(sandbox, from, done, data);
    walk->end = from + count;
    close_next(walk, sandbox);
}

/* A launcher that is away tells its successor of the ports, and then they are unpublished. */
static void on_all_closed(void *data, const struct error *error) {
    (void)error;
    end_walk(data, NULL);
}

void ports_close_all(struct sandbox *sandbox, ports_done_fn done, void *data) {
    if (sandbox->config.ports.count == 0)
        done(data, NULL);
    else
        link_unpublish(sandbox->engine->host.link, sandbox->id, NULL, on_all_closed, walk_new(sandbox, 0, done, data));
}

/* ---- what a launcher tells that a daemon has found ---- */

static void on_swept(void *data, const struct error *error) {
    (void)data, (void)error;
}

void ports_told(struct engine *engine, const struct link_port *told) {
    struct sandbox *sandbox = map_get(&engine->sandboxes, told->set);
    for (size_t i = 0; sandbox && i < sandbox->config.ports.count; i++) {
        struct sandbox_port *port = &sandbox->config.ports.items[i];
        if (!jail_port_is_same(&port->port, &told->port)) continue;
        if (port->page_fd >= 0) /* a new launcher tells of what is known */
            fd_close(told->page_fd);
        else
            take_page(port, told->page_fd);
        return;
    }
    fd_close(told->page_fd);
    /* Of a create that a daemon began and did not end, say. */
    link_unpublish(engine->host.link, told->set, &told->port, on_swept, NULL);
}

/* ---- telling ---- */

static json_t *words_of(const struct sandbox *sandbox, size_t index) {
    const struct jail_port *port = &sandbox->config.ports.items[index].port;
    char text[JAIL_PORT_TEXT_BYTES];
    jail_port_print(port, text);
    return json_pack("{s:s, s:s, s:s}", "way", port->way == JAIL_PORT_IN ? "publish" : "connect", "port", text,
                     "protocol", jail_port_protocol_name(port->protocol));
}

void ports_tell_opened(struct sandbox *sandbox, size_t index) {
    engine_event(sandbox->engine, EVENT_PORT_OPENED, sandbox->id, words_of(sandbox, index));
}

void ports_tell_closed(struct sandbox *sandbox, size_t index) {
    struct jail_port_counts counts = ports_counts(&sandbox->config.ports.items[index]);
    json_t *told = words_of(sandbox, index);
    json_object_set_new(told, "connections", json_integer((json_int_t)counts.connections));
    json_object_set_new(told, "in_bytes", json_integer((json_int_t)counts.in_bytes));
    json_object_set_new(told, "out_bytes", json_integer((json_int_t)counts.out_bytes));
    json_object_set_new(told, "refused", json_integer((json_int_t)counts.refused));
    audit_note(sandbox->engine, "port_closed", sandbox->owner, sandbox->id, told);
    engine_event(sandbox->engine, EVENT_PORT_CLOSED, sandbox->id, told);
}
