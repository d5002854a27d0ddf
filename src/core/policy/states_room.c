/* Shares the daemon's memory for states of restarts among users. */
#include "core/policy/states_room.h"

#include "base/schedule/share.h"

static bool is_fair(const struct states_room *part) {
    const struct quotas *quotas = part->engine->config.quotas;
    uid_t principal = quotas_principal(quotas, part->owner);
    struct share share = {.all = STATES_ROOM_BYTES, .used = STATES_MAX_BYTES, .own = STATES_MAX_BYTES};
    for (const struct states_room *other = part->engine->with_states; other; other = other->next) {
        share.used += other->bytes;
        if (quotas_principal(quotas, other->owner) == principal) share.own += other->bytes;
    }
    return quotas_is_fair(quotas, part->owner, &share);
}

/* Of those that wait for room, the first that may have it. */
static struct states_room *next_fair(const struct engine *engine) {
    struct states_room *part = engine->with_states;
    while (part && !(part->is_waiting && is_fair(part))) part = part->next;
    return part;
}

/* What is granted may give room back at once, or end others that wait: the list is looked at anew. */
static void grant(struct engine *engine) {
    struct states_room *part;
    while ((part = next_fair(engine))) {
        part->is_waiting = false;
        part->bytes = STATES_MAX_BYTES;
        part->granted(part->data);
    }
}

void states_room_take(struct engine *engine, struct states_room *part, uid_t owner, void (*granted)(void *data),
                      void *data) {
    struct states_room **at = &engine->with_states;
    *part =
        (struct states_room){.engine = engine, .owner = owner, .is_waiting = true, .granted = granted, .data = data};
    while (*at) at = &(*at)->next;
    *at = part;
    grant(engine);
}

void states_room_settle(struct states_room *part, uint64_t bytes) {
    part->bytes = bytes;
    grant(part->engine);
}

void states_room_give(struct states_room *part) {
    struct engine *engine = part->engine;
    if (!engine) return;
    struct states_room **at = &engine->with_states;
    while (*at != part) at = &(*at)->next;
    *at = part->next;
    *part = (struct states_room){0};
    grant(engine);
}
