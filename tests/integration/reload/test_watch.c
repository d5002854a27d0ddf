/* What is saved runs: one sandbox whose source is watched, through everything that can happen to the two. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "processes.h"
#include "tally.h"
#include "watch_stress.h"

static json_t *watch(struct world *world, const char *action) {
    return world_op(world, "watch", "{s:s, s:s}", "id", "a", "action", action);
}

static void fail_with_status(struct world *world, uint64_t since, const char *kind, const char *value) {
    json_t *status = watch(world, "status");
    world_print_story(world, since);
    json_dumpf(status, stderr, 0);
    json_decref(status);
    fail_msg("no event %s %s", kind, value ? value : "");
}

static json_t *wait_watch(struct world *world, uint64_t since, const char *kind, const char *field, const char *value) {
    struct event_pattern pattern = {.kind = kind, .sandbox_id = "a", .field = field, .value = value};
    json_t *event = world_find_event(world, since, &pattern, WORLD_DEADLINE_MS);
    if (!event) fail_with_status(world, since, kind, value);
    json_t *data = json_incref(json_object_get(event, "data"));
    json_decref(event);
    return data;
}

static void wait_state(struct world *world, uint64_t since, const char *state) {
    json_decref(wait_watch(world, since, "watch", "state", state));
}

/* A save may be seen in two parts, of which the second makes no difference. */
static bool has_come_to_rest(void *data) {
    json_t *status = watch(data, "status");
    bool is_at_rest = strcmp(text_of(status, "state"), "compiling") != 0;
    json_decref(status);
    return is_at_rest;
}

static json_t *assert_state(struct world *world, const char *state) {
    assert_true(wait_until(has_come_to_rest, world, WORLD_DEADLINE_MS));
    json_t *status = watch(world, "status");
    assert_string_equal(text_of(status, "state"), state);
    return status;
}

/* Save, and wait until it runs. */
static json_t *save_and_wait(struct world *world, const char *version) {
    uint64_t before = world_now(world);
    tally_write_version(world, version, NULL);
    return wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded");
}

static void a_save_runs(struct world *world) {
    json_t *told = save_and_wait(world, "two");
    assert_string_equal(json_string_value(json_array_get(json_object_get(told, "files"), 0)), "src/tally.erl");
    assert_int_equal(json_integer_value(json_object_get(told, "file_count")), 1);
    assert_int_equal(json_integer_value(json_object_get(told, "compiled_count")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(told, "modules"), 0)), "tally");
    assert_int_equal(json_integer_value(json_object_get(told, "processes")), 3);
    json_decref(told);
    tally_assert_answers(world, "{two,2}");
}

/* A process without system messages goes on with the code that it began with. */
static void warnings_of_a_reload_are_told(struct world *world) {
    uint64_t before = world_now(world);
    tally_write_version(world, "lingering", "code_change(_, N, _) -> {ok, N}.\nlinger() -> receive stop -> ok end.");
    json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded"));
    tally_assert_eval(world, "register(lingers, spawn(tally, linger, []))", "true");
    json_t *told = save_and_wait(world, "two");
    const char *warning = json_string_value(json_array_get(json_object_get(told, "reload_warnings"), 0));
    assert_non_null(warning);
    assert_non_null(strstr(warning, "runs tally and takes no system messages"));
    json_decref(told);
    tally_assert_eval(world, "lingers ! stop", "stop");
}

static void an_error_is_told_and_clears(struct world *world) {
    uint64_t before = world_now(world);
    tally_write_version(world, "two", "code_change(_, State, _) -> {ok, State");
    json_t *told = wait_watch(world, before, "watch_failed", "code", "compile_failed");
    json_t *first = json_array_get(json_object_get(told, "errors"), 0);
    assert_string_equal(text_of(first, "file"), "src/tally.erl");
    assert_true(json_integer_value(json_object_get(first, "line")) > 1);
    json_decref(told);
    tally_assert_answers(world, "{two,3}");
    json_t *status = assert_state(world, "failed");
    assert_int_equal(json_array_size(json_object_get(json_object_get(status, "failure"), "errors")), 1);
    json_decref(status);
    json_decref(save_and_wait(world, "three"));
    status = assert_state(world, "watching");
    assert_true(json_is_null(json_object_get(status, "failure")));
    assert_true(json_integer_value(json_object_get(status, "failure_count")) > 0);
    json_decref(status);
    tally_assert_answers(world, "{three,4}");
}

static json_int_t reload_count(struct world *world) {
    json_t *status = watch(world, "status");
    json_int_t count = json_integer_value(json_object_get(status, "reload_count"));
    json_decref(status);
    return count;
}

/* What is written with the same content, or an editor's own: there is one reload, for the save that follows. */
static void what_makes_no_difference_changes_nothing(struct world *world) {
    json_int_t before = reload_count(world);
    tally_write_version(world, "three", NULL);
    world_file(world, "app/src/tally.erl~", "a backup");
    world_file(world, "app/src/.tally.erl.swp", "a swap file");
    json_decref(save_and_wait(world, "four"));
    assert_int_equal(reload_count(world), before + 1);
    tally_assert_answers(world, "{four,5}");
}

static bool runs_the_last(void *data) {
    char *text = world_eval_text(data, "a", NULL, "element(1, gen_server:call(tally, add))");
    bool is_last = strcmp(text, "v29") == 0;
    free(text);
    return is_last;
}

/* Saves in the middle of compilations and reloads: in the end what runs is what lies on disk. */
static void no_save_is_missed(struct world *world) {
    uint64_t before = world_now(world);
    char version[16];
    for (int i = 0; i < 30; i++) {
        snprintf(version, sizeof version, "v%d", i);
        tally_write_version(world, version, NULL);
        if (i % 10 == 0)
            json_decref(wait_watch(world, before, "watch_reloaded", NULL, NULL)), before = world_now(world);
    }
    assert_true(wait_until(runs_the_last, world, WORLD_DEADLINE_MS));
}

static void a_removed_source_pauses_it(struct world *world) {
    uint64_t before = world_now(world);
    char here[256], aside[256];
    snprintf(here, sizeof here, "%s", world_path(world, "app"));
    snprintf(aside, sizeof aside, "%s", world_path(world, "aside"));
    assert_int_equal(rename(here, aside), 0);
    wait_state(world, before, "paused");
    json_t *status = assert_state(world, "paused");
    assert_non_null(strstr(text_of(status, "detail"), here));
    json_decref(status);
    before = world_now(world);
    tally_write_version(world, "back", NULL); /* another folder in its place */
    wait_state(world, before, "watching");
    json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded"));
    json_decref(save_and_wait(world, "forth"));
}

static void it_outlives_the_daemon(struct world *world) {
    uint64_t before = world_now(world);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    json_decref(watch(world, "status")); /* from the next one */
    tally_write_version(world, "meanwhile", NULL);
    json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded"));
    json_decref(save_and_wait(world, "afterwards"));
}

static void off_is_off(struct world *world) {
    uint64_t before = world_now(world);
    struct sbx_error error;
    char *answer = NULL;
    assert_int_equal(sbx_auto_reload(world_client(world), "a", 0, &answer, &error), 0);
    assert_non_null(strstr(answer, "\"off\""));
    free(answer);
    wait_state(world, before, "off");
    tally_write_version(world, "unseen", NULL);
    json_t *info = world_info(world, "a");
    assert_true(json_is_false(json_object_get(info, "auto_reload")));
    json_decref(info);
    json_decref(assert_state(world, "off"));
    before = world_now(world);
    json_t *status = world_op(world, "watch", "{s:s, s:s, s:[s]}", "id", "a", "action", "on", "watch_ignore", "*.md");
    assert_true(json_is_true(json_object_get(status, "auto_reload")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(status, "ignore"), 0)), "*.md");
    json_decref(status);
    json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded")); /* what was saved meanwhile */
}

static bool is_compiling(void *data) {
    return !has_come_to_rest(data);
}

/* A reload under way reads the files when it gets to them: once it is off, nothing that is saved then is among them. */
static void off_is_off_at_once(struct world *world) {
    char version[16];
    for (int i = 0; i < 5; i++) {
        snprintf(version, sizeof version, "during%d", i);
        tally_write_version(world, version, NULL);
        wait_until(is_compiling, world, 100); /* mostly */
        world_do(world, "watch", "{s:s, s:s}", "id", "a", "action", "off");
        snprintf(version, sizeof version, "after%d", i);
        tally_write_version(world, version, NULL);
        CLEANUP_FREE char *answer = world_eval_text(world, "a", NULL, "element(1, gen_server:call(tally, add))");
        assert_string_not_equal(answer, version);
        uint64_t before = world_now(world);
        json_decref(watch(world, "on"));
        json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded"));
        tally_assert_eval(world, "element(1, gen_server:call(tally, add))", version);
    }
}

/* A crash within probation: what runs is not what lies on disk, and it says so. */
static void taken_back_is_a_failure(struct world *world) {
    json_decref(save_and_wait(world, "error(bad)"));
    uint64_t before = world_now(world);
    free(world_try_eval(world, "a", NULL, "gen_server:call(tally, add)", WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, before, &(struct event_pattern){.kind = "rolled_back", .sandbox_id = "a"}));
    json_decref(assert_state(world, "failed"));
    json_decref(save_and_wait(world, "good"));
    json_decref(assert_state(world, "watching"));
}

static void create_watched(struct world *world, const char *source) {
    world_do(world, "create", "{s:s, s:s, s:b}", "id", "a", "source", source, "watch", 1);
    wait_state(world, 0, "watching");
    tally_assert_answers(world, "{one,1}");
}

/* Through a link to the project, and without VMs that are booted for others. */
static void what_is_saved_runs(void **state) {
    struct world *world = world_open("warm-nodes = 0\nspare-compilers = 0\n");
    const char *link = world_path(world, "link");
    (void)state;
    assert_int_equal(symlink(tally_write_version(world, "one", NULL), link), 0);
    create_watched(world, link);
    a_save_runs(world);
    warnings_of_a_reload_are_told(world);
    an_error_is_told_and_clears(world);
    what_makes_no_difference_changes_nothing(world);
    off_is_off(world);
    world_destroy(world, "a");
    world_close(world);
}

/* A save of another module leaves those states alone that were migrated before. */
static void saves_migrate_what_they_change(void **state) {
    struct world *world = world_open("warm-nodes = 0\nspare-compilers = 0\n");
    static const char migration[] = "tally=fun(N, _, _) -> N + 100 end";
    (void)state;
    const char *source = tally_write_version(world, "one", NULL);
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:[s]}", "id", "a", "source", source,
                            "migrate", "tally:up/2"));
    world_do(world, "create", "{s:s, s:s, s:b, s:[s]}", "id", "a", "source", source, "watch", 1, "migrate", migration);
    wait_state(world, 0, "watching");
    tally_assert_answers(world, "{one,1}");
    json_decref(save_and_wait(world, "two"));
    tally_assert_answers(world, "{two,102}");
    uint64_t before = world_now(world);
    world_file(world, "app/src/other.erl", "-module(other).\n-export([x/0]).\nx() -> 1.\n");
    json_decref(wait_watch(world, before, "watch_reloaded", "status", "hot_reloaded"));
    tally_assert_answers(world, "{two,103}");
    world_destroy(world, "a");
    world_close(world);
}

static void through_everything_that_can_happen(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    create_watched(world, tally_write_version(world, "one", NULL));
    a_save_runs(world);
    an_error_is_told_and_clears(world);
    what_makes_no_difference_changes_nothing(world);
    no_save_is_missed(world);
    a_removed_source_pauses_it(world);
    it_outlives_the_daemon(world);
    off_is_off(world);
    off_is_off_at_once(world);
    taken_back_is_a_failure(world);
    json_decref(world_fails(world, "watch", "not_found", "{s:s, s:s}", "id", "none", "action", "on"));
    world_destroy(world, "a");
    world_close(world);
}

/* A pattern of names, as an argument, chooses among them. */
int main(int argc, char **argv) {
    const struct test_case cases[] = {CASE(what_is_saved_runs), LONG_CASE(saves_migrate_what_they_change)};
    const struct CMUnitTest at_length[] = {cmocka_unit_test(through_everything_that_can_happen),
                                           cmocka_unit_test(many_saves_at_once)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return getenv("WATCH_AT_LENGTH") ? cmocka_run_group_tests(at_length, NULL, NULL)
                                     : cases_run(cases, ARRAY_SIZE(cases), NULL, NULL);
}
