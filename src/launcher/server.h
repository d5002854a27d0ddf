/* The socket that the daemon dials (server.c), and the verbs of its messages (requests.c). */
#ifndef LAUNCHER_SERVER_H
#define LAUNCHER_SERVER_H

#include "base/base.h"
#include "jail/jail.h"

struct launcher;
struct jailed_node;

/* The origin of a request: an answer is for the connection that the request came over, and for no later one. */
struct request {
    uint64_t id;
    uint64_t link_serial;
};

struct server {
    int fd;
    int link_fd; /* the daemon's connection; -1: there is none */
    uint64_t link_serial;
    size_t announce_at; /* the next node, or port after them, to tell a new daemon of */
    char message[JAIL_MESSAGE_BYTES + 1];
};

int server_open(struct launcher *launcher, struct error *reterr);
void server_accept(struct launcher *launcher);
void server_receive(struct launcher *launcher, uint32_t events);
void server_drop_link(struct launcher *launcher);
void server_announce_all(struct launcher *launcher); /* every node and port there is, then "ready" */
/* "verb id" or "verb NAME" begin the text; descriptors stay the caller's. False when it could not be sent. */
bool server_send(struct launcher *launcher, struct buf *text, const int *fds, size_t fd_count);
/* Answers; text is what follows "ok ID". An answer that can't be sent ends the link: the daemon dials again and asks.
 */
void server_ok(struct launcher *launcher, struct request request, const char *text, const int *fds, size_t fd_count);
void server_fail(struct launcher *launcher, struct request request, const struct error *error);

/* Carry out one message; fd (or -1) came with it and is closed by the caller. */
void requests_handle(struct launcher *launcher, char *text, int fd);
/* The same of one that came before and had to wait for a volume, which is open now and is this owner's: its name may be
   another's by then. Its connection may have gone: then nothing is done. */
void requests_go_on(struct launcher *launcher, struct request request, char *text, int volume_fd, uid_t owner);
/* " pid= start= …" of a node, for answers and announcements. */
void requests_describe_node(const struct launcher *launcher, const struct jailed_node *node, struct buf *text);

#endif
