/* Folders that callers hand to sandboxes, with the real service and real VMs. */
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leftovers.h"

static struct world *world;

static int open_world(void **state) {
    (void)state;
    world = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(world);
    return 0;
}

/* A folder of the test's, with one file in it. */
static const char *make_folder(const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s/in", name);
    world_file(world, file, "from outside");
    return world_path(world, name);
}

static json_t *volumes(const char *folder, const char *rest) {
    return json_pack("[o]", json_sprintf("%s:%s", folder, rest));
}

static void create(const char *id, const char *profile, json_t *list) {
    world_do(world, "create", "{s:s, s:s, s:s, s:o}", "id", id, "source", EXAMPLES "/counter_erl", "profile", profile,
             "volumes", list);
}

static void assert_says(const char *id, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, id, "erlang", code);
    assert_string_equal(text, expected);
}

/* Also one that waited in the pool, and one that is made anew for a restart. */
static void a_sandbox_writes_to_its_owners_folder(void **state) {
    const char *folder = make_folder("work");
    char written[256];
    struct stat status;
    (void)state;
    snprintf(written, sizeof written, "%s/out", folder);
    create("writer", "medium", volumes(folder, "/mnt/work"));
    assert_says("writer", "file:read_file(\"/mnt/work/in\").", "{ok,<<\"from outside\">>}");
    assert_says("writer", "file:write_file(\"/mnt/work/out\", <<\"x\">>).", "ok");
    assert_int_equal(stat(written, &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    json_t *info = world_info(world, "writer");
    json_t *told = json_array_get(json_object_get(info, "volumes"), 0);
    assert_string_equal(json_string_value(json_object_get(told, "source")), folder);
    assert_string_equal(json_string_value(json_object_get(told, "path")), "/mnt/work");
    assert_false(json_is_true(json_object_get(told, "read_only")));
    json_decref(info);
    world_do(world, "restart", "{s:s}", "id", "writer");
    assert_says("writer", "file:write_file(\"/mnt/work/out\", <<\"again\">>).", "ok");
    CLEANUP_FREE char *text = read_whole(written);
    assert_string_equal(text, "again");
    world_destroy(world, "writer");
}

static void what_is_to_be_read_is_read_only(void **state) {
    (void)state;
    create("reader", "high", volumes(make_folder("books"), "/data/books:ro"));
    assert_says("reader", "file:read_file(\"/data/books/in\").", "{ok,<<\"from outside\">>}");
    assert_says("reader", "file:write_file(\"/data/books/out\", <<>>).", "{error,erofs}");
    assert_says("reader", "file:write_file(\"/data/own\", <<>>).", "ok");
    world_destroy(world, "reader");
}

/* Programs are for a profile that allows them. */
static void a_program_runs_where_the_profile_allows_programs(void **state) {
    const char *folder = make_folder("tools");
    char program[256];
    (void)state;
    snprintf(program, sizeof program, "%s/say", folder);
    world_copy(world, "tools/say", "/bin/echo", SIZE_MAX);
    assert_int_equal(chmod(program, 0755), 0);
    create("runner", "low", volumes(folder, "/mnt/tools:ro"));
    assert_says("runner", "os:cmd(\"/mnt/tools/say yes\").", "\"yes\\n\"");
    world_destroy(world, "runner");
}

/* Every refusal leaves nothing: no sandbox, no permission. */
static void bad_input_is_refused(void **state) {
    static const struct {
        const char *rest, *code;
    } cases[] = {{"/etc", "invalid_input"},        {"/mnt", "invalid_input"},      {"/mnt/", "invalid_input"},
                 {"/mnt/../etc", "invalid_input"}, {"/mnt/a/", "invalid_input"},   {"/tmp/a", "invalid_input"},
                 {"/mnt//a", "invalid_input"},     {"/dataset/a", "invalid_input"}};
    const char *folder = make_folder("plain");
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        json_decref(world_fails(world, "create", cases[i].code, "{s:s, s:s, s:o}", "id", "bad", "source",
                                EXAMPLES "/counter_erl", "volumes", volumes(folder, cases[i].rest)));
    char file[256];
    snprintf(file, sizeof file, "%s/in", folder);
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes(file, "/mnt/a")));
    json_decref(world_fails(world, "create", "not_found", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes("/nowhere/at/all", "/mnt/a")));
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes(world_home(world), "/mnt/a")));
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:[s, s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "/tmp:/mnt/a", "/tmp:/mnt/a/b"));
}

/* What a sandbox made of a folder leads nowhere when it starts again. */
static void a_folder_that_became_a_link_stops_a_restart(void **state) {
    char inner[256], aside[256];
    (void)state;
    make_folder("outer/inner");
    snprintf(inner, sizeof inner, "%s/inner", world_path(world, "outer"));
    snprintf(aside, sizeof aside, "%s/aside", world_path(world, "outer"));
    world_do(world, "create", "{s:s, s:s, s:[o, o]}", "id", "swapper", "source", EXAMPLES "/counter_erl", "volumes",
             json_sprintf("%s:/mnt/outer", world_path(world, "outer")), json_sprintf("%s:/mnt/inner", inner));
    assert_says("swapper",
                "{file:rename(\"/mnt/outer/inner\", \"/mnt/outer/aside\"), "
                "file:make_symlink(\"/etc\", \"/mnt/outer/inner\")}.",
                "{ok,ok}");
    json_decref(world_fails(world, "restart", "invalid_input", "{s:s}", "id", "swapper"));
    assert_int_equal(unlink(inner), 0);
    assert_int_equal(rename(aside, inner), 0);
    world_do(world, "restart", "{s:s}", "id", "swapper");
    assert_says("swapper", "file:read_file(\"/mnt/inner/in\").", "{ok,<<\"from outside\">>}");
    world_destroy(world, "swapper");
}

static void nothing_is_left_of_permissions(void **state) {
    struct footprint *footprint = footprint_take(world_home(world));
    (void)state;
    assert_int_equal(footprint_stray_record_count(footprint), 0);
    footprint_free(footprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sandbox_writes_to_its_owners_folder),
        cmocka_unit_test(what_is_to_be_read_is_read_only),
        cmocka_unit_test(a_program_runs_where_the_profile_allows_programs),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(a_folder_that_became_a_link_stops_a_restart),
        cmocka_unit_test(nothing_is_left_of_permissions),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
