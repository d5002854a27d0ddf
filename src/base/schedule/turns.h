/* Decides which work may have a thread of a small pool now. Work for one owner waits for earlier work of the same
   owner, so that an owner whose work takes long, or hangs, holds one thread and no more. Knows nothing of threads: the
   owner of a turn is told when it begins, and says when it has ended. One thread's alone, the loop's. Zeroed is empty.

   This is not loop/fair.c. That queue chooses between keys when its reader has time, and does not know what runs. Turns
   bound what runs for each owner and never choose between owners: libuv's pool has a queue of its own. Built on that
   queue, turns would still keep the list of what runs, and would allocate a line for each owner that waits. */
#ifndef BASE_SCHEDULE_TURNS_H
#define BASE_SCHEDULE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TURNS_OF_ONE = 1 }; /* at once */

struct turn {
    struct turn *next;
    uint32_t owner;
    void (*begin)(struct turn *turn);
};

struct turns {
    uint32_t service; /* the service's own user, who is not bound; nor is root */
    struct turn *running, *waiting;
};

/* Begin at once, or when earlier turns of its owner have ended. The caller fills owner and begin, and keeps it. */
void turns_take(struct turns *turns, struct turn *turn);
/* It has ended. The oldest that waits for its owner begins, from inside this. */
void turns_give_back(struct turns *turns, struct turn *turn);

#endif
