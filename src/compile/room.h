/* What compilations hold of the daemon's memory until their builds are written: code, and the files that are taken as
   they are. All users share a bounded amount of it, and any thread takes of it. */
#ifndef COMPILE_ROOM_H
#define COMPILE_ROOM_H

#include "base/base.h"

enum { COMPILE_ROOM_BYTES = 1 << 30 };

struct compile_room;

/* What one compilation holds; one thread at a time uses it. With no room at all it is counted, and not bounded. */
struct room_part {
    struct compile_room *room;
    struct room_holder *holder; /* whose it is */
    bool is_bound;              /* it has no more than its share */
    uint64_t bytes;
};

struct compile_room *room_open(void); /* NULL without memory */
/* Its parts may outlive this: the last one frees it. */
void room_close(struct compile_room *room);

/* Begin a part, which is all zeros. On the loop's thread, as room_open and room_close. */
void room_begin(struct compile_room *room, struct room_part *part, uid_t principal, bool is_bound);
/* E_LIMIT when it is more than the principal's share, given what others hold; nothing is taken then. */
int room_take(struct room_part *part, uint64_t bytes, struct error *reterr);
void room_give(struct room_part *part, uint64_t bytes); /* no more than it holds */
void room_end(struct room_part *part);                  /* gives all of it; a part that never began is no matter */

#endif
