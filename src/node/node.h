/* node: one VM in a jail. Finds the toolchain, starts the VM, speaks the control channel with deadlines, notices its
   end. Knows nothing of sandboxes. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"
#include "link/link.h"
#include "loop/loop.h"
#include "term/term.h"

enum {
    NODE_NAME_BYTES = 24,
    NODE_SECRET_BYTES = 65,
    NODE_APPS_MAX = 160,
    TOOLCHAIN_GRANT_BYTES = 48,
    TOOLCHAIN_DIGEST_TEXT = 40,
};

#define TOOLCHAIN_OTP_PLACE "/toolchain/otp" /* where nodes see a user's own */
#define TOOLCHAIN_ELIXIR_PLACE "/toolchain/elixir"

/* ---- the toolchain: where OTP and Elixir are, and what a VM of them needs to see ---- */

struct toolchain {
    char root[PATH_MAX]; /* the tree that the paths below begin in, with its own C library; "": the host's own */
    char otp_root[PATH_MAX];
    char erts_bin[PATH_MAX];   /* holds beam.smp and erl_child_setup */
    char elixir_lib[PATH_MAX]; /* holds elixir, logger, mix …; "" without Elixir */
    char boot_dir[PATH_MAX];   /* holds node.boot, made for this toolchain; "" until probed */
    char otp_release[32];
    char otp_version[32];               /* "27.2"; "" where the installation does not tell */
    char elixir_version[32];            /* "" without Elixir, or until probed */
    char digest[TOOLCHAIN_DIGEST_TEXT]; /* of what identifies it: paths, versions, our agent; a user's begin with "u"
                                           and the uid */
    /* Shared libraries the VM is linked against, the dynamic linker among them. */
    struct toolchain_library {
        char *place;  /* where the VM looks for it */
        char *source; /* the same on the host; NULL: it lies in the user's own folder */
    } * libraries;
    size_t library_count;
    /* Of a user's own: the paths above are those inside a node, and the launcher opens the folders with the user's
       rights, by standing permissions of these names. */
    bool is_own;
    uid_t owner;
    char otp_grant[TOOLCHAIN_GRANT_BYTES], elixir_grant[TOOLCHAIN_GRANT_BYTES];
    struct probe *probe; /* the one under way, or NULL; probe.c keeps it */
};

struct toolchain_place {
    const char *root;         /* an absolute path; NULL: the host's own */
    const char *otp, *elixir; /* roots of the installations, as seen from there; NULL: PATH tells */
    bool is_checked;          /* refused when other users can write it */
};

/* E_TOOLCHAIN says what is missing. */
int toolchain_find(const struct toolchain_place *place, const char *agent_dir, uint32_t agent_stamp,
                   struct toolchain *ret, struct error *reterr);
/* E_TOOLCHAIN: the VM or the Elixir that was found is there no more. Blocking. */
int toolchain_check_files(const struct toolchain *toolchain, struct error *reterr);
/* The first of a user's own, whose folders are open. Blocking, and the files are a stranger's: for the thread pool. */
struct toolchain_folders {
    int otp_fd, elixir_fd; /* -1: without Elixir */
    uid_t owner;
    uint64_t otp_signature, elixir_signature; /* that stand for their files */
    const char *otp_grant, *elixir_grant;
};
int toolchain_find_own(const struct toolchain_folders *folders, uint32_t agent_stamp, struct toolchain *ret,
                       struct error *reterr);
int toolchain_own_digest(const struct toolchain_folders *folders, uint32_t agent_stamp, char ret[TOOLCHAIN_DIGEST_TEXT],
                         struct error *reterr); /* that it would have */
/* The folder, or one above it, that a user other than root and ours can write. E_TOOLCHAIN names it. */
int toolchain_check_folder(const char *path, struct error *reterr);
/* E_TOOLCHAIN: a node has something else of its own at that path. */
int toolchain_check_place(const char *path, struct error *reterr);
/* E_TOOLCHAIN: Elixir of that version needs a newer OTP. */
int toolchain_check_fit(unsigned otp, const char *elixir_version, struct error *reterr);
bool toolchain_version_is_plain(const char *text); /* letters, digits and ".-+_" alone, and not empty */
/* rebar3 as compiler nodes of a toolchain see it: the one of its root, or the host's. It may come and go. */
struct toolchain_rebar3 {
    char path[PATH_MAX]; /* on the host */
    uint64_t size, modified_ns;
};
/* False: there is none, or other users could change it. */
bool toolchain_find_rebar3(const struct toolchain *toolchain, struct toolchain_rebar3 *ret);
/* As link_spawn. The folders of a user's own are opened first. */
void toolchain_spawn(struct launcher_link *link, const struct toolchain *toolchain, const struct jail_plan *plan,
                     link_spawned_fn done, void *data);
/* Where a path of the toolchain is on the host, links followed within its root. E_TOOLCHAIN: it is not there. */
int toolchain_resolve(const char *root, const char *path, char ret[PATH_MAX], struct error *reterr);
void toolchain_free(struct toolchain *toolchain);
unsigned toolchain_generation(const struct toolchain *toolchain); /* 25 */

/* Where programs and their libraries are looked for. */
struct elf_tree {
    const char *root;      /* the tree that the system's folders begin in; "": the host's own */
    const char *own_place; /* of a user's own: the folder that its paths begin with; NULL: there is none */
    int own_fd;            /* it */
};
/* Shared libraries that ELF files (NULL-terminated) need: in the system's folders of the root, or in the user's own
   folder; the interpreter comes first. */
int elf_libraries(const struct elf_tree *tree, const char *const *files, struct toolchain_library **ret,
                  size_t *ret_count, struct error *reterr);

/* ---- nodes ---- */

/* How long a turn of the loop may be before nodes wait for the next: less than for callers, who wait for answers. */
enum { NODE_READING_US = 300 };

/* Of all nodes' large frames at once: each may take a hundred megabytes until its answer is made. */
enum { DECODINGS_MAX = 4 };

struct frame_part;

struct node_host { /* what all nodes of a daemon share; outlives them */
    uv_loop_t *loop;
    struct launcher_link *link;
    struct jail_features features;
    const char *home;
    const char *agent_dir;
    uint64_t heartbeat_ms;
    uint64_t heartbeat_deadline_ms;
    uint64_t boot_deadline_ms;
    uint64_t grace_ms;
    unsigned cores;              /* of the machine; 0: one */
    bool cannot_yield;           /* the launcher said that nodes can't here */
    bool ending;                 /* wait for no launcher any more: the next daemon buries what is left */
    struct map nodes;            /* every living node by name; node.c keeps it */
    struct loop_workers workers; /* for large frames; the host's owner opens and closes them */
    struct loop_turns reading;   /* of nodes' connections that wait to be read; opened and closed like the workers */
    struct turns turns;          /* of callers, at the thread pool; host_work.c keeps it */
    const struct principals *principals; /* whose those callers are; NULL: each uid is its own */
    size_t frame_bytes;                  /* of large frames that nodes have begun to send; frame_room.c keeps it */
    struct frame_part *frames;           /* these; likewise */
    char read_buffer[64 * 1024];         /* the loop reads into one place at a time */
    unsigned decodings;                  /* of large frames, under way */
    uid_t decoders[DECODINGS_MAX];       /* whose they are */
};

/* As uv_queue_work, for work whose length a caller decides: what is queued for one caller runs one after the other, so
   that none has more than one of the pool's few threads. Root and the service's own user are not bound. */
void host_work(struct node_host *host, uid_t caller, uv_work_t *work, uv_work_cb run_work, uv_after_work_cb after);
/* Free what a buffer holds, where it is large on the pool: for 64 MiB the kernel takes 7 ms. */
void host_discard(struct node_host *host, struct buf *buf);

#define NODE_APP_PLACE "/app/%s" /* where a node sees an application */

struct node_app {
    const char *name; /* seen at NODE_APP_PLACE */
    const char *path; /* on the host */
};

enum node_kind { NODE_APPLICATION, NODE_COMPILER };

struct node_spec {
    enum node_kind kind;
    const struct toolchain *toolchain; /* probed; it outlives the node's start */
    const struct jail_profile *profile;
    struct jail_limits limits;
    const struct node_app *apps;
    size_t app_count;
    json_t *env;                      /* of the application: an object of text, or NULL */
    bool has_loopback;                /* although its profile has no network */
    bool elixir;                      /* start Elixir and its logger before it is ready */
    const struct jail_host *resolved; /* what the names that the profile lists stand for */
    size_t resolved_count;
    const char *data_volume; /* what its /data is; NULL: a tmpfs */
    bool takes_data;         /* a volume may be mounted over its /data later */
};

enum node_cause {
    NODE_EXITED,  /* the VM ended by itself */
    NODE_CRASHED, /* by a signal that we did not send, or with a failure status */
    NODE_OUT_OF_MEMORY,
    NODE_HOST_RESTARTED, /* it ran in another boot of the machine */
    NODE_KILLED,         /* node_kill */
    NODE_SILENT,         /* missed its heartbeat, or never said hello in time */
    NODE_MISBEHAVED,     /* broke the protocol */
};

struct node_end {
    enum node_cause cause;
    int status;         /* exit code or signal; -1 when unknown */
    bool has_exited;    /* by itself, with that exit code */
    struct error error; /* for the caller: a code, and a sentence for people */
};

struct node;

struct node_handler {
    void (*ready)(void *data, struct node *node); /* each time the agent has said hello */
    void (*event)(void *data, struct node *node, const char *kind, const struct term *term);
    void (*output)(void *data, struct node *node, const char *bytes, size_t size); /* the VM's own stdout and stderr */
    void (*violation)(void *data, struct node *node, const char *what, const char *detail);
    /* Exactly once: the VM is gone with its jail and cgroups, and node is freed after the call. */
    void (*gone)(void *data, struct node *node, const struct node_end *end);
};

/* Answers arrive exactly once, never from inside node_call: a result, or an error (E_TIMEOUT, E_NODE, or the agent's
   own as E_RUNTIME with reason the agent's map). result and reason live only during the call. */
typedef void (*node_reply_fn)(void *data, const struct term *result, const struct term *reason,
                              const struct error *error);

/* What is made of a large answer, on a thread: it may look at nothing but the term. */
struct node_preparation {
    void *(*make)(const struct term *result);            /* NULL without memory */
    void *(*make_of_failure)(const struct term *reason); /* NULL: nothing is made of the agent's own reason */
    void (*release)(void *made);
};
/* As node_reply_fn, with what was made of the result, or of the reason, which is the function's from now on. */
typedef void (*node_prepared_fn)(void *data, void *made, const struct term *reason, const struct error *error);

int node_start(struct node_host *host, const struct node_spec *spec, const struct node_handler *handler, void *data,
               struct node **ret, struct error *reterr);
/* Take up a node that ran before this daemon did: listen for its agent at once; the launcher's word on it comes with
   node_adopted. */
int node_expect(struct node_host *host, const char *name, const char *secret, enum node_kind kind,
                const struct node_handler *handler, void *data, struct node **ret, struct error *reterr);
/* The user whose code runs in it from now on, and with whose other nodes it shares what all nodes share. */
void node_set_owner(struct node *node, uid_t owner);
void node_adopted(struct node *node, const struct link_node *info);
/* The launcher knows nothing of it: it ended while no daemon ran, perhaps with the whole host; `gone` follows. */
void node_lost(struct node *node, bool host_restarted);

struct node *node_find(const struct node_host *host, const char *name); /* NULL when unknown */
const char *node_name(const struct node *node);
const char *node_secret(const struct node *node);
uint32_t node_lost_guarantees(const struct node *node);
pid_t node_os_pid(const struct node *node); /* 0 before it has one */
void node_beat(struct node *node);          /* now, not when it is due, so that the agent looks at its limits */
bool node_is_ready(const struct node *node);
bool node_is_frozen(const struct node *node);

#define NODE_UNKNOWN UINT64_MAX

/* What it uses of each limit that is metered from outside. NODE_UNKNOWN: not told here, or not yet. Buffers of sockets
   are known on cgroup v1 alone, elsewhere they are memory; descriptors are the VM's, and kernels before 6.2 don't tell
   them. */
struct node_usage {
    struct jail_limits used;
    struct jail_limits fullest_percent; /* of limits that several places share: of whichever place is fullest */
    struct jail_limits most;            /* of these limits, what all places together have room for */
    uint64_t cpu_ns;                    /* since it started */
};
void node_usage(struct node *node, struct node_usage *ret); /* from outside, with a few system calls */
uint64_t node_cpu_ns(struct node *node);                    /* of these, that alone */
uint64_t node_cpu_of_all_ns(const struct node *node);       /* of all nodes that are beside it, compilers too */
/* What the kernel refused it so far, where nothing inside ends by it: OS processes and threads beyond their bound; and
   how many threads had a write refused, since a file would have grown too large. */
uint64_t node_tasks_refused(const struct node *node);
uint64_t node_files_refused(const struct node *node);
/* Have the launcher hand out what tells the use of its disk. Once is enough; a node that ends meanwhile is no matter.
 */
void node_watch_disk(struct node *node);

struct node_traffic { /* through its egress, since it has one */
    uint64_t in_bytes, out_bytes;
};
bool node_traffic(const struct node *node, struct node_traffic *ret); /* false where there is none */

struct node_task { /* one OS process, as the kernel has it */
    pid_t pid;     /* as the host sees it */
    char name[64];
    char state; /* as ps shows it: R, S, D, T, Z … */
    uint32_t threads;
    uint64_t memory_bytes, cpu_ms;
};
/* The node's processes, at most max; works for a frozen one too. */
size_t node_tasks(const struct node *node, struct node_task *ret, size_t max);

/* args: one encoded term without version byte, taken over. Waits for the agent when it is not connected, within
   timeout_ms. Returns an id to cancel by. */
uint64_t node_call(struct node *node, const char *op, struct buf *args, uint64_t timeout_ms, node_reply_fn reply,
                   void *data);
/* The same for an answer that may be large: a thread makes something of it before the reply function is called. */
uint64_t node_call_prepared(struct node *node, const char *op, struct buf *args, uint64_t timeout_ms,
                            const struct node_preparation *preparation, node_prepared_fn reply, void *data);
/* For a reply function: the answer's terms are its own from now on, and stay when it returns. To be freed with
   term_free. NULL: it has them already. */
struct term_doc *node_keep_answer(struct node *node);
/* The reply function is not called any more, and the agent is told to stop. */
void node_cancel(struct node *node, uint64_t id);

void node_kill(struct node *node, const char *why); /* `gone` follows */
void node_freeze(struct node *node, bool frozen, link_done_fn done, void *data);
/* Have every other node get the processor before it, or no longer; to be called again and again. It is a help, no more:
   nothing is done where the kernel can't, while the last change is under way, nor soon after one that failed. Setting
   its limits ends it. */
void node_yield(struct node *node, bool yields);
bool node_yields(const struct node *node); /* or may, for all that is known */
/* What the kernel holds it to, changed while it runs. */
void node_limit(struct node *node, const struct jail_limits *limits, link_done_fn done, void *data);
/* What the names that its profile lists stand for now. */
void node_set_resolved(struct node *node, const struct jail_host *hosts, size_t count, link_done_fn done, void *data);
/* Entries of the table of processes that a VM with this limit is booted with, which can't grow. */
uint64_t node_process_table(uint64_t processes);
/* How many schedulers a VM with these limits is booted with. */
uint64_t node_schedulers(const struct node_host *host, const struct jail_limits *limits);
/* Whether a VM that was booted with some limits can be held to others. */
bool node_limits_fit(const struct jail_limits *limits, const struct jail_limits *booted);
void node_violation(struct node *node, const struct link_violation *violation); /* the launcher's word, handed on */
/* Charge it for work that its last frame caused, as for so many bytes more. */
void node_charge(struct node *node, uint64_t bytes);
/* Leave the VM running for the next daemon and let go of it: no further callback. */
void node_detach(struct node *node, void (*detached)(void *data), void *data);

/* ---- the warm pool: nodes that are booted already and wait for a sandbox ---- */

struct pool_settings {
    uint32_t nodes_max;                  /* how many wait at most; 0: none */
    const struct jail_profile *standing; /* of which there is one always; NULL: of none */
    bool (*is_awaited)(void *data);      /* whether a caller waits for an application to start; NULL: never */
};

struct pool;

/* wake is called whenever one that waited has gone; its data is is_awaited's too. */
int pool_open(struct node_host *host, const struct pool_settings *settings, void (*wake)(void *data), void *data,
              struct pool **ret, struct error *reterr);
void pool_set_max(struct pool *pool, uint32_t nodes_max); /* from its next look on */
/* There is a launcher, and this toolchain is usable: nodes of it are kept even without demand. It outlives the pool. */
void pool_begin(struct pool *pool, const struct toolchain *toolchain);
/* As node_start, but with a node that waited where one fits. */
int pool_start_node(struct pool *pool, const struct node_spec *spec, const struct node_handler *handler, void *data,
                    struct node **ret, bool *ret_is_warm, struct error *reterr);
/* Boot nothing for a moment: a caller waits for what an application does just now. */
void pool_put_off(struct pool *pool);
/* Its nodes that wait are ended, and it need not live longer. */
void pool_forget(struct pool *pool, const struct toolchain *toolchain);
size_t pool_ready(const struct pool *pool); /* how many can be taken now */
void pool_quiesce(struct pool *pool);       /* end those that wait, and boot no more */
bool pool_is_quiet(const struct pool *pool);
void pool_close(struct pool *pool, void (*closed)(void *data), void *data); /* when it is quiet; frees it */

/* ---- the boot file: made once per toolchain by a VM of it, in a jail ---- */

typedef void (*toolchain_probed_fn)(void *data, const struct error *error);
/* Fills boot_dir and the versions, from $home/toolchain/<digest> when it is there already. One at a time for each
   toolchain. */
void toolchain_probe(struct node_host *host, struct toolchain *toolchain, toolchain_probed_fn done, void *data);
void toolchain_probe_abort(struct toolchain *toolchain); /* the one under way, if any: done follows, with E_SHUTDOWN */

#endif
