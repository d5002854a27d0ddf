/* The bytes of versions go to the disk after the answer: they are safe from the daemon's own death before it. */
#include <string.h>

#include "core/core_internal.h"
#include "core/reload/reload.h"

struct syncing {
    const char *home;
    size_t count;
    char beams[][CODE_DIGEST_BYTES];
};

static void sync_all(void *data) {
    const struct syncing *syncing = data;
    for (size_t i = 0; i < syncing->count; i++) code_beam_sync(syncing->home, syncing->beams[i]);
    code_beam_sync(syncing->home, "");
}

void reload_sync(struct engine *engine, const struct change_set *changes) {
    struct syncing *syncing = calloc(1, sizeof *syncing + 2 * changes->count * sizeof syncing->beams[0]);
    if (!syncing) return; /* the kernel writes them in its own time */
    for (size_t i = 0; i < changes->count; i++) {
        const struct version *sides[] = {&changes->items[i].version, &changes->items[i].old_version};
        for (size_t k = 0; k < ARRAY_SIZE(sides); k++)
            if (sides[k]->beam[0]) memcpy(syncing->beams[syncing->count++], sides[k]->beam, CODE_DIGEST_BYTES);
    }
    syncing->home = engine->config.home;
    store_add_chore(engine->store, sync_all, free, syncing);
}
