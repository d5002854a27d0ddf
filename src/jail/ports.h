/* Ports: what a sandbox publishes on its host, and which services of the host it may connect to. As text, as values,
   and what is refused to every sandbox. Pure: the daemon and the launcher both decide by it. */
#ifndef JAIL_PORTS_H
#define JAIL_PORTS_H

#include "jail/jail.h"

enum {
    JAIL_PORTS_OF_LAUNCHER = 1024, /* of one launcher */
    JAIL_PORTS_OF_SANDBOX = 32,    /* published ones and connections together */
    JAIL_PORT_TEXT_BYTES = 256,
    JAIL_PORT_PATH_BYTES = 108, /* as in the address of a unix socket */
    JAIL_PORT_NAME_BYTES = 64,
    JAIL_PORT_NAMES_MAX = 250, /* addresses that names have inside: 127.1.0.1 and so on */
    JAIL_PORT_RANGES_MAX = 32,
};

enum jail_port_way {
    JAIL_PORT_IN,  /* published: the host's side listens */
    JAIL_PORT_OUT, /* connected: the sandbox's side listens */
    JAIL_PORT_WAYS
};

/* What the host's side is. The sandbox's is the same on its loopback, and TCP for a unix socket. */
enum jail_port_protocol { JAIL_PORT_TCP, JAIL_PORT_UDP, JAIL_PORT_UNIX };

struct jail_port {
    enum jail_port_way way;
    enum jail_port_protocol protocol;
    struct jail_host host;           /* one address; 0 for its port: any that is free */
    char path[JAIL_PORT_PATH_BYTES]; /* of a unix socket */
    char name[JAIL_PORT_NAME_BYTES]; /* of a connection: what it is called inside; "" for localhost */
    uint16_t port;                   /* inside; 0 of a connection: any that is free */
    unsigned proxy;                  /* version of the PROXY protocol that tells a server its client; 0: none */
};

const char *jail_port_way_name(enum jail_port_way way);
int jail_port_way_find(const char *name, enum jail_port_way *ret); /* negative when unknown */
const char *jail_port_protocol_name(enum jail_port_protocol protocol);

/* "4000", "8080:4000", "127.0.0.2:8080:4000/udp", "[::1]:0:4000/proxy1", "unix:/run/app.sock:4000"; or of a connection
   "5432", "db=10.1.2.3:5432", "unix:/run/db.sock", "db=unix:/run/db.sock:5432". E_INVALID. */
int jail_port_parse(enum jail_port_way way, const char *text, struct jail_port *ret, struct error *reterr);
/* In full, so that two that mean the same are the same. It is read back as it was. */
void jail_port_print(const struct jail_port *port, char ret[JAIL_PORT_TEXT_BYTES]);
/* The host's side: "127.0.0.1:8080", "unix:/run/app.sock". */
void jail_port_print_host(const struct jail_port *port, char ret[JAIL_PORT_TEXT_BYTES]);
/* Whether they are one port: the same place on the host, and of connections the same name inside. */
bool jail_port_is_same(const struct jail_port *one, const struct jail_port *other);
/* Whether both can't be had: they are one port, or want the same place inside. */
bool jail_port_collides(const struct jail_port *one, const struct jail_port *other);

/* Where the operator lets sandboxes be published, and connect to: "127.0.0.0/8, ::1, 192.168.1.0/24:8000-8999". */
#define JAIL_PUBLISH_DEFAULT "127.0.0.0/8, ::1"
#define JAIL_CONNECT_DEFAULT "0.0.0.0/0, ::/0"
struct jail_port_ranges {
    struct jail_host items[JAIL_PORT_RANGES_MAX];
    size_t count;
};
int jail_port_ranges_parse(const char *text, struct jail_port_ranges *ret, struct error *reterr);

/* E_FORBIDDEN: it is outside of the ranges of its way. A unix socket needs none. Refused whatever they say: sockets of
   a service of ours; and as a service metadata services, link-local addresses and what is no single host's. */
int jail_port_check(const struct jail_port *port, const struct jail_port_ranges *ranges, struct error *reterr);
bool jail_port_is_service_socket(const char *name); /* as the sockets of a sandbox home are called */

/* ---- what a forwarder counts; the page that it shares with the launcher and the daemon ---- */

struct jail_port_counts {
    uint64_t connections;         /* taken so far; of UDP, clients */
    uint64_t open;                /* now */
    uint64_t in_bytes, out_bytes; /* into the sandbox, and out of it */
    uint64_t refused;
};

struct jail_port_bounds {
    uint64_t connections; /* at once */
    uint64_t rate;        /* new ones a second; 0: any */
};

struct jail_port_page {
    struct jail_port_counts counts; /* the forwarder's to write */
    struct jail_port_bounds bounds; /* the launcher's */
};

#endif
