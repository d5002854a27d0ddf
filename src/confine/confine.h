/* confine: the daemon's own confinement. The daemon puts a system-call filter on itself, and reads from the kernel how
   it is bounded. */
#ifndef CONFINE_CONFINE_H
#define CONFINE_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

struct error;

/* From now on the daemon, with every thread that it has or starts, makes only the system calls that its work needs. It
   can't be undone. */
int confine_daemon(struct error *reterr);

struct confine_bounds {
    uint64_t memory_bytes; /* of the cgroup that the launcher gave it; 0: it has none */
    bool is_filtered;
};

struct confine_bounds confine_bounds(void);

#endif
