/* Published ports and connections to services, as text and as values. Pure. */
#include "jail/ports.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "jail/plan.h"

enum { PORT_MAX = 65535, V4_BITS = 32, V6_BITS = 128, PROXY_VERSIONS = 2 };

static const char *const way_names[JAIL_PORT_WAYS] = {"in", "out"};
static const char *const protocol_names[] = {"tcp", "udp", "unix"};

const char *jail_port_way_name(enum jail_port_way way) {
    return way_names[way];
}

int jail_port_way_find(const char *name, enum jail_port_way *ret) {
    for (unsigned i = 0; i < JAIL_PORT_WAYS; i++) {
        if (strcmp(way_names[i], name) != 0) continue;
        *ret = i;
        return 0;
    }
    return -1;
}

const char *jail_port_protocol_name(enum jail_port_protocol protocol) {
    return protocol_names[protocol];
}

/* ---- reading ---- */

static bool read_port(const char *text, bool may_be_any, uint16_t *ret) {
    uint64_t number;
    if (!parse_u64(text, &number) || number > PORT_MAX || (number == 0 && !may_be_any)) return false;
    *ret = (uint16_t)number;
    return true;
}

/* A v4 address in the form of a v6 one is that v4 address: what holds for the one holds for the other. */
static void unmap(struct jail_host *host) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (!host->is_v6 || memcmp(host->address, mapped, sizeof mapped) != 0) return;
    memmove(host->address, host->address + sizeof mapped, 4);
    memset(host->address + 4, 0, sizeof mapped);
    host->is_v6 = false;
    host->bits = V4_BITS;
}

/* "127.0.0.1", "[::1]"; "localhost" and nothing at all are 127.0.0.1. */
static bool read_address(const char *text, struct jail_host *ret) {
    char copy[INET6_ADDRSTRLEN];
    size_t length = strlen(text);
    if (!text[0] || strcmp(text, "localhost") == 0) return read_address("127.0.0.1", ret);
    ret->is_v6 = text[0] == '[';
    ret->bits = ret->is_v6 ? V6_BITS : V4_BITS;
    if (length >= sizeof copy || (ret->is_v6 && text[length - 1] != ']')) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)(ret->is_v6 ? length - 2 : length), text + ret->is_v6);
    if (inet_pton(ret->is_v6 ? AF_INET6 : AF_INET, copy, ret->address) != 1) return false;
    unmap(ret);
    return true;
}

/* "ADDR:PORT", "PORT" */
static bool read_place(char *text, bool may_be_any, struct jail_host *ret) {
    char *colon = strrchr(text, ':');
    if (colon) *colon = '\0';
    if (colon && colon == text) return false;
    if (!read_address(colon ? text : "", ret) || !read_port(colon ? colon + 1 : text, may_be_any, &ret->first_port))
        return false;
    ret->last_port = ret->first_port;
    return true;
}

static bool read_path(const char *text, struct jail_port *port) {
    port->protocol = JAIL_PORT_UNIX;
    return path_is_clean(text) && string_format(port->path, sizeof port->path, NULL, "%s", text) == 0;
}

/* "/udp", "/proxy1" and so on, after the last port. */
static bool read_options(char *text, struct jail_port *port) {
    for (char *word; (word = strsep(&text, "/"));) {
        if (strcmp(word, "udp") == 0 && port->protocol == JAIL_PORT_TCP)
            port->protocol = JAIL_PORT_UDP;
        else if (strcmp(word, "proxy1") == 0 && !port->proxy)
            port->proxy = 1;
        else if (strcmp(word, "proxy2") == 0 && !port->proxy)
            port->proxy = PROXY_VERSIONS;
        else if (strcmp(word, "tcp") != 0 || port->protocol != JAIL_PORT_TCP)
            return false;
    }
    return !(port->protocol == JAIL_PORT_UDP && port->proxy);
}

static bool read_published(char *text, struct jail_port *port) {
    char *colon = strrchr(text, ':'), *inside = colon ? colon + 1 : text;
    char *options = strchr(inside, '/');
    if (options) *options++ = '\0';
    if (colon) *colon = '\0';
    if (!read_port(inside, false, &port->port)) return false;
    if (colon && string_starts(text, "unix:")) {
        if (!read_path(text + 5, port)) return false;
    } else if (!read_place(colon ? text : inside, true, &port->host)) {
        return false;
    }
    return !options || read_options(options, port);
}

/* As hosts are called; "localhost" is what has no name. */
static bool is_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length >= JAIL_PORT_NAME_BYTES || strcmp(name, "localhost") == 0) return false;
    bool has_letter = false;
    for (const char *at = name; *at; at++) {
        bool is_letter = *at >= 'a' && *at <= 'z', is_inner = *at == '-' || *at == '.' || *at == '_';
        has_letter |= is_letter;
        if (!is_letter && !(*at >= '0' && *at <= '9') && !(is_inner && at != name && at[1])) return false;
    }
    return has_letter;
}

/* "PATH", "PATH:PORT" */
static bool read_service_path(char *text, struct jail_port *port) {
    char *colon = strrchr(text, ':');
    bool has_port = colon && read_port(colon + 1, false, &port->port);
    if (has_port) *colon = '\0';
    return read_path(text, port);
}

static bool read_connected(char *text, struct jail_port *port) {
    char *equals = strchr(text, '='), *place = text;
    if (equals && equals < text + strcspn(text, ":/")) {
        *equals = '\0';
        place = equals + 1;
        if (!is_name(text) || string_format(port->name, sizeof port->name, NULL, "%s", text) < 0) return false;
    }
    if (string_starts(place, "unix:")) return read_service_path(place + 5, port);
    if (!read_place(place, false, &port->host)) return false;
    port->port = port->host.first_port;
    return true;
}

int jail_port_parse(enum jail_port_way way, const char *text, struct jail_port *ret, struct error *reterr) {
    char copy[JAIL_PORT_TEXT_BYTES];
    struct jail_port port = {.way = way};
    bool fits = string_format(copy, sizeof copy, NULL, "%s", text) == 0;
    if (!fits || !(way == JAIL_PORT_IN ? read_published : read_connected)(copy, &port))
        return error_set(reterr, E_INVALID,
                         way == JAIL_PORT_IN ? "'%.80s' is no port to publish; it is PORT, [ADDRESS:]HOST_PORT:PORT or "
                                               "unix:PATH:PORT, and may end with /udp, /proxy1 or /proxy2"
                                             : "'%.80s' is no service to connect to; it is PORT, [NAME=]ADDRESS:PORT "
                                               "or [NAME=]unix:PATH[:PORT], with a numeric address",
                         text);
    *ret = port;
    return 0;
}

/* ---- printing ---- */

void jail_port_print_host(const struct jail_port *port, char ret[JAIL_PORT_TEXT_BYTES]) {
    char address[INET6_ADDRSTRLEN];
    if (port->protocol == JAIL_PORT_UNIX) {
        snprintf(ret, JAIL_PORT_TEXT_BYTES, "unix:%s", port->path);
        return;
    }
    inet_ntop(port->host.is_v6 ? AF_INET6 : AF_INET, port->host.address, address, sizeof address);
    snprintf(ret, JAIL_PORT_TEXT_BYTES, port->host.is_v6 ? "[%s]:%u" : "%s:%u", address, port->host.first_port);
}

void jail_port_print(const struct jail_port *port, char ret[JAIL_PORT_TEXT_BYTES]) {
    char host[JAIL_PORT_TEXT_BYTES], inside[8] = "", proxy[24] = "";
    bool tells_inside = port->way == JAIL_PORT_IN || (port->protocol == JAIL_PORT_UNIX && port->port);
    jail_port_print_host(port, host);
    if (tells_inside) snprintf(inside, sizeof inside, ":%u", port->port);
    if (port->proxy) snprintf(proxy, sizeof proxy, "/proxy%u", port->proxy);
    snprintf(ret, JAIL_PORT_TEXT_BYTES, "%s%s%.*s%s%s%s", port->name, port->name[0] ? "=" : "",
             JAIL_PORT_PATH_BYTES + 8, host, inside, port->protocol == JAIL_PORT_UDP ? "/udp" : "", proxy);
}

static bool is_same_place(const struct jail_port *one, const struct jail_port *other) {
    if (one->protocol != other->protocol) return false;
    if (one->protocol == JAIL_PORT_UNIX) return strcmp(one->path, other->path) == 0;
    return one->host.first_port && one->host.first_port == other->host.first_port &&
           one->host.is_v6 == other->host.is_v6 &&
           memcmp(one->host.address, other->host.address, sizeof one->host.address) == 0;
}

bool jail_port_is_same(const struct jail_port *one, const struct jail_port *other) {
    return one->way == other->way && strcmp(one->name, other->name) == 0 && is_same_place(one, other);
}

bool jail_port_collides(const struct jail_port *one, const struct jail_port *other) {
    if (jail_port_is_same(one, other)) return true;
    bool are_inside = one->way == JAIL_PORT_OUT && other->way == JAIL_PORT_OUT;
    return are_inside && one->port && one->port == other->port && strcmp(one->name, other->name) == 0;
}

/* ---- what is allowed ---- */

static bool begins_with(const uint8_t *address, const uint8_t *prefix, unsigned bits) {
    for (unsigned bit = 0; bit < bits; bit++)
        if ((address[bit / 8] ^ prefix[bit / 8]) & 0x80 >> bit % 8) return false;
    return true;
}

static bool is_within(const struct jail_host *host, const struct jail_host *range) {
    bool has_port =
        !range->first_port || (host->first_port >= range->first_port && host->first_port <= range->last_port);
    return has_port && host->is_v6 == range->is_v6 && begins_with(host->address, range->address, range->bits);
}

int jail_port_ranges_parse(const char *text, struct jail_port_ranges *ret, struct error *reterr) {
    CLEANUP_FREE char *copy = strdup(text);
    struct jail_port_ranges ranges = {0};
    char *rest = copy;
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for addresses");
    for (char *word; (word = strsep(&rest, ", \t"));) {
        if (!word[0]) continue;
        if (ranges.count == JAIL_PORT_RANGES_MAX)
            return error_set(reterr, E_INVALID, "more than %d ranges of addresses", JAIL_PORT_RANGES_MAX);
        int result = jail_host_parse(word, &ranges.items[ranges.count++], reterr);
        if (result < 0) return result;
    }
    *ret = ranges;
    return 0;
}

/* Refused to every sandbox and every caller: what answers there gives a machine's own identity away, or is no one host.
 */
static const char *const forbidden[] = {
    "0.0.0.0/8",                                        /* this host by another name */
    "169.254.0.0/16",                                   /* link-local, and most clouds' metadata */
    "100.100.100.200",                                  /* metadata */
    "192.0.0.192",                                      /* metadata */
    "168.63.129.16",                                    /* what a machine's own agent asks */
    "224.0.0.0/3",                                      /* multicast, reserved, broadcast */
    "::/128",          "fe80::/10",    "fd00:ec2::/32", /* metadata */
    "ff00::/8",        "64:ff9b::/96",                  /* v4 addresses once more, translated */
    "64:ff9b:1::/48",  "2002::/16",    "2001::/32",     "::ffff:0:0:0/96",
};

static bool is_forbidden(const struct jail_host *host) {
    struct jail_host range;
    for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
        if (jail_host_parse(forbidden[i], &range, NULL) == 0 && is_within(host, &range)) return true;
    return false;
}

static bool is_in_ranges(const struct jail_host *host, const struct jail_port_ranges *ranges) {
    for (size_t i = 0; i < ranges->count; i++)
        if (is_within(host, &ranges->items[i])) return true;
    return false;
}

int jail_port_check(const struct jail_port *port, const struct jail_port_ranges *ranges, struct error *reterr) {
    char host[JAIL_PORT_TEXT_BYTES];
    bool is_in = port->way == JAIL_PORT_IN;
    jail_port_print_host(port, host);
    if (port->protocol == JAIL_PORT_UNIX) {
        if (!jail_port_is_service_socket(strrchr(port->path, '/') + 1)) return 0;
        return error_set(reterr, E_FORBIDDEN, "%.120s is called as sockets of this service are", host);
    }
    if (!is_in && is_forbidden(&port->host))
        return error_set(reterr, E_FORBIDDEN, "no sandbox may connect to %.120s", host);
    if (is_in_ranges(&port->host, ranges)) return 0;
    return error_set(reterr, E_FORBIDDEN, "%.120s is outside of what the setting %s allows", host,
                     is_in ? "publish-addresses" : "connect-addresses");
}

bool jail_port_is_service_socket(const char *name) {
    static const char *const names[] = {"agent.sock", "api.sock", "launcher.sock"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}
