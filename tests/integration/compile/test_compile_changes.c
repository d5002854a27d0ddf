/* A project is changed in every way that matters, and after each change exactly those files are compiled that have to
   be. What comes of it is what a compilation from nothing makes. With COMPILE_MODULES in the environment the project
   has that many modules, and each change is also compared with a compilation from nothing and shown beside what Mix
   compiles. */
#include <limits.h>
#include <stdlib.h>

#include "builds.h"
#include "generated.h"

enum { CHANGES_IN_SHORT = 6 }; /* of the table, in every run; the others take twice as long */

struct trial {
    struct world *world;
    unsigned modules;
    bool at_length;
    char project[256], mix_project[256];
    char build[PATH_MAX];
};

static void copy_path(char ret[256], const char *path) {
    assert_int_equal(string_format(ret, 256, NULL, "%s", path), 0);
}

static size_t count_lines(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

/* ---- ours ---- */

static bool has_line(const char *text, const char *line) {
    size_t length = strlen(line);
    for (const char *at = strstr(text, line); at; at = strstr(at + 1, line))
        if ((at == text || at[-1] == '\n') && at[length] == '\n') return true;
    return false;
}

static void assert_files(const struct trial *trial, const struct generated_change *change, const char *files) {
    json_t *facts = build_facts(trial->build), *source;
    size_t i;
    json_array_foreach(json_object_get(facts, "sources"), i, source) {
        const char *file = json_string_value(json_object_get(source, "file"));
        bool expected = generated_is_stale(change, file);
        if (has_line(files, file) != expected)
            fail_msg("%s: %s was%s compiled. Compiled:\n%s", change->name, file, expected ? " not" : "", files);
    }
    json_decref(facts);
}

/* The same sources in another folder of the same name. */
static void assert_as_from_nothing(struct trial *trial, const char *name) {
    char folder[64], command[1024], build[PATH_MAX];
    static unsigned number;
    snprintf(folder, sizeof folder, "clean%u/%s", number++, GENERATED_APP);
    const char *copy = world_path(trial->world, folder);
    snprintf(command, sizeof command, "mkdir -p '%s' && cp -r '%s/.' '%s'", copy, trial->project, copy);
    assert_int_equal(system(command), 0);
    json_t *report = build_compile(trial->world, copy);
    if (!json_is_false(json_object_get(report, "incremental"))) fail_msg("%s: this was not from nothing", name);
    json_decref(report);
    build_last(trial->world, build);
    build_assert_same(trial->build, build);
}

/* ---- Mix ---- */

/* The sources it compiled, one per line. To be freed. */
static char *run_mix(const struct trial *trial) {
    static const char start[] = "Compiled ";
    char command[512], line[1024];
    struct buf files = BUF_INIT;
    snprintf(command, sizeof command, "cd '%s' && mix compile --verbose 2>&1", trial->mix_project);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        if (string_starts(line, start)) buf_append_string(&files, line + strlen(start));
    if (pclose(pipe) != 0) fail_msg("mix compile failed");
    generated_age(trial->mix_project);
    char *text = buf_take_string(&files);
    assert_non_null(text);
    return text;
}

static void list_missing(struct buf *ret, const char *what, const char *files, const char *others) {
    enum { SHOWN_MAX = 4 };
    CLEANUP_FREE char *copy = strdup(files);
    size_t count = 0;
    for (char *rest = NULL, *file = strtok_r(copy, "\n", &rest); file; file = strtok_r(NULL, "\n", &rest)) {
        if (has_line(others, file)) continue;
        if (count++ < SHOWN_MAX) buf_printf(ret, "%s%s", count == 1 ? what : ", ", file);
    }
    if (count > SHOWN_MAX) buf_printf(ret, " and %zu more", count - SHOWN_MAX);
}

static void show(const char *name, const char *ours, long long took_ms, const char *theirs) {
    struct buf difference = BUF_INIT;
    list_missing(&difference, " only ours: ", ours, theirs);
    list_missing(&difference, " only Mix: ", theirs, ours);
    print_message("| %s | %zu | %lld | %zu |%s |\n", name, count_lines(ours), took_ms, count_lines(theirs),
                  buf_string(&difference));
    buf_free(&difference);
}

/* ---- both ---- */

static void begin(struct trial *trial) {
    copy_path(trial->project, world_path(trial->world, "project/" GENERATED_APP));
    copy_path(trial->mix_project, world_path(trial->world, "mix/" GENERATED_APP));
    generated_write(trial->project, trial->modules);
    json_t *report = build_compile(trial->world, trial->project);
    build_last(trial->world, trial->build);
    CLEANUP_FREE char *ours = build_compiled_files(trial->build, report);
    assert_int_equal(count_lines(ours), trial->modules);
    if (trial->at_length) {
        generated_write(trial->mix_project, trial->modules);
        CLEANUP_FREE char *theirs = run_mix(trial);
        print_message("| change | compiled | ms | Mix compiled | |\n|---|---|---|---|---|\n");
        show("all", ours, json_integer_value(json_object_get(report, "compilation_time_ms")), theirs);
    }
    json_decref(report);
}

static void change_and_compile(struct trial *trial, const struct generated_change *change) {
    generated_apply(trial->project, change);
    json_t *report = build_compile(trial->world, trial->project);
    build_last(trial->world, trial->build);
    CLEANUP_FREE char *ours = build_compiled_files(trial->build, report);
    assert_files(trial, change, ours);
    if (trial->at_length) {
        generated_apply(trial->mix_project, change);
        CLEANUP_FREE char *theirs = run_mix(trial);
        show(change->name, ours, json_integer_value(json_object_get(report, "compilation_time_ms")), theirs);
        assert_as_from_nothing(trial, change->name);
    }
    json_decref(report);
}

static void test_changes(void **state) {
    const char *modules = getenv("COMPILE_MODULES");
    struct trial trial = {
        .world = *state, .modules = modules ? (unsigned)atoi(modules) : GENERATED_GROUP_MODULES, .at_length = modules};
    begin(&trial);
    size_t count = trial.at_length ? generated_change_count : CHANGES_IN_SHORT;
    for (size_t i = 0; i < count; i++) change_and_compile(&trial, &generated_changes[i]);
    assert_as_from_nothing(&trial, "all changes");
    build_assert_no_leftovers(trial.world);
}

static int open_world(void **state) {
    *state = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_changes, open_world, close_world)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
