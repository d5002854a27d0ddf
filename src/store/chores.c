/* Background work without a waiting caller, such as syncing. It begins a moment later, because the caller of the
   operation that left it still waits for more, on the same few cores. Chores run one after the other, so that a slow
   disk occupies one thread of the pool. */
#include <stdlib.h>

#include "loop/loop.h"
#include "store/store_internal.h"

enum { CHORES_AFTER_MS = 10 };

struct chore {
    STAILQ_ENTRY(chore) link;
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
};

static void begin(uv_timer_t *timer);

static void await(struct chores *chores, uint64_t after_ms) {
    if (!chores->is_running && !STAILQ_EMPTY(&chores->waiting)) uv_timer_start(&chores->timer, begin, after_ms, 0);
}

static void run(uv_work_t *request) {
    const struct chores *chores = request->data;
    const struct chore *chore = STAILQ_FIRST(&chores->waiting);
    chore->work(chore->data);
}

static void after_run(uv_work_t *request, int status) {
    struct chores *chores = request->data;
    struct chore *chore = STAILQ_FIRST(&chores->waiting);
    (void)status;
    STAILQ_REMOVE_HEAD(&chores->waiting, link);
    chores->is_running = false;
    await(chores, 0);
    chore->done(chore->data);
    free(chore);
    store_maybe_closed(chores->store);
}

static void begin(uv_timer_t *timer) {
    struct chores *chores = timer->data;
    chores->is_running = true;
    loop_queue_work(timer->loop, &chores->request, run, after_run);
}

void store_add_chore(struct store *store, void (*work)(void *data), void (*done)(void *data), void *data) {
    struct chores *chores = &store->chores;
    struct chore *chore = malloc(sizeof *chore);
    if (!chore) {
        done(data);
        return;
    }
    *chore = (struct chore){.work = work, .done = done, .data = data};
    bool is_first = STAILQ_EMPTY(&chores->waiting);
    STAILQ_INSERT_TAIL(&chores->waiting, chore, link);
    if (is_first) await(chores, store->is_closing ? 0 : CHORES_AFTER_MS);
}

void chores_open(struct store *store) {
    struct chores *chores = &store->chores;
    STAILQ_INIT(&chores->waiting);
    chores->store = store;
    chores->timer.data = chores->request.data = chores;
    uv_timer_init(store->loop, &chores->timer);
}

void chores_hurry(struct chores *chores) {
    await(chores, 0);
}

bool chores_are_done(const struct chores *chores) {
    return STAILQ_EMPTY(&chores->waiting);
}

void chores_close(struct chores *chores, uv_close_cb closed) {
    uv_close((uv_handle_t *)&chores->timer, closed);
}
