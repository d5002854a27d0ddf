/* sandbox: one sandbox, from new to gone. */
#ifndef CORE_SANDBOX_SANDBOX_H
#define CORE_SANDBOX_SANDBOX_H

#include "core/core.h"
#include "core/sandbox/status.h"
#include "store/store.h"

struct engine;
struct sandbox;
struct sandbox_config;

enum {
    SANDBOX_ID_BYTES = 65,
    CACHED_BUILDS_KEPT = 64, /* builds, besides those in use */
    FREEZE_REASON_BYTES = 128,
    OWNER_TEXT_BYTES = 16, /* "uid:4294967295" */
};

struct sandbox_times {
    int64_t created_at_ms, updated_at_ms, started_at_ms; /* by the wall clock, to be shown */
    int64_t born_ms, started_ms; /* by the machine's clock, which decides; before its start for an earlier run's */
};

/* Restarts that the sandbox's policy asks for. */
struct restarts {
    struct restart_policy policy;
    uint32_t count, in_a_row;
    uv_timer_t backoff;
};

/* How the sandbox is to go. */
struct ending {
    bool is_destroying;
    bool is_punished;       /* for what it did: it has no time to stop in order */
    bool is_stillborn;      /* it is destroyed because its create failed: only that is told */
    struct waiter *waiters; /* for the end of destroying */
    uv_timer_t ttl;
};

struct sandbox *sandbox_new(struct engine *engine, const char *id,
                            struct error *reterr); /* in the engine's map from now on */
void sandbox_remove(struct sandbox *sandbox);      /* out of the map; freed once its handles are closed */
struct sandbox *sandbox_find(struct engine *engine, struct request *request,
                             struct error *reterr); /* that the caller may see */
bool sandbox_visible(const struct sandbox *sandbox, const struct caller *caller);
/* What a callback keeps of a sandbox that may be gone when it comes. sandbox_deref: NULL when it is gone, also if its
   id was taken again. */
struct sandbox_ref {
    struct engine *engine;
    char id[SANDBOX_ID_BYTES];
    uint64_t number;
};
struct sandbox_ref sandbox_ref(const struct sandbox *sandbox);
struct sandbox *sandbox_deref(const struct sandbox_ref *ref);
/* E_CONFLICT unless its application runs and is not frozen. */
int sandbox_check_runs(const struct sandbox *sandbox, struct error *reterr);
const char *owner_text(uid_t owner, char ret[OWNER_TEXT_BYTES]); /* as sandboxes and events have it */
void sandbox_set_status(struct sandbox *sandbox, enum sandbox_status status,
                        const char *reason);                                /* and tells the world */
void sandbox_set_error(struct sandbox *sandbox, const struct error *error); /* NULL clears it */
void sandbox_save(struct sandbox *sandbox, store_done_fn done, void *data);
/* The same, with another status than it has: the one that the next daemon is to find. */
void sandbox_save_as(struct sandbox *sandbox, enum sandbox_status status, store_done_fn done, void *data);
int sandbox_restore(struct engine *engine, const struct store_sandbox *row, struct error *reterr);
json_t *sandbox_to_json(struct sandbox *sandbox);
void sandbox_start_ttl(struct sandbox *sandbox);
void sandbox_stop_timers(struct sandbox *sandbox); /* what was to happen by itself does not */

/* ---- create_check.c ---- */

/* Whether the request can be served now. On success *ret is to be freed. */
int create_check(struct engine *engine, struct request *request, struct sandbox_config *ret, struct error *reterr);

/* How long its application must run to be created: as the request says, or as the settings say for a build that has not
   run for so long yet. */
uint64_t create_settle_ms(const struct sandbox *sandbox, const struct request *request);
void create_settled(struct sandbox *sandbox); /* it has run for so long; later starts of it need not */

/* ---- renew.c ---- */

/* Whether a restart is to begin with what its source is now, read with the caller's rights. */
bool renew_is_wanted(const struct sandbox *sandbox, const struct request *restart);
/* Compile that, then go on; or answer the request with what was wrong with it. */
void renew(struct sandbox *sandbox, struct request *restart,
           void (*go_on)(struct sandbox *sandbox, struct request *restart));

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

/* ---- queries.c ---- */

bool event_visible(const struct caller *caller, const json_t *event);

#endif
