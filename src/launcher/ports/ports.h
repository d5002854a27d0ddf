/* Published ports and connections to services: which there are, and the forwarder of each. A port belongs to a set, the
   sandbox's id; it outlives the node, whose successor is served by it. */
#ifndef LAUNCHER_PORTS_PORTS_H
#define LAUNCHER_PORTS_PORTS_H

#include <sys/types.h>

#include "jail/ports.h"
#include "launcher/cgroup/cgroup.h"
#include "launcher/project/project.h"
#include "launcher/server.h"

struct launcher;
struct jailed_node;

enum port_state {
    PORT_FREE,
    PORT_KEPT,      /* nothing is under way */
    PORT_PREPARING, /* a helper opens its side of the host, as its caller */
    PORT_WAITING,   /* the forwarder of an earlier node is to be gone, before this one's is started */
    PORT_STARTING,  /* its forwarder jails itself */
    PORT_ENDING,    /* its forwarder is to be gone, then its file, and then the port */
};

/* Where a forwarder of ours keeps what a later launcher takes over. */
enum { FORWARDER_LISTENER_FD = 3, FORWARDER_PAGE_FD = 4 };

struct forwarder {
    char node[JAIL_NAME_BYTES]; /* that is served, or is to be; "" for none */
    pid_t pid;
    uint64_t start_time;
    uid_t uid;
    int pidfd;
    int page_fd; /* struct jail_port_page */
};

struct launcher_port {
    enum port_state state;
    char set[JAIL_NAME_BYTES];
    struct jail_port port;
    unsigned inside; /* of a connection: 127.1.0.N is where it listens; 0: 127.0.0.1 */
    struct caller caller;
    int fd;                 /* a listener on the host; of a connection to a unix socket its folder; -1: none yet */
    uint64_t device, inode; /* of the file that a published unix socket is */
    struct forwarder forwarder;
    bool is_served; /* a forwarder that ends before its node has a successor */
    /* what is under way */
    struct request request;
    struct jail_port_bounds bounds;
    char wanted_by[JAIL_NAME_BYTES]; /* the node that waits to be served */
    int helper_fd, helper_pidfd;
    uint64_t due_ms;
};

struct launcher_ports {
    struct launcher_port *items; /* JAIL_PORTS_OF_LAUNCHER of them, from the first one on */
    size_t end;
    bool is_collecting; /* what a request is to end: it is not answered yet, even if all so far have gone */
};

/* ---- table.c ---- */

struct launcher_port *ports_find(struct launcher *launcher, const char *set, const struct jail_port *port);
/* A new entry, with its caller's part of them all; E_LIMIT, E_EXISTS. */
int ports_add(struct launcher *launcher, const struct launcher_port *wanted, struct launcher_port **ret,
              struct error *reterr);
size_t ports_index(const struct launcher *launcher, const struct launcher_port *port);
/* Forget it, with its record. Its forwarder is gone before. */
void ports_remove(struct launcher *launcher, struct launcher_port *port);
void ports_close(struct launcher *launcher); /* let go of all: forwarders live on */
size_t ports_count(const struct launcher *launcher);
bool ports_use_uid(const struct launcher *launcher, uid_t uid);
/* What the daemon may know of it: " way= text= …". */
void ports_describe(const struct launcher_port *port, struct buf *text);
int ports_open_page(const struct launcher_port *port); /* to be read only; -1 */

/* ---- verbs.c: what the daemon asks for ---- */

/* As the operator's settings have it. */
int ports_check_allowed(const struct launcher *launcher, const struct jail_port *port, struct error *reterr);
void ports_publish(struct launcher *launcher, struct request request, const struct launcher_port *wanted, int peer_fd);
void ports_serve(struct launcher *launcher, struct request request, struct launcher_port *port,
                 const struct jailed_node *node, const struct jail_port_bounds *bounds);
void ports_unpublish(struct launcher *launcher, struct request request, const char *set, const struct jail_port *port);

/* ---- life.c: what comes of it ---- */

/* Nothing is under way: begin with what it takes to serve its node. */
void ports_begin_serving(struct launcher *launcher, struct launcher_port *port, const struct jailed_node *node);
/* The same, once the forwarder of an earlier node is gone. */
void ports_await_end(struct launcher *launcher, struct launcher_port *port, const char *node);
/* What was asked for of the port is done, or failed; nothing is under way any more. */
void ports_answer(struct launcher *launcher, struct launcher_port *port, const struct error *error);
void ports_helper_answered(struct launcher *launcher, struct launcher_port *port);
bool ports_forwarder_is_dead(const struct launcher_port *port);
void ports_forwarder_ended(struct launcher *launcher, struct launcher_port *port);
uint64_t ports_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */
/* A node that is being ended: so are its forwarders. */
void ports_end_of_node(struct launcher *launcher, const char *node);
/* Without a number of connections it stays as it was. */
void ports_set_bounds(struct launcher *launcher, const char *node, const struct jail_port_bounds *bounds);
/* Whatever it does: it goes, and the request is answered when all that the request is about have gone. */
void ports_end(struct launcher *launcher, struct launcher_port *port, struct request request);
/* The request is answered unless something that it is about is still to go. */
void ports_answer_end(struct launcher *launcher, const struct request *request);
void ports_end_all(struct launcher *launcher); /* the service ends for good */

/* ---- bind.c: helpers that act as the caller ---- */

/* What such a helper says, with the descriptor. */
struct port_prepared {
    struct error error;
    uint64_t device, inode;
};
bool ports_need_preparing(const struct launcher_port *port);
int ports_prepare(struct launcher *launcher, struct launcher_port *port, struct error *reterr);
/* From helper_fd, checked. */
int ports_take_prepared(struct launcher_port *port, struct error *reterr);
/* Have the file of a published unix socket removed, if it still is that one. True: helper_fd hangs up when it is done.
 */
bool ports_remove_file(struct launcher *launcher, struct launcher_port *port);

/* ---- start.c, jail.c: its forwarder ---- */

struct port_start {
    const struct launcher *launcher;
    const struct launcher_port *port;
    const struct jailed_node *node;
    struct cgroup cgroup;
    uid_t uid; /* of a published port's; a connection's has its caller's */
    int listener_fd, sync_fd;
    int folder_fd; /* of a service's socket; -1 */
};

/* What a forwarder says once it is jailed, or why it is not. */
struct forwarder_report {
    struct error error;
    uint16_t inside_port; /* of a connection: where it listens */
};

/* helper_fd says when it is ready. */
int ports_start_forwarder(struct launcher *launcher, struct launcher_port *port, const struct jailed_node *node,
                          struct error *reterr);
void ports_write_bounds(const struct launcher_port *port); /* where its forwarder reads them */
_Noreturn void ports_run_forwarder(struct port_start *start);

/* ---- record.c: for a later launcher ---- */

int ports_record_write(const struct launcher *launcher, const struct launcher_port *port, struct error *reterr);
void ports_record_remove(const struct launcher *launcher, const struct launcher_port *port);
void ports_adopt(struct launcher *launcher);

#endif
