/* What tests say to the clock of steady_clock.c. */
#ifndef TEST_STEADY_CLOCK_H
#define TEST_STEADY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* From now on a wait that no event ends at once is over at once, and has taken as long as it was meant to. Only for a
   test whose events all come from its own thread: others would be late. */
void steady_clock_skip_waits(bool is_skipping);
/* As if the program had stood still for so long, and had noticed. */
void steady_clock_pass(uint64_t ms);

#endif
