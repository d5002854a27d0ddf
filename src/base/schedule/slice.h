/* How long a process keeps the processor while others want it. */
#ifndef BASE_SCHEDULE_SLICE_H
#define BASE_SCHEDULE_SLICE_H

#include <stdint.h>

/* Of this thread and of what it starts; its nice value stays. Kernels before 6.12 take no notice. */
void slice_set(uint64_t slice_ns);

#endif
