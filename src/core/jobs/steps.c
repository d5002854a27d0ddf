/* The runner of long jobs. A loop moves a job from phase to phase, so that a step which ends from inside its own
   beginning returns to the loop instead of calling the next one from its depth. */
#include "core/jobs/steps.h"

#include <assert.h>

#include "loop/loop.h"

void steps_init(struct steps *steps, const struct steps_plan *plan, void *job) {
    *steps = (struct steps){.plan = plan, .job = job};
}

/* ---- the loop ---- */

static void begin_step(struct steps *steps) {
    steps->phase = STEPS_WITHIN;
    steps->is_aborted = false;
    steps->plan->steps[steps->at].begin(steps->job);
}

/* Whether a step had to be aborted. */
static bool abort_step(struct steps *steps) {
    const struct step *step = &steps->plan->steps[steps->at];
    if (!steps->is_called_off || steps->is_aborted) return false;
    steps->is_aborted = true;
    if (step->abort) step->abort(steps->job);
    return true;
}

static void begin_undoing(struct steps *steps) {
    steps->phase = steps->plan->undo ? STEPS_UNDOING : STEPS_ENDING;
    if (steps->plan->undo) steps->plan->undo(steps->job);
}

static void end(struct steps *steps) {
    steps->phase = STEPS_OVER;
    steps->plan->end(steps->job);
}

/* Whether anything could be done now. */
static bool advance(struct steps *steps) {
    switch (steps->phase) {
    case STEPS_BETWEEN: begin_step(steps); return true;
    case STEPS_WITHIN: return abort_step(steps);
    case STEPS_FAILED: begin_undoing(steps); return true;
    case STEPS_ENDING: end(steps); return true;
    case STEPS_WAITING:
    case STEPS_UNDOING:
    case STEPS_OVER: break;
    }
    return false;
}

static void on_timer_closed(uv_handle_t *handle) {
    struct steps *steps = handle->data;
    steps->plan->release(steps->job);
}

static void run(struct steps *steps) {
    if (steps->is_inside) return;
    steps->is_inside = true;
    while (advance(steps)) {
    }
    steps->is_inside = false;
    if (steps->phase != STEPS_OVER) return;
    if (steps->has_timer)
        uv_close((uv_handle_t *)&steps->timer, on_timer_closed);
    else
        steps->plan->release(steps->job);
}

/* ---- the job's word ---- */

void steps_begin(struct steps *steps) {
    assert(steps->phase == STEPS_WAITING);
    steps->phase = STEPS_BETWEEN;
    run(steps);
}

void steps_call_off(struct steps *steps, const struct error *why) {
    if (steps->is_called_off || steps->phase >= STEPS_FAILED) return;
    steps->why = *why;
    steps->is_called_off = true;
    if (steps->phase == STEPS_WAITING) {
        steps->error = *why;
        steps->phase = STEPS_ENDING;
    }
    run(steps);
}

/* The reason of a call-off goes before the failure that it may have caused. */
static void leave_step(struct steps *steps, const struct error *error, size_t next) {
    bool is_last = next >= steps->plan->count;
    assert(steps->phase == STEPS_WITHIN);
    if (steps->has_timer) uv_timer_stop(&steps->timer);
    if (steps->is_called_off && (error || !is_last)) error = &steps->why;
    if (error) {
        steps->error = *error;
        steps->phase = STEPS_FAILED;
    } else {
        steps->at = is_last ? steps->at : next;
        steps->phase = is_last ? STEPS_ENDING : STEPS_BETWEEN;
    }
    run(steps);
}

void step_done(struct steps *steps, const struct error *error) {
    leave_step(steps, error, steps->at + 1);
}

void step_aborted(struct steps *steps) {
    step_done(steps, &steps->why);
}

void step_go(struct steps *steps, size_t next) {
    leave_step(steps, NULL, next);
}

void steps_finish(struct steps *steps) {
    leave_step(steps, NULL, steps->plan->count);
}

void steps_undone(struct steps *steps) {
    assert(steps->phase == STEPS_UNDOING);
    steps->phase = STEPS_ENDING;
    run(steps);
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer) {
    struct steps *steps = timer->data;
    if (loop_deadline_is_early(timer, steps->due_ms, on_timer)) return;
    steps->due(steps->job);
}

void step_wait(struct steps *steps, uv_loop_t *loop, uint64_t after_ms, void (*due)(void *job)) {
    if (!steps->has_timer) uv_timer_init(loop, &steps->timer);
    steps->has_timer = true;
    steps->timer.data = steps;
    steps->due = due;
    steps->due_ms = loop_attended_ms(loop) + after_ms;
    uv_timer_start(&steps->timer, on_timer, after_ms, 0);
}

bool steps_are_at(const struct steps *steps, size_t step) {
    return steps->phase == STEPS_WITHIN && steps->at == step;
}
