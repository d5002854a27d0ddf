/* queue: what changes a sandbox waits its turn; what only looks or evaluates runs side by side in between. */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include "core/core.h"

struct sandbox;

enum {
    JOBS_MAX = 256, /* waiting on one sandbox */
};

struct job {
    struct job *next;
    struct sandbox *sandbox;
    struct request *request; /* NULL for the engine's own */
    bool exclusive;
    bool running;
    void (*start)(struct job *job);
    void (*abort)(struct job *job, const struct error *why); /* of a running one; job_finish follows, soon */
};

struct job_queue {
    struct job *jobs; /* oldest first */
    bool is_held;     /* none of them starts now */
};

/* Start it when its turn comes. */
void job_submit(struct job *job);
/* Off the queue, and the next may start. The job's memory and its request's answer are the caller's affair. */
void job_finish(struct job *job);
/* Fail what waits, abort what runs. */
void jobs_abort_all(struct sandbox *sandbox, const struct error *why);

#endif
