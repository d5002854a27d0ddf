/* compile: sources in, a build in the store out, by way of a jailed compiler node. Knows nothing of reloading. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H

#include <jansson.h>

#include "base/base.h"
#include "node/node.h"
#include "store/store.h"

enum source_kind { SOURCE_MIX, SOURCE_REBAR3, SOURCE_FOLDER, SOURCE_FILE, SOURCE_EBIN };

const char *source_kind_name(enum source_kind kind); /* as the agent calls it */
/* What lies in the folder: mix.exs, rebar.config or src/, beams, or just files. */
enum source_kind source_detect(int folder);

/* Files of a build besides its applications' folders; a dot is in no application's name. */
#define BUILD_FACTS_FILE "build.json"
#define BUILD_CONFIG_FILE "build.config"

/* A finished build, as its build.json says. */
struct build {
    char digest[STORE_DIGEST_BYTES];
    json_t *facts; /* apps[], main, language, supervisor, modules[], has_config */
};

int build_read(const struct store *store, const char *digest, struct build *ret, struct error *reterr);
void build_free(struct build *build);

struct compile_request {
    struct node_host *host;
    struct store *store;
    const struct jail_project *project; /* opened with the caller's rights; its fd stays the caller's */
    uid_t owner;                        /* the caller, whose builds are nobody else's */
    const char *source;                 /* the user's own path, for names and messages */
    uint64_t deadline_ms;
    /* What macros and parse transforms tried and were refused; NULL: nobody wants to know. Gets done's data. */
    void (*violation)(void *data, struct node *node, const char *what, const char *detail);
};

struct compile_job;

/* Exactly once, never from inside: the build's digest and the compilation object (INTERFACE's JSON), or an error and,
   for E_COMPILE, the object with the diagnostics. report is the receiver's reference; NULL when there is none. */
typedef void (*compile_done_fn)(void *data, const char *digest, json_t *report, const struct error *error);

struct compile_job *compile_start(const struct compile_request *request, compile_done_fn done, void *data);
void compile_abort(struct compile_job *job); /* done follows, with E_SHUTDOWN */

/* The builds that the cache names, newest first, at most max; older entries are forgotten. Reads a small file per
 * entry. */
size_t cache_builds(const char *home, char (*ret)[STORE_DIGEST_BYTES], size_t max);

#endif
