/* Adds records without blocking the loop on the disk. A record goes to the write-ahead buffer first, which survives a
   kill and a full disk, so the caller need not wait for the files.

   The loop itself writes several records at once while that takes microseconds. When the disk is slow or there is much
   to write, a thread writes them. The pool syncs what the loop wrote, for several records at once. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "audit/audit_internal.h"
#include "loop/loop.h"

enum {
    PENDING_MAX = 16384,
    BATCH_MAX = 256,      /* records of one batch of the thread */
    LOOP_BATCH_MAX = 32,  /* larger batches are the thread's */
    SLOW_US = 2000,       /* if a write of the loop, also to the write-ahead buffer, takes longer … */
    SLOW_PAUSE_MS = 1000, /* … the loop writes nothing for this long */
    WRITE_AFTER_MS = 20,  /* for records without a waiting caller: answers go first, and several records are written at
                             once */
    SYNC_AFTER_MS = 50,
};

struct entry {
    STAILQ_ENTRY(entry) link;
    audit_done_fn *done;
    void *data;
    bool urgent;
    struct error error;
    char *line; /* as written; NULL: it was not written */
    char members[];
};

STAILQ_HEAD(entry_list, entry);

struct audit {
    struct audit_log log; /* owned by the thread while it has entries, else by the loop */
    uv_thread_t thread;
    uv_mutex_t mutex;
    uv_cond_t wake;
    struct entry_list queued, finished;
    bool closing, ended;

    /* Used by the loop only. */
    struct entry_list fresh; /* not handed over yet */
    size_t fresh_count, fresh_bytes;
    size_t pending, with_thread;
    struct audit_chain last; /* the last record passed to the callback */
    bool is_failing;         /* the last record could not be written */
    size_t room_bytes;       /* that fit into the file besides all pending records, whatever happens to the disk */
    struct audit_write_ahead ahead; /* the first records since it was emptied */
    bool is_write_ahead_incomplete; /* a record was added that the buffer lacks */
    uint64_t slow_until_ms;
    bool is_reporting;
    uv_async_t async;       /* the thread has finished entries */
    uv_timer_t write_timer; /* while there are fresh entries */
    uv_timer_t sync_timer;
    uv_work_t sync_work;
    int sync_fd; /* -1: no sync is under way */
    int open_handles;
    audit_record_fn *record;
    void *record_data;
    void (*closed)(void *data);
    void *closed_data;
};

/* ---- the thread ---- */

static void take_batch(struct audit *audit, struct entry_list *ret) {
    STAILQ_INIT(ret);
    uv_mutex_lock(&audit->mutex);
    while (STAILQ_EMPTY(&audit->queued) && !audit->closing) uv_cond_wait(&audit->wake, &audit->mutex);
    for (int i = 0; i < BATCH_MAX && !STAILQ_EMPTY(&audit->queued); i++) {
        struct entry *entry = STAILQ_FIRST(&audit->queued);
        STAILQ_REMOVE_HEAD(&audit->queued, link);
        STAILQ_INSERT_TAIL(ret, entry, link);
    }
    uv_mutex_unlock(&audit->mutex);
}

static bool chain_all(struct audit_chain *chain, const struct entry_list *batch, struct buf *lines) {
    const struct entry *entry;
    bool is_good = true;
    STAILQ_FOREACH(entry, batch, link) {
        if (entry->members[0]) is_good = is_good && audit_chain_add(chain, entry->members, lines, NULL) == 0;
    }
    return is_good;
}

/* False: nothing was written. Writing one by one will give the reason. */
static bool write_together(struct audit *audit, struct entry_list *batch) {
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    struct audit_chain chain = audit->log.chain;
    struct entry *entry;
    if (!chain_all(&chain, batch, &lines) || !audit_log_add_chained(&audit->log, &lines, &chain)) return false;
    const char *line = (const char *)lines.data;
    STAILQ_FOREACH(entry, batch, link) {
        if (!entry->members[0]) continue;
        const char *end = strchr(line, '\n');
        entry->line = strndup(line, (size_t)(end - line));
        if (!entry->line) abort(); /* as in new_entry */
        line = end + 1;
    }
    return true;
}

/* An entry without members only waits for those before it. */
static void write_batch(struct audit *audit, struct entry_list *batch) {
    struct entry *entry;
    if (write_together(audit, batch)) return;
    STAILQ_FOREACH(entry, batch, link) {
        if (entry->members[0]) audit_log_add(&audit->log, entry->members, entry->urgent, &entry->line, &entry->error);
    }
}

static void hand_back(struct audit *audit, struct entry_list *batch) {
    uv_mutex_lock(&audit->mutex);
    STAILQ_CONCAT(&audit->finished, batch);
    uv_mutex_unlock(&audit->mutex);
    uv_async_send(&audit->async);
}

static void thread_main(void *argument) {
    struct audit *audit = argument;
    for (;;) {
        struct entry_list batch;
        take_batch(audit, &batch);
        if (STAILQ_EMPTY(&batch)) break;
        write_batch(audit, &batch);
        audit_log_seal(&audit->log);
        hand_back(audit, &batch);
    }
    audit_log_seal(&audit->log);
    audit_log_sync(&audit->log);
    audit_log_close(&audit->log);
    uv_mutex_lock(&audit->mutex);
    audit->ended = true;
    uv_async_send(&audit->async); /* under the lock: the loop closes the handle as soon as it sees `ended` */
    uv_mutex_unlock(&audit->mutex);
}

/* ---- the loop's side ---- */

static void note_outcome(struct audit *audit, const struct entry *entry) {
    bool is_written = entry->line != NULL;
    if (is_written || entry->error.code != E_NONE) audit->is_failing = !is_written;
    /* Records that could not be written stay in the buffer for the next daemon. Nothing is pending, so the log is
       ours. */
    if (--audit->pending > 0 || audit->is_failing) return;
    audit_write_ahead_clear(&audit->ahead, audit->log.chain.seq);
    audit->is_write_ahead_incomplete = false;
}

static void tell(struct audit *audit, struct entry *entry) {
    note_outcome(audit, entry);
    if (entry->line) {
        audit_line_end(entry->line, &audit->last);
        audit->record(audit->record_data, entry->line);
    }
    if (entry->done) entry->done(entry->data, entry->error.code == E_NONE ? NULL : &entry->error);
    free(entry->line);
    free(entry);
}

static void tell_all(struct audit *audit, struct entry_list *entries) {
    audit->is_reporting = true;
    while (!STAILQ_EMPTY(entries)) {
        struct entry *entry = STAILQ_FIRST(entries);
        STAILQ_REMOVE_HEAD(entries, link);
        tell(audit, entry);
    }
    audit->is_reporting = false;
}

static void hand_to_thread(struct audit *audit, struct entry_list *entries, size_t count) {
    audit->with_thread += count;
    uv_mutex_lock(&audit->mutex);
    STAILQ_CONCAT(&audit->queued, entries);
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->mutex);
}

/* The thread has returned all entries, so the log is ours. A disk that was slow just now, or a full file, is left to
   the thread. */
static bool loop_may_write(const struct audit *audit, size_t count) {
    const struct audit_log *log = &audit->log;
    return audit->with_thread == 0 && !audit->closing && count <= LOOP_BATCH_MAX &&
           uv_now(audit->async.loop) >= audit->slow_until_ms && log->fd >= 0 &&
           log->size + audit->fresh_bytes <= log->limits.file_max_bytes;
}

static void sync_soon(struct audit *audit);

static void note_slowness(struct audit *audit, uint64_t begun_us) {
    if (clock_monotonic_us() - begun_us > SLOW_US) audit->slow_until_ms = uv_now(audit->async.loop) + SLOW_PAUSE_MS;
}

static void write_here(struct audit *audit, struct entry_list *entries) {
    uint64_t begun_us = clock_monotonic_us();
    write_batch(audit, entries);
    note_slowness(audit, begun_us);
    sync_soon(audit);
}

static void write_fresh(struct audit *audit) {
    struct entry_list fresh = STAILQ_HEAD_INITIALIZER(fresh);
    size_t count = audit->fresh_count;
    if (count == 0) return;
    uv_timer_stop(&audit->write_timer);
    bool is_ours = loop_may_write(audit, count);
    STAILQ_CONCAT(&fresh, &audit->fresh);
    audit->fresh_count = audit->fresh_bytes = 0;
    if (!is_ours) {
        hand_to_thread(audit, &fresh, count);
        return;
    }
    write_here(audit, &fresh);
    tell_all(audit, &fresh);
}

static void on_write_timer(uv_timer_t *timer) {
    write_fresh(timer->data);
}

/* ---- syncing ---- */

static void maybe_close(struct audit *audit);

static void sync_on_pool(uv_work_t *work) {
    struct audit *audit = work->data;
    fdatasync(audit->sync_fd);
}

static void on_synced(uv_work_t *work, int status) {
    struct audit *audit = work->data;
    (void)status;
    audit->sync_fd = fd_close(audit->sync_fd);
    maybe_close(audit);
}

/* Only the log's owner knows the present file. A full file was synced before the next one was opened. */
static void on_sync_timer(uv_timer_t *timer) {
    struct audit *audit = timer->data;
    if (audit->with_thread > 0 || audit->sync_fd >= 0) {
        sync_soon(audit);
        return;
    }
    audit_log_seal(&audit->log); /* for several records at once: the trail may have a few records more than the head
                                    says */
    audit->sync_fd = fcntl(audit->log.fd, F_DUPFD_CLOEXEC, 0);
    if (audit->sync_fd >= 0 && loop_queue_work(timer->loop, &audit->sync_work, sync_on_pool, on_synced) < 0)
        audit->sync_fd = fd_close(audit->sync_fd);
}

static void sync_soon(struct audit *audit) {
    if (!audit->closing && !uv_is_active((uv_handle_t *)&audit->sync_timer))
        uv_timer_start(&audit->sync_timer, on_sync_timer, SYNC_AFTER_MS, 0);
}

/* ---- closing ---- */

static void free_audit(struct audit *audit) {
    audit_write_ahead_close(&audit->ahead);
    audit_log_close(&audit->log);
    free(audit);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct audit *audit = handle->data;
    if (--audit->open_handles > 0) return;
    void (*closed)(void *data) = audit->closed;
    void *data = audit->closed_data;
    free_audit(audit);
    if (closed) closed(data);
}

static void close_handles(struct audit *audit) {
    uv_close((uv_handle_t *)&audit->async, on_handle_closed);
    uv_close((uv_handle_t *)&audit->write_timer, on_handle_closed);
    uv_close((uv_handle_t *)&audit->sync_timer, on_handle_closed);
}

/* Closes once the thread has ended with its last sync, all its entries were reported, and the pool runs no sync. */
static void maybe_close(struct audit *audit) {
    uv_mutex_lock(&audit->mutex);
    bool ended = audit->ended;
    uv_mutex_unlock(&audit->mutex);
    if (!ended || audit->with_thread > 0 || audit->sync_fd >= 0 || uv_is_closing((uv_handle_t *)&audit->async)) return;
    uv_thread_join(&audit->thread);
    uv_cond_destroy(&audit->wake);
    uv_mutex_destroy(&audit->mutex);
    close_handles(audit);
}

static void on_async(uv_async_t *async) {
    struct audit *audit = async->data;
    struct entry_list finished = STAILQ_HEAD_INITIALIZER(finished);
    struct entry *entry;
    uv_mutex_lock(&audit->mutex);
    STAILQ_CONCAT(&finished, &audit->finished);
    uv_mutex_unlock(&audit->mutex);
    STAILQ_FOREACH(entry, &finished, link) audit->with_thread--;
    if (!STAILQ_EMPTY(&finished)) sync_soon(audit);
    tell_all(audit, &finished);
    maybe_close(audit);
}

/* ---- adding ---- */

static struct entry *new_entry(const struct buf *members) {
    bool is_whole = members->size > 0 && !members->failed;
    struct entry *entry = is_whole ? malloc(sizeof *entry + members->size + 1) : NULL;
    if (!entry) abort(); /* crash-only: no operation goes unrecorded */
    *entry = (struct entry){.done = NULL};
    memcpy(entry->members, members->data, members->size);
    entry->members[members->size] = '\0';
    return entry;
}

static void queue(struct audit *audit, struct entry *entry) {
    audit->pending++;
    STAILQ_INSERT_TAIL(&audit->fresh, entry, link);
    audit->fresh_count++;
    audit->fresh_bytes += strlen(entry->members) + AUDIT_FRAME_BYTES;
    if (entry->done) /* a caller waits: write in the next turn of the loop, if not before */
        uv_timer_start(&audit->write_timer, on_write_timer, 0, 0);
    else if (!uv_is_active((uv_handle_t *)&audit->write_timer))
        uv_timer_start(&audit->write_timer, on_write_timer, WRITE_AFTER_MS, 0);
}

/* While the thread has entries the log is not ours, so the last known room is used. */
static bool take_room(struct audit *audit, size_t bytes) {
    size_t found = audit->with_thread == 0 ? audit_log_room(&audit->log) : 0;
    if (audit->with_thread == 0) audit->room_bytes = found > audit->fresh_bytes ? found - audit->fresh_bytes : 0;
    bool is_enough = audit->room_bytes >= bytes;
    audit->room_bytes = is_enough ? audit->room_bytes - bytes : 0;
    return is_enough;
}

/* Writing to a page that the kernel is writing to the disk may block. */
static bool write_ahead(struct audit *audit, const struct entry *entry) {
    uint64_t begun_us = clock_monotonic_us();
    bool may = !audit->is_write_ahead_incomplete && uv_now(audit->async.loop) >= audit->slow_until_ms;
    bool is_there = may && audit_write_ahead_add(&audit->ahead, entry->members);
    note_slowness(audit, begun_us);
    return is_there;
}

/* Whether the record will reach the files as far as can be known. A record that may still be refused is not put into
   the buffer. */
static bool is_safe(struct audit *audit, const struct entry *entry, bool has_room) {
    bool is_short = strlen(entry->members) + AUDIT_FRAME_BYTES <= AUDIT_LINE_MAX_BYTES;
    return has_room && is_short && !audit->is_failing && write_ahead(audit, entry);
}

static void refuse(audit_done_fn *done, void *data) {
    struct error error;
    error_set(&error, E_LIMIT, "the audit trail has %d records waiting", PENDING_MAX);
    if (done) done(data, &error);
}

void audit_add(struct audit *audit, const struct buf *members, bool urgent, audit_done_fn *done, void *data) {
    if (audit->pending >= PENDING_MAX) {
        refuse(done, data);
        return;
    }
    struct entry *entry = new_entry(members);
    bool has_room = take_room(audit, members->size + AUDIT_FRAME_BYTES);
    bool is_done = done && is_safe(audit, entry, has_room);
    if (!is_done && (done || !write_ahead(audit, entry))) audit->is_write_ahead_incomplete = true;
    entry->urgent = urgent || is_done; /* the operation begins now */
    entry->done = is_done ? NULL : done;
    entry->data = data;
    queue(audit, entry);
    bool is_due = entry->done || audit->fresh_count >= LOOP_BATCH_MAX;
    if (is_done) done(data, NULL);
    /* Records are reported in order, so none is written while another is reported. */
    if (is_due && !audit->is_reporting) write_fresh(audit);
}

void audit_flush(struct audit *audit, audit_done_fn *done, void *data) {
    struct entry *entry = zeroed_or_abort(1, sizeof *entry + 1);
    entry->done = done;
    entry->data = data;
    queue(audit, entry);
}

const struct audit_chain *audit_last(const struct audit *audit) {
    return &audit->last;
}

const char *audit_damage(const struct audit *audit, bool has_run, char *ret, size_t size) {
    const struct audit_log *log = &audit->log;
    if (log->had_head && log->head_seq > log->files_seq)
        snprintf(ret, size, "record %llu was written last, and the files ended with %llu",
                 (unsigned long long)log->head_seq, (unsigned long long)log->files_seq);
    else if (!log->had_head && log->files_seq > 0)
        snprintf(ret, size, "the file that tells the last record was missing or damaged; the files ended with %llu",
                 (unsigned long long)log->files_seq);
    else if (!log->had_head && has_run)
        snprintf(ret, size, "a service has run in this home, and its audit trail was gone");
    else
        return NULL;
    return ret;
}

/* ---- opening ---- */

static int start_thread(struct audit *audit, struct error *reterr) {
    int result = uv_mutex_init(&audit->mutex);
    if (result == 0 && (result = uv_cond_init(&audit->wake)) < 0) uv_mutex_destroy(&audit->mutex);
    if (result == 0 && (result = uv_thread_create(&audit->thread, thread_main, audit)) < 0) {
        uv_cond_destroy(&audit->wake);
        uv_mutex_destroy(&audit->mutex);
    }
    return result == 0 ? 0 : error_errno(reterr, -result, "starting the audit trail's thread");
}

static int start(struct audit *audit, uv_loop_t *loop, struct error *reterr) {
    int result = uv_async_init(loop, &audit->async, on_async);
    if (result < 0) {
        free_audit(audit);
        return error_errno(reterr, -result, "preparing the audit trail's thread");
    }
    uv_timer_init(loop, &audit->sync_timer);
    uv_timer_init(loop, &audit->write_timer);
    audit->async.data = audit->write_timer.data = audit->sync_timer.data = audit->sync_work.data = audit;
    audit->open_handles = 3;
    result = start_thread(audit, reterr);
    if (result < 0) close_handles(audit);
    return result;
}

int audit_open(uv_loop_t *loop, const char *home, const struct audit_limits *limits, audit_record_fn *record,
               void *data, struct audit **ret, struct error *reterr) {
    struct audit_log log;
    struct audit *audit = calloc(1, sizeof *audit);
    if (!audit) return error_set(reterr, E_NO_MEMORY, "opening the audit trail");
    int result = audit_log_open(home, limits, &log, reterr);
    if (result < 0) {
        free(audit);
        return result;
    }
    *audit = (struct audit){.log = log, .record = record, .record_data = data, .sync_fd = -1};
    if (audit_write_ahead_carry_over(&audit->log)) audit_write_ahead_open(&audit->log, &audit->ahead);
    audit->last = audit->log.chain;
    STAILQ_INIT(&audit->queued);
    STAILQ_INIT(&audit->finished);
    STAILQ_INIT(&audit->fresh);
    result = start(audit, loop, reterr);
    if (result == 0) *ret = audit;
    return result;
}

void audit_close(struct audit *audit, void (*closed)(void *data), void *data) {
    audit->closed = closed;
    audit->closed_data = data;
    hand_to_thread(audit, &audit->fresh, audit->fresh_count);
    audit->fresh_count = audit->fresh_bytes = 0;
    uv_mutex_lock(&audit->mutex);
    audit->closing = true;
    uv_timer_stop(&audit->sync_timer);
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->mutex);
}
