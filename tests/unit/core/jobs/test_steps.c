/* The runner of long jobs, with a job whose steps do what each test says and tell a story. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/steps.h"

enum { FIRST, SECOND, THIRD, COUNT };

struct play {
    uv_loop_t loop;
    struct buf story;
    struct job *job; /* NULL once it is freed */
};

struct job {
    struct play *play;
    struct steps steps;
    void (*act[COUNT])(struct job *job); /* in begin; NULL: the step stays under way */
    void (*act_aborted)(struct job *job);
    bool undoes_later;
    int depth, depth_max, rounds;
};

static void tell(struct job *job, const char *word) {
    buf_printf(&job->play->story, "%s ", word);
}

static void end_step(struct job *job) {
    step_done(&job->steps, NULL);
}

static void end_aborted(struct job *job) {
    step_aborted(&job->steps);
}

static void begin(struct job *job, size_t step) {
    buf_printf(&job->play->story, "%zu ", step + 1);
    if (++job->depth > job->depth_max) job->depth_max = job->depth;
    if (job->act[step]) job->act[step](job);
    job->depth--;
}

static void begin_first(void *job) {
    begin(job, FIRST);
}

static void begin_second(void *job) {
    begin(job, SECOND);
}

static void begin_third(void *job) {
    begin(job, THIRD);
}

static void abort_second(void *data) {
    struct job *job = data;
    tell(job, "abort");
    assert_int_equal(job->depth, 0);
    if (job->act_aborted) job->act_aborted(job);
}

static void undo(void *data) {
    struct job *job = data;
    tell(job, "undo");
    if (!job->undoes_later) steps_undone(&job->steps);
}

static void end(void *data) {
    struct job *job = data;
    struct error again;
    buf_printf(&job->play->story, "end:%s ",
               job->steps.error.code == E_NONE ? "ok" : error_kind(job->steps.error.code)->slug);
    error_set(&again, E_LIMIT, "once more");
    steps_call_off(&job->steps, &again); /* too late */
}

static void release(void *data) {
    struct job *job = data;
    tell(job, "free");
    job->play->job = NULL;
    free(job);
}

static const struct step steps[COUNT] = {
    {"first", begin_first, NULL}, {"second", begin_second, abort_second}, {"third", begin_third, NULL}};
static const struct steps_plan plan = {steps, COUNT, undo, end, release};
static const struct steps_plan plan_without_undo = {steps, COUNT, NULL, end, release};

static int set_up(void **state) {
    struct play *play = calloc(1, sizeof *play);
    assert_int_equal(uv_loop_init(&play->loop), 0);
    play->job = calloc(1, sizeof *play->job);
    play->job->play = play;
    steps_init(&play->job->steps, &plan, play->job);
    *state = play;
    return 0;
}

static int tear_down(void **state) {
    struct play *play = *state;
    uv_run(&play->loop, UV_RUN_DEFAULT);
    assert_null(play->job); /* each test ends its job */
    assert_int_equal(uv_loop_close(&play->loop), 0);
    buf_free(&play->story);
    free(play);
    return 0;
}

static void expect(struct play *play, const char *story) {
    assert_string_equal(buf_string(&play->story), story);
    buf_clear(&play->story);
}

static void call_off(struct job *job) {
    struct error why;
    error_set(&why, E_SHUTDOWN, "over");
    steps_call_off(&job->steps, &why);
}

static void fail_step(struct job *job) {
    struct error error;
    error_set(&error, E_COMPILE, "bad");
    step_done(&job->steps, &error);
}

/* ---- the way to the end ---- */

static void steps_follow_one_another(void **state) {
    struct play *play = *state;
    steps_begin(&play->job->steps);
    expect(play, "1 ");
    end_step(play->job);
    expect(play, "2 ");
    assert_true(steps_are_at(&play->job->steps, SECOND));
    assert_false(steps_are_at(&play->job->steps, FIRST));
    end_step(play->job);
    end_step(play->job);
    expect(play, "3 end:ok free ");
}

static void again_and_again(struct job *job) {
    if (++job->rounds < 100000)
        step_go(&job->steps, SECOND);
    else
        end_step(job);
}

static void steps_that_end_at_once_do_not_nest(void **state) {
    struct play *play = *state;
    struct job *job = play->job;
    int depth_max = 0;
    job->act[FIRST] = end_step;
    job->act[SECOND] = again_and_again;
    steps_begin(&job->steps);
    depth_max = job->depth_max;
    assert_int_equal(job->rounds, 100000);
    buf_clear(&play->story);
    end_step(job);
    expect(play, "end:ok free ");
    assert_int_equal(depth_max, 1);
}

static void finish(struct job *job) {
    steps_finish(&job->steps);
}

static void a_job_may_finish_early(void **state) {
    struct play *play = *state;
    play->job->act[FIRST] = finish;
    steps_begin(&play->job->steps);
    expect(play, "1 end:ok free ");
}

/* ---- failure ---- */

static void a_failure_is_undone(void **state) {
    struct play *play = *state;
    struct job *job = play->job;
    job->act[FIRST] = end_step;
    job->act[SECOND] = fail_step;
    job->undoes_later = true;
    steps_begin(&job->steps);
    expect(play, "1 2 undo ");
    call_off(job); /* it ends already, for another reason */
    expect(play, "");
    steps_undone(&job->steps);
    expect(play, "end:compile_failed free ");
}

static void a_failure_without_anything_to_undo(void **state) {
    struct play *play = *state;
    steps_init(&play->job->steps, &plan_without_undo, play->job);
    play->job->act[FIRST] = fail_step;
    steps_begin(&play->job->steps);
    expect(play, "1 end:compile_failed free ");
}

/* ---- called off ---- */

static void called_off_before_it_begins(void **state) {
    struct play *play = *state;
    call_off(play->job);
    expect(play, "end:shutting_down free ");
}

static void called_off_in_a_step_that_has_to_end(void **state) {
    struct play *play = *state;
    steps_begin(&play->job->steps);
    call_off(play->job);
    expect(play, "1 ");
    assert_true(play->job->steps.is_called_off);
    end_step(play->job);
    expect(play, "undo end:shutting_down free ");
}

static void called_off_in_a_step_that_can_be_aborted(void **state) {
    struct play *play = *state;
    play->job->act[FIRST] = end_step;
    play->job->act_aborted = end_aborted;
    steps_begin(&play->job->steps);
    call_off(play->job);
    expect(play, "1 2 abort undo end:shutting_down free ");
}

static void a_step_may_end_some_time_after_it_was_aborted(void **state) {
    struct play *play = *state;
    play->job->act[FIRST] = end_step;
    steps_begin(&play->job->steps);
    call_off(play->job);
    call_off(play->job); /* once is enough */
    expect(play, "1 2 abort ");
    fail_step(play->job); /* because it was aborted: that is the reason */
    expect(play, "undo end:shutting_down free ");
}

static void called_off_from_inside_a_step(void **state) {
    struct play *play = *state;
    play->job->act[FIRST] = end_step;
    play->job->act[SECOND] = call_off; /* abort follows when it has begun */
    play->job->act_aborted = end_aborted;
    steps_begin(&play->job->steps);
    expect(play, "1 2 abort undo end:shutting_down free ");
}

static void call_off_and_end(struct job *job) {
    call_off(job);
    end_step(job);
}

static void called_off_between_two_steps(void **state) {
    struct play *play = *state;
    play->job->act[FIRST] = call_off_and_end;
    steps_begin(&play->job->steps);
    expect(play, "1 undo end:shutting_down free ");
}

static void called_off_in_the_last_step(void **state) {
    struct play *play = *state;
    struct job *job = play->job;
    job->act[FIRST] = job->act[SECOND] = end_step;
    steps_begin(&job->steps);
    call_off(job);
    end_step(job); /* it is whole by now */
    expect(play, "1 2 3 end:ok free ");
}

/* ---- time ---- */

static void on_due(void *data) {
    struct job *job = data;
    tell(job, "due");
    end_step(job);
}

static void rest(struct job *job) {
    step_wait(&job->steps, &job->play->loop, 1, on_due);
}

static void rest_long(struct job *job) {
    step_wait(&job->steps, &job->play->loop, 3600000, on_due);
}

static void a_step_may_wait(void **state) {
    struct play *play = *state;
    struct job *job = play->job;
    job->act[FIRST] = job->act[THIRD] = end_step;
    job->act[SECOND] = rest;
    steps_begin(&job->steps);
    uv_run(&play->loop, UV_RUN_DEFAULT);
    expect(play, "1 2 due 3 end:ok free ");
}

static void a_wait_ends_with_its_step(void **state) {
    struct play *play = *state;
    struct job *job = play->job;
    job->act[FIRST] = end_step;
    job->act[SECOND] = rest_long;
    steps_begin(&job->steps);
    end_step(job);
    expect(play, "1 2 3 ");
    uv_run(&play->loop, UV_RUN_DEFAULT); /* returns, as nothing is waited for */
    end_step(job);
    expect(play, "end:ok "); /* freed once the timer is closed */
    uv_run(&play->loop, UV_RUN_DEFAULT);
    expect(play, "free ");
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(steps_follow_one_another),
        SET(steps_that_end_at_once_do_not_nest),
        SET(a_job_may_finish_early),
        SET(a_failure_is_undone),
        SET(a_failure_without_anything_to_undo),
        SET(called_off_before_it_begins),
        SET(called_off_in_a_step_that_has_to_end),
        SET(called_off_in_a_step_that_can_be_aborted),
        SET(a_step_may_end_some_time_after_it_was_aborted),
        SET(called_off_from_inside_a_step),
        SET(called_off_between_two_steps),
        SET(called_off_in_the_last_step),
        SET(a_step_may_wait),
        SET(a_wait_ends_with_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
