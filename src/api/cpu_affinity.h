/* CPU affinity: which processor the daemon runs on while one caller asks back to back. The daemon and that caller wait
   for each other in turns. On two processors each has to wake the other's processor, which on a virtual machine takes
   longer than an answer. So the daemon moves to the caller's processor.

   The kernel may move the daemon away again. If it does so at once, more and more questions pass before the next move.
   A caller that names a processor on which the daemon has to wait delays all other callers. After such a slow move the
   daemon stays where it is for a while, for all callers. */
#ifndef API_CPU_AFFINITY_H
#define API_CPU_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    AFFINITY_APART_LEAST = 3, /* questions in a row from another processor, before the daemon moves */
    AFFINITY_APART_MOST = 4096,
    AFFINITY_WORTH_IT = 16,    /* questions from the daemon's processor after a move that has paid off */
    AFFINITY_SLOW_US = 1000,   /* a move that takes so long is slow */
    AFFINITY_PAUSE_MS = 10000, /* without moves, after a slow one */
};

/* Zero-initialized. */
struct cpu_affinity {
    unsigned apart, together, needed;
    uint64_t not_before_ms;
};

/* For each of the back-to-back questions. True: the daemon is to move once it has answered. */
bool affinity_is_due(struct cpu_affinity *affinity, bool is_together, uint64_t now_ms);
void affinity_moved(struct cpu_affinity *affinity, uint64_t begun_ms, uint64_t took_us);
/* Another caller asks. The pause after a slow move stays. */
void affinity_forget(struct cpu_affinity *affinity);

/* The processor that this thread runs on. */
unsigned affinity_own(void);
/* Moves this thread to a processor, if it may run there, without restricting it to that. Returns how long it took. */
uint64_t affinity_move_us(unsigned processor);

#endif
