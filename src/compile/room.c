/* How much memory compilations hold, by user. */
#include "compile/room.h"

#include <stdlib.h>

#include <uv.h>

#include "base/schedule/share.h"

struct holder {
    struct holder *next;
    uid_t principal;
    uint64_t bytes;
    unsigned parts;
};

struct compile_room {
    uv_mutex_t lock;
    struct holder *holders; /* principals with a compilation under way */
    uint64_t bytes;         /* of all of them */
    bool is_closed;
};

static struct holder *find(const struct compile_room *room, uid_t principal) {
    struct holder *holder = room->holders;
    while (holder && holder->principal != principal) holder = holder->next;
    return holder;
}

struct compile_room *room_open(void) {
    struct compile_room *room = calloc(1, sizeof *room);
    if (room && uv_mutex_init(&room->lock) == 0) return room;
    free(room);
    return NULL;
}

/* Unlocks it. */
static void leave(struct compile_room *room) {
    bool is_over = room->is_closed && !room->holders;
    uv_mutex_unlock(&room->lock);
    if (!is_over) return;
    uv_mutex_destroy(&room->lock);
    free(room);
}

void room_close(struct compile_room *room) {
    if (!room) return;
    uv_mutex_lock(&room->lock);
    room->is_closed = true;
    leave(room);
}

void room_begin(struct compile_room *room, struct room_part *part, uid_t principal, bool is_bound) {
    *part = (struct room_part){.room = room, .principal = principal, .is_bound = is_bound};
    if (!room) return;
    uv_mutex_lock(&room->lock);
    struct holder *holder = find(room, principal);
    if (!holder) {
        holder = new_or_abort(struct holder);
        *holder = (struct holder){.next = room->holders, .principal = principal};
        room->holders = holder;
    }
    holder->parts++;
    leave(room);
}

static int take(struct compile_room *room, const struct room_part *part, uint64_t bytes, struct error *reterr) {
    struct holder *holder = find(room, part->principal);
    struct share share = {.all = COMPILE_ROOM_BYTES, .used = room->bytes + bytes, .own = holder->bytes + bytes};
    if (!share_is_fair(&share, part->is_bound))
        return error_set(reterr, E_LIMIT,
                         "compilations under way have %llu MiB in memory, %llu of them for this user, and there is no "
                         "room for more; try again when some have ended",
                         (unsigned long long)room->bytes >> 20, (unsigned long long)holder->bytes >> 20);
    holder->bytes += bytes;
    room->bytes += bytes;
    return 0;
}

int room_take(struct room_part *part, uint64_t bytes, struct error *reterr) {
    int result = 0;
    if (part->room) {
        uv_mutex_lock(&part->room->lock);
        result = take(part->room, part, bytes, reterr);
        leave(part->room);
    }
    if (result == 0) part->bytes += bytes;
    return result;
}

static void give(struct room_part *part, uint64_t bytes) {
    if (bytes > part->bytes) bytes = part->bytes;
    part->bytes -= bytes;
    if (!part->room) return;
    find(part->room, part->principal)->bytes -= bytes;
    part->room->bytes -= bytes;
}

void room_give(struct room_part *part, uint64_t bytes) {
    if (part->room) uv_mutex_lock(&part->room->lock);
    give(part, bytes);
    if (part->room) leave(part->room);
}

static void drop_holder(struct compile_room *room, struct holder *holder) {
    struct holder **at = &room->holders;
    if (--holder->parts > 0) return;
    while (*at != holder) at = &(*at)->next;
    *at = holder->next;
    free(holder);
}

void room_end(struct room_part *part) {
    struct compile_room *room = part->room;
    if (!room) return;
    uv_mutex_lock(&room->lock);
    give(part, part->bytes);
    drop_holder(room, find(room, part->principal));
    *part = (struct room_part){0};
    leave(room);
}
