/* ports: what a sandbox publishes on the host, and which services it may connect to. Declared with the sandbox, taken
   by the launcher as the caller, and served to each of its nodes. */
#ifndef CORE_NETWORK_PORTS_H
#define CORE_NETWORK_PORTS_H

#include <jansson.h>

#include "jail/ports.h"

struct engine;
struct link_port;
struct request;
struct sandbox;

struct sandbox_port {
    struct jail_port port;
    unsigned inside;                /* of a connection with a name: its place among the names, from 1 */
    int page_fd;                    /* where its forwarder counts; -1: none has served it */
    struct jail_port_counts before; /* of earlier forwarders */
};

struct sandbox_ports {
    struct sandbox_port *items;
    size_t count;
    bool has_loopback; /* the profile has no network: this sandbox has one for its ports alone */
};

/* ---- ports.c: the list; no part of it asks anyone ---- */

void ports_free(struct sandbox_ports *ports);
/* From a caller's parameters `publish` and `connect`, or from what ports_put made. E_INVALID, E_CONFLICT. */
int ports_take(json_t *params, struct sandbox_ports *ret, struct error *reterr);
void ports_put(const struct sandbox_ports *ports, json_t *object);
/* One more; E_CONFLICT, E_LIMIT. */
int ports_append(struct sandbox_ports *ports, const struct jail_port *port, struct error *reterr);
void ports_drop(struct sandbox_ports *ports, size_t index);
/* The one that the text means: as it was asked for, or its host's side. Negative: there is none. */
int ports_find(const struct sandbox_ports *ports, const char *text, size_t *ret);
struct jail_port_counts
ports_counts(const struct sandbox_port *port); /* what a forwarder says: believed, but bounded */
/* "published" and "connects" as `info` has them. */
void ports_to_json(const struct sandbox_ports *ports, json_t *object);
bool ports_has_published(const struct sandbox_ports *ports);
/* Names that connections have inside, with their addresses there; NULL: none. */
json_t *ports_hosts(const struct sandbox_ports *ports);

/* ---- ports_work.c: through the launcher ---- */

typedef void (*ports_done_fn)(void *data, const struct error *error);

/* Take the host's side of those from the index on, with the rights of the caller at peer_fd. One that is the sandbox's
   already is left as it is. Those that were taken before one fails stay. */
void ports_open(struct sandbox *sandbox, int peer_fd, size_t from, ports_done_fn done, void *data);
/* Have them served to the sandbox's node, which is the same until the end, or that is an error. */
void ports_serve(struct sandbox *sandbox, size_t from, ports_done_fn done, void *data);
/* Give up so many. */
void ports_close(struct sandbox *sandbox, size_t from, size_t count, ports_done_fn done, void *data);
/* All of them, whatever the launcher says; from inside where there is none. */
void ports_close_all(struct sandbox *sandbox, ports_done_fn done, void *data);
/* The launcher tells of one that there is. */
void ports_told(struct engine *engine, const struct link_port *told);

/* Events and audit records of a port that was opened, or is closed with what went through it. */
void ports_tell_opened(struct sandbox *sandbox, size_t index);
void ports_tell_closed(struct sandbox *sandbox, size_t index);

#endif
