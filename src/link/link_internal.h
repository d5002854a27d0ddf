/* Between the link's files: link.c moves messages, calls.c knows what they say, streams.c receives projects that come
   as a stream. */
#ifndef LINK_LINK_INTERNAL_H
#define LINK_LINK_INTERNAL_H

#include "base/schedule/principals.h"
#include "jail/plan.h"
#include "jail/wire.h"
#include "link/link.h"

enum { LINK_FDS_MAX = FD_PASS_MAX };

/* What came back for a call; descriptors that are not taken are closed afterwards. */
struct link_answer {
    const struct wire_message *message; /* its operands start with the id */
    int fds[LINK_FDS_MAX];              /* -1 where there is none */
};

struct link_call;

/* Give the answer to the caller: the message, or the error when there is none. False: it is not what the launcher
   would say, and the asker was told so. */
typedef bool (*link_deliver_fn)(const struct link_call *call, struct link_answer *answer, const struct error *error);

typedef void (*link_callback)(void); /* the asker's callback, cast back by the deliver function */

struct link_call {
    uint64_t id;
    struct launcher_link *link; /* set by link_ask */
    link_deliver_fn deliver;
    link_callback done;
    void *data;
    char node[JAIL_NAME_BYTES];
    uid_t user;         /* whose turn it takes; 0: it takes none */
    uint64_t due_ms;    /* the loop's time by which it must be answered */
    struct error error; /* why it failed, while it waits to be told */
    struct link_call *next;
};

/* Send "verb ID" and the text after it, with fd when it isn't negative (it stays the caller's); call is a template and
   is copied. Whatever happens, deliver is called once, later. */
void link_ask(struct launcher_link *link, const struct link_call *call, const char *verb, const struct buf *text,
              int fd);

/* ---- turns.c ---- */

struct link_turn;

struct link_turns {
    const struct principals *principals; /* NULL: each uid is its own */
    struct link_turn *users;             /* those that have something under way */
    struct map owners;                   /* of nodes, by name: the uid and one */
};

typedef void (*link_turns_send_fn)(void *data, struct link_call *call, const struct buf *message, int fd);

bool link_turns_must_wait(struct link_turns *turns, const struct link_call *call);
/* Keep it until it is its turn; the message is taken over, and the descriptor copied. False: no memory. */
bool link_turns_add(struct link_turns *turns, struct link_call *call, struct buf *message, int fd);
void link_turns_sent(struct link_turns *turns, const struct link_call *call);
/* One of this user's is answered: send what waits. */
void link_turns_ended(struct link_turns *turns, uid_t user, link_turns_send_fn send, void *data);
/* The launcher is gone: all that waits fails, and nothing is under way. */
void link_turns_fail(struct link_turns *turns, void (*fail)(void *data, struct link_call *call), void *data);
void link_turns_set_owner(struct link_turns *turns, const char *node, uid_t owner);
void link_turns_forget_node(struct link_turns *turns, const char *node);
/* 0: root's, the service's own, or not known. */
uid_t link_turns_of_node(const struct link_turns *turns, const char *node);
uid_t link_turns_of_peer(const struct link_turns *turns, int peer_fd);

/* ---- link.c ---- */

struct link_turns *link_turns(struct launcher_link *link);
uv_loop_t *link_loop(struct launcher_link *link);
const char *link_home(const struct launcher_link *link);
/* The link is not freed before each hold is let go. */
void link_hold(struct launcher_link *link);
void link_let_go(struct launcher_link *link);

/* ---- streams.c ---- */

struct link_stream;
/* Takes the descriptor over; done gets the project once its files are in a file of ours, or an error. */
void link_stream_receive(struct launcher_link *link, const struct link_project *project, link_project_fn done,
                         void *data);
void link_streams_fail(struct launcher_link *link, const struct error *why);

/* ---- link.c ---- */

struct link_stream **link_streams(struct launcher_link *link); /* the first of those under way */
bool link_is_up(const struct launcher_link *link);             /* for tests; the daemon is told by the handler */
/* From now on; for tests, which have no half minute. */
void link_expect_answers_within(struct launcher_link *link, uint64_t timeout_ms);

/* ---- calls.c ---- */

bool link_read_features(const struct wire_message *message, struct jail_features *ret);
/* Unasked messages; false when it is none of them. */
bool link_tell(const struct link_handler *handler, void *data, struct link_answer *answer);

#endif
