/* Between the node's own files: the channel's connections, calls under way, and the making of a VM's plan. */
#ifndef NODE_NODE_INTERNAL_H
#define NODE_NODE_INTERNAL_H

#include "loop/loop.h"
#include "node/node.h"

enum {
    PROTOCOL_VERSION = 1,
    FRAME_HEADER_BYTES = 4,
    FRAME_MAX_BYTES = 16 << 20, /* from a node */
    COMPILER_FRAME_MAX_BYTES = 64 << 20,
    FRAME_LARGE_BYTES = 128 << 10, /* longer ones of all nodes share a bounded memory */
    FRAMES_BYTES = 256 << 20,      /* it */
    FRAMES_COMMON_BYTES =
        FRAMES_BYTES - FRAMES_BYTES / 4, /* without what is kept for short ones, and for the service */
    SEND_MAX_BYTES = 64 << 20,           /* queued to one node */
    STRANGERS_MAX = 4,                   /* connections that have not said hello */
    STRANGER_READS_MAX = 256,            /* until a hello is whole: single bytes cost a turn each */
    DIAL_COST_MS = 100,                  /* in the long run there is one dial in so much time */
    DIALS_TOLD_EVERY_MS = 1000,
    DIALS_BURST = 16,
    HELLO_MAX_BYTES = 4096,
    HELLO_DEADLINE_MS = 5000,
    BUDGET_BYTES_PER_MS = 8192, /* what a node may send in the long run */
    FRAME_COST_BYTES = 512,     /* on top of its size, so that a flood of tiny frames is no cheaper */
    TERM_COST_BYTES = 8,        /* each, on top of that: reading terms takes longer than reading bytes */
    TERMS_FREE = 64,            /* of each frame: an ordinary answer has fewer */
    CALLS_MAX = 1024,           /* under way on one node */
    OUTPUT_BYTES_PER_MS = 1024, /* of the VM's own stdout and stderr */
    OUTPUT_BURST_BYTES = 4 << 20,
    PACE_PAUSE_MIN_MS = 10,
};

/* ---- pace.c: how fast a stranger is read ---- */

struct pace {
    int64_t budget_bytes; /* below zero: reading pauses until it has grown again */
    int64_t burst_bytes;  /* what it grows to */
    int64_t bytes_per_ms;
    uint64_t at_ms;
};

void pace_start(struct pace *pace, int64_t burst_bytes, int64_t bytes_per_ms, uint64_t now_ms);
/* Count what was read; how long to pause then, 0: not at all. */
uint64_t pace_spend(struct pace *pace, uint64_t bytes, uint64_t now_ms);

/* ---- vm.c: the plan of a VM ---- */

struct vm_identity {
    const char *name;
    const char *secret;
    const char *control_dir;
};

/* Whether a node of that profile gets egress once it has a sandbox. */
bool node_has_egress(const struct node_host *host, const struct jail_profile *profile);
int vm_plan(const struct node_host *host, const struct node_spec *spec, const struct vm_identity *identity,
            struct jail_plan *ret, uint32_t *ret_lost, struct error *reterr);
/* A VM that prints the boot file for its toolchain and ends. */
int vm_probe_plan(const struct node_host *host, const struct toolchain *toolchain, const char *name,
                  struct jail_plan *ret, struct error *reterr);

/* ---- channel.c: a listening socket in the node's control directory, and the dials to it ---- */

struct connection;

struct channel {
    struct node *node;
    int fd;
    uv_poll_t listener;
    uv_timer_t dial_timer; /* the end of a pause in which no dial is taken */
    bool listening;
    bool takes_dials;         /* neither too many strangers, nor too many dials of late */
    bool is_careful;          /* the kernel refuses no descriptors here: look before reading */
    struct connection *agent; /* the one that said hello */
    struct connection *all;   /* every open one */
    unsigned strangers;
    bool is_decoding; /* a large frame, on a thread: one at a time for each node */
    bool lacks_room;  /* its agent is not read: there is no memory, or no thread, for a large frame now */
    size_t frame_max_bytes;
    struct pace pace;
    struct pace dials; /* in milliseconds */
    bool flood_reported;
    uint64_t dials_told_ms; /* when a flood of dials was told of last; 0: never */
};

int channel_listen(struct channel *channel, struct node *node, const char *directory, struct error *reterr);
/* A whole frame, in one part or two (rest may be NULL), taken over; false when it can't be queued. */
bool channel_send(struct channel *channel, struct buf *frame, struct buf *rest);
/* Close every connection and the listener; each handle was counted in the node's open_handles and says
   node_handle_closed. */
void channel_close(struct channel *channel);
void channel_take_dials(struct channel *channel); /* again, if it may: there are fewer strangers now */

/* ---- connection.c: frames to and from one process of the node ---- */

void connection_open(struct channel *channel, int fd); /* the descriptor is taken over */
void connection_close(struct connection *connection);
/* Whether so much more may wait to be sent. */
bool connection_has_room(const struct connection *connection, size_t bytes);
/* A whole frame, or a part of one that there is room for; what can't be sent at once is taken over. */
void connection_send(struct connection *connection, struct buf *frame);

/* ---- frame_room.c: what large frames share ---- */

struct frame_part { /* of the memory; all zeros: none */
    struct frame_part *next;
    uid_t principal;
    size_t bytes;
};

/* Whether a frame of so many bytes may be read; a part that has some has enough. */
bool frame_room_take(const struct node *node, struct frame_part *part, size_t bytes);
void frame_room_give(struct node_host *host, struct frame_part *part);
bool frame_may_decode(const struct node *node); /* on one of the threads */
uid_t frame_decoding_begun(const struct node *node);
void frame_decoding_ended(struct node_host *host, uid_t principal); /* that began it */

/* ---- decode.c: a frame's bytes as a term; small ones at once, others on threads ---- */

struct decoding;
typedef void (*decoded_fn)(void *data, struct decoding *decoding);

/* At once, if it is small. Returns 1 when it is not, and 0 or negative as term_decode does. */
int decode_small(const uint8_t *data, size_t size, struct term_doc **ret, struct error *reterr);
/* The frame of size bytes at an offset of a buffer, which is taken over. */
void decode_large(struct node *node, struct buf *buffer, size_t at, size_t size, decoded_fn decoded, void *data);
/* NULL with the reason in *reterr when it is no term, or too large a one. */
const struct term *decoding_root(const struct decoding *decoding, struct error *reterr);
struct term_doc **decoding_doc(struct decoding *decoding); /* of one that has a root; it may be taken */
size_t decoding_terms(const struct decoding *decoding);
/* Have a thread make something of a part of it; decoded is called again. */
void decoding_prepare(struct decoding *decoding, const struct node_preparation *preparation, const struct term *part,
                      decoded_fn decoded);
void **decoding_made(struct decoding *decoding); /* what it made; to be taken, or it is released */
void decoding_end(struct decoding *decoding);    /* frees it, on a thread too: that takes its time as well */

/* ---- call.c: calls under way ---- */

struct call {
    struct call *next;
    struct node *node;
    uint64_t id;
    struct buf frame; /* until it is sent */
    struct buf rest;  /* of the frame, where it is long: it is not copied */
    bool sent;
    bool refused;
    uv_timer_t timer;
    uint64_t due_ms; /* by loop_attended_ms */
    node_reply_fn reply;
    const struct node_preparation *preparation; /* NULL: the answer goes to reply, else what was made of it */
    node_prepared_fn prepared;
    void *data;
};

void calls_flush(struct node *node);     /* send what waits for the agent */
void calls_lose_sent(struct node *node); /* the connection they were sent on is gone */
void calls_fail_all(struct node *node, const struct error *error);
/* False: no call has that id. made is as in node_frame. */
bool calls_answer(struct node *node, uint64_t id, const struct term *result, void **made);
/* How a call wants this answer of its agent prepared, and which part of it; NULL: it is no such answer. */
const struct node_preparation *calls_preparation(const struct node *node, const struct term *frame,
                                                 const struct term **ret_part);

/* ---- node.c ---- */

enum node_state {
    NODE_SPAWNING,
    NODE_BOOTING, /* no hello yet */
    NODE_RUNNING,
    NODE_ENDING,  /* to be buried */
    NODE_CLOSING, /* its handles are being closed */
};

struct node {
    struct node_host *host;
    struct node_handler handler;
    void *data;
    enum node_kind kind;
    enum node_state state;
    char name[NODE_NAME_BYTES];
    char secret[NODE_SECRET_BYTES];
    char control_dir[PATH_MAX];
    uint32_t lost_guarantees;

    pid_t pid;
    pid_t vm_pid; /* the init's child; 0 until it was looked for */
    uid_t uid;
    uid_t owner; /* the user whose code runs in it; root while there is none */
    bool frozen;
    struct yielding {
        bool yields;       /* as the launcher said last */
        bool is_in_doubt;  /* something went wrong since: it may, or may not */
        bool is_asked;     /* and not answered yet */
        unsigned failures; /* in a row */
        uint64_t next_ms;  /* not asked again before */
    } yielding;
    char memory_cgroup[PATH_MAX];
    char cpu_cgroup[PATH_MAX];
    char tasks_cgroup[PATH_MAX];

    struct channel channel;
    struct call *calls;
    uint64_t next_call_id;
    uint64_t last_alive_ms;  /* by loop_attended_ms */
    uint64_t beat_id;        /* the call under way, or 0 */
    struct term_doc **frame; /* what is being told of; NULL: nothing */

    int disk_fds[JAIL_DISKS]; /* for fstatfs; -1 until the launcher has given them */
    bool is_disk_asked;
    int pidfd;
    uv_poll_t death;
    bool death_open;
    uv_pipe_t output;
    uv_timer_t output_pause;
    struct pace output_pace;
    char last_words[256]; /* the end of what the VM printed before its agent said hello; they tell why it can't boot */
    size_t last_words_size;
    bool output_open, output_pause_open;
    bool has_greeted;
    uv_timer_t beat;
    bool beat_open;

    bool is_being_equipped; /* its taker is told that it is ready only when that is done */
    bool kill_wanted;
    bool end_known; /* end.cause was decided by us, before the death itself */
    struct node_end end;
    unsigned open_handles;
    void (*detached)(void *data);
    void *detached_data;
};

/* What the channel tells its node. */
bool node_hello(struct node *node, const struct term *secret, int fd); /* whether to let it in */
void node_connected(struct node *node);
void node_disconnected(struct node *node);
/* made: what was prepared of an answer, or NULL; taken by a call that asked for it. */
void node_frame(struct node *node, const struct term *frame, void **made);
void node_misbehaved(struct node *node, enum node_cause cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void node_flooded(struct node *node);
void node_dials_flooded(struct node *node);
void node_passed_descriptor(struct node *node);
void node_handle_closed(struct node *node);

void node_tell_ready(struct node *node); /* if it is */
void node_close_handle(bool *open, void *handle);

/* ---- beat.c, output.c ---- */

void node_start_beating(struct node *node);        /* it counts as alive from now on */
void node_watch_output(struct node *node, int fd); /* taken over; -1: there is none */
/* What is in the pipe yet was printed before the agent's hello, so it is about booting and not the application's. */
void node_end_boot_words(struct node *node);

/* ---- usage.c, tasks.c ---- */

void node_close_disk(struct node *node);
/* A whole small file of a directory; false where there is none. */
bool usage_read_file(const char *directory, const char *name, char *ret, size_t size);
bool task_read(pid_t pid, struct node_task *ret); /* false when there is no such process */

enum { TOOLCHAIN_DIGEST_BYTES = 8 };

/* ---- shared.c ---- */

enum { SHARED_MAX = 2 };

struct shared_place {
    const char *place;     /* where the node sees it */
    char source[PATH_MAX]; /* on the host */
};

/* The certificates and time zones of a root ("": the host's own), as far as there are any. */
size_t shared_find(const char *root, struct shared_place ret[SHARED_MAX]);

/* ---- toolchain/find.c ---- */

/* The real path, from the root, of a program that PATH has; "" when it has none. */
void toolchain_find_in_path(const char *root, const char *program, char ret[PATH_MAX]);

/* ---- small helpers ---- */

int make_random_hex(char *ret, size_t digits, struct error *reterr); /* digits characters and a terminator */

#endif
