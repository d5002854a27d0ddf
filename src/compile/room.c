/* How much memory compilations hold, by user. The loop waits for no thread here: what several of them change is atomic,
   and the list of users is the loop's own. */
#include "compile/room.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/schedule/share.h"

struct room_holder {
    struct room_holder *next;
    uid_t principal;
    _Atomic uint64_t bytes;
    atomic_uint parts; /* without any it is freed, when the next part begins */
};

struct compile_room {
    struct room_holder *holders;
    _Atomic uint64_t bytes; /* of all of them */
    atomic_uint users;      /* its owner, and all parts */
};

struct compile_room *room_open(void) {
    struct compile_room *room = calloc(1, sizeof *room);
    if (room) atomic_store(&room->users, 1);
    return room;
}

static void leave(struct compile_room *room) {
    if (atomic_fetch_sub(&room->users, 1) > 1) return;
    while (room->holders) {
        struct room_holder *holder = room->holders;
        room->holders = holder->next;
        free(holder);
    }
    free(room);
}

void room_close(struct compile_room *room) {
    if (room) leave(room);
}

static void forget_idle(struct compile_room *room) {
    struct room_holder **at = &room->holders;
    while (*at) {
        struct room_holder *holder = *at;
        if (atomic_load(&holder->parts) > 0) {
            at = &holder->next;
            continue;
        }
        *at = holder->next;
        free(holder);
    }
}

static struct room_holder *find_or_add(struct compile_room *room, uid_t principal) {
    for (struct room_holder *holder = room->holders; holder; holder = holder->next)
        if (holder->principal == principal) return holder;
    struct room_holder *holder = zeroed_or_abort(1, sizeof *holder);
    holder->principal = principal;
    holder->next = room->holders;
    room->holders = holder;
    return holder;
}

void room_begin(struct compile_room *room, struct room_part *part, uid_t principal, bool is_bound) {
    *part = (struct room_part){.room = room, .is_bound = is_bound};
    if (!room) return;
    forget_idle(room);
    part->holder = find_or_add(room, principal);
    atomic_fetch_add(&part->holder->parts, 1);
    atomic_fetch_add(&room->users, 1);
}

static void give(struct room_part *part, uint64_t bytes) {
    atomic_fetch_sub(&part->holder->bytes, bytes);
    atomic_fetch_sub(&part->room->bytes, bytes);
}

/* Taken first: two that take at once are both counted. */
static int take(struct room_part *part, uint64_t bytes, struct error *reterr) {
    uint64_t own = atomic_fetch_add(&part->holder->bytes, bytes), used = atomic_fetch_add(&part->room->bytes, bytes);
    struct share share = {.all = COMPILE_ROOM_BYTES, .used = used + bytes, .own = own + bytes};
    if (share_is_fair(&share, part->is_bound)) return 0;
    give(part, bytes);
    return error_set(reterr, E_LIMIT,
                     "compilations under way have %llu MiB in memory, %llu of them for this user, and there is no room "
                     "for more; try again when some have ended",
                     (unsigned long long)used >> 20, (unsigned long long)own >> 20);
}

int room_take(struct room_part *part, uint64_t bytes, struct error *reterr) {
    int result = part->room ? take(part, bytes, reterr) : 0;
    if (result == 0) part->bytes += bytes;
    return result;
}

void room_give(struct room_part *part, uint64_t bytes) {
    if (bytes > part->bytes) bytes = part->bytes;
    part->bytes -= bytes;
    if (part->room) give(part, bytes);
}

void room_end(struct room_part *part) {
    struct compile_room *room = part->room;
    if (!room) return;
    room_give(part, part->bytes);
    atomic_fetch_sub(&part->holder->parts, 1);
    *part = (struct room_part){0};
    leave(room);
}
