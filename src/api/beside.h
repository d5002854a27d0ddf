/* Which processor the daemon runs on while somebody asks again and again. Each of the two waits while the other works;
   on two processors each has to be woken up by the other's, which on a virtual machine takes longer than an answer. So
   the daemon comes to the caller's processor. The kernel may send it elsewhere the next time: where it does so at once,
   more and more questions pass before the next attempt. Whoever names a processor on which the daemon has to wait has
   all others wait too: after that it stays where it is for a while, whoever asks. */
#ifndef API_BESIDE_H
#define API_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BESIDE_APART_LEAST = 3, /* questions in a row from another processor, before it moves */
    BESIDE_APART_MOST = 4096,
    BESIDE_WORTH_IT = 16, /* questions from its own since it has moved */
    BESIDE_SLOW_US = 1000,
    BESIDE_PAUSE_MS = 10000, /* after a move that took so long */
};

/* All zeros to begin with. */
struct beside {
    unsigned apart, together, needed;
    uint64_t not_before_ms;
};

/* For each question of a series: whether to move once it is answered. */
bool beside_is_due(struct beside *beside, bool is_together, uint64_t now_ms);
void beside_moved(struct beside *beside, uint64_t begun_ms, uint64_t took_us);
void beside_forget(struct beside *beside); /* another asks: all but that it was slow */

/* The processor that this thread runs on; another one for it, if it may run there. It may run wherever it could before
   from then on. Returns how long that took. */
unsigned beside_own(void);
uint64_t beside_move_us(unsigned processor);

#endif
