/* core: the engine. Sandboxes, their state machine and operation queues, events, recovery. Knows nothing of HTTP or of
   the CLI. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/base.h"
#include "compile/compile.h"
#include "core/operations.h"
#include "quota/quota.h"

struct engine;

struct caller {
    uid_t uid;
    gid_t gid;
    enum role role;
    pid_t pid;         /* 0 when it is not known */
    int peer_fd;       /* the caller's unix socket, borrowed for the request's life; -1 when it has none */
    bool is_service;   /* the engine itself, for reasons of its own */
    const char *grant; /* the standing permission that it acts by; NULL for all callers but the engine itself */
};

/* One caller's wish, from any transport. The transport owns it; the engine answers with `done` exactly once, never from
   inside the call that submitted it, and does not touch it afterwards. */
struct request {
    json_t *params; /* checked and completed against the operation's row: see ops_check */
    struct caller caller;
    void (*done)(struct request *request, json_t *result, const struct error *error);
    /* Streams only: one item to the reader, reference taken over. */
    void (*item)(struct request *request, json_t *item);
    /* The same for an item that is printed already, with its number, 0 for none; borrowed. NULL: `item` is used. */
    void (*item_text)(struct request *request, uint64_t seq, const char *text, size_t size);
    /* Whether the reader has taken enough to be sent more; NULL: always. What is sent without room may be too much. */
    bool (*has_room)(struct request *request);
    size_t items_max;           /* of a list: more than the reader gets need not be made; 0: it gets all */
    bool is_prompt;             /* the engine's own: its items may come from inside the call that makes them */
    void *transport;            /* the transport's own */
    const char *correlation_id; /* by which the caller and the audit trail know it; NULL: none */

    /* The engine's. A transport whose reader has gone calls `cancel` if set; `done` still follows. */
    void (*cancel)(struct request *request);
    void (*more)(struct request *request); /* if set, a transport that had no room calls it when it has some */
    void *state;
    struct audited *audited; /* NULL: it is not in the audit trail */
    bool is_counted;         /* among its caller's requests under way */
};

/* `done`'s result: on success the operation's JSON (a reference handed over); on failure NULL or the object for the
   problem's `result` member (failed compilations), also handed over. */

struct engine_config {
    const char *home;
    const char *otp;       /* root of the OTP installation, or NULL: found through PATH */
    const char *elixir;    /* the same for Elixir; may be absent */
    const char *agent_dir; /* holds the agent's ebin */
    uint32_t agent_stamp;  /* identifies the agent besides its folder */
    uint32_t sandboxes_max;
    uint64_t heartbeat_ms;          /* between two beats of a node */
    uint64_t heartbeat_deadline_ms; /* a beat later than this means the agent is suspended, starved or gone */
    uint64_t boot_deadline_ms;
    uint64_t settle_ms; /* how long a build that never ran must run to be created */
    uint64_t compile_deadline_ms;
    uint64_t compile_deadline_max_ms, compile_memory_max_bytes; /* that callers may ask for */
    struct compiler_settings compiler;
    uint32_t warm_nodes; /* that are booted ahead of time and wait for sandboxes, at most */
    uint64_t grace_ms;   /* how long a node waits for a daemon before it halts itself */
    uint64_t audit_file_max_bytes;
    uint32_t audit_files_kept;
    const char *webhook; /* address that events are posted to; NULL: none */
    const char *webhook_secret, *webhook_events;
    const char *profiles;                /* the user's own, as guard_profiles_read reads them; NULL: none */
    const char *toolchains;              /* besides the system's, as toolchains_open reads them; NULL: none */
    const char *toolchain;               /* the name of the default; NULL: the system's */
    struct quotas *quotas;               /* what callers may have; must live longer than the engine. NULL: no bounds */
    const struct principals *principals; /* likewise; NULL: each uid is its own */
    const struct log *log;
};

void engine_config_defaults(struct engine_config *ret);

int engine_open(uv_loop_t *loop, const struct engine_config *config, struct engine **ret, struct error *reterr);
/* Take no more requests and call off those under way: each is answered, with E_SHUTDOWN, soon. */
void engine_quiesce(struct engine *engine);
/* After that, once every request is answered: close everything; nodes go on running. */
void engine_close(struct engine *engine, void (*closed)(void *data), void *data);

/* One function per operation that the engine itself carries out; operations.h lists them. */
typedef void engine_fn(struct engine *engine, struct request *request);

struct audit_subject {
    const char *op;
    enum audit_kind kind;
};

/* Run an operation whose request is checked, once the audit trail has it. */
void engine_carry_out(struct engine *engine, const struct audit_subject *subject, struct request *request,
                      engine_fn *run);
/* Answer one that may not be run; the audit trail hears of it. */
void engine_refuse(struct engine *engine, const struct audit_subject *subject, struct request *request,
                   const struct error *error);

#define X(name) engine_fn engine_##name;
ENGINE_OPS(X)
#undef X

/* Where the settings come from. `read` runs on a thread and changes nothing. One that was read is adopted or discarded
   on the loop's thread; `adopt` adds to *told: `changed` is what has effect from now on, `at_start` what has none. */
struct settings_source {
    int (*read)(void *data, void **ret, const struct engine_config **ret_config, struct error *reterr);
    void (*adopt)(void *data, void *read, json_t *told);
    void (*discard)(void *data, void *read);
    void *data;
};

/* For engine_reload_config. */
void engine_on_reload_config(struct engine *engine, const struct settings_source *source);

/* Set by engine_shutdown: the daemon's main ends the program once the answer is out. */
void engine_on_shutdown(struct engine *engine, void (*hook)(void *data), void *data);

#endif
