/* What the BEAM files of reloads take of the daemon's memory, from when they are read until the reload is over: they
   are copied for the node, and kept as versions. All users share a bounded amount of it. */
#include "base/schedule/share.h"
#include "core/reload/reload_job.h"

enum {
    ROOM_BYTES = 256 << 20,
    LEAST_BYTES = 1 << 20, /* with less there is no use in reading */
};

static uint64_t held_bytes(const struct engine *engine, const uid_t *principal) {
    uint64_t bytes = 0;
    for (const struct reload_job *reload = engine->with_room; reload; reload = reload->next_with_room)
        if (!principal || quotas_principal(engine->config.quotas, reload->job.request->caller.uid) == *principal)
            bytes += reload->room_bytes;
    return bytes;
}

static bool is_fair(const struct reload_job *reload, uint64_t more_bytes) {
    const struct engine *engine = reload->job.sandbox->engine;
    uid_t uid = reload->job.request->caller.uid, principal = quotas_principal(engine->config.quotas, uid);
    struct share share = {.all = ROOM_BYTES,
                          .used = held_bytes(engine, NULL) + more_bytes,
                          .own = held_bytes(engine, &principal) + more_bytes};
    return quotas_is_fair(engine->config.quotas, uid, &share);
}

static void hold(struct reload_job *reload) {
    struct engine *engine = reload->job.sandbox->engine;
    for (const struct reload_job *other = engine->with_room; other; other = other->next_with_room)
        if (other == reload) return;
    reload->next_with_room = engine->with_room;
    engine->with_room = reload;
}

/* How much it will be is not known. So the first reloads may read all that a reload may, and further ones of the same
   user less and less. */
int reload_room_take(struct reload_job *reload, struct error *reterr) {
    uint64_t more_bytes = RELOAD_BEAMS_MAX_BYTES - reload->beam_bytes;
    while (more_bytes >= LEAST_BYTES && !is_fair(reload, more_bytes)) more_bytes /= 2;
    if (more_bytes < LEAST_BYTES)
        return error_set(reterr, E_LIMIT, "reloads under way have %llu MiB of BEAM files in memory; try again",
                         (unsigned long long)held_bytes(reload->job.sandbox->engine, NULL) >> 20);
    reload->room_bytes = reload->beam_bytes + more_bytes;
    hold(reload);
    return 0;
}

int reload_room_count(struct reload_job *reload, size_t bytes, struct error *reterr) {
    reload->beam_bytes += bytes;
    if (reload->beam_bytes <= reload->room_bytes) return 0;
    if (reload->room_bytes < RELOAD_BEAMS_MAX_BYTES)
        return error_set(reterr, E_LIMIT, "other reloads leave room for %llu MiB of BEAM files; try again",
                         (unsigned long long)reload->room_bytes >> 20);
    return error_set(reterr, E_TOO_LARGE, "the BEAM files of a reload are larger than %d MiB all told",
                     RELOAD_BEAMS_MAX_BYTES >> 20);
}

void reload_room_settle(struct reload_job *reload) {
    reload->room_bytes = reload->beam_bytes;
}

void reload_room_give(struct reload_job *reload) {
    struct reload_job **at = &reload->job.sandbox->engine->with_room;
    while (*at && *at != reload) at = &(*at)->next_with_room;
    if (*at) *at = reload->next_with_room;
    reload->room_bytes = 0;
}
