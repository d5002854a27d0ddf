/* Each way in which a reload can fail: the old code and the old state afterwards, and an answer that says why. */
#include <fcntl.h>
#include <glob.h>

#include "tally.h"

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

static const struct failure failures[] = {
    {.before = "gen_server:cast(spare, wait).",
     .more = KEEPS,
     .param = "suspend_timeout_ms",
     .value = 60,
     .step = "suspend",
     .detail = "is busy",
     .after = "spare ! go_on."},
    {.attributes = "-on_load(go/0).",
     .more = "go() -> {error, no_way}.\n" KEEPS,
     .step = "on_load",
     .detail = "its on_load function failed"},
    {.more = "code_change(_, _, _) -> error(no_way).", .step = "migrate", .detail = "no_way"},
    {.more = "code_change(_, S, _) -> {perhaps, S}.", .step = "migrate", .detail = "{perhaps,"},
    {.more = "code_change(_, _, _) -> receive never -> ok end.",
     .param = "migrate_timeout_ms",
     .value = 60,
     .step = "migrate",
     .detail = "60 ms"},
};

enum { NEXT = 5 }; /* the first version that no test before has made */

struct course {
    struct world *world;
    int version; /* that runs, and is called two */
    int state;
};

/* As before, and nobody is stopped late. */
static void assert_unchanged(struct course *course) {
    char expected[64];
    snprintf(expected, sizeof expected, "{two,%d}", ++course->state);
    tally_assert_answers(course->world, expected);
    tally_assert_eval(course->world, "element(1, gen_server:call(spare, add)).", "two");
    tally_assert_current(course->world, course->version);
}

static json_t *reload_fails(struct course *course, const char *param, json_int_t value, const char *step) {
    json_t *problem = param
                          ? world_fails(course->world, "reload", "reload_failed", "{s:s, s:I}", "id", "a", param, value)
                          : world_fails(course->world, "reload", "reload_failed", "{s:s}", "id", "a");
    json_t *result = json_object_get(problem, "result");
    assert_string_equal(text_of(result, "status"), "rolled_back");
    if (!string_equal(text_of(result, "step"), step))
        fail_msg("failed at %s: %s", text_of(result, "step"), text_of(problem, "detail"));
    return problem;
}

static void fails(struct course *course, const struct failure *failure) {
    if (failure->before) free(world_eval_text(course->world, "a", NULL, failure->before));
    tally_write(course->world,
                &(struct tally){.version = "three", .attributes = failure->attributes, .more = failure->more});
    json_t *problem = reload_fails(course, failure->param, failure->value, failure->step);
    if (!strstr(text_of(problem, "detail"), failure->detail))
        fail_msg("no %s in: %s", failure->detail, text_of(problem, "detail"));
    json_decref(problem);
    if (failure->after) free(world_eval_text(course->world, "a", NULL, failure->after));
    assert_unchanged(course);
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
static void a_torn_beam_is_refused(struct course *course) {
    struct world *world = course->world;
    copy_beam(world, "tally_sup", SIZE_MAX);
    copy_beam(world, "tally", 400);
    json_t *problem =
        world_fails(world, "reload", "malformed_data", "{s:s, s:[s]}", "id", "a", "paths", world_path(world, "ebin"));
    assert_non_null(strstr(text_of(problem, "detail"), "ebin/tally.beam: "));
    json_decref(problem);
    assert_unchanged(course);
}

/* Code that lingers in old code, and makes closures. */
#define LINGERS                                                                                                        \
    "linger() -> receive stop -> ok; _ -> linger() end, version().\n"                                                  \
    "make(X) -> fun() -> {X, version()} end.\n"                                                                        \
    "version() -> %d.\n" KEEPS

static void write_lingering(struct world *world, int version) {
    char name[16], more[512];
    snprintf(name, sizeof name, "l%d", version);
    snprintf(more, sizeof more, LINGERS, version);
    tally_write_version(world, name, more);
}

static void assert_version(struct world *world, int version) {
    char expected[16];
    snprintf(expected, sizeof expected, "%d", version);
    tally_assert_eval(world, "tally:version().", expected);
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

/* A process in the code before the last, and a closure of it in a state. Numbers are those of the versions. */
static void old_code_is_held(struct world *world, int version) {
    write_lingering(world, version);
    world_do(world, "reload", "{s:s}", "id", "a");
    free(world_eval_text(world, "a", NULL, "register(lingering, spawn(tally, linger, []))."));
    write_lingering(world, version + 1);
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_int_equal(json_array_size(json_object_get(result, "warnings")), 1);
    json_decref(result);
    write_lingering(world, version + 2);
    assert_held(world, "refuse", "old_code", "stack");
    assert_held(world, "wait", "old_code", "stack");
    assert_version(world, version + 1);
    world_do(world, "reload", "{s:s, s:s}", "id", "a", "on_busy", "kill");
    assert_version(world, version + 2);
    tally_assert_eval(world, "whereis(lingering).", "undefined");
}

static void a_closure_is_held(struct world *world, int version) {
    free(world_eval_text(world, "a", NULL, "sys:replace_state(spare, fun(_) -> tally:make(a) end)."));
    write_lingering(world, version + 1);
    world_do(world, "reload", "{s:s}", "id", "a");
    write_lingering(world, version + 2);
    assert_held(world, "refuse", "busy", "closure");
    char expected[32];
    snprintf(expected, sizeof expected, "{a,%d}", version);
    tally_assert_eval(world, "(sys:get_state(spare))().", expected);
    assert_version(world, version + 1);
    free(world_eval_text(world, "a", NULL, "sys:replace_state(spare, fun(_) -> 0 end)."));
}

/* All of them, which is more than their supervisor bears by itself. */
static void a_late_crash_is_taken_back(struct world *world, int version) {
    uint64_t before = world_now(world);
    tally_write_version(world, "late",
                        "handle_info(boom, _) -> error(boom).\n"
                        "code_change(_, N, _) -> erlang:send_after(500, self(), boom), {ok, {late, N}}.");
    json_t *problem = world_fails(world, "reload", "reload_failed", "{s:s, s:b}", "id", "a", "wait", 1);
    assert_string_equal(text_of(json_object_get(problem, "result"), "status"), "rolled_back");
    assert_non_null(strstr(text_of(problem, "detail"), "boom"));
    json_decref(problem);
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    assert_version(world, version);
}

/* What is on probation stays on it, and a crash still takes it back. */
static void a_rehearsal_settles_nothing(struct world *world, int version) {
    uint64_t before = world_now(world);
    tally_write_version(world, "trial", NULL);
    world_do(world, "reload", "{s:s, s:i}", "id", "a", "probation_ms", 60000);
    tally_write_version(world, "never", NULL);
    json_t *rehearsed = world_op(world, "reload", "{s:s, s:b}", "id", "a", "dry_run", 1);
    assert_int_equal(json_array_size(json_object_get(rehearsed, "processes")), 3);
    json_decref(rehearsed);
    free(world_eval_text(world, "a", NULL, "exit(whereis(spare), kill)."));
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    assert_version(world, version);
}

void failures_change_nothing(struct world *world, int version, int state) {
    struct course course = {world, version, state};
    for (size_t i = 0; i < ARRAY_SIZE(failures); i++) fails(&course, &failures[i]);
    a_torn_beam_is_refused(&course);
    old_code_is_held(world, NEXT);
    a_closure_is_held(world, NEXT + 2);
    a_rehearsal_settles_nothing(world, NEXT + 3);
    a_late_crash_is_taken_back(world, NEXT + 3);
    char expected[32];
    snprintf(expected, sizeof expected, "{l%d,%d}", NEXT + 3, course.state + 1);
    tally_assert_answers(world, expected);
}
