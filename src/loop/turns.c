/* Work that waits for a later turn, because this one is full. The sockets of a turn are served first and may fill every
   turn, so what waits has a small part of each turn that they can't take. */
#include "loop/loop.h"

static void on_idle(uv_idle_t *idle) {
    struct loop_turns *turns = idle->data;
    uint64_t begun_ns = uv_hrtime();
    struct fair_item *item;
    loop_note(turns->loop, turns->work, NULL);
    while ((item = fair_take(&turns->waiting, NULL, NULL))) {
        struct loop_waiter *waiter = (struct loop_waiter *)((char *)item - offsetof(struct loop_waiter, item));
        waiter->go(waiter);
        if (loop_slice_is_over(turns->loop, turns->full_us, begun_ns)) break;
    }
    if (turns->waiting.count == 0) uv_idle_stop(idle);
}

void loop_turns_open(struct loop_turns *turns, uv_loop_t *loop, const char *work, uint32_t full_us) {
    *turns = (struct loop_turns){.loop = loop, .work = work, .full_us = full_us};
    fair_init(&turns->waiting);
    uv_idle_init(loop, &turns->idle);
    turns->idle.data = turns;
}

void loop_turns_close(struct loop_turns *turns, uv_close_cb closed) {
    uv_close((uv_handle_t *)&turns->idle, closed);
}

bool loop_turns_wait(struct loop_turns *turns, uint64_t key, struct loop_waiter *waiter) {
    if (!loop_turn_is_longer(turns->loop, turns->full_us) && turns->waiting.count == 0) return false;
    if (!fair_put(&turns->waiting, key, &waiter->item)) return false;
    uv_idle_start(&turns->idle, on_idle);
    return true;
}

void loop_turns_remove(struct loop_turns *turns, struct loop_waiter *waiter) {
    fair_remove(&turns->waiting, &waiter->item);
}
