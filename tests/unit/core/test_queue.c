/* Tests a sandbox's queue of jobs: shared and exclusive ones, its bound, and aborting. */
#include "core/queue.h"
#include "core/sandbox/sandbox.h"
#include "core/stage.h"

/* A job that writes into the story what happens to it. `at_once`: it ends inside its own start. */
struct told {
    struct job job;
    struct stage *stage;
    char name;
    bool at_once;
    bool slow_abort;
};

static void finish(struct told *told) {
    buf_printf(&told->stage->story, "-%c ", told->name);
    job_finish(&told->job);
    free(told);
}

static void on_start(struct job *job) {
    struct told *told = (struct told *)job;
    buf_printf(&told->stage->story, "+%c ", told->name);
    if (told->at_once) finish(told);
}

static void on_abort(struct job *job, const struct error *why) {
    struct told *told = (struct told *)job;
    buf_printf(&told->stage->story, "!%c(%s) ", told->name, error_kind(why->code)->slug);
    if (!told->slow_abort) finish(told);
}

static struct sandbox *new_sandbox(struct stage *stage) {
    struct error error;
    struct sandbox *sandbox = sandbox_new(&stage->engine, "s", &error);
    assert_non_null(sandbox);
    return sandbox;
}

static struct told *new_job(struct stage *stage, struct sandbox *sandbox, char name, bool exclusive) {
    struct told *told = calloc(1, sizeof *told);
    told->stage = stage;
    told->name = name;
    told->job = (struct job){.sandbox = sandbox, .exclusive = exclusive, .start = on_start, .abort = on_abort};
    return told;
}

static struct told *submit(struct stage *stage, struct sandbox *sandbox, char name, bool exclusive) {
    struct told *told = new_job(stage, sandbox, name, exclusive);
    job_submit(&told->job);
    return told;
}

static void test_shared_jobs_run_side_by_side(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct told *a = submit(stage, sandbox, 'a', false);
    struct told *b = submit(stage, sandbox, 'b', false);
    finish(a);
    finish(b);
    stage_expect(stage, "+a +b -a -b ");
    sandbox_remove(sandbox);
}

static void test_exclusive_jobs_run_alone_and_in_order(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct told *a = submit(stage, sandbox, 'a', false);
    struct told *b = submit(stage, sandbox, 'b', false);
    struct told *x = submit(stage, sandbox, 'X', true);
    struct told *c = submit(stage, sandbox, 'c', false);
    struct told *y = submit(stage, sandbox, 'Y', true);
    stage_expect(stage, "+a +b ");
    finish(b);
    stage_expect(stage, "-b ");
    finish(a);
    stage_expect(stage, "-a +X ");
    finish(x);
    stage_expect(stage, "-X +c ");
    finish(c);
    finish(y);
    stage_expect(stage, "-c +Y -Y ");
    sandbox_remove(sandbox);
}

static void test_jobs_that_end_at_once(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct told *x = submit(stage, sandbox, 'X', true);
    for (char name = 'a'; name <= 'c'; name++) {
        struct told *told = new_job(stage, sandbox, name, name == 'b');
        told->at_once = true;
        job_submit(&told->job);
    }
    finish(x);
    stage_expect(stage, "+X -X +a -a +b -b +c -c ");
    sandbox_remove(sandbox);
}

static void test_the_queue_is_bounded(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct told *jobs[JOBS_MAX];
    for (int i = 0; i < JOBS_MAX; i++) jobs[i] = submit(stage, sandbox, 'a', i == 0);
    buf_clear(&stage->story);
    submit(stage, sandbox, 'z', false);
    stage_expect(stage, "!z(limit_reached) -z ");
    for (int i = 0; i < JOBS_MAX; i++) finish(jobs[i]);
    sandbox_remove(sandbox);
}

static void test_abort_tells_all(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct error why = {E_SHUTDOWN, "shutting down"};
    submit(stage, sandbox, 'a', false);
    submit(stage, sandbox, 'X', true);
    submit(stage, sandbox, 'b', false);
    jobs_abort_all(sandbox, &why);
    stage_expect(stage, "+a !a(shutting_down) -a !X(shutting_down) -X !b(shutting_down) -b ");
    sandbox_remove(sandbox);
}

/* Aborting one frees the way for the next; that one must not start, end and be freed while it is walked over. */
static void test_abort_starts_nothing_in_between(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct error why = {E_SHUTDOWN, "shutting down"};
    submit(stage, sandbox, 'X', true);
    for (char name = 'a'; name <= 'b'; name++) {
        struct told *told = new_job(stage, sandbox, name, false);
        told->at_once = true;
        job_submit(&told->job);
    }
    jobs_abort_all(sandbox, &why);
    stage_expect(stage, "+X !X(shutting_down) -X !a(shutting_down) -a !b(shutting_down) -b ");
    sandbox_remove(sandbox);
}

static void test_one_that_takes_its_time_to_abort(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct error why = {E_SHUTDOWN, "shutting down"};
    struct told *x = submit(stage, sandbox, 'X', true);
    x->slow_abort = true;
    submit(stage, sandbox, 'a', false);
    jobs_abort_all(sandbox, &why);
    stage_expect(stage, "+X !X(shutting_down) !a(shutting_down) -a ");
    finish(x);
    stage_expect(stage, "-X ");
    sandbox_remove(sandbox);
}

/* The end of the last job of a sandbox that never came to be is its own end. */
static void test_a_destroyed_sandbox_takes_no_jobs_and_ends_with_the_last(void **state) {
    struct stage *stage = *state;
    struct sandbox *sandbox = new_sandbox(stage);
    struct told *x = submit(stage, sandbox, 'X', true);
    sandbox->ending.is_destroying = sandbox->ending.is_stillborn = true;
    submit(stage, sandbox, 'a', false);
    stage_expect(stage, "+X !a(conflict) -a ");
    assert_ptr_equal(map_get(&stage->engine.sandboxes, "s"), sandbox);
    finish(x);
    assert_null(map_get(&stage->engine.sandboxes, "s"));
    stage_expect(stage, "-X ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_shared_jobs_run_side_by_side),
        ON_STAGE(test_exclusive_jobs_run_alone_and_in_order),
        ON_STAGE(test_jobs_that_end_at_once),
        ON_STAGE(test_the_queue_is_bounded),
        ON_STAGE(test_abort_tells_all),
        ON_STAGE(test_abort_starts_nothing_in_between),
        ON_STAGE(test_one_that_takes_its_time_to_abort),
        ON_STAGE(test_a_destroyed_sandbox_takes_no_jobs_and_ends_with_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
