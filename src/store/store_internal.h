/* Between the store's own files. */
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

/* One queued write. It belongs to the loop, then to the thread, then, if somebody waits, to the loop again. */
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
/* durable: the commit returns once the disk has it. */
int store_sql_begin(struct store_sql *sql, bool durable, struct error *reterr);
int store_sql_apply(struct store_sql *sql, const struct store_write *write, struct error *reterr);
int store_sql_commit(struct store_sql *sql, struct error *reterr);
void store_sql_rollback(struct store_sql *sql);
/* Open the database for themselves, read-only. */
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
    uv_async_t *async; /* told when writes have come back, and when the thread has ended */
    struct store_sql *sql;
    uv_mutex_t mutex; /* over everything below */
    uv_cond_t wake;
    struct store_write_list queued, finished;
    size_t pending, pending_bytes;
    bool closing, ended;
    uint64_t lost_writes;
    struct error last_lost;
};

/* Takes the database over, also on failure. */
int store_thread_start(struct store_thread *thread, struct store_sql *sql, uv_async_t *async, struct error *reterr);
/* A write that does not fit into the queue comes back with E_LIMIT. */
void store_thread_queue(struct store_thread *thread, struct store_write *write);
void store_thread_end(struct store_thread *thread); /* asks only; see ended */
/* On the loop's thread: call the callbacks of what has come back. True when the thread has ended. */
bool store_thread_deliver(struct store_thread *thread);
void store_thread_join(struct store_thread *thread);
/* A write that nobody waits for could not even be queued. */
void store_thread_note_loss(struct store_thread *thread, const struct error *error);
uint64_t store_thread_lost(struct store_thread *thread, struct error *ret_last);

/* ---- build.c: builds in the order they were asked for; build_write.c and build_sweep.c do the work ---- */

enum { BUILD_DEPTH_MAX = 32 }; /* components of a path */

struct build_job;
STAILQ_HEAD(build_job_list, build_job);

#define BUILD_PUT_PREFIX "put-"

struct build_queue {
    struct build_job_list waiting;
    size_t puts_running;
    bool sweep_running, stock_awaits_filling;
    int builds_fd, tmp_fd, stock_fd;
    int all_tmp_fd; /* tmp_fd's parent: other folders in it are of daemons that were killed */
    char *tmp_path;
    uint64_t tmp_counter;
    uint64_t written;
};

int build_queue_open(struct build_queue *queue, const char *home, struct error *reterr);
void build_queue_close(struct build_queue *queue);
bool build_queue_idle(const struct build_queue *queue);

/* Both run on the pool. tmp_name is the job's own name below tmp_fd. */
int build_write(const struct build_queue *queue, const char *tmp_name, const char *base, const struct store_file *files,
                size_t count, char ret_digest[STORE_DIGEST_BYTES], bool *ret_written, struct error *reterr);
int build_sweep(const struct build_queue *queue, const struct map *keep, int64_t min_age_s, struct error *reterr);
int build_remove_tree(int parent_fd, const char *name, struct error *reterr); /* an absent one is fine */

bool build_is_dots(const char *name);
/* Ask the disk to have it all, as well as it can: what fails here is found by the check below. */
void build_sync(int parent_fd, const char *name);
/* Once after each boot of the machine: remove the builds that the power's end left torn, and the stock. */
int build_check_after_boot(int store_fd, int builds_fd, struct error *reterr);

/* build_hash.c: the digest over paths and contents, in the order of the paths. */
struct build_hash {
    struct evp_md_ctx_st *context;
    bool good;
};

void build_hash_begin(struct build_hash *hash);
void build_hash_add(struct build_hash *hash, const char *path, const void *data, size_t size);
int build_hash_end(struct build_hash *hash, char ret[STORE_DIGEST_BYTES], struct error *reterr);
void build_hash_free(struct build_hash *hash);

/* ---- stock.c: empty files and folders made ahead ---- */

#define STOCK_NAME "stock"

enum stock_kind { STOCK_FILE, STOCK_FOLDER, STOCK_KINDS };

/* One that was made ahead is at that path now, where nothing was: 0, or -1 and errno, ENOENT when there is none. */
int stock_take(int stock_fd, enum stock_kind kind, int parent_fd, const char *path);
/* The same, and one that is made when there is none: 0644 and 0755. */
int stock_open_file(int stock_fd, int parent_fd, const char *path); /* to write; -1 and errno */
int stock_make_folder(int stock_fd, int parent_fd, const char *path);
void stock_fill(int stock_fd); /* on the pool, by one thread at a time */

/* ---- chores.c: see store_add_chore ---- */

struct chores {
    struct store *store;
    uv_timer_t timer;
    uv_work_t request;
    STAILQ_HEAD(, chore) waiting; /* the first one is under way when one is */
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

/* Goes on with closing when nothing is under way any more. */
void store_maybe_closed(struct store *store);

#endif
