/* The bytes of versions go to the disk after the answer: they are safe from the daemon's own death before it. */
#include <string.h>

#include "core/core_internal.h"
#include "core/reload/reload.h"

struct syncing {
    struct beam_store beams;
    size_t count;
    char names[][CODE_DIGEST_BYTES];
};

static void sync_all(void *data) {
    const struct syncing *syncing = data;
    for (size_t i = 0; i < syncing->count; i++) code_beam_sync(&syncing->beams, syncing->names[i]);
    code_beam_sync(&syncing->beams, "");
}

void reload_sync(const struct sandbox *sandbox, const struct change_set *changes) {
    struct engine *engine = sandbox->engine;
    struct syncing *syncing = calloc(1, sizeof *syncing + 2 * changes->count * sizeof syncing->names[0]);
    if (!syncing) return; /* the kernel writes them in its own time */
    for (size_t i = 0; i < changes->count; i++) {
        const struct version *sides[] = {&changes->items[i].version, &changes->items[i].old_version};
        for (size_t k = 0; k < ARRAY_SIZE(sides); k++)
            if (sides[k]->beam[0]) memcpy(syncing->names[syncing->count++], sides[k]->beam, CODE_DIGEST_BYTES);
    }
    syncing->beams = (struct beam_store){.home = engine->config.home, .owner = sandbox->owner};
    store_add_chore(engine->store, sync_all, free, syncing);
}
