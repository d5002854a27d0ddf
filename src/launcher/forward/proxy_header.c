/* The PROXY protocol, versions 1 and 2: who the client is, told to a server that stands behind a forwarder. Pure. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "launcher/forward/forward.h"

enum { VERSION_2_OF_CLIENT = 0x21, VERSION_2_OF_NONE = 0x20, TCP_OVER_V4 = 0x11, TCP_OVER_V6 = 0x21 };

static bool is_internet(const union forward_address *client, const union forward_address *reached) {
    return client->any.sa_family == reached->any.sa_family &&
           (client->any.sa_family == AF_INET || client->any.sa_family == AF_INET6);
}

static void print_address(const union forward_address *address, char ret[INET6_ADDRSTRLEN]) {
    bool is_v6 = address->any.sa_family == AF_INET6;
    const void *bytes = is_v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, ret, INET6_ADDRSTRLEN);
}

/* In both kinds of address it is at the same place. */
static unsigned port_of(const union forward_address *address) {
    return ntohs(address->v4.sin_port);
}

static size_t make_text(const union forward_address *client, const union forward_address *reached,
                        char ret[FORWARD_HEADER_BYTES]) {
    char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
    if (!is_internet(client, reached)) return (size_t)snprintf(ret, FORWARD_HEADER_BYTES, "PROXY UNKNOWN\r\n");
    print_address(client, from);
    print_address(reached, to);
    return (size_t)snprintf(ret, FORWARD_HEADER_BYTES, "PROXY TCP%c %s %s %u %u\r\n",
                            client->any.sa_family == AF_INET6 ? '6' : '4', from, to, port_of(client), port_of(reached));
}

static size_t append(char *ret, size_t at, const void *bytes, size_t size) {
    memcpy(ret + at, bytes, size);
    return at + size;
}

static size_t append_addresses(char *ret, size_t at, const union forward_address *client,
                               const union forward_address *reached) {
    if (client->any.sa_family == AF_INET6) {
        at = append(ret, at, &client->v6.sin6_addr, sizeof client->v6.sin6_addr);
        at = append(ret, at, &reached->v6.sin6_addr, sizeof reached->v6.sin6_addr);
    } else {
        at = append(ret, at, &client->v4.sin_addr, sizeof client->v4.sin_addr);
        at = append(ret, at, &reached->v4.sin_addr, sizeof reached->v4.sin_addr);
    }
    at = append(ret, at, &client->v4.sin_port, sizeof client->v4.sin_port);
    return append(ret, at, &reached->v4.sin_port, sizeof reached->v4.sin_port);
}

static size_t make_binary(const union forward_address *client, const union forward_address *reached,
                          char ret[FORWARD_HEADER_BYTES]) {
    static const char signature[] = {'\r', '\n', '\r', '\n', '\0', '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
    size_t at = append(ret, 0, signature, sizeof signature);
    bool has_addresses = is_internet(client, reached), is_v6 = client->any.sa_family == AF_INET6;
    ret[at++] = has_addresses ? VERSION_2_OF_CLIENT : VERSION_2_OF_NONE;
    ret[at++] = (char)(!has_addresses ? 0 : is_v6 ? TCP_OVER_V6 : TCP_OVER_V4);
    size_t length_at = at;
    at = has_addresses ? append_addresses(ret, at + 2, client, reached) : at + 2;
    uint16_t length = htons((uint16_t)(at - length_at - 2));
    memcpy(ret + length_at, &length, sizeof length);
    return at;
}

size_t proxy_header_make(unsigned version, const union forward_address *client, const union forward_address *reached,
                         char ret[FORWARD_HEADER_BYTES]) {
    return version == 1 ? make_text(client, reached, ret) : version == 2 ? make_binary(client, reached, ret) : 0;
}
