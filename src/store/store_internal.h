/* Shared by the files of the store. */
#ifndef STORE_STORE_INTERNAL_H
#define STORE_STORE_INTERNAL_H

#include <sys/queue.h>

#include "store/store.h"

/* ---- writes ---- */

enum store_write_kind {
    WRITE_PUT_SANDBOX,
    WRITE_DELETE_SANDBOX,
    WRITE_ADD_EVENT,
    WRITE_PUT_HISTORIES,
    WRITE_ADD_USAGE
};

/* One queued write. It belongs to the loop, then to the thread, and then to the loop again if it has a callback. */
struct store_write {
    STAILQ_ENTRY(store_write) link;
    enum store_write_kind kind;
    struct store_sandbox row;   /* strings point into text; a deletion has only the id */
    const char *sandbox, *rows; /* of histories: whose, and "module\0text\0" each, up to rows_bytes */
    size_t rows_bytes;
    struct store_usage usage;
    int64_t event_seq;
    const char *event; /* its JSON, in text */
    store_done_fn done;
    void *data;
    size_t bytes;
    struct error error; /* E_NONE: written */
    char text[];
};

STAILQ_HEAD(store_write_list, store_write);

struct store_write *store_new_write(enum store_write_kind kind, size_t text_bytes, store_done_fn done,
                                    void *data); /* of store.c; NULL without memory */

struct store_thread;
/* ---- histories.c: what was loaded of many modules, in a few writes ---- */

void histories_queue(struct store_thread *thread, struct store_histories *histories); /* takes them over */

/* ---- store_sql.c: the database, used by one thread at a time ---- */

struct store_sql;

enum { EVENTS_KEPT = 10000, USAGE_KEPT_MS = 24 * 3600 * 1000 };

int store_sql_open(const char *path, struct store_sql **ret, struct error *reterr);
struct store_sql *store_sql_close(struct store_sql *sql);
/* durable: the commit returns when the data is on the disk. */
int store_sql_begin(struct store_sql *sql, bool durable, struct error *reterr);
int store_sql_apply(struct store_sql *sql, const struct store_write *write, struct error *reterr);
int store_sql_commit(struct store_sql *sql, struct error *reterr);
void store_sql_rollback(struct store_sql *sql);
/* These open the database themselves, read-only. */
int store_sql_each_sandbox(const char *path, void (*each)(void *data, const struct store_sandbox *row), void *data,
                           struct error *reterr);
int store_sql_each_event(const char *path, size_t limit, void (*each)(void *data, json_t *event), void *data,
                         struct error *reterr);

int store_sql_each_history(const char *path, void (*each)(void *data, const struct store_history *row), void *data,
                           struct error *reterr);

int store_sql_each_usage(const char *path, void (*each)(void *data, const struct store_usage *row), void *data,
                         struct error *reterr);

/* ---- store_thread.c: the queue of writes and the thread that empties it ---- */

struct store_thread {
    uv_thread_t thread;
    uv_async_t *async; /* sent when writes are done, and when the thread has ended */
    struct store_sql *sql;
    uv_mutex_t mutex; /* protects everything below */
    uv_cond_t wake;
    struct store_write_list queued, finished;
    size_t pending, pending_bytes;
    bool closing, ended;
    uint64_t lost_writes;
    struct error last_lost;
};

/* Takes ownership of the database, also on failure. */
int store_thread_start(struct store_thread *thread, struct store_sql *sql, uv_async_t *async, struct error *reterr);
/* A write that does not fit into the queue returns with E_LIMIT. */
void store_thread_queue(struct store_thread *thread, struct store_write *write);
void store_thread_end(struct store_thread *thread); /* only requests the end; see ended */
/* On the loop's thread: calls the callbacks of finished writes. Returns true when the thread has ended. */
bool store_thread_deliver(struct store_thread *thread);
void store_thread_join(struct store_thread *thread);
/* Notes a write without a callback that could not even be queued. */
void store_thread_note_loss(struct store_thread *thread, const struct error *error);
uint64_t store_thread_lost(struct store_thread *thread, struct error *ret_last);

/* ---- build.c: puts and sweeps in the order of requests ---- */

enum { BUILD_DEPTH_MAX = 32 }; /* components of a path */

struct build_job;
STAILQ_HEAD(build_job_list, build_job);

#define BUILD_PUT_PREFIX "put-"

struct build_queue {
    struct build_job_list waiting;
    size_t puts_running;
    const struct build_job *sweep; /* the one that runs; NULL: none does */
    bool awaits_preallocation;
    int builds_fd, tmp_fd, preallocated_fd;
    int all_tmp_fd; /* the parent of tmp_fd; its other folders belong to killed daemons */
    char *tmp_path;
    uint64_t tmp_counter;
    uint64_t written;
};

int build_queue_open(struct build_queue *queue, const char *home, struct error *reterr);
void build_queue_close(struct build_queue *queue);
bool build_queue_idle(const struct build_queue *queue);

/* ---- build_write.c, build_sweep.c, build_check.c: the work itself, on the pool ---- */

/* tmp_name is the job's own name below tmp_fd. */
int build_write(const struct build_queue *queue, const char *tmp_name, const char *base, const struct store_file *files,
                size_t count, char ret_digest[STORE_DIGEST_BYTES], bool *ret_written, struct error *reterr);
int build_sweep(const struct build_queue *queue, const struct map *keep, int64_t min_age_s, struct error *reterr);
/* Adds to ret_gone which of them are gone. */
void build_remove_named(const struct build_queue *queue, const struct map *digests, struct map *ret_gone);
int build_remove_tree(int parent_fd, const char *name, struct error *reterr); /* a missing one is fine */

bool build_is_dots(const char *name);
/* Syncs the build as far as possible. build_check_after_boot finds what failed. */
void build_sync(int parent_fd, const char *name);
/* Runs once after each boot of the machine: removes incomplete builds and preallocated entries. */
int build_check_after_boot(int store_fd, int builds_fd, struct error *reterr);

/* ---- build_hash.c: the digest over paths and contents, in the order of paths ---- */

struct build_hash {
    struct evp_md_ctx_st *context;
    bool good;
};

void build_hash_begin(struct build_hash *hash);
void build_hash_add(struct build_hash *hash, const char *path, const void *data, size_t size);
int build_hash_end(struct build_hash *hash, char ret[STORE_DIGEST_BYTES], struct error *reterr);
void build_hash_free(struct build_hash *hash);

/* ---- preallocate.c: preallocated empty files and folders ---- */

#define PREALLOCATED_NAME "preallocated"

enum preallocated_kind { PREALLOCATED_FILE, PREALLOCATED_FOLDER, PREALLOCATED_KINDS };

/* Moves a preallocated entry to that path, which must not exist: 0, or -1 and errno, ENOENT if there is none. */
int preallocated_take(int preallocated_fd, enum preallocated_kind kind, int parent_fd, const char *path);
/* The same, but makes the entry if there is none: 0644 and 0755. */
int preallocated_open_file(int preallocated_fd, int parent_fd, const char *path); /* for writing; -1 and errno */
int preallocated_make_folder(int preallocated_fd, int parent_fd, const char *path);
void preallocate(int preallocated_fd); /* on the pool, by one thread at a time */

/* ---- chores.c: see store_add_chore ---- */

struct chores {
    struct store *store;
    uv_timer_t timer;
    uv_work_t request;
    STAILQ_HEAD(, chore) waiting; /* the first one is running if is_running */
    bool is_running;
};

void chores_open(struct store *store);
void chores_hurry(struct chores *chores);
bool chores_are_done(const struct chores *chores);
void chores_close(struct chores *chores, uv_close_cb closed);

/* ---- the store itself ---- */

struct store {
    uv_loop_t *loop;
    char *home;
    char *database_path;
    uv_async_t async;
    struct store_thread thread;
    struct build_queue builds;
    struct chores chores;
    bool is_closing, thread_ended, handles_closing;
    void (*closed)(void *data);
    void *closed_data;
};

/* Continues closing when nothing is running any more. */
void store_maybe_closed(struct store *store);

#endif
