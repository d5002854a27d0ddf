/* The bytes of versions go to the disk after the answer: they are safe from the daemon's own death before it. */
#include <string.h>

#include "core/reload.h"

struct syncing {
    struct syncing *next; /* one after the other, so that a slow disk holds up one thread of the pool */
    uv_work_t work;
    struct engine *engine;
    size_t count;
    char beams[][CODE_DIGEST_BYTES];
};

static void sync_all(uv_work_t *work) {
    struct syncing *syncing = work->data;
    for (size_t i = 0; i < syncing->count; i++) code_beam_sync(syncing->engine->config.home, syncing->beams[i]);
    code_beam_sync(syncing->engine->config.home, "");
}

static void on_synced(uv_work_t *work, int status);

static void begin(struct syncing *syncing) {
    uv_queue_work(syncing->engine->loop, &syncing->work, sync_all, on_synced);
}

static void on_synced(uv_work_t *work, int status) {
    struct syncing *syncing = work->data;
    struct engine *engine = syncing->engine;
    (void)status;
    engine->syncing = syncing->next;
    free(syncing);
    if (engine->syncing) begin(engine->syncing);
    engine_wake(engine);
}

void reload_sync(struct engine *engine, const struct change_set *changes) {
    struct syncing *syncing = calloc(1, sizeof *syncing + 2 * changes->count * sizeof syncing->beams[0]);
    if (!syncing) return; /* the kernel writes them in its own time */
    for (size_t i = 0; i < changes->count; i++) {
        const struct version *sides[] = {&changes->items[i].version, &changes->items[i].old_version};
        for (size_t k = 0; k < ARRAY_SIZE(sides); k++)
            if (sides[k]->beam[0]) memcpy(syncing->beams[syncing->count++], sides[k]->beam, CODE_DIGEST_BYTES);
    }
    syncing->engine = engine;
    syncing->work.data = syncing;
    struct syncing **at = &engine->syncing;
    while (*at) at = &(*at)->next;
    *at = syncing;
    if (engine->syncing == syncing) begin(syncing);
}
