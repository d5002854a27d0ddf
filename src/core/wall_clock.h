/* wall_clock: how far the wall clock was stepped, by the machine's own clock. */
#ifndef CORE_WALL_CLOCK_H
#define CORE_WALL_CLOCK_H

#include <stdint.h>

#include "base/base.h"

struct engine;

struct wall_clock {
    char boot_id[BOOT_ID_BYTES]; /* of the host's present boot; "": it can't be read */
    int64_t opened_wall_ms, opened_boot_ms;
    int64_t step_before_ms; /* since the daemon before was opened, in this run of the machine */
};

void wall_clock_open(struct engine *engine);
/* How far the wall clock was stepped forward since the daemon before this one began: files may look so much older. */
int64_t wall_clock_forward_ms(const struct engine *engine);
int64_t wall_clock_age_ms(int64_t at_ms); /* how long ago that was by the wall clock; never negative */

#endif
