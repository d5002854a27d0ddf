/* watching: a sandbox whose project is compiled and reloaded whenever it changes. watching.c keeps an eye on the
   source, watch_reload.c brings what changed into the running code, watch.c is the operation. */
#ifndef CORE_WATCH_WATCHING_H
#define CORE_WATCH_WATCHING_H

#include "core/core_internal.h"
#include "watch/watch.h"

enum {
    WATCH_PATHS_TOLD = 20, /* of files that changed, in events and answers */
    WATCH_MODULES_TOLD = 50,
    WATCH_DIAGNOSTICS_TOLD = 20,
};

struct watching {
    struct engine *engine;
    struct sandbox *sandbox; /* NULL once it is over: then it only waits for what is under way */
    char id[SANDBOX_ID_BYTES];
    unsigned users; /* the timer, and answers to come */
    uv_timer_t timer;

    /* The source. */
    struct watch *watch; /* NULL: not open, or a stream */
    bool is_stream;      /* signed by the launcher, since the daemon can't look */
    bool has_looked;
    bool is_asking; /* the launcher */
    bool is_stale;  /* what it will answer: it was asked before watching was turned on anew */
    uint64_t signature;
    unsigned failures;        /* to open the source, in a row */
    struct error paused;      /* why nothing is seen now; E_NONE: it is */
    char polling[160];        /* why it is polled; "" */
    enum watch_state told;    /* the last state that the world heard of */
    struct request *beginner; /* the request that turned it on and waits for the first look */

    /* What changed since the code that runs. */
    bool is_due;
    json_t *changed; /* the first of the paths */
    size_t changed_count;
    uint64_t noticed_us;

    /* Bringing it in. */
    bool is_working;
    struct request reload;
    json_t *bringing; /* the paths of the reload under way */
    size_t bringing_count;
    uint64_t began_us;
    unsigned attempts;    /* in a row that are tried again */
    struct error passing; /* why the last of them failed */
    json_t *failure;      /* of the last reload, with its diagnostics; NULL: it was good */
    json_t *last;         /* the last good one, as its event told it */
    uint64_t reload_count, failure_count;
    void (*stopped)(void *data); /* for the request that turned it off, after the reload under way; NULL: none */
    void *stopped_data;
};

/* ---- watching.c ---- */

/* Begin, by the standing permission under the sandbox's id. Nothing when it is on already. */
void watching_begin(struct sandbox *sandbox);
/* Once more, by the permission just given and with other patterns perhaps. What is being brought in goes on. */
void watching_renew(struct sandbox *sandbox);
void watching_end(struct sandbox *sandbox); /* the permission stays */
/* End it, and be told when nothing that is saved from now on can be loaded any more. */
void watching_stop(struct sandbox *sandbox, void (*stopped)(void *data), void *data);
/* The service ends: the request that waits for the first look is told. */
void watching_call_off(struct sandbox *sandbox, const struct error *why);
/* After something that may have been waited for: the sandbox runs, or an attempt is to be made again. */
void watching_wake(struct sandbox *sandbox);
/* Look for the source again: what was opened is not there any more. */
void watching_reopen(struct watching *watching, const struct error *why);
void watching_use(struct watching *watching);
void watching_release(struct watching *watching);
enum watch_state watching_state(const struct watching *watching);
const char *watching_detail(const struct watching *watching); /* why it is not as it should be; NULL: it is */

/* ---- watch.c ---- */

json_t *watching_json(struct sandbox *sandbox);

/* ---- watch_reload.c ---- */

/* Bring in what is due, if it can be now. */
void watching_bring(struct watching *watching);
/* What was loaded was taken back: disk and running code differ until the next save. */
void watching_taken_back(struct sandbox *sandbox, const struct error *why);

#endif
