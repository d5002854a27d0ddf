/* Each way in which a reload can fail: the old code and the old state afterwards, and an answer that says why. */
#include <fcntl.h>
#include <glob.h>

#include "reload_cases.h"

#define KEEPS "code_change(_, State, _) -> {ok, State}.\n"

struct failure {
    const char *before;            /* evaluated first; NULL: nothing */
    const char *attributes, *more; /* of the new code */
    const char *param;             /* of the reload; NULL: none */
    json_int_t value;
    const char *step;
    const char *detail; /* a part of what is said */
    const char *after;  /* evaluated last; NULL: nothing */
};

/* As before, and no process is suspended any more. */
static void assert_unchanged(struct reload_case *test) {
    tally_assert_answers(test->world, "{base,1}");
    tally_assert_eval(test->world, "element(1, gen_server:call(spare, add)).", "base");
    tally_assert_current(test->world, test->base);
}

static json_t *reload_fails(struct world *world, const struct failure *failure) {
    json_t *problem = failure->param ? world_fails(world, "reload", "reload_failed", "{s:s, s:I}", "id", "a",
                                                   failure->param, failure->value)
                                     : world_fails(world, "reload", "reload_failed", "{s:s}", "id", "a");
    json_t *result = json_object_get(problem, "result");
    assert_string_equal(text_of(result, "status"), "rolled_back");
    if (!string_equal(text_of(result, "step"), failure->step))
        fail_msg("failed at %s: %s", text_of(result, "step"), text_of(problem, "detail"));
    return problem;
}

static void fails(struct reload_case *test, const struct failure *failure) {
    struct world *world = test->world;
    if (failure->before) free(world_eval_text(world, "a", NULL, failure->before));
    tally_write(world, &(struct tally){.version = "three", .attributes = failure->attributes, .more = failure->more});
    json_t *problem = reload_fails(world, failure);
    if (!strstr(text_of(problem, "detail"), failure->detail))
        fail_msg("no %s in: %s", failure->detail, text_of(problem, "detail"));
    json_decref(problem);
    if (failure->after) free(world_eval_text(world, "a", NULL, failure->after));
    assert_unchanged(test);
}

/* ---- before and during the pause ---- */

void a_process_that_is_busy(void **state) {
    fails(*state, &(struct failure){.before = "gen_server:cast(spare, wait).",
                                    .more = KEEPS,
                                    .param = "suspend_timeout_ms",
                                    .value = 60,
                                    .step = "suspend",
                                    .detail = "is busy",
                                    .after = "spare ! go_on."});
}

void an_on_load_function_that_fails(void **state) {
    fails(*state, &(struct failure){.attributes = "-on_load(go/0).",
                                    .more = "go() -> {error, no_way}.\n" KEEPS,
                                    .step = "on_load",
                                    .detail = "its on_load function failed"});
}

void a_migration_that_crashes(void **state) {
    fails(*state,
          &(struct failure){.more = "code_change(_, _, _) -> error(no_way).", .step = "migrate", .detail = "no_way"});
}

void a_migration_with_another_result(void **state) {
    fails(*state,
          &(struct failure){.more = "code_change(_, S, _) -> {perhaps, S}.", .step = "migrate", .detail = "{perhaps,"});
}

void a_migration_that_does_not_end(void **state) {
    fails(*state, &(struct failure){.more = "code_change(_, _, _) -> receive never -> ok end.",
                                    .param = "migrate_timeout_ms",
                                    .value = 60,
                                    .step = "migrate",
                                    .detail = "60 ms"});
}

static void copy_beam(struct world *world, const char *name, size_t bytes_max) {
    char pattern[256], file[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/store/builds/*/*/ebin/%s.beam", world_home(world), name);
    snprintf(file, sizeof file, "ebin/%s.beam", name);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    world_copy(world, file, found.gl_pathv[0], bytes_max);
    globfree(&found);
}

/* One good beam and one that ends too early: neither is loaded. */
void a_torn_beam_file(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    copy_beam(world, "tally_sup", SIZE_MAX);
    copy_beam(world, "tally", 400);
    json_t *problem =
        world_fails(world, "reload", "malformed_data", "{s:s, s:[s]}", "id", "a", "paths", world_path(world, "ebin"));
    assert_non_null(strstr(text_of(problem, "detail"), "ebin/tally.beam: "));
    json_decref(problem);
    assert_unchanged(test);
}

/* ---- old code ---- */

/* Code that lingers in old code, and makes closures; its versions have a mark. */
#define LINGERS                                                                                                        \
    "linger() -> receive stop -> ok; _ -> linger() end, version().\n"                                                  \
    "make(X) -> fun() -> {X, version()} end.\n"                                                                        \
    "version() -> %s.\n" KEEPS

static void write_lingering(struct world *world, const char *mark) {
    char more[512];
    snprintf(more, sizeof more, LINGERS, mark);
    tally_write_version(world, mark, more);
}

static int bring_lingering(struct world *world, const char *mark) {
    write_lingering(world, mark);
    return tally_reload(world);
}

static void assert_runs(struct world *world, const char *mark, int version) {
    tally_assert_eval(world, "tally:version().", mark);
    tally_assert_current(world, version);
}

static void assert_held(struct world *world, const char *on_busy, const char *step, const char *how) {
    json_t *problem = world_fails(world, "reload", "reload_failed", "{s:s, s:s, s:i}", "id", "a", "on_busy", on_busy,
                                  "busy_timeout_ms", 60);
    json_t *result = json_object_get(problem, "result"), *holders = json_object_get(result, "holders");
    assert_string_equal(text_of(result, "step"), step);
    assert_string_equal(text_of(result, "module"), "tally");
    assert_int_equal(json_array_size(holders), 1);
    assert_string_equal(text_of(json_array_get(holders, 0), "how"), how);
    json_decref(problem);
}

/* A process in the code before the last. */
void old_code_that_is_in_use(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    bring_lingering(world, "l1");
    free(world_eval_text(world, "a", NULL, "register(lingering, spawn(tally, linger, []))."));
    write_lingering(world, "l2");
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_int_equal(json_array_size(json_object_get(result, "warnings")), 1);
    json_decref(result);
    int second = tally_current(world);
    write_lingering(world, "l3");
    assert_held(world, "refuse", "old_code", "stack");
    assert_held(world, "wait", "old_code", "stack");
    assert_runs(world, "l2", second);
    world_do(world, "reload", "{s:s, s:s}", "id", "a", "on_busy", "kill");
    tally_assert_eval(world, "tally:version().", "l3");
    tally_assert_eval(world, "whereis(lingering).", "undefined");
}

/* In a process's state. */
void a_closure_of_old_code(void **state) {
    struct world *world = ((struct reload_case *)*state)->world;
    bring_lingering(world, "l1");
    free(world_eval_text(world, "a", NULL, "sys:replace_state(spare, fun(_) -> tally:make(a) end)."));
    int second = bring_lingering(world, "l2");
    write_lingering(world, "l3");
    assert_held(world, "refuse", "busy", "closure");
    tally_assert_eval(world, "(sys:get_state(spare))().", "{a,l1}");
    assert_runs(world, "l2", second);
    free(world_eval_text(world, "a", NULL, "sys:replace_state(spare, fun(_) -> 0 end)."));
}

/* ---- probation ---- */

static void wait_rolled_back(struct world *world, uint64_t since) {
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
}

/* What is on probation stays on it, and a crash still takes it back. */
void a_dry_run_settles_nothing(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    uint64_t before = world_now(world);
    tally_write_version(world, "trial", NULL);
    world_do(world, "reload", "{s:s, s:i}", "id", "a", "probation_ms", 60000);
    tally_write_version(world, "never", NULL);
    json_t *rehearsed = world_op(world, "reload", "{s:s, s:b}", "id", "a", "dry_run", 1);
    assert_int_equal(json_array_size(json_object_get(rehearsed, "processes")), 3);
    json_decref(rehearsed);
    free(world_eval_text(world, "a", NULL, "exit(whereis(spare), kill)."));
    wait_rolled_back(world, before);
    assert_unchanged(test);
}

/* Of all processes, which is more than their supervisor bears by itself. */
void a_crash_on_probation(void **state) {
    struct reload_case *test = *state;
    struct world *world = test->world;
    uint64_t before = world_now(world);
    tally_write_version(world, "late",
                        "handle_info(boom, _) -> error(boom).\n"
                        "code_change(_, N, _) -> erlang:send_after(500, self(), boom), {ok, {late, N}}.");
    json_t *problem = world_fails(world, "reload", "reload_failed", "{s:s, s:b}", "id", "a", "wait", 1);
    assert_string_equal(text_of(json_object_get(problem, "result"), "status"), "rolled_back");
    assert_non_null(strstr(text_of(problem, "detail"), "boom"));
    json_decref(problem);
    wait_rolled_back(world, before);
    assert_unchanged(test);
}
