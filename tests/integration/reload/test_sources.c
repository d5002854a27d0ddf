/* Where a reload's code comes from: BEAM files, source text, other sources, some files of the project, several of them
   at once; how its states are migrated; and what is kept of it. All on one sandbox. */
#include <fcntl.h>

#include "tally.h"

static json_t *reload_paths(struct world *world, const char *first, const char *second) {
    json_t *result = second ? world_op(world, "reload", "{s:s, s:[s, s]}", "id", "a", "paths", first, second)
                            : world_op(world, "reload", "{s:s, s:[s]}", "id", "a", "paths", first);
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    return result;
}

static void assert_changes(json_t *result, const char *expected) {
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    json_t *module;
    size_t i;
    json_array_foreach(json_object_get(result, "modules"), i, module)
        buf_printf(&names, "%s ", text_of(module, "module"));
    assert_string_equal(buf_string(&names), expected);
    json_decref(result);
}

static void assert_refused(struct world *world, const char *code, const char *first, const char *second,
                           const char *detail) {
    json_t *problem = second ? world_fails(world, "reload", code, "{s:s, s:[s, s]}", "id", "a", "paths", first, second)
                             : world_fails(world, "reload", code, "{s:s, s:[s]}", "id", "a", "paths", first);
    if (!strstr(text_of(problem, "detail"), detail)) fail_msg("no %s in: %s", detail, text_of(problem, "detail"));
    json_decref(problem);
}

/* A version's bytes in a file. */
static void export_to(struct world *world, int version, const char *name) {
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    json_t *exported = world_op(world, "export", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "version", version);
    const char *text = text_of(exported, "beam");
    assert_true(text && base64_decode(text, strlen(text), &bytes));
    assert_int_equal(json_integer_value(json_object_get(exported, "size_bytes")), bytes.size);
    CLEANUP_FD int fd = open(world_file(world, name, ""), O_WRONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, bytes.data, bytes.size), 0);
    json_decref(exported);
}

static void source_text_is_loaded(struct world *world) {
    CLEANUP_FREE char *first = NULL;
    tally_write_version(world, "text", NULL);
    first = read_whole(world_path(world, "app/src/tally.erl"));
    tally_write_version(world, "one", NULL);
    json_t *result = world_op(world, "reload", "{s:s, s:s, s:s}", "id", "a", "code", first, "file", "tally.erl");
    assert_changes(result, "tally ");
    tally_assert_answers(world, "{text,2}");
    tally_assert_current(world, 2);
    json_decref(world_fails(world, "reload", "compile_failed", "{s:s, s:s, s:s}", "id", "a", "code", "-module(", "file",
                            "x.erl"));
}

/* What is exported can be loaded again, and has the number that it had. */
static void beam_files_are_loaded(struct world *world) {
    export_to(world, 1, "beams/tally.beam");
    assert_changes(reload_paths(world, world_path(world, "beams/tally.beam"), NULL), "tally ");
    tally_assert_answers(world, "{one,3}");
    tally_assert_current(world, 1);
    export_to(world, 2, "more/ebin/tally.beam");
    assert_changes(reload_paths(world, world_path(world, "more"), NULL), "tally ");
    tally_assert_answers(world, "{text,4}");
    tally_assert_current(world, 2);
    assert_refused(world, "invalid_input", world_path(world, "beams/tally.beam"), world_path(world, "more"),
                   "the module tally is in ");
    assert_refused(world, "malformed_data", world_file(world, "torn.beam", "FOR1"), NULL, "torn.beam: ");
    assert_refused(world, "not_found", world_path(world, "none.beam"), NULL, "none.beam");
}

/* Two files change, one is asked for. */
static void some_of_the_project_is_loaded(struct world *world) {
    tally_write_version(world, "three", NULL);
    world_file(world, "app/src/extra.erl", "-module(extra).\n-export([up/3]).\nup(N, _, _) -> N + 10.\n");
    assert_changes(reload_paths(world, world_path(world, "app/src/extra.erl"), NULL), "extra ");
    tally_assert_answers(world, "{text,5}");
    assert_refused(world, "invalid_input", world_file(world, "app/notes.txt", "none"), NULL,
                   "is no source of the project");
}

/* A file of the project and one from elsewhere, in one transaction; the project's own reload takes the latter away. */
static void several_paths_are_one_change(struct world *world) {
    const char *other = world_file(world, "other/guest.erl", "-module(guest).\n-export([f/0]).\nf() -> here.\n");
    assert_changes(reload_paths(world, world_path(world, "app/src/tally.erl"), other), "guest tally ");
    tally_assert_answers(world, "{three,6}");
    tally_assert_eval(world, "guest:f()", "here");
    assert_changes(world_op(world, "reload", "{s:s}", "id", "a"), "guest ");
}

static void a_named_function_migrates(struct world *world) {
    tally_write_version(world, "four", NULL);
    json_t *result =
        world_op(world, "reload", "{s:s, s:[s, s]}", "id", "a", "migrate", "tally=extra:up/3", "absent=extra:up/3");
    assert_string_equal(json_string_value(json_array_get(json_object_get(result, "warnings"), 0)),
                        "the migration for absent was not used: no process has that callback module");
    assert_changes(result, "tally ");
    tally_assert_answers(world, "{four,17}");
    tally_write_version(world, "five", NULL);
    json_t *problem =
        world_fails(world, "reload", "reload_failed", "{s:s, s:[s]}", "id", "a", "migrate", "extra:nowhere/3");
    assert_non_null(strstr(text_of(problem, "detail"), "extra:nowhere/3"));
    json_decref(problem);
    tally_assert_answers(world, "{four,18}");
}

/* One that is busy at the first try is not at a later one. */
static void a_busy_process_is_tried_again(struct world *world) {
    free(world_eval_text(world, "a", NULL, "gen_server:cast(spare, wait), erlang:send_after(150, spare, go_on)"));
    json_t *result = world_op(world, "reload", "{s:s, s:i, s:i}", "id", "a", "suspend_timeout_ms", 40, "retries", 10);
    assert_changes(result, "tally ");
    tally_assert_answers(world, "{five,19}");
}

static void versions_are_counted(struct world *world) {
    json_t *list = world_op(world, "versions", "{s:s, s:s, s:b}", "id", "a", "module", "tally", "summary", 1);
    json_t *summary = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(json_integer_value(json_object_get(summary, "versions")), 5);
    assert_int_equal(json_integer_value(json_object_get(summary, "loads")), 7);
    assert_int_equal(json_integer_value(json_object_get(summary, "current_version")), 5);
    assert_true(json_integer_value(json_object_get(summary, "size_bytes")) > 1000);
    json_decref(list);
    list = world_op(world, "versions", "{s:s, s:s}", "id", "a", "module", "tally");
    json_t *version = json_array_get(list, 0);
    assert_int_equal(strlen(text_of(version, "source")), 64);
    assert_int_equal(json_integer_value(json_object_get(version, "loaded_by")), getuid());
    json_decref(list);
    json_decref(world_op(world, "export", "{s:s, s:s}", "id", "a", "module", "tally_sup")); /* it never changed */
    json_decref(
        world_fails(world, "export", "not_found", "{s:s, s:s, s:i}", "id", "a", "module", "tally", "version", 99));
    json_decref(world_fails(world, "export", "not_found", "{s:s, s:s}", "id", "a", "module", "absent"));
}

static void code_comes_from_anywhere(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    json_decref(world_create(world, "a", tally_write_version(world, "one", NULL), "medium"));
    tally_assert_answers(world, "{one,1}");
    source_text_is_loaded(world);
    beam_files_are_loaded(world);
    some_of_the_project_is_loaded(world);
    several_paths_are_one_change(world);
    a_named_function_migrates(world);
    a_busy_process_is_tried_again(world);
    versions_are_counted(world);
    world_destroy(world, "a");
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(code_comes_from_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
