/* Between the files of libsandbox. */
#ifndef CLIENT_CLIENT_INTERNAL_H
#define CLIENT_CLIENT_INTERNAL_H

#include <jansson.h>
#include <pthread.h>

#include "client/client.h"
#include "client/http.h"
#include "ops/table.h"
#include "sandbox.h"

enum { CONNECTIONS_IDLE_MAX = 4 };

/* Open and idle. */
struct connections {
    int fds[CONNECTIONS_IDLE_MAX];
    size_t count;
};

struct sbx {
    char home[CLIENT_HOME_BYTES];
    char socket_path[CLIENT_HOME_BYTES];
    unsigned flags;
    uint32_t timeout_ms;
    int cancel_fd;
    pthread_mutex_t lock; /* of what follows; a connection in use belongs to one call */
    int launcher_pidfd;   /* -1: not looked for yet */
    struct connections idle, idle_direct;
    unsigned calls;     /* counted while it matters how many there were */
    bool has_no_direct; /* the service takes no direct calls */
};

/* ---- call.c: one operation, from parameters to answer ---- */

struct call {
    const struct op *op;
    const json_t *params; /* an object, or NULL */
    /* Streams: each item, borrowed; non-zero ends the stream. */
    int (*item)(json_t *item, void *data);
    void *data;
    uint64_t deadline_ms; /* client_call's own: for all that the operation takes; 0: none */
    char *text;           /* the answer as the service wrote it, if it came directly; the caller's to free */
    json_t *problem;      /* after a failure: the service's problem object; the caller's to release */
};

/* *ret is the object, the whole list as an array, or what the stream ended with (null when the item function ended it);
   NULL when the call has it as text. */
int client_call(struct sbx *sbx, struct call *call, json_t **ret, struct error *reterr);

bool connections_take(struct sbx *sbx, struct connections *connections, int *ret_fd);
void connections_give(struct sbx *sbx, struct connections *connections, int fd);

/* ---- direct.c: the same without HTTP ---- */

/* A connection for direct calls, if there is or should be one. */
bool direct_connect(struct sbx *sbx, const struct op *op, const struct http_wait *wait, int *ret_fd);
/* Ask, and read the whole answer into a buffer. */
int direct_exchange(int fd, const struct op *op, const json_t *params, const struct http_wait *wait, struct buf *in,
                    struct error *reterr);

/* ---- hold.c: folders that are handed over ---- */

enum { HELD_FOLDERS_MAX = 48 };

struct held_folders {
    int fds[HELD_FOLDERS_MAX];
    size_t count;
};

void folders_hold(const struct op *op, const json_t *params, struct held_folders *ret);
void folders_let_go(struct held_folders *held);

/* ---- target.c: parameters as HTTP carries them ---- */

struct target {
    struct buf path; /* with the query */
    struct buf body; /* empty: none */
};

void target_free(struct target *target);
/* Spread checked parameters over path, query and body. The cursor is that of the page to ask for, or NULL. */
int target_build(const struct op *op, const json_t *params, const char *cursor, struct target *ret,
                 struct error *reterr);
void percent_encode(struct buf *buf, const char *text);

/* ---- service.c: a connection to a service that is there ---- */

/* A connection to the service, which is started when it does not answer and the flags allow it. */
int service_connect(const struct sbx *sbx, uint64_t deadline_ms, int *ret_fd, struct error *reterr);

/* Whether an open connection is as good as a new one: a daemon whose launcher has died starts and ends nothing, and
   connecting anew starts another launcher. */
bool service_is_whole(struct sbx *sbx);

/* ---- launch.c: start the launcher, detached ---- */

/* Its pidfd, to notice an early end. */
int launch_service(const char *program, const char *home, int *ret_pidfd, struct error *reterr);

/* ---- problem.c: errors as callers see them ---- */

/* The error that a problem object from the service tells of; unknown slugs are judged by their status. */
void problem_read(const json_t *problem, int status, struct error *ret);
/* Fill what the caller sees. The problem may be NULL; both may be borrowed. */
void problem_report(const struct error *error, const json_t *problem, struct sbx_error *reterr);

#endif
