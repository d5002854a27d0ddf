/* steps: a long job as a table of steps, in the order in which they happen. The runner begins one step after the other,
   looks between two of them whether the job was called off, and frees the job once. It knows nothing of sandboxes. */
#ifndef CORE_JOBS_STEPS_H
#define CORE_JOBS_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

struct step {
    const char *name;
    /* Begin it. The step ends with one call of step_done, step_go or steps_finish, from inside or later. */
    void (*begin)(void *job);
    /* The job was called off meanwhile: make the step end, from inside or later. NULL: the runner waits for its end.
       It is called at most once, and never from inside begin. */
    void (*abort)(void *job);
};

struct steps_plan {
    const struct step *steps;
    size_t count;
    void (*undo)(void *job);    /* of a job that failed in a step; steps_undone is its end. NULL: nothing is undone */
    void (*end)(void *job);     /* once: steps->error says whether the job failed */
    void (*release)(void *job); /* once, after that: the job's memory */
};

enum steps_phase { STEPS_WAITING, STEPS_BETWEEN, STEPS_WITHIN, STEPS_FAILED, STEPS_UNDOING, STEPS_ENDING, STEPS_OVER };

struct steps {
    const struct steps_plan *plan;
    void *job;
    enum steps_phase phase;
    size_t at;                 /* the step that is under way, or the next one */
    struct error error;        /* E_NONE: no step has failed */
    atomic_bool is_called_off; /* threads may look at it */
    struct error why;          /* it was called off */
    bool is_aborted;           /* the step under way */
    bool is_inside;            /* of the runner: a step that ends now returns to it */
    bool has_timer;
    uint64_t due_ms; /* by loop_attended_ms */
    void (*due)(void *job);
    uv_timer_t timer;
};

/* A job that waits. */
void steps_init(struct steps *steps, const struct steps_plan *plan, void *job);
void steps_begin(struct steps *steps);
/* Call it off. A job that waits ends at once. One that runs ends when the step under way has ended; after its last step
   it is too late. The first call counts. */
void steps_call_off(struct steps *steps, const struct error *why);

/* The step under way has ended: the next one begins, or the job ends after the last. An error fails the job. The job
   may be gone afterwards. */
void step_done(struct steps *steps, const struct error *error);
/* The same, but the step with that number follows. */
void step_go(struct steps *steps, size_t next);
/* The same, but the job has nothing left to do. */
void steps_finish(struct steps *steps);
/* For abort: the step has ended, and the job fails with the reason why it was called off. */
void step_aborted(struct steps *steps);
void steps_undone(struct steps *steps);

/* Call due after that time, unless the step has ended by then. The time is one in which the loop listened. */
void step_wait(struct steps *steps, uv_loop_t *loop, uint64_t after_ms, void (*due)(void *job));

bool steps_are_at(const struct steps *steps, size_t step); /* it is under way */

#endif
