/* Between the engine's own files: the engine and its sandboxes. What a room offers to others is in the room's headers;
   those that are included here have what these structs are made of. */
#ifndef CORE_CORE_INTERNAL_H
#define CORE_CORE_INTERNAL_H

#include "code/code.h"
#include "core/alarms.h"
#include "core/answers.h"
#include "core/core.h"
#include "core/events.h"
#include "core/feed.h"
#include "core/limits/metering.h"
#include "core/network/launcher_push.h"
#include "core/patterns.h"
#include "core/policy/charge.h"
#include "core/policy/containment.h"
#include "core/policy/ledger.h"
#include "core/reload/reload.h"
#include "core/sandbox/config.h"
#include "core/sandbox/create_timing.h"
#include "core/sandbox/status.h"
#include "core/wall_clock.h"
#include "guard/profiles.h"
#include "link/link.h"
#include "loop/loop.h"
#include "node/node.h"
#include "store/store.h"

enum {
    SANDBOX_ID_BYTES = 65,
    EVENTS_KEPT = 4096,         /* in memory; the store keeps more */
    EVENTS_UNSAVED_MAX = 16384, /* as many as the store lets wait */
};

struct sandbox {
    struct engine *engine;
    char id[SANDBOX_ID_BYTES];
    uint64_t number; /* of this daemon's: no other has it, while the id may be taken again */
    enum sandbox_status status;
    struct sandbox_config config;
    struct restart_policy policy;
    uid_t owner;
    struct charge charge;
    int64_t created_at_ms, updated_at_ms, started_at_ms; /* by the wall clock, to be shown */
    int64_t born_ms, started_ms; /* by the machine's, which decides; before its start for one of an earlier run */
    uint32_t restart_count, restarts_in_a_row;
    bool persistent; /* it is in the registry */

    struct build build;             /* what runs */
    struct shared_history *history; /* NULL: it runs what it began with */
    struct probation probation;
    struct reload_job *reload;     /* the one that changes its code now */
    bool code_known;               /* the build is what runs; else the node has to be asked */
    bool code_asked;               /* it has been, and has not answered yet */
    void (*code_told)(void *data); /* the job that waits until the build is what runs; NULL: none */
    void *code_told_data;
    char booted_build[STORE_DIGEST_BYTES];   /* what its VM was started with, and sees; "" for none */
    char boot_id[BOOT_ID_BYTES];             /* of the host's boot in which its VM was started; "" for none */
    char last_reload[RELOAD_ID_BYTES];       /* the transaction that the build came from; "" for none */
    char previous_build[STORE_DIGEST_BYTES]; /* what ran before that; "" for none */
    struct node *node;
    uint32_t lost_guarantees;
    char *app_name, *supervisor_module, *app_pid, *supervisor_pid;
    json_t *last_error;
    struct metering metering;
    struct change_job *change;   /* of its limits, under way */
    uint64_t throttled_until_ms; /* 0: it is not */
    struct push_schedule pushes;
    uint64_t names_due_ms;    /* until when its start waits for what names stand for; 0: it does not */
    struct error limit_error; /* why its VM is being ended; E_NONE: it is not for a limit */
    struct feed *log;
    struct alarms alarms;         /* of violations */
    struct alarms limit_alarms;   /* apart, so that the others do not drive these out */
    struct alarms network_alarms; /* likewise: of refused connections */
    struct containment containment;
    struct patterns patterns;
    bool freezing; /* the launcher has been asked to, for the engine's own reasons */

    struct job *jobs; /* oldest first */
    bool held;        /* none of them starts now */
    bool destroying;
    bool stillborn; /* destroying, because its create failed: the world hears of that instead */
    struct waiter *destroy_waiters;

    /* The tree being started or ended; see tree.c. */
    void (*started)(void *data, const struct error *error);
    void *started_data;
    void (*ended)(void *data);
    void *ended_data;
    struct kept_states *states; /* that it is to have; NULL: none */
    bool starts_fresh;          /* of a restart under way: it keeps no states */
    bool start_asked;
    bool is_warm; /* its node waited in the pool */
    struct create_timing timing;
    bool stop_seen, stop_crashed;
    char stop_text[512];

    struct watching *watching; /* NULL: its source is not watched; see watching.h */
    uv_timer_t ttl, backoff;
    unsigned open_handles;
};

struct engine {
    uv_loop_t *loop;
    struct engine_config config;
    struct node_host host;
    struct store *store;
    struct compiler *compiler;
    struct build_keeper keeper;
    struct ledger ledger; /* of builds */
    struct watcher *watcher;
    struct pool *pool;
    struct names *names; /* NULL: no profile lists any */
    struct map sandboxes;
    uint64_t sandboxes_made;  /* since the start */
    uint64_t builds_at_sweep; /* that had been written when builds were swept last */
    bool is_sweeping;         /* the pool reads which builds are kept */
    bool is_removing;         /* builds of users who had no room */
    bool is_sweeping_beams;   /* bytes of versions */
    struct feed *events;
    struct feed_pump pump;
    struct guard_profiles profiles;
    json_t *scans; /* what was found in builds; see containment.h */
    struct audit *audit;
    struct feed *audit_feed;
    bool has_run;           /* in this home before */
    unsigned audit_readers; /* who read the trail's files now, and may go on to follow it */
    unsigned admitting;     /* operations that wait to be in the audit trail */
    bool ready;             /* recovered, and connected to a launcher once */
    bool link_up;
    bool closing;
    struct error toolchain_error; /* code E_NONE: it is usable */
    bool toolchain_probing;
    struct toolchain_waiter *toolchain_waiters;
    struct patterns patterns; /* of what was no sandbox's, or of one that is gone */
    struct webhook *webhook;  /* NULL: none */
    uint64_t webhook_kinds;   /* a bit for each kind of event that it is to have */
    struct alarms webhook_alarms;
    struct oneshot *oneshots; /* under way; see jobs/oneshot.h */
    struct alarms oneshot_alarms;
    unsigned asking;   /* nodes, what code they run */
    unsigned listings; /* under way */
    uint8_t reload_key[32];
    int64_t started_at_ms;
    struct wall_clock wall_clock;
    uint64_t run_count;
    struct back_to_back evals;

    uv_timer_t meter_timer;
    uv_timer_t cpu_watch_timer;
    uint64_t cpu_watch_ns, cpu_watch_used_ns; /* when each node was last looked at; the sum of the nodes' CPU time at
                                                 the last look at that */
    struct meter_company company;
    unsigned workers;                     /* sandboxes that worked at the last look */
    uint64_t machine_ns, machine_idle_ns; /* when it was last looked at, and how long its cores had been idle by then */
    uv_timer_t push_timer;
    uint64_t push_due_ms;  /* when it goes off */
    uv_idle_t answer_idle; /* active while answers wait */
    struct answers answers;

    bool close_wanted;            /* closing begins when nothing is under way any more */
    unsigned open_parts;          /* sandboxes, and while closing everything else */
    void (*closed)(void *engine); /* set while closing: called when no part is open any more */
    void (*closed_hook)(void *data);
    void *closed_data;
    unsigned shutdown_left; /* sandboxes still to go */
    void (*shutdown_hook)(void *data);
    void *shutdown_data;
    struct request *shutdown_request;
};

/* ---- engine.c ---- */

/* Close, if that is wanted and nothing is under way any more. */
void engine_try_close(struct engine *engine);
/* Do that in the next turn: something that closing waits for has just ended. Of answers.c. */
void engine_wake(struct engine *engine);

const char *event_slug(enum event_kind kind);

struct toolchain_waiter {
    struct toolchain_waiter *next;
    void (*done)(void *data, const struct error *error);
    void *data;
};

/* Find and probe the toolchain unless that is done already; then done is called from inside. */
void engine_need_toolchain(struct engine *engine, void (*done)(void *data, const struct error *error), void *data);
/* Takes data over. The event is its sandbox's owner's for good; one without a sandbox, or of one that is in no map, is
   for admins. */
void engine_event(struct engine *engine, enum event_kind kind, const char *sandbox_id, json_t *data);
/* One without a sandbox that is a user's nevertheless. */
void engine_event_of(struct engine *engine, enum event_kind kind, uid_t owner, json_t *data);
void engine_log_error(struct engine *engine, const char *event, const char *sandbox_id, const struct error *error);

json_t *problem_json(const struct error *error); /* what `last_error` holds */

#endif
