/* The store's interface for the loop: opening, closing, and queueing writes for the SQLite thread. */
#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

#include "term/term.h"

/* ---- opening and closing ---- */

static void free_store(struct store *store) {
    build_queue_close(&store->builds);
    free(store->home);
    free(store->database_path);
    free(store);
}

static void on_async_closed(uv_handle_t *handle) {
    struct store *store = handle->data;
    void (*closed)(void *data) = store->closed;
    void *data = store->closed_data;
    free_store(store);
    if (closed) closed(data);
}

static void on_chores_closed(uv_handle_t *handle) {
    const struct chores *chores = handle->data;
    uv_close((uv_handle_t *)&chores->store->async, on_async_closed);
}

void store_maybe_closed(struct store *store) {
    bool is_idle = store->thread_ended && build_queue_idle(&store->builds) && chores_are_done(&store->chores);
    if (!is_idle || store->handles_closing) return;
    store->handles_closing = true;
    store_thread_join(&store->thread);
    chores_close(&store->chores, on_chores_closed);
}

static void on_async(uv_async_t *async) {
    struct store *store = async->data;
    if (store_thread_deliver(&store->thread)) store->thread_ended = true;
    store_maybe_closed(store);
}

void store_close(struct store *store, void (*closed)(void *data), void *data) {
    store->closed = closed;
    store->closed_data = data;
    store->is_closing = true;
    chores_hurry(&store->chores);
    store_thread_end(&store->thread);
}

static void on_failed_open_closed(uv_handle_t *handle) {
    free_store(handle->data);
}

/* The async handle is freed in the loop's next turn, so a store that failed to open is freed there too. */
static int start_thread(struct store *store, uv_loop_t *loop, struct store_sql *sql, struct error *reterr) {
    int result = uv_async_init(loop, &store->async, on_async);
    if (result < 0) {
        store_sql_close(sql);
        free_store(store);
        return error_errno(reterr, -result, "preparing the registry's thread");
    }
    store->async.data = store;
    result = store_thread_start(&store->thread, sql, &store->async, reterr);
    if (result < 0) uv_close((uv_handle_t *)&store->async, on_failed_open_closed);
    return result;
}

static int open_files(struct store *store, struct store_sql **ret_sql, struct error *reterr) {
    int result = build_queue_open(&store->builds, store->home, reterr);
    return result < 0 ? result : store_sql_open(store->database_path, ret_sql, reterr);
}

int store_open(uv_loop_t *loop, const char *home, struct store **ret, struct error *reterr) {
    struct store *store = calloc(1, sizeof *store);
    if (!store) return error_set(reterr, E_NO_MEMORY, "opening the store");
    store->loop = loop;
    store->builds.builds_fd = store->builds.tmp_fd = store->builds.all_tmp_fd = store->builds.preallocated_fd = -1;
    store->home = strdup(home);
    store->database_path = string_print("%s/registry.db", home);
    struct store_sql *sql = NULL;
    int result = store->home && store->database_path ? open_files(store, &sql, reterr)
                                                     : error_set(reterr, E_NO_MEMORY, "opening the store");
    if (result < 0) {
        free_store(store);
        return result;
    }
    result = start_thread(store, loop, sql, reterr);
    if (result < 0) return result;
    chores_open(store);
    *ret = store;
    return 0;
}

int store_load_sandboxes(struct store *store, void (*each)(void *data, const struct store_sandbox *row), void *data,
                         struct error *reterr) {
    return store_sql_each_sandbox(store->database_path, each, data, reterr);
}

int store_load_events(struct store *store, size_t limit, void (*each)(void *data, json_t *event), void *data,
                      struct error *reterr) {
    return store_sql_each_event(store->database_path, limit, each, data, reterr);
}

int store_load_histories(struct store *store, void (*each)(void *data, const struct store_history *row), void *data,
                         struct error *reterr) {
    return store_sql_each_history(store->database_path, each, data, reterr);
}

int store_load_usage(struct store *store, void (*each)(void *data, const struct store_usage *row), void *data,
                     struct error *reterr) {
    return store_sql_each_usage(store->database_path, each, data, reterr);
}

/* ---- writing ---- */

struct store_write *store_new_write(enum store_write_kind kind, size_t text_bytes, store_done_fn done, void *data) {
    struct store_write *write = malloc(sizeof *write + text_bytes);
    if (!write) return NULL;
    *write = (struct store_write){.kind = kind, .done = done, .data = data, .bytes = sizeof *write + text_bytes};
    return write;
}

static void refuse_without_memory(struct store *store, store_done_fn done, void *data) {
    struct error error;
    error_set(&error, E_NO_MEMORY, "no memory to queue a write to the registry");
    if (done)
        done(data, &error);
    else
        store_thread_note_loss(&store->thread, &error);
}

enum { ROW_TEXTS = 9 };

static void row_texts(struct store_sandbox *row, const char **ret[ROW_TEXTS]) {
    const char **texts[ROW_TEXTS] = {&row->id,     &row->status, &row->source, &row->profile,   &row->node,
                                     &row->secret, &row->build,  &row->config, &row->last_error};
    memcpy(ret, texts, sizeof texts);
}

/* Moves all strings of the row into one block. */
static void copy_texts(struct store_sandbox *row, char *into) {
    const char **texts[ROW_TEXTS];
    row_texts(row, texts);
    for (int i = 0; i < ROW_TEXTS; i++) {
        if (!*texts[i]) continue;
        size_t bytes = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(into, *texts[i], bytes);
        into += bytes;
    }
}

static size_t texts_bytes(struct store_sandbox row) {
    const char **texts[ROW_TEXTS];
    row_texts(&row, texts);
    size_t bytes = 0;
    for (int i = 0; i < ROW_TEXTS; i++)
        if (*texts[i]) bytes += strlen(*texts[i]) + 1;
    return bytes;
}

static void queue_row(struct store *store, enum store_write_kind kind, const struct store_sandbox *row,
                      store_done_fn done, void *data) {
    struct store_write *write = store_new_write(kind, texts_bytes(*row), done, data);
    if (!write) {
        refuse_without_memory(store, done, data);
        return;
    }
    write->row = *row;
    copy_texts(&write->row, write->text);
    store_thread_queue(&store->thread, write);
}

void store_put_sandbox(struct store *store, const struct store_sandbox *row, store_done_fn done, void *data) {
    queue_row(store, WRITE_PUT_SANDBOX, row, done, data);
}

void store_delete_sandbox(struct store *store, const char *id, store_done_fn done, void *data) {
    struct store_sandbox row = {.id = id};
    queue_row(store, WRITE_DELETE_SANDBOX, &row, done, data);
}

void store_put_histories(struct store *store, struct store_histories *histories) {
    histories_queue(&store->thread, histories);
}

void store_add_usage(struct store *store, const struct store_usage *row) {
    size_t sandbox = strlen(row->sandbox) + 1, text = strlen(row->text) + 1;
    struct store_write *write = store_new_write(WRITE_ADD_USAGE, sandbox + text, NULL, NULL);
    if (!write) {
        refuse_without_memory(store, NULL, NULL);
        return;
    }
    write->usage.sandbox = memcpy(write->text, row->sandbox, sandbox);
    write->usage.text = memcpy(write->text + sandbox, row->text, text);
    write->usage.at_ms = row->at_ms;
    store_thread_queue(&store->thread, write);
}

/* Encoded as text here, since JSON values are not thread-safe. */
void store_add_event(struct store *store, json_t *event) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    term_json_write(event, &text);
    const char *string = buf_string(&text);
    struct store_write *write = text.failed ? NULL : store_new_write(WRITE_ADD_EVENT, text.size + 1, NULL, NULL);
    if (!write) {
        refuse_without_memory(store, NULL, NULL);
        return;
    }
    write->event = memcpy(write->text, string, text.size + 1);
    write->event_seq = json_integer_value(json_object_get(event, "seq"));
    store_thread_queue(&store->thread, write);
}

uint64_t store_lost_writes(struct store *store, struct error *ret_last) {
    return store_thread_lost(&store->thread, ret_last);
}
