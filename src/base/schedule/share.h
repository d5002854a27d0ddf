/* How much of a pool that all users share one of them may hold. No number of its own bounds a user: the more others
   hold, the less it may. A user alone may have a quarter of the pool; further ones have their part of what is left. The
   last eighth is kept for those who are not bound, and the eighth before for users who hold next to nothing: it takes
   dozens of users, not a few, to leave none for the next one. Pure. */
#ifndef BASE_SCHEDULE_SHARE_H
#define BASE_SCHEDULE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARE_KEPT_PART = 8,     /* one of so many parts is for root and the service's own user alone */
    SHARE_SPARE_PART = 8,    /* and another one for users with little */
    SHARE_LITTLE_PART = 128, /* which is one of so many, or one piece */
};

/* In any unit. What is asked for is in both sums. */
struct share {
    uint64_t all;  /* there is */
    uint64_t used; /* by all users */
    uint64_t own;  /* of that, by the user that asks */
};

/* Whether it may have that: it is little, or at most half of what is then left for others. */
bool share_is_fair(const struct share *share, bool is_bound);

#endif
