/* A daemon's end of everything around a node: the real link to a launcher that the test plays on the same loop, and
   agents that the test plays on plain sockets. */
#ifndef TEST_NODE_STAGE_H
#define TEST_NODE_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/node_internal.h"

enum { CHILDREN_MAX = 8 };

struct stage;

struct asked { /* a call under way */
    struct stage *stage;
    char name;
};

struct stage {
    uv_loop_t loop;
    struct node_host host;
    char home[64];
    struct buf story; /* what the node's handler and the callers heard, in order */

    /* the launcher */
    unsigned burn_us;      /* of CPU time, for each event of a node */
    uint64_t charge_bytes; /* to the node, for each of its events */
    int listen_fd, launcher_fd;
    uv_poll_t listen_poll, launcher_poll;
    bool launcher_polled, link_up, link_closed;
    bool hold_spawns;      /* keep the answer back */
    uint64_t held_id;      /* of the spawn that waits */
    bool refuse_spawns;    /* answer with an error */
    bool refuse_equipping; /* too */
    bool refuse_yielding;  /* as a kernel that has no such thing */
    bool fail_yielding;    /* as one that has it, and refuses */
    bool refuse_limits, refuse_freezing;
    unsigned limits;        /* how often some were set, or were to be */
    char limited[256];      /* the last request to */
    unsigned yields;        /* how often one was told to, or to no longer */
    bool silent_about_bury; /* let the link break instead */
    const char *death;      /* what bury answers; NULL: killed */
    unsigned spawns, burials;
    char equipped[1024];       /* the last request to equip a node */
    int project_fd;            /* the folder of each project that is opened; 0: there is none */
    const char *project_file;  /* the one file in it; NULL: all of it */
    unsigned opened, released; /* projects */

    pid_t children[CHILDREN_MAX]; /* stand for the VMs */
    size_t child_count;
    int output_fds[CHILDREN_MAX]; /* write ends of their output */

    struct asked asked[CALLS_MAX + 8];
    size_t asked_count;

    bool late;
    uv_timer_t deadline, tick;
};

int stage_setup(void **state);
int stage_teardown(void **state);
#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

void stage_expect(struct stage *stage, const char *story);
void stage_begin_wait(struct stage *stage);
void stage_end_wait(struct stage *stage);
#define RUN_UNTIL(stage, condition)                                                                                    \
    do {                                                                                                               \
        stage_begin_wait(stage);                                                                                       \
        while (!(condition) && !(stage)->late) uv_run(&(stage)->loop, UV_RUN_ONCE);                                    \
        stage_end_wait(stage);                                                                                         \
        if ((stage)->late) fail_msg("waited too long for " #condition "; story: %s", buf_string(&(stage)->story));     \
    } while (0)
bool stage_heard(struct stage *stage, const char *part);
extern const char stage_over[]; /* the story of a node that broke the protocol */

/* ---- the launcher ---- */

void launcher_hang_up(struct stage *stage); /* and take no new link */
void launcher_come_back(struct stage *stage);
void launcher_answer_spawn(struct stage *stage, uint64_t id);

/* ---- nodes ---- */

extern const struct toolchain stage_toolchain; /* that nodes of a test are started with */
extern const struct node_handler stage_handler;
struct node *stage_start(struct stage *stage);                            /* spawned */
void stage_greet(struct stage *stage, struct node *node, int *ret_agent); /* its agent says hello */
struct node *stage_start_ready(struct stage *stage, int *ret_agent);      /* and its agent has said hello */

void stage_on_reply(void *data, const struct term *result, const struct term *reason, const struct error *error);
uint64_t stage_call(struct stage *stage, char name, struct node *node, uint64_t timeout_ms);

/* ---- agents ---- */

int agent_dial(struct stage *stage, const struct node *node);
void agent_send(int fd, struct buf *term); /* with its header; the term is freed */
void agent_send_bytes(int fd, const void *data, size_t size);
void agent_hello(int fd, int64_t version, const char *secret);
void agent_put_event(struct buf *term, const char *kind); /* without data */
void agent_reply_ok(int fd, uint64_t id);
void agent_reply_error(int fd, uint64_t id, const char *kind, const void *message, size_t size);
/* The next frame, which must have arrived already; NULL when there is none. */
struct term_doc *agent_take(int fd);
bool agent_sees_end(int fd);
/* The id of the next call of that operation; beats before it are answered. */
uint64_t agent_take_call(struct stage *stage, int fd, const char *op);

#endif
