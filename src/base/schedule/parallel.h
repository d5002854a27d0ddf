/* A loop whose rounds don't depend on one another, run on several processors. */
#ifndef BASE_SCHEDULE_PARALLEL_H
#define BASE_SCHEDULE_PARALLEL_H

#include <stddef.h>

struct error;

enum { PARALLEL_THREADS_MAX = 8 };

/* One round; runs on any thread, several at once. A negative answer ends the loop: rounds that have begun end, no other
   begins. */
typedef int parallel_fn(void *context, size_t index, struct error *reterr);

/* 0 when every round from 0 to count - 1 was run; else what the first of those that failed said. The caller's thread
   takes part, so it works, more slowly, where no other can be had. Blocking. */
int parallel_each(size_t count, parallel_fn *run, void *context, struct error *reterr);

#endif
