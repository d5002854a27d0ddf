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
#include "core/limits/limits.h"
#include "core/limits/metering.h"
#include "core/network/launcher_push.h"
#include "core/patterns.h"
#include "core/policy/audit.h"
#include "core/policy/charge.h"
#include "core/policy/compile_bounds.h"
#include "core/policy/containment.h"
#include "core/policy/ledger.h"
#include "core/queue.h"
#include "core/reload/reload.h"
#include "core/sandbox/config.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"
#include "core/toolchains/toolchains.h"
#include "core/wall_clock.h"
#include "guard/profiles.h"
#include "link/link.h"
#include "loop/loop.h"
#include "node/node.h"
#include "store/store.h"

enum {
    EVENTS_KEPT = 4096,         /* in memory; the store keeps more */
    EVENTS_UNSAVED_MAX = 16384, /* as many as the store lets wait */
};

struct data_making;

struct sandbox {
    struct engine *engine;
    char id[SANDBOX_ID_BYTES];
    uint64_t number; /* of this daemon's: no other has it, while the id may be taken again */
    uid_t owner;
    bool persistent; /* it is in the registry */
    enum sandbox_status status;
    struct sandbox_config config;
    struct data_making *data_making;   /* its own volume is being made; NULL */
    struct toolchain_entry *toolchain; /* that it is compiled with and runs on */
    struct charge charge;
    struct sandbox_times times;
    json_t *last_error;
    struct feed *log;

    struct node *node;
    char boot_id[BOOT_ID_BYTES]; /* of the host's boot in which its VM was started; "" for none */
    uint32_t lost_guarantees;
    struct tree_state tree;
    struct code_state code;
    struct restarts restarts;
    struct ending ending;
    struct job_queue queue;
    struct limit_state limits;
    struct metering metering;
    struct network_state network;
    struct security_state security;
    struct watching *watching; /* NULL: its source is not watched; see watching.h */
    unsigned open_handles;
};

struct retired_profiles {
    struct retired_profiles *next;
    struct guard_profiles profiles;
};

void settings_free_retired(struct engine *engine); /* settings.c */
/* The profile of that name as the settings have it now, from a sandbox's next start on. */
void settings_renew_profile(struct sandbox *sandbox);

struct event_posts {
    struct webhook *sender; /* NULL: none */
    uint64_t kinds;         /* a bit for each kind of event that it is to have */
    struct alarms alarms;
};

/* One-shot jobs under way; see jobs/oneshot.h. */
struct oneshots {
    struct oneshot *first;
    struct alarms alarms;
};

struct engine_closing {
    bool is_begun;
    bool is_wanted;               /* closing begins when nothing is under way any more */
    unsigned open_parts;          /* sandboxes, and while closing everything else */
    void (*closed)(void *engine); /* set while closing: called when no part is open any more */
    void (*hook)(void *data);
    void *data;
};

struct engine_shutdown {
    unsigned left; /* sandboxes still to go */
    void (*hook)(void *data);
    void *data;
    struct request *request;
};

/* The builds that ran for long enough in a create, the last of them. */
enum { SETTLED_BUILDS = 64 };
struct settled_builds {
    char builds[SETTLED_BUILDS][STORE_DIGEST_BYTES];
    size_t next;
};

struct engine {
    uv_loop_t *loop;
    struct engine_config config;
    struct node_host host;
    struct store *store;
    struct compiler *compiler;
    struct watcher *watcher;
    struct pool *pool;
    struct map volumes;  /* all that the launcher has, by name: struct link_volume */
    struct names *names; /* NULL: no profile lists any */
    struct guard_profiles profiles;
    struct retired_profiles *retired; /* of earlier settings: sandboxes refer to them until they start again */
    struct settings_source settings;
    json_t *scans; /* what was found in builds; see containment.h */
    struct toolchains toolchains;

    bool has_run; /* in this home before */
    bool ready;   /* recovered, and connected to a launcher once */
    bool link_up;
    int64_t started_at_ms;
    struct wall_clock wall_clock;
    uint64_t run_count;
    uint8_t reload_key[32];

    struct map sandboxes;
    uint64_t sandboxes_made; /* since the start */
    struct build_shelf builds;
    struct settled_builds settled;
    struct oneshots oneshots;
    unsigned asking;                 /* nodes, what code they run */
    unsigned listings;               /* under way */
    struct reload_job *with_room;    /* reloads that hold BEAM files in memory; see reload_room.c */
    struct states_room *with_states; /* restarts that hold states in memory; see states_room.c */
    struct loop_turns lists;
    struct back_to_back evals;

    struct feed *events;
    struct feed_pump pump;
    struct event_posts webhook;
    struct audit_state trail;
    struct patterns patterns; /* of what was no sandbox's, or of one that is gone */
    struct answers answers;
    uv_idle_t answer_idle; /* active while answers wait */

    uv_timer_t meter_timer;
    struct cpu_watch cpu_watch;
    struct push_timer pushes;
    struct engine_closing closing;
    struct engine_shutdown shutdown;
};

/* ---- engine.c ---- */

const char *event_slug(enum event_kind kind);

/* Takes data over. The event is its sandbox's owner's for good; one without a sandbox, or of one that is in no map, is
   for admins. */
void engine_event(struct engine *engine, enum event_kind kind, const char *sandbox_id, json_t *data);
/* One without a sandbox that is a user's nevertheless. */
void engine_event_of(struct engine *engine, enum event_kind kind, uid_t owner, json_t *data);
void engine_log_error(struct engine *engine, const char *event, const char *sandbox_id, const struct error *error);

/* ---- closing.c ---- */

/* A part of the engine, one of whatever has a callback to come: the engine is closed when every open part is. */
void engine_part_open(struct engine *engine);
void engine_part_closed(void *engine);
/* Close, if that is wanted and nothing is under way any more. */
void engine_try_close(struct engine *engine);

/* ---- answers.c ---- */

/* Have engine_try_close in the next turn: something that closing waits for has just ended. */
void engine_wake(struct engine *engine);

/* ---- sandbox.c ---- */

json_t *problem_json(const struct error *error); /* what `last_error` holds */

#endif
