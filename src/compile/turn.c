/* Turns to compile: those of one owner wait for one another, and for no other owner's. */
#include "compile/worker.h"

static void wait_for_turn(struct compile_turn *turn) {
    struct compile_turn **at = &turn->compiler->waiting;
    while (*at) at = &(*at)->next;
    turn->next = NULL;
    *at = turn;
}

static void stop_waiting(struct compile_turn *turn) {
    struct compile_turn **at = &turn->compiler->waiting;
    while (*at && *at != turn) at = &(*at)->next;
    if (*at) *at = turn->next;
    turn->next = NULL;
}

/* Have it, or wait until another one of this owner is given back. One that has none would wait for ever. */
static void take_or_wait(struct compile_turn *turn) {
    struct quotas *quotas = turn->compiler->settings.quotas;
    struct error error;
    if (quotas_take(quotas, turn->owner, QUOTA_COMPILERS, 1, &error) == 0) {
        turn->is_held = true;
        turn->taken(turn, NULL);
    } else if (quotas_held(quotas, turn->owner, QUOTA_COMPILERS) > 0) {
        wait_for_turn(turn);
    } else {
        turn->compiler = NULL;
        turn->taken(turn, &error);
    }
}

void compile_turn_take(struct compiler *compiler, uid_t owner, struct compile_turn *turn,
                       void (*taken)(struct compile_turn *turn, const struct error *error)) {
    *turn = (struct compile_turn){.compiler = compiler, .owner = owner, .taken = taken};
    take_or_wait(turn);
}

static void pass_on(struct compiler *compiler, uid_t owner) {
    struct compile_turn *next = compiler->waiting;
    const struct quotas *quotas = compiler->settings.quotas;
    uid_t principal = quotas_principal(quotas, owner);
    quotas_give(compiler->settings.quotas, owner, QUOTA_COMPILERS, 1);
    while (next && quotas_principal(quotas, next->owner) != principal) next = next->next;
    if (!next) return;
    stop_waiting(next);
    take_or_wait(next);
}

void compile_turn_give(struct compile_turn *turn) {
    struct compile_turn given = *turn;
    if (!given.compiler) return;
    if (!given.is_held) stop_waiting(turn);
    *turn = (struct compile_turn){0};
    if (given.is_held) pass_on(given.compiler, given.owner);
}
