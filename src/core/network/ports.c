/* The ports of one sandbox as a list: read, kept, shown. */
#include "core/network/ports.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

void ports_free(struct sandbox_ports *ports) {
    for (size_t i = 0; i < ports->count; i++) fd_close(ports->items[i].page_fd);
    free(ports->items);
    *ports = (struct sandbox_ports){0};
}

static unsigned highest_name(const struct sandbox_ports *ports) {
    unsigned highest = 0;
    for (size_t i = 0; i < ports->count; i++)
        if (ports->items[i].inside > highest) highest = ports->items[i].inside;
    return highest;
}

/* Ports of one name are at one address. */
static unsigned place_of_name(const struct sandbox_ports *ports, const char *name) {
    if (!name[0]) return 0;
    for (size_t i = 0; i < ports->count; i++)
        if (strcmp(ports->items[i].port.name, name) == 0) return ports->items[i].inside;
    return highest_name(ports) + 1;
}

int ports_append(struct sandbox_ports *ports, const struct jail_port *port, struct error *reterr) {
    char text[JAIL_PORT_TEXT_BYTES];
    jail_port_print(port, text);
    if (ports->count == JAIL_PORTS_OF_SANDBOX)
        return error_set(reterr, E_LIMIT, "a sandbox has at most %d ports", JAIL_PORTS_OF_SANDBOX);
    for (size_t i = 0; i < ports->count; i++)
        if (jail_port_collides(&ports->items[i].port, port))
            return error_set(reterr, E_CONFLICT, "%.120s can't be had twice", text);
    unsigned inside = place_of_name(ports, port->name);
    if (inside > JAIL_PORT_NAMES_MAX) return error_set(reterr, E_LIMIT, "too many names were given to services");
    struct sandbox_port *items = reallocarray(ports->items, ports->count + 1, sizeof *items);
    if (!items) return error_set(reterr, E_NO_MEMORY, "no memory for a port");
    ports->items = items;
    items[ports->count++] = (struct sandbox_port){.port = *port, .inside = inside, .page_fd = -1};
    return 0;
}

void ports_drop(struct sandbox_ports *ports, size_t index) {
    fd_close(ports->items[index].page_fd);
    ports->count--;
    memmove(&ports->items[index], &ports->items[index + 1], (ports->count - index) * sizeof *ports->items);
}

static int take_list(json_t *texts, enum jail_port_way way, struct sandbox_ports *ports, struct error *reterr) {
    size_t i;
    json_t *text;
    int result = 0;
    json_array_foreach(texts, i, text) {
        struct jail_port port;
        if (result == 0)
            result = jail_port_parse(way, json_is_string(text) ? json_string_value(text) : "", &port, reterr);
        if (result == 0) result = ports_append(ports, &port, reterr);
    }
    return result;
}

int ports_take(json_t *params, struct sandbox_ports *ret, struct error *reterr) {
    struct sandbox_ports ports = {.has_loopback = json_is_true(json_object_get(params, "has_loopback"))};
    int result = take_list(json_object_get(params, "publish"), JAIL_PORT_IN, &ports, reterr);
    if (result == 0) result = take_list(json_object_get(params, "connect"), JAIL_PORT_OUT, &ports, reterr);
    if (result < 0)
        ports_free(&ports);
    else
        *ret = ports;
    return result;
}

void ports_put(const struct sandbox_ports *ports, json_t *object) {
    static const char *const names[JAIL_PORT_WAYS] = {"publish", "connect"};
    json_t *lists[JAIL_PORT_WAYS] = {NULL, NULL};
    for (size_t i = 0; i < ports->count; i++) {
        enum jail_port_way way = ports->items[i].port.way;
        char text[JAIL_PORT_TEXT_BYTES];
        jail_port_print(&ports->items[i].port, text);
        if (!lists[way]) json_object_set_new(object, names[way], lists[way] = json_array());
        json_array_append_new(lists[way], json_string(text));
    }
    if (ports->has_loopback) json_object_set_new(object, "has_loopback", json_true());
}

static bool has_host_port(const struct jail_port *port, const char *text) {
    char number[8];
    snprintf(number, sizeof number, "%u", port->host.first_port);
    return port->protocol != JAIL_PORT_UNIX && strcmp(number, text) == 0;
}

/* As it was asked for, also where any port of the host was to do. */
static bool is_meant(const char *text, const struct jail_port *port) {
    struct jail_port meant;
    if (jail_port_parse(JAIL_PORT_IN, text, &meant, NULL) < 0) return false;
    if (meant.port == port->port && meant.protocol == port->protocol && meant.host.first_port == 0)
        meant.host.first_port = meant.host.last_port = port->host.first_port;
    return jail_port_is_same(&meant, port);
}

int ports_find(const struct sandbox_ports *ports, const char *text, size_t *ret) {
    for (size_t i = 0; i < ports->count; i++) {
        const struct jail_port *port = &ports->items[i].port;
        char whole[JAIL_PORT_TEXT_BYTES], host[JAIL_PORT_TEXT_BYTES];
        if (port->way != JAIL_PORT_IN) continue;
        jail_port_print(port, whole);
        jail_port_print_host(port, host);
        if (!is_meant(text, port) && strcmp(whole, text) != 0 && strcmp(host, text) != 0 && !has_host_port(port, text))
            continue;
        *ret = i;
        return 0;
    }
    return -1;
}

/* ---- counts ---- */

static uint64_t add_bounded(uint64_t one, uint64_t other) {
    uint64_t most = INT64_MAX;
    if (one > most || other > most - one) return most;
    return one + other;
}

struct jail_port_counts ports_counts(const struct sandbox_port *port) {
    struct jail_port_counts now = {0}, sum = port->before;
    if (port->page_fd >= 0 && pread(port->page_fd, &now, sizeof now, 0) != sizeof now)
        now = (struct jail_port_counts){0};
    sum.connections = add_bounded(sum.connections, now.connections);
    sum.in_bytes = add_bounded(sum.in_bytes, now.in_bytes);
    sum.out_bytes = add_bounded(sum.out_bytes, now.out_bytes);
    sum.refused = add_bounded(sum.refused, now.refused);
    sum.open = now.open > INT64_MAX ? INT64_MAX : now.open;
    return sum;
}

/* ---- as JSON ---- */

static void put_counts(const struct sandbox_port *port, json_t *object) {
    struct jail_port_counts counts = ports_counts(port);
    const struct {
        const char *name;
        uint64_t value;
    } members[] = {{"connections", counts.connections},
                   {"open", counts.open},
                   {"in_bytes", counts.in_bytes},
                   {"out_bytes", counts.out_bytes},
                   {"refused", counts.refused}};
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        json_object_set_new(object, members[i].name, json_integer((json_int_t)members[i].value));
}

static json_t *number_or_null(unsigned number) {
    return number ? json_integer(number) : json_null();
}

/* The address without its port. */
static json_t *address_json(const struct jail_port *port) {
    char host[JAIL_PORT_TEXT_BYTES];
    jail_port_print_host(port, host);
    if (port->protocol != JAIL_PORT_UNIX) *strrchr(host, ':') = '\0';
    return json_string(host);
}

static json_t *published_json(const struct sandbox_port *port) {
    json_t *object = json_object();
    json_object_set_new(object, "address", address_json(&port->port));
    json_object_set_new(object, "port", number_or_null(port->port.host.first_port));
    json_object_set_new(object, "target", json_integer(port->port.port));
    json_object_set_new(object, "protocol", json_string(jail_port_protocol_name(port->port.protocol)));
    json_object_set_new(object, "proxy", number_or_null(port->port.proxy));
    put_counts(port, object);
    return object;
}

static json_t *connected_json(const struct sandbox_port *port) {
    char target[JAIL_PORT_TEXT_BYTES];
    json_t *object = json_object();
    jail_port_print_host(&port->port, target);
    json_object_set_new(object, "name", json_string(port->port.name[0] ? port->port.name : "localhost"));
    json_object_set_new(object, "port", number_or_null(port->port.port));
    json_object_set_new(object, "target", json_string(target));
    json_object_set_new(object, "protocol", json_string(jail_port_protocol_name(port->port.protocol)));
    put_counts(port, object);
    return object;
}

void ports_to_json(const struct sandbox_ports *ports, json_t *object) {
    json_t *published = json_array(), *connects = json_array();
    for (size_t i = 0; i < ports->count; i++) {
        const struct sandbox_port *port = &ports->items[i];
        if (port->port.way == JAIL_PORT_IN)
            json_array_append_new(published, published_json(port));
        else
            json_array_append_new(connects, connected_json(port));
    }
    json_object_set_new(object, "published", published);
    json_object_set_new(object, "connects", connects);
}

bool ports_has_published(const struct sandbox_ports *ports) {
    for (size_t i = 0; i < ports->count; i++)
        if (ports->items[i].port.way == JAIL_PORT_IN) return true;
    return false;
}

json_t *ports_hosts(const struct sandbox_ports *ports) {
    json_t *hosts = NULL;
    for (size_t i = 0; i < ports->count; i++) {
        const struct sandbox_port *port = &ports->items[i];
        if (!port->inside) continue;
        if (!hosts) hosts = json_object();
        json_object_set_new(hosts, port->port.name, json_sprintf("127.1.0.%u", port->inside));
    }
    return hosts;
}
