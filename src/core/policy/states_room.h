/* Room for the states that restarts carry from one VM to the next: they are in the daemon's memory from when the old VM
   has told them until the new one has read them. All users share a bounded amount of it, and restarts wait for it. */
#ifndef CORE_POLICY_STATES_ROOM_H
#define CORE_POLICY_STATES_ROOM_H

#include "core/core_internal.h"

enum { STATES_ROOM_BYTES = 256 << 20 };

struct states_room {
    struct states_room *next; /* of the engine's, in the order in which they came; each holds some or waits */
    struct engine *engine;    /* NULL: it does neither */
    uid_t owner;
    bool is_waiting;
    uint64_t bytes;
    void (*granted)(void *data);
    void *data;
};

/* Take as much as states may have, for the user whose sandbox it is: granted is called once there is so much, maybe
   from inside. The part is all zeros. */
void states_room_take(struct engine *engine, struct states_room *part, uid_t owner, void (*granted)(void *data),
                      void *data);
void states_room_settle(struct states_room *part, uint64_t bytes); /* that they have; others may be granted theirs */
/* Give it back, or wait no longer; nothing happens where it did neither. */
void states_room_give(struct states_room *part);

#endif
