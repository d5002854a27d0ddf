/* store: what must outlive the daemon. The registry and the event history in SQLite, on a thread of its own; builds as
   files named by their digest. Knows nothing of OTP. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

struct store;

/* One sandbox as the registry keeps it. Strings may be NULL where a column may be. */
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

typedef void (*store_done_fn)(void *data, const struct error *error); /* on the loop's thread; error NULL: durable */

/* Opens or creates $home/registry.db (WAL, one writer, its own thread). A file from a newer version, or one that is
   damaged, is an error that says so. */
int store_open(uv_loop_t *loop, const char *home, struct store **ret, struct error *reterr);
void store_close(struct store *store, void (*closed)(void *data), void *data); /* after everything queued is written */

/* At start only, on the calling thread: every sandbox, then the newest `limit` events, oldest first. */
int store_load_sandboxes(struct store *store, void (*each)(void *data, const struct store_sandbox *row), void *data,
                         struct error *reterr);
int store_load_events(struct store *store, size_t limit, void (*each)(void *data, json_t *event), void *data,
                      struct error *reterr);

/* Queued in order; done may be NULL. Rows are copied. Many queued writes become one transaction. */
void store_put_sandbox(struct store *store, const struct store_sandbox *row, store_done_fn done, void *data);
void store_delete_sandbox(struct store *store, const char *id, store_done_fn done, void *data);
/* Keeps the newest 10,000; the event's "seq" member is its key. */
void store_add_event(struct store *store, json_t *event);

/* ---- builds: $home/store/builds/<digest>/…, written once, complete or absent ---- */

enum { STORE_DIGEST_BYTES = 65 };

struct store_file {
    const char *path; /* relative, no "..", no leading slash */
    const void *data;
    size_t size;
};

typedef void (*store_build_fn)(void *data, const char *digest, const struct error *error);

/* Write the files (0644 in 0755 folders, since nodes read them under uids of their own), named by the SHA-256 over
   paths and contents. On the thread pool; files and what they point at must live until done is called. The same content
   again costs nothing. */
void store_put_build(struct store *store, const struct store_file *files, size_t count, store_build_fn done,
                     void *data);
int store_build_path(const struct store *store, const char *digest, char *ret, size_t size, struct error *reterr);
/* Remove builds that no digest of keep (NULL-terminated) names, and what a killed daemon left half-written. */
void store_sweep_builds(struct store *store, const char *const *keep, store_done_fn done, void *data);

#endif
