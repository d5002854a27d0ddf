/* Between the link's two files: link.c moves messages, link_calls.c knows what they say. */
#ifndef JAIL_LINK_INTERNAL_H
#define JAIL_LINK_INTERNAL_H

#include "jail/jail_internal.h"

enum { LINK_FDS_MAX = 4 };

/* What came back for a call; descriptors that nobody takes are closed afterwards. */
struct link_answer {
    const struct wire_message *message; /* its operands start with the id */
    int fds[LINK_FDS_MAX];              /* -1 where there is none */
};

struct link_call;

/* Give the answer to whoever asked: the message, or the error when there is none. False: it is not what the launcher
   would say, and the asker was told so. */
typedef bool (*link_deliver_fn)(const struct link_call *call, struct link_answer *answer, const struct error *error);

typedef void (*link_done_fn)(void); /* the asker's callback, cast back by the deliver function */

struct link_call {
    uint64_t id;
    link_deliver_fn deliver;
    link_done_fn done;
    void *data;
    char node[JAIL_NAME_BYTES];
    uint64_t due_ms;    /* the loop's time by which it must be answered */
    struct error error; /* why it failed, while it waits to be told */
    struct link_call *next;
};

/* Send "verb ID" and the text after it, with fd when it isn't negative (it stays the caller's); call is a template and
   is copied. Whatever happens, deliver is called once, later. */
void link_ask(struct jail_link *link, const struct link_call *call, const char *verb, const struct buf *text, int fd);

/* From now on; for tests, which have no half minute. */
void link_expect_answers_within(struct jail_link *link, uint64_t timeout_ms);

bool link_read_features(const struct wire_message *message, struct jail_features *ret);
/* Unasked messages; false when it is none of them. */
bool link_tell(const struct jail_link_handler *handler, void *data, struct link_answer *answer);

#endif
