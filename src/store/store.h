/* store: data that outlives the daemon. The registry and the event history are in SQLite, written by a separate thread;
   builds are files named by their digest. The module knows nothing of OTP. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

struct store;
struct store_histories;

/* One sandbox in the registry. All strings but id and status may be NULL. */
struct store_sandbox {
    const char *id;
    const char *status;
    const char *source;
    const char *profile;
    uint32_t owner_uid;
    int64_t created_at_ms, updated_at_ms;
    uint32_t restart_count;
    const char *node;       /* name of its node; NULL without one */
    const char *secret;     /* that node's */
    const char *build;      /* digest of the build it runs; NULL before the first */
    const char *config;     /* JSON: everything else about the sandbox (limits, env, app, policy …) */
    const char *last_error; /* JSON of a problem, or NULL */
};

/* The loaded versions of one module in one sandbox, as JSON. */
struct store_history {
    const char *sandbox;
    const char *module;
    const char *text;
};

/* The resource use of a sandbox over a span of time, as JSON. */
struct store_usage {
    const char *sandbox;
    int64_t at_ms;
    const char *text;
};

/* Called on the loop's thread. error NULL: the write is durable, even if the power fails now. */
typedef void (*store_done_fn)(void *data, const struct error *error);

/* Opens or creates $home/registry.db (WAL, one writer on its own thread). Fails with a clear error for a damaged file
   or one of a newer version. */
int store_open(uv_loop_t *loop, const char *home, struct store **ret, struct error *reterr);
/* Calls `closed` after everything queued is written and every callback was called. closed may be NULL. */
void store_close(struct store *store, void (*closed)(void *data), void *data);

/* For the start only, on the calling thread: every sandbox by id, then the newest `limit` events, oldest first. `each`
   gets borrowed values. Queued writes are not seen. */
int store_load_sandboxes(struct store *store, void (*each)(void *data, const struct store_sandbox *row), void *data,
                         struct error *reterr);
int store_load_events(struct store *store, size_t limit, void (*each)(void *data, json_t *event), void *data,
                      struct error *reterr);

int store_load_histories(struct store *store, void (*each)(void *data, const struct store_history *row), void *data,
                         struct error *reterr);

int store_load_usage(struct store *store, void (*each)(void *data, const struct store_usage *row), void *data,
                     struct error *reterr); /* by sandbox, oldest first */

/* Writes are queued in order; done may be NULL. Rows are copied. Many queued writes become one transaction, but a
   failed write does not affect others. done is never called before the function returns, unless there is no memory to
   queue the write. */
void store_put_sandbox(struct store *store, const struct store_sandbox *row, store_done_fn done, void *data);
void store_delete_sandbox(struct store *store, const char *id, store_done_fn done,
                          void *data); /* with everything kept of it */
/* The loaded versions of modules of one sandbox. They are collected on any thread beforehand: a change of code may have
   thousands of them. */
struct store_histories *store_histories_new(const char *sandbox); /* NULL without memory */
bool store_histories_add(struct store_histories *histories, const char *module, const char *text);
void store_histories_free(struct store_histories *histories);                     /* accepts NULL */
void store_put_histories(struct store *store, struct store_histories *histories); /* takes ownership */
/* The event's "seq" member is its key; the newest 10,000 are kept. The event is borrowed. */
void store_add_event(struct store *store, json_t *event);

/* Rows that are more than a day older are removed, and all of them with the sandbox. */
void store_add_usage(struct store *store, const struct store_usage *row);

/* The number of failed writes without a callback since the start; *ret_last (may be NULL) is the latest error. */
uint64_t store_lost_writes(struct store *store, struct error *ret_last);

/* Background work on the pool. It begins a moment later, when the present caller has its answer, and chores run one
   after the other. done is always called on the loop's thread; without memory at once, and the work is skipped. Closing
   waits for chores. */
void store_add_chore(struct store *store, void (*work)(void *data), void (*done)(void *data), void *data);

/* ---- builds: $home/store/builds/<digest>/…, written once, complete or absent ---- */

enum { STORE_DIGEST_BYTES = 65 };

struct store_file {
    const char *path; /* relative, no "." or "..", no leading slash */
    const void *data;
    size_t size;
    const char *twin; /* an immutable file with the same content, to be linked; NULL: none is known */
};

typedef void (*store_build_fn)(void *data, const char *digest, const struct error *error);

/* Writes the files (0644 in 0755 folders, since nodes read them with other uids). The name is the SHA-256 over paths
   and contents, independent of their order. Runs on the thread pool. The files must live until done is called, which is
   never before this returns, unless there is no memory. Existing content costs only its hash. The build survives the
   daemon's death at once, and a power failure a moment later; an incomplete one is removed. Files that another build
   (base; NULL: none) has at the same path become links to it. */
void store_put_build(struct store *store, const char *base, const struct store_file *files, size_t count,
                     store_build_fn done, void *data);
/* The same for a caller that is on the pool already; begun and ended on the loop's thread. NULL during a sweep, or
   without memory: then use store_put_build. */
struct store_put *store_put_begin(struct store *store);
int store_put_write(struct store_put *put, const char *base, const struct store_file *files, size_t count,
                    char ret_digest[STORE_DIGEST_BYTES], struct error *reterr);
void store_put_end(struct store_put *put); /* written or not */
/* Returns a new file for writing (0644), from the preallocated ones if there are any, since making a file takes longer
   than writing it. The path lies in the home. Returns the descriptor, or -1 and errno. Any thread may call it. */
int store_open_file(const char *home, const char *path);
/* A folder for temporary files of this daemon. The next daemon removes it after a kill. */
const char *store_scratch(const struct store *store);
/* E_INVALID if it is not a digest, E_NOT_FOUND if there is no such build. */
int store_build_path(const struct store *store, const char *digest, char *ret, size_t size, struct error *reterr);
uint64_t store_builds_written(const struct store *store); /* since it was opened, without those that existed */
/* Whether it is there, and no sweep that waits or runs is to remove it. A caller that found a build on the pool asks
   on the loop before it uses the build; the caller names the build to later sweeps. */
bool store_build_stays(const struct store *store, const char *digest);
/* Gets the digests that are gone, as keys. */
typedef void (*store_removed_fn)(void *data, const struct map *digests);
/* Removes the builds that the keys name; takes the map over. Those that are put while the removal waits its turn are
   kept. */
void store_remove_builds(struct store *store, struct map *digests, store_removed_fn removed, void *data);
/* Removes builds that are older than min_age_s and that `keep` (digests, NULL-terminated, copied) does not name, and
   temporary files of a killed daemon. Builds that are written while the sweep waits its turn are kept. */
void store_sweep_builds(struct store *store, const char *const *keep, int64_t min_age_s, store_done_fn done,
                        void *data);

#endif
