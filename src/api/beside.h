/* Which processor the daemon runs on while somebody asks again and again. Each of the two waits while the other works;
   on two processors each has to be woken up by the other's, which on a virtual machine takes longer than an answer. So
   the daemon comes to the caller's processor. The kernel may send it elsewhere the next time: where it does so at once,
   more and more questions pass before the next attempt. */
#ifndef API_BESIDE_H
#define API_BESIDE_H

#include <stdbool.h>

enum {
    BESIDE_APART_LEAST = 3, /* questions in a row from another processor, before it moves */
    BESIDE_APART_MOST = 4096,
    BESIDE_WORTH_IT = 16, /* questions from its own since it has moved */
};

/* All zeros to begin with. */
struct beside {
    unsigned apart, together, needed;
};

/* For each question of a series: whether to move once it is answered. */
bool beside_is_due(struct beside *beside, bool is_together);

/* The processor that this thread runs on; another one for it, if it may run there. It may run wherever it could before
   from then on. */
unsigned beside_own(void);
void beside_move(unsigned processor);

#endif
