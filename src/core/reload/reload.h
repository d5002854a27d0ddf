/* reload: a running sandbox's code changed in one transaction, and what follows from it. reload.c leads a transaction;
   live_code.c keeps what the engine knows of the code that runs. */
#ifndef CORE_RELOAD_RELOAD_H
#define CORE_RELOAD_RELOAD_H

#include "code/code.h"
#include "core/core.h"
#include "store/store.h"

struct engine;
struct sandbox;

enum {
    RELOAD_ID_BYTES = STORE_DIGEST_BYTES + 48,
    MODULE_EXPORT_MAX_BYTES = 8 << 20, /* in one answer */
};

/* A change of code that may still be taken back, by the agent itself. */
struct probation {
    char id[RELOAD_ID_BYTES];       /* of the transaction; "" for none */
    char build[STORE_DIGEST_BYTES]; /* what ran before */
    struct way_back *back;          /* to that; NULL: it is not known */
};

struct reload_job;

/* What the engine knows of the code that a sandbox runs. */
struct code_state {
    struct build build;             /* what runs */
    struct shared_history *history; /* NULL: it runs what it began with */
    struct probation probation;
    struct reload_job *reload; /* the one that changes the code now */
    bool is_known;             /* the build is what runs; else the node has to be asked */
    bool is_asked;             /* the node has been asked, and has not answered yet */
    void (*told)(void *data);  /* the job that waits until the build is what runs; NULL: none */
    void *told_data;
    char booted_build[STORE_DIGEST_BYTES];   /* what the VM was started with, and sees; "" for none */
    char last_reload[RELOAD_ID_BYTES];       /* the transaction that the build came from; "" for none */
    char previous_build[STORE_DIGEST_BYTES]; /* what ran before that; "" for none */
};

/* ---- reload_id.c ---- */

int reload_key_open(struct engine *engine, struct error *reterr);
void reload_id_make(const struct sandbox *sandbox, const char *digest, char ret[RELOAD_ID_BYTES]);
/* The build that it names; false when no daemon of this home made it for this sandbox. */
bool reload_id_read(const struct sandbox *sandbox, const char *id, char ret_digest[STORE_DIGEST_BYTES]);

/* ---- live_code.c ---- */

/* Another build that differs in nothing that is loaded: it counts from the next start on. */
void live_code_set_build(struct sandbox *sandbox, struct build *build, store_done_fn done, void *data);
/* The changes have been made: they are the sandbox's history and build from now on, on probation. */
void live_code_adopt(struct sandbox *sandbox, const char *id, struct adoption *adoption, struct build *build);
/* The agent says how a probation ended. */
void live_code_settled(struct sandbox *sandbox, const struct term *term);
/* A node that ran before this daemon did: ask what its code is, since a transaction may have ended meanwhile. */
void live_code_ask(struct sandbox *sandbox);
/* Whether its build is what it runs. If not, the node has been asked, and it may be so soon. */
bool live_code_is_known(struct sandbox *sandbox);
/* Call told, once: when the build is known to be what runs, when the node failed to say, or when the node is gone. It
   is not called from inside. One caller at a time. */
void live_code_await(struct sandbox *sandbox, void (*told)(void *data), void *data);
void live_code_forgo(struct sandbox *sandbox); /* told is not called any more */
void live_code_gone(struct sandbox *sandbox);  /* the node */
/* Its sandbox ends, or starts anew: nothing is on probation any more. */
void live_code_forget(struct sandbox *sandbox);
void live_code_restore(struct engine *engine, const struct store_history *row);
/* After all of them, at the start: the way back of a probation that an earlier daemon began. */
void live_code_restored(struct sandbox *sandbox);

/* ---- reload_sync.c ---- */

/* What a change brought and what it replaced, onto the disk for good; no caller waits for it. */
void reload_sync(const struct sandbox *sandbox, const struct change_set *changes);

/* ---- reload.c ---- */

/* Back to a build that ran before, all of it, as a rollback; "": there is none, which is its answer. */
void reload_to_build(struct engine *engine, struct request *request, const char *digest);

/* As engine_reload for a sandbox that has no VM: what it brings runs from the next start on. */
void reload_at_rest(struct engine *engine, struct request *request);

/* Tell the reload that waits for the end of a probation, if one does. */
void reload_settled(struct sandbox *sandbox, bool committed, const struct error *why);
/* The request is withdrawn: its reload ends early, unless the agent has it already. */
void reload_call_off(struct sandbox *sandbox, const struct request *request, const struct error *why);
/* The node ended, and can't say any more how a probation ends. */
void reload_lost(struct sandbox *sandbox, const struct error *why);

#endif
