/* worker: a compiler node, from its boot to its end. It serves one project and one sandbox, is kept for a while after
   each compilation, and thrown away on any doubt. */
#ifndef COMPILE_WORKER_H
#define COMPILE_WORKER_H

#include "compile/cache/objects.h"
#include "compile/compile.h"
#include "compile/project/model.h"
#include "compile/project/places.h"

enum { WORKER_USES_MAX = 500 }; /* compilations; then a fresh one, so that nothing leaks for ever */

struct worker;

struct worker_user { /* the job that waits for the worker now */
    void (*ready)(void *data, struct worker *worker);
    void (*violation)(void *data, struct node *node, const char *what, const char *detail);
    void (*gone)(void *data, const struct error *error); /* the worker stays in memory until it rests */
};

struct worker {
    struct compiler *compiler;
    const struct toolchain *toolchain;
    struct worker *next; /* of the compiler's, the newest first */
    struct node *node;
    struct toolchain_rebar3 rebar3; /* that it was started with; all zero: none */
    uv_timer_t idle;
    uint64_t idle_since_ms;
    const struct worker_user *user;
    void *user_data;
    uint64_t memory_bytes;  /* its limit */
    uint64_t charged_bytes; /* of it, what its owner's quota holds */
    uid_t owner;            /* whose quota it is */
    bool is_spare;          /* without a user yet */
    bool was_spare;         /* until its first user took it */
    bool is_being_weighted; /* gets the CPU share of a worker with a user; ready waits for it */
    bool is_ready;          /* booted, and warmed up if it is a spare */
    bool is_mounted;        /* has its project */
    bool is_doubtful;
    bool is_ending;
    unsigned uses;
    struct model model; /* of its project, as it knows it */
    struct map modules; /* "app/module" → allocated checksum of what it has */
};

/* The projects that were compiled lately or are being compiled. */
struct workspace {
    struct compiler *compiler;
    char *key;
    struct compile_job *jobs; /* the first is under way */
    struct worker *worker;    /* NULL: none yet, or no more */
    struct tree tree;         /* as its last compilation saw it */
    json_t *facts;            /* of its last build, as far as they are kept; NULL: they are read from it */
    char build[STORE_DIGEST_BYTES];
    char copy[PATH_MAX]; /* our own folder for a project that comes as a copy, empty between compilations; "": none */
};

struct compiler {
    struct node_host *host;
    struct store *store;
    struct compiler_settings settings;
    void (*wake)(void *data);
    void *wake_data;
    struct objects objects;
    struct compile_room *room;
    struct map workspaces;
    struct worker *workers;
    struct compile_turn *waiting; /* longest first: their owners have as many under way as they may */
    uint64_t texts;               /* that were compiled without a sandbox so far */
    bool quiescing;
};

/* What a compilation asks of its worker. */
struct worker_needs {
    const struct toolchain *toolchain;
    uint64_t memory_bytes;
    uid_t owner;
};

uint64_t worker_default_memory(void);

/* A worker for a user: a spare of the toolchain, or one that boots now. ready follows in a later turn of the loop, or
   gone. */
struct worker *worker_take(struct compiler *compiler, const struct worker_needs *needs, const struct worker_user *user,
                           void *data, struct error *reterr);
/* Whether rebar3 came, went or changed since it started. */
bool worker_is_outdated(const struct worker *worker);
/* The same worker again, for the next compilation of its project. */
void worker_take_again(struct worker *worker, const struct worker_user *user, void *data);
/* Done with it for now. Kept while it is good and there is room. One that is gone is freed only here. */
void worker_rest(struct worker *worker);
void worker_kill(struct worker *worker, const char *why); /* gone follows, if it has a user */
/* Its connection broke: it should be about to end, and is ended if it does not. gone follows. */
void worker_await_end(struct worker *worker);
/* Boot a spare of the toolchain if there should be one and is none. */
void worker_refill(struct compiler *compiler, const struct toolchain *toolchain);

void worker_set_module(struct worker *worker, const char *app, const char *module, const char *checksum);
const char *worker_module(const struct worker *worker, const char *app, const char *module); /* checksum or NULL */

/* The worker ended: its workspace must not use it any more. Of compiler.c. */
void compiler_worker_gone(struct compiler *compiler, struct worker *worker);

#endif
