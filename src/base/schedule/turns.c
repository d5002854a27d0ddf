/* Work of several callers, begun by turns: one caller has one piece of work under way at a time. Pure. */
#include "base/schedule/turns.h"

static void append(struct turn **list, struct turn *turn) {
    while (*list) list = &(*list)->next;
    turn->next = NULL;
    *list = turn;
}

static void take_out(struct turn **list, const struct turn *turn) {
    while (*list != turn) list = &(*list)->next;
    *list = turn->next;
}

static bool is_bound(const struct turns *turns, uint32_t owner) {
    return owner != 0 && owner != turns->service;
}

static bool may_begin(const struct turns *turns, uint32_t owner) {
    size_t count = 0;
    if (!is_bound(turns, owner)) return true;
    for (const struct turn *turn = turns->running; turn; turn = turn->next) count += turn->owner == owner;
    return count < TURNS_OF_ONE;
}

static void begin(struct turns *turns, struct turn *turn) {
    append(&turns->running, turn);
    turn->begin(turn);
}

void turns_take(struct turns *turns, struct turn *turn) {
    if (may_begin(turns, turn->owner))
        begin(turns, turn);
    else
        append(&turns->waiting, turn);
}

void turns_give_back(struct turns *turns, struct turn *turn) {
    uint32_t owner = turn->owner;
    take_out(&turns->running, turn);
    for (struct turn *next = turns->waiting; next; next = next->next) {
        if (next->owner != owner) continue;
        take_out(&turns->waiting, next);
        begin(turns, next);
        return;
    }
}
