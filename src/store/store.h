/* store: what must outlive the daemon. The registry and the event history in SQLite, on a thread of its own; builds as
   files named by their digest. Knows nothing of OTP. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

struct store;
struct store_histories;

/* One sandbox as the registry keeps it. Strings may be NULL where a column may be: all but id and status. */
struct store_sandbox {
    const char *id;
    const char *status;
    const char *source;
    const char *profile;
    uint32_t owner_uid;
    int64_t created_at_ms, updated_at_ms;
    uint32_t restart_count;
    const char *node;       /* name of its node, NULL when it has none */
    const char *secret;     /* that node's */
    const char *build;      /* digest of the build it runs, NULL before there is one */
    const char *config;     /* JSON: everything else that makes up the sandbox (limits, env, app, policy …) */
    const char *last_error; /* JSON of a problem, or NULL */
};

/* What was loaded of one module in one sandbox, as JSON. */
struct store_history {
    const char *sandbox;
    const char *module;
    const char *text;
};

/* What a sandbox used over a span of time, as JSON. */
struct store_usage {
    const char *sandbox;
    int64_t at_ms;
    const char *text;
};

/* On the loop's thread; error NULL: done, and durable even if the power fails now. */
typedef void (*store_done_fn)(void *data, const struct error *error);

/* Opens or creates $home/registry.db (WAL, one writer, its own thread). A file from a newer version, or one that is
   damaged, is an error that says so. */
int store_open(uv_loop_t *loop, const char *home, struct store **ret, struct error *reterr);
/* After everything queued is written and every callback was called. NULL callback: nobody waits. */
void store_close(struct store *store, void (*closed)(void *data), void *data);

/* At start only, on the calling thread: every sandbox by id, then the newest `limit` events, oldest first. What `each`
   gets is borrowed. Writes that are still queued are not seen. */
int store_load_sandboxes(struct store *store, void (*each)(void *data, const struct store_sandbox *row), void *data,
                         struct error *reterr);
int store_load_events(struct store *store, size_t limit, void (*each)(void *data, json_t *event), void *data,
                      struct error *reterr);

int store_load_histories(struct store *store, void (*each)(void *data, const struct store_history *row), void *data,
                         struct error *reterr);

int store_load_usage(struct store *store, void (*each)(void *data, const struct store_usage *row), void *data,
                     struct error *reterr); /* by sandbox, oldest first */

/* Queued in order; done may be NULL. Rows are copied. Many queued writes become one transaction, but one that fails
   takes no other with it. done is never called from inside, except when there is no memory to queue the write. */
void store_put_sandbox(struct store *store, const struct store_sandbox *row, store_done_fn done, void *data);
void store_delete_sandbox(struct store *store, const char *id, store_done_fn done,
                          void *data); /* with all that is kept of it */
/* What was loaded of modules of one sandbox. It is filled beforehand, on any thread: a change of code may have
   thousands of them. */
struct store_histories *store_histories_new(const char *sandbox); /* NULL without memory */
bool store_histories_add(struct store_histories *histories, const char *module, const char *text);
void store_histories_free(struct store_histories *histories);                     /* accepts NULL */
void store_put_histories(struct store *store, struct store_histories *histories); /* takes them over */
/* The event's "seq" member is its key; the newest 10,000 are kept. The event is borrowed. */
void store_add_event(struct store *store, json_t *event);

/* What is more than a day older than it is forgotten, and all of it with the sandbox. */
void store_add_usage(struct store *store, const struct store_usage *row);

/* How many writes that nobody waited for have failed since the start; *ret_last (may be NULL) is the latest's error. */
uint64_t store_lost_writes(struct store *store, struct error *ret_last);

/* Work on the pool that nobody waits for: it begins a moment later, when the caller of whoever leaves it has his
   answer, and one goes after the other. done, on the loop's thread, is called in any case, without memory at once and
   instead. Closing waits for it. */
void store_add_chore(struct store *store, void (*work)(void *data), void (*done)(void *data), void *data);

/* ---- builds: $home/store/builds/<digest>/…, written once, complete or absent ---- */

enum { STORE_DIGEST_BYTES = 65 };

struct store_file {
    const char *path; /* relative, no "." or "..", no leading slash */
    const void *data;
    size_t size;
    const char *twin; /* a file that is never written again and holds the same, to be shared; NULL: none is known */
};

typedef void (*store_build_fn)(void *data, const char *digest, const struct error *error);

/* Write the files (0644 in 0755 folders, since nodes read them under uids of their own), named by the SHA-256 over
   paths and contents, whatever their order. On the thread pool; files and what they point at must live until done is
   called, which is never from inside except without memory. The same content again costs only its hash. The build
   survives the daemon's death at once, and the power's a moment later; one that the power tore is gone, not half there.
   Files that another build (base; NULL: none) has at the same path are links to its own. */
void store_put_build(struct store *store, const char *base, const struct store_file *files, size_t count,
                     store_build_fn done, void *data);
/* The same for who is on the pool already; begun and ended on the loop's thread. NULL while builds are swept, or
   without memory: then store_put_build is the way. */
struct store_put *store_put_begin(struct store *store);
int store_put_write(struct store_put *put, const char *base, const struct store_file *files, size_t count,
                    char ret_digest[STORE_DIGEST_BYTES], struct error *reterr);
void store_put_end(struct store_put *put); /* written or not */
/* A new file to write (0644), which was made ahead where there is such: making one takes longer than writing it. The
   path lies in the home. The descriptor, or -1 and errno. Any thread. */
int store_open_file(const char *home, const char *path);
/* A folder of this daemon's own, for what is gone soon. What is in it when the daemon is killed, the next one removes.
 */
const char *store_scratch(const struct store *store);
/* E_INVALID when it is no digest, E_NOT_FOUND when there is no such build. */
int store_build_path(const struct store *store, const char *digest, char *ret, size_t size, struct error *reterr);
/* Remove builds that no digest of keep (NULL-terminated, copied) names and that are older than that, and what a killed
   daemon left half-written. Builds that are being written while the sweep waits its turn are kept. */
uint64_t store_builds_written(const struct store *store); /* since it was opened, without those that were there */
void store_sweep_builds(struct store *store, const char *const *keep, int64_t min_age_s, store_done_fn done,
                        void *data);

#endif
