/* The forwarder: a process for one port, which moves bytes between the two sides of it. Here is what it does once it is
   jailed, with what it was handed: nothing in this folder needs a right. */
#ifndef LAUNCHER_FORWARD_FORWARD_H
#define LAUNCHER_FORWARD_FORWARD_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"
#include "jail/ports.h"

enum { FORWARD_CONNECTIONS_MAX = 8192, FORWARD_ADDRESSES_MAX = 2, FORWARD_HEADER_BYTES = 128 };

union forward_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local; /* its path is a name in the working directory */
    struct sockaddr_storage room;
};

struct forward {
    enum jail_port_way way;
    enum jail_port_protocol protocol; /* of the listener */
    unsigned proxy;
    bool sees_host;  /* the working directory is one of the host's own mounts */
    int listener_fd; /* does not block */
    int end_fd;      /* readable, or hung up: the node has gone, and so does the forwarder */
    struct jail_port_page *page;
    /* Where connections go: the next one when the one before refuses. */
    union forward_address addresses[FORWARD_ADDRESSES_MAX];
    socklen_t address_sizes[FORWARD_ADDRESSES_MAX];
    size_t address_count;
};

/* Until end_fd says so; 0, or an errno when it could not begin. */
int forward_run(const struct forward *forward);

/* ---- target.c ---- */

/* Where the port leads from here: inside the sandbox for one that is published, the service for a connection. */
void forward_aim(struct forward *forward, const struct jail_port *port);
/* A socket that connects there; errno: EINPROGRESS, or 0 for one that is connected. -1: it is refused. */
int forward_dial(const struct forward *forward, size_t attempt);

/* ---- streams.c, datagrams.c ---- */

int forward_streams(const struct forward *forward);
int forward_datagrams(const struct forward *forward);

/* ---- proxy_header.c: pure ---- */

/* What the PROXY protocol says of a client, before its first byte. Returns the size; 0: no such version. */
size_t proxy_header_make(unsigned version, const union forward_address *client, const union forward_address *reached,
                         char ret[FORWARD_HEADER_BYTES]);

/* ---- bounds.c ---- */

/* How many new connections may come in this second; refills as time passes. */
struct forward_rate {
    uint64_t tokens_milli; /* thousandths of a connection */
    uint64_t at_ms;
};
/* Whether one more may come now; else *ret_due_ms is when to ask again. */
bool forward_rate_take(struct forward_rate *rate, uint64_t rate_max, uint64_t now_ms, uint64_t *ret_due_ms);
void forward_rate_give_back(struct forward_rate *rate);                /* none came after all */
struct jail_port_bounds forward_bounds(const struct forward *forward); /* those of this moment */
/* The page is written a field at a time: its readers see numbers that were true. */
void forward_tell(const struct forward *forward, const struct jail_port_counts *counts);

#endif
