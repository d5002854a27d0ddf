/* Between the engine's own files: sandboxes, their queues, and what they tell the world. */
#ifndef CORE_CORE_INTERNAL_H
#define CORE_CORE_INTERNAL_H

#include "code/code.h"
#include "core/core.h"
#include "core/events.h"
#include "core/feed.h"
#include "core/limits/limit_table.h"
#include "core/limits/metering.h"
#include "core/network/launcher_push.h"
#include "core/patterns.h"
#include "core/policy/ledger.h"
#include "guard/profiles.h"
#include "link/link.h"
#include "loop/loop.h"
#include "node/node.h"
#include "store/store.h"

enum {
    SANDBOX_ID_BYTES = 65,
    EVENTS_KEPT = 4096,         /* in memory; the store keeps more */
    AUDIT_RECORDS_KEPT = 1024,  /* in memory, for those who follow */
    EVENTS_UNSAVED_MAX = 16384, /* as many as the store lets wait */
    CACHED_BUILDS_KEPT = 64,    /* besides those in use */
    LOG_RECORDS_KEPT = 1000,    /* of one sandbox */
    LOG_KEPT_BYTES = 256 << 10, /* of text in them, all told */
    LOG_RECORD_MAX_BYTES = 4096,
    NODE_TEXT_MAX_BYTES = 255, /* names that a node says it has */
    ALARMS_BURST = 100,        /* events that one sandbox's nodes cause at once */
    ALARM_EVERY_MS = 500,      /* and in the long run */
    SUBSCRIBERS_MAX = 1024,
    JOBS_MAX = 256,                    /* waiting on one sandbox */
    MODULE_EXPORT_MAX_BYTES = 8 << 20, /* in one answer */
    FREEZE_REASON_BYTES = 128,
    OWNER_TEXT_BYTES = 16, /* "uid:4294967295" */
};

/* ---- answers.c: every answer leaves through here, in a later turn of the loop ---- */

struct answer {
    struct fair_item item; /* first, so that it leads back here */
    struct request *request;
    json_t *result;
    bool failed;
    struct error error;
};

struct answers {
    struct fair first;  /* of those whom no quota binds */
    struct fair others; /* by turns, as the first: one user's answers wait for one of each other user's */
};

void answers_init(struct answers *answers);
bool answers_are_waiting(const struct answers *answers);
void answer_ok(struct engine *engine, struct request *request, json_t *result); /* takes the reference */
void answer_error(struct engine *engine, struct request *request, const struct error *error, json_t *result);
void answer_fail(struct engine *engine, struct request *request, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Look soon whether closing may begin; for whoever just ended something that it waits for. */
void engine_wake(struct engine *engine);
void engine_try_close(struct engine *engine); /* of engine.c */

/* ---- audit.c ---- */

void audited_end(struct request *request, const struct error *error); /* it is being answered */
void audit_feed_record(void *engine, const char *line);

/* ---- sandboxes ---- */

#define SANDBOX_STATUS_LIST(X)                                                                                         \
    X(INITIALIZING, "initializing")                                                                                    \
    X(COMPILING, "compiling")                                                                                          \
    X(STARTING, "starting")                                                                                            \
    X(RUNNING, "running")                                                                                              \
    X(RELOADING, "reloading")                                                                                          \
    X(STOPPING, "stopping")                                                                                            \
    X(STOPPED, "stopped")                                                                                              \
    X(ERROR, "error")

enum sandbox_status {
#define X(name, text) STATUS_##name,
    SANDBOX_STATUS_LIST(X)
#undef X
        STATUS_COUNT
};

const char *status_name(enum sandbox_status status);
bool status_find(const char *name, enum sandbox_status *ret);
bool status_may_follow(enum sandbox_status from, enum sandbox_status to); /* the table of transitions */

enum restart_kind { RESTART_NEVER, RESTART_ON_FAILURE, RESTART_ALWAYS };

struct restart_policy {
    enum restart_kind kind;
    uint32_t max; /* restarts in a row; 0: no bound */
};

bool restart_policy_parse(const char *text, struct restart_policy *ret);
/* Whether to start again after an end, and after how long: 0.1 s doubling to 30 s. Pure. */
bool restart_policy_decide(const struct restart_policy *policy, bool crashed, uint32_t restarts_in_a_row,
                           uint64_t *ret_delay_ms);

/* What a caller asked for; everything needed to start the sandbox again. */
struct sandbox_config {
    char *source;
    char *app;        /* NULL: the project's own */
    char *supervisor; /* NULL: the application's */
    char *restart;    /* as written */
    json_t *env;
    const struct jail_profile *profile;
    struct jail_limits limits;
    struct limit_policies policies;
    bool ephemeral;                       /* it belongs to a run, and ends with it */
    bool watch;                           /* compile and reload whatever changes in the source */
    json_t *watch_ignore, *watch_include; /* patterns; NULL: none */
};

void sandbox_config_free(struct sandbox_config *config);
/* From a caller's checked parameters, or from what sandbox_config_to_json made. */
json_t *sandbox_config_to_json(const struct sandbox_config *config);
int sandbox_config_from_json(const struct guard_profiles *profiles, json_t *json, struct sandbox_config *ret,
                             struct error *reterr);

/* ---- alarms.c: events that nodes cause, told no faster than this grows ---- */

struct alarms {
    uint32_t left;
    uint64_t at_ms, suppressed;
};

/* Takes data over. */
void alarm_event(struct engine *engine, struct alarms *alarms, enum event_kind kind, const char *sandbox_id,
                 json_t *data);
/* What a node of a sandbox's tried and was refused. */
void alarm_violation(struct engine *engine, struct alarms *alarms, const char *sandbox_id, struct node *node,
                     const char *what, const char *detail);
/* The same of a node that worked for a user and no sandbox. */
void alarm_violation_of(struct engine *engine, struct alarms *alarms, uid_t owner, struct node *node, const char *what,
                        const char *detail);

/* ---- create_timing.c ---- */

/* What a create consists of, in turn, and what the answer calls it. */
#define CREATE_STEP_LIST(X)                                                                                            \
    X(OPENED, "opened_us")     /* the project, with its owner's rights */                                              \
    X(COMPILED, "compiled_us") /* or found compiled */                                                                 \
    X(SCANNED, "scanned_us")   /* for what its profile does not allow */                                               \
    X(NODE, "node_us")         /* booted, or taken and given limits and code */                                        \
    X(STARTED, "started_us")   /* the application's tree */                                                            \
    X(SAVED, "saved_us")       /* in the registry */

enum create_step {
#define X(name, key) CREATE_##name,
    CREATE_STEP_LIST(X)
#undef X
        CREATE_STEPS
};

struct create_timing {
    uint64_t begun_ns, last_ns, step_ns[CREATE_STEPS];
};

void create_timing_begin(struct create_timing *timing);
void create_timing_mark(struct create_timing *timing, enum create_step step); /* it is done */
json_t *create_timing_to_json(const struct create_timing *timing);

/* ---- charge.c: what of its owner's quotas a sandbox holds, from its creation until it is gone ---- */

struct charge {
    uid_t uid;
    uint64_t of[QUOTAS];
};

/* A new sandbox with its project; E_LIMIT names the quota that is used up. */
int charge_create(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret,
                  struct error *reterr);
/* The same for one that is there already, and stays whatever the quotas say. */
void charge_restored(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret);
/* For limits that are larger than the present ones. With `anyway` it is never refused. */
int charge_raise(struct engine *engine, struct charge *charge, const struct jail_limits *limits, bool anyway,
                 struct error *reterr);
void charge_lower(struct engine *engine, struct charge *charge, const struct jail_limits *limits);
void charge_give(struct engine *engine, struct charge *charge, enum quota quota);
void charge_give_all(struct engine *engine, struct charge *charge);

/* ---- quotas.c ---- */

/* Count a request among those of its caller until it is answered; E_LIMIT: there are too many. */
int request_admit(struct engine *engine, struct request *request, struct error *reterr);
void request_over(struct engine *engine, struct request *request); /* it is being answered */

/* What violations led to; see containment.h. */
struct containment {
    struct escalation escalation;
    enum guard_containment due; /* LOG: nothing */
    bool is_rolling_back;
    char what[128]; /* the violation that led to it */
};

/* ---- wall_clock.c ---- */

struct wall_clock {
    char boot_id[BOOT_ID_BYTES]; /* of the host's present boot; "": it can't be read */
    int64_t opened_wall_ms, opened_boot_ms;
    int64_t step_before_ms; /* since the daemon before was opened, in this run of the machine */
};

void wall_clock_open(struct engine *engine);
/* How far the wall clock was stepped forward since the daemon before this one began: files may look so much older. */
int64_t wall_clock_forward_ms(const struct engine *engine);
int64_t wall_clock_age_ms(int64_t at_ms); /* how long ago that was by the wall clock; never negative */

struct job;

/* A change of code that may still be taken back, by the agent itself. */
struct probation {
    char id[STORE_DIGEST_BYTES + 48]; /* of the transaction; "" for none */
    char build[STORE_DIGEST_BYTES];   /* what ran before */
    struct way_back *back;            /* to that; NULL: it is not known */
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
    struct job *reload;                        /* the one that changes its code now */
    bool code_known;                           /* the build is what runs; else the node has to be asked */
    bool code_asked;                           /* it has been, and has not answered yet */
    char booted_build[STORE_DIGEST_BYTES];     /* what its VM was started with, and sees; "" for none */
    char boot_id[BOOT_ID_BYTES];               /* of the host's boot in which its VM was started; "" for none */
    char last_reload[STORE_DIGEST_BYTES + 48]; /* the transaction that the build came from; "" for none */
    char previous_build[STORE_DIGEST_BYTES];   /* what ran before that; "" for none */
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
    void (*started)(struct sandbox *sandbox, const struct error *error);
    void (*ended)(struct sandbox *sandbox);
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
    struct series evals;

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

struct sandbox *sandbox_new(struct engine *engine, const char *id,
                            struct error *reterr); /* in the engine's map from now on */
void sandbox_remove(struct sandbox *sandbox);      /* out of the map; freed once its handles are closed */
struct sandbox *sandbox_find(struct engine *engine, struct request *request,
                             struct error *reterr); /* that the caller may see */
bool sandbox_visible(const struct sandbox *sandbox, const struct caller *caller);
/* The one that had this id and number when something was asked for; NULL when it is gone, even if its id is taken. */
struct sandbox *sandbox_again(struct engine *engine, const char *id, uint64_t number);
const char *owner_text(uid_t owner, char ret[OWNER_TEXT_BYTES]); /* as sandboxes and events have it */
void sandbox_set_status(struct sandbox *sandbox, enum sandbox_status status,
                        const char *reason);                                /* and tells the world */
void sandbox_set_error(struct sandbox *sandbox, const struct error *error); /* NULL clears it */
void sandbox_save(struct sandbox *sandbox, store_done_fn done, void *data);
int sandbox_restore(struct engine *engine, const struct store_sandbox *row, struct error *reterr);
json_t *sandbox_to_json(struct sandbox *sandbox);
void sandbox_start_ttl(struct sandbox *sandbox);

/* ---- permission.c ---- */

int caller_check_paths(const struct caller *caller, struct error *reterr);
/* Open a path with the caller's rights, and no more. */
void caller_open_project(struct engine *engine, const struct caller *caller, const char *path, link_project_fn done,
                         void *data);

/* ---- queue.c: what changes a sandbox waits its turn; what only looks or evaluates runs side by side between them ----
 */

struct job {
    struct job *next;
    struct sandbox *sandbox;
    struct request *request; /* NULL for the engine's own */
    bool exclusive;
    bool running;
    void (*start)(struct job *job);
    void (*abort)(struct job *job, const struct error *why); /* of a running one; job_finish follows, soon */
};

/* Start it when its turn comes. */
void job_submit(struct job *job);
/* Off the queue, and the next may start. The job's memory and its request's answer are the caller's affair. */
void job_finish(struct job *job);
/* Fail what waits, abort what runs. */
void jobs_abort_all(struct sandbox *sandbox, const struct error *why);

/* ---- tree.c: the node and application of a sandbox ---- */

extern const struct node_handler tree_node_handler;
/* Tell what a node of the sandbox's, its compiler's too, tried and was refused. */
void tree_violation(struct sandbox *sandbox, struct node *node, const char *what, const char *detail);

/* Start a node with the sandbox's build and the application on it; `started` is called once, unless tree_end is before
   that. */
void tree_start(struct sandbox *sandbox, void (*started)(struct sandbox *sandbox, const struct error *error));
void tree_go_on(struct sandbox *sandbox); /* with a start that waited for what names stand for */
/* Kill the node, if there is one; `ended` is called once it is gone with all it had. Not from inside unless there is
   none. */
void tree_end(struct sandbox *sandbox, void (*ended)(struct sandbox *sandbox));
/* Its VM ended with the machine, which is no failure of its own: any restart policy starts it again, without one it is
   stopped. */
void tree_ended_with_host(struct sandbox *sandbox);

/* ---- source_text.c: source text in place of a path: the parameters `code` and `file` ---- */

int source_text_check(const json_t *params, bool has_path, struct error *reterr);
/* As a project of one file; its fd is the receiver's. */
int source_text_open(const json_t *params, struct link_project *ret, struct error *reterr);

/* ---- restart.c, destroy.c ---- */

struct waiter {
    struct waiter *next;
    void (*done)(void *data, const struct error *error);
    void *data;
};

/* Remove the sandbox and all it had; calls off whatever it is doing. */
void sandbox_destroy(struct sandbox *sandbox, const char *reason, void (*done)(void *data, const struct error *error),
                     void *data);
void sandbox_schedule_restart(struct sandbox *sandbox, bool crashed);
void sandbox_restart_later(struct sandbox *sandbox);  /* whatever its restart policy says */
void sandbox_resume_restart(struct sandbox *sandbox); /* one that a killed daemon had begun */
void sandbox_jobs_over(
    struct sandbox *sandbox); /* the queue's word that it is empty while the sandbox is being destroyed */

/* ---- sweep.c ---- */

void sweep_at_start(struct engine *engine);
void sweep_if_due(struct engine *engine); /* whenever something has ended */

/* ---- freeze.c ---- */

/* Stop it whole, for the engine's own reasons; an event tells. False: it is frozen already, or not running. */
bool sandbox_freeze(struct sandbox *sandbox, const char *reason);

/* ---- notify.c: the webhook ---- */

/* "alert, violation", or "all": a bit for each kind. */
int notify_choose(const char *list, uint64_t *ret, struct error *reterr);
int notify_open(struct engine *engine, struct error *reterr);
void notify_event(struct engine *engine, enum event_kind kind, const json_t *event);
json_t *notify_to_json(struct engine *engine);

/* ---- engine.c ---- */

const char *event_slug(enum event_kind kind);
bool event_visible(const struct caller *caller, const json_t *event); /* of queries.c */

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
