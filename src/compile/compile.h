/* compile: sources in, a build in the store out, by way of a jailed compiler node. Knows nothing of reloading. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H

#include <jansson.h>

#include "base/base.h"
#include "node/node.h"
#include "quota/quota.h"
#include "store/store.h"

enum source_kind {
    SOURCE_MIX,
    SOURCE_REBAR3,
    SOURCE_FOLDER,
    SOURCE_FILE,
    SOURCE_EBIN,
    SOURCE_RELEASE,
    SOURCE_COMPILED, /* a folder of applications that are compiled: NAME/ebin, or lib/NAME/ebin */
};

const char *source_kind_name(enum source_kind kind); /* as the agent calls it */
/* What lies in the folder: mix.exs, rebar.config or src/, a release, beams, or just files. Blocking: it may look into
   many folders. */
enum source_kind source_detect(int folder);
/* Whether it is SOURCE_EBIN, which takes no more than a look at a few folders. */
bool source_is_ebin(int folder);

/* Files of a build besides its applications' folders; a dot is in no application's name. */
#define BUILD_FACTS_FILE "build.json"
#define BUILD_BRIEF_FILE "brief.json" /* what sandboxes keep of it: a daemon that starts reads no more */
#define BUILD_CONFIG_FILE "build.config"
enum { BUILD_CONFIG_MAX_BYTES = 4 << 20, BUILD_FACTS_MAX_BYTES = 16 << 20 };

/* A finished build, and what its build.json says in brief: what is kept in memory while a sandbox runs it. What was
   made from what (`sources`), and the report, may take megabytes: they are read again where they are needed. */
struct build {
    char digest[STORE_DIGEST_BYTES];
    json_t *facts; /* apps[], main, language, supervisor, modules[], has_config, bytes, mix */
};

/* Blocking, for as long as the project is large. */
int build_read(const struct store *store, const char *digest, struct build *ret, struct error *reterr);
void build_free(struct build *build);
/* The same for a build that pool threads have just used: releases its facts elsewhere, if they are this build's alone.
 */
void build_discard(uv_loop_t *loop, struct build *build);
/* All that it says of itself; path is its folder. A new reference. Blocking. */
int build_read_facts(const char *path, json_t **ret, struct error *reterr);
/* What is kept of them, from a file of its own where the build has one. */
int build_read_brief(const char *path, json_t **ret, struct error *reterr);
uint64_t build_bytes(const json_t *facts); /* that it takes on the disk; 0: unknown */
json_t *build_brief(const json_t *facts);  /* a new reference; NULL without memory */
/* The description as a file of the build. E_TOO_LARGE beyond BUILD_FACTS_MAX_BYTES. To be freed. */
int build_facts_text(const json_t *facts, char **ret, struct error *reterr);

/* ---- the compiler: what all compilations of a daemon share ---- */

struct compiler;

/* Accounts for the disk space of builds; on the loop's thread. */
struct build_keeper {
    int (*admit)(void *data, uid_t owner, uint64_t bytes, struct error *reterr); /* before one is written */
    /* It is there; with a digest that is "" it was not written after all. */
    void (*kept)(void *data, uid_t owner, const char *digest, uint64_t bytes);
    void *data;
};

struct compiler_settings {
    uint64_t idle_ms;                  /* how long a node is kept for its project after a compilation */
    uint32_t warm_max;                 /* how many idle ones are kept at most */
    uint32_t spares;                   /* nodes of a toolchain, booted ahead of time for the next project: 0 or 1 */
    uint64_t cache_max_bytes;          /* of what single files compiled to */
    const struct build_keeper *keeper; /* NULL: there is room for all */
    struct quotas *quotas;             /* how many compilations of one owner are under way at once; NULL: any number */
};

/* wake is called when nothing is left of what compiler_quiesce ended. */
int compiler_open(struct node_host *host, struct store *store, const struct compiler_settings *settings,
                  void (*wake)(void *data), void *data, struct compiler **ret, struct error *reterr);
/* How many nodes are kept, and for how long, from their next use on. */
void compiler_change(struct compiler *compiler, const struct compiler_settings *settings);
void compiler_quiesce(struct compiler *compiler); /* end idle nodes, keep none from now on */
/* Its idle nodes are ended, and it need not live longer. No compilation of it is under way. */
void compiler_forget(struct compiler *compiler, const struct toolchain *toolchain);
bool compiler_is_quiet(const struct compiler *compiler);   /* no node is left, nor is a compilation */
struct compiler *compiler_free(struct compiler *compiler); /* once it is quiet; accepts NULL, returns NULL */

/* One owner has only so many compilations under way at once. What is to be compiled is opened once its turn has come: a
   compilation that waits holds nothing of what all owners share. All zeros to begin with. */
struct compile_turn {
    struct compile_turn *next; /* of those that wait */
    struct compiler *compiler; /* NULL: it is neither waited for nor held */
    uid_t owner;
    bool is_held;
    void (*taken)(struct compile_turn *turn, const struct error *error);
};

/* taken is called, maybe from inside; with an error it is not held. */
void compile_turn_take(struct compiler *compiler, uid_t owner, struct compile_turn *turn,
                       void (*taken)(struct compile_turn *turn, const struct error *error));
/* It has ended, or is not waited for any longer; if it was neither, nothing happens. The next one that waits may be
   told from inside. */
void compile_turn_give(struct compile_turn *turn);

/* Another folder that the caller handed over with the project, opened with the same rights. */
struct compile_with {
    const char *path; /* the user's own */
    int fd;           /* stays the caller's */
    char token[64];
};

/* What a build has besides what was compiled. */
enum compile_extra {
    COMPILE_PLAIN,
    COMPILE_WITH_SOURCES, /* in the folder of each application, src and the folders of what was compiled, such as lib */
    COMPILE_WITH_PROJECT, /* the project's files, for tasks of Mix; E_INVALID for what is no Mix project */
};

struct compile_request {
    struct compiler *compiler;
    const struct toolchain *toolchain;  /* probed; it outlives the compiler, or is forgotten by it */
    const struct link_project *project; /* opened with the caller's rights; its fd stays the caller's */
    uid_t owner;                        /* the caller; no other user gets its builds */
    const char *subject;                /* the sandbox it is for: a node serves no other one; "" for none */
    const char *source;                 /* the user's own path, for names and messages */
    const struct compile_with *withs;   /* at most WITHS_MAX of compile/project/places.h */
    size_t with_count;
    const char *mix_env; /* Mix's environment, or rebar3's profile; NULL: the project's own */
    enum compile_extra extra;
    bool has_turn; /* its starter has taken one for it, and gives it back; else it waits for one itself */
    uint64_t deadline_ms;
    uint64_t memory_bytes; /* that its node may use; 0: as usual. More than that counts against its owner's quota. */
    /* What macros and parse transforms tried and were refused; NULL: not reported. Gets done's data. */
    void (*violation)(void *data, struct node *node, const char *what, const char *detail);
};

struct compile_job;

/* Exactly once, never from inside: the build's digest and the compilation object (INTERFACE's JSON), or an error and,
   for E_COMPILE, the object with the diagnostics. report is the receiver's reference; NULL when there is none. */
typedef void (*compile_done_fn)(void *data, const char *digest, json_t *report, const struct error *error);

struct compile_job *compile_start(const struct compile_request *request, compile_done_fn done, void *data);
void compile_abort(struct compile_job *job); /* done follows, with E_SHUTDOWN */
/* While done is called with a digest: what the build says of itself in brief; a new reference. */
json_t *compile_take_facts(struct compile_job *job);
/* Appends diagnostics of another report, as many as one report may have; returns how many were left out. */
size_t diagnostics_join(json_t *all, const json_t *more);

/* Names that begin with sbx_ are the agent's: a module of that name would be loaded in place of one of its own, or the
   other way round. An error of that code says so. */
int compile_check_name(const char *module, enum error_code code, struct error *reterr);

struct cached_build {
    char digest[STORE_DIGEST_BYTES];
    uid_t owner;
    uint64_t bytes; /* 0: an earlier version wrote the entry, and nothing is known of it */
};

/* Have the cache name a build: it is not swept while the name is among the last used ones. */
void cache_keep(const char *home, const char *key, const struct cached_build *build);
/* The builds that the cache names, newest first, at most max, of which each owner has the same share; other entries are
   forgotten. For the pool: reads a small file per entry. */
size_t cache_builds(const char *home, struct cached_build *ret, size_t max);
/* Which of these, newest first, are kept: the owners by turns, each one's newest first. Pure. */
void cache_choose(const struct cached_build *builds, size_t count, size_t max, bool *ret_chosen);

#endif
