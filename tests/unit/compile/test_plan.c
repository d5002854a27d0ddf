/* Which files are compiled after which change, on projects that are a few lines of a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/plan.h"

enum { FILES = 8 };

/* A file defines the module of its own name. Dependencies are words. */
struct source {
    const char *name, *compile, *exports, *runtime, *files;
};

struct project {
    struct manifest manifest;
    struct tree tree;
    struct tree_file tree_files[FILES];
    struct plan plan;
};

static void add_words(struct name_list *list, const char *words) {
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words ? words : "");
    for (char *word; (word = strtok_r(rest, " ", &rest));) assert_true(name_list_add(list, word));
}

static void set_checksum(struct record *record, const char *checksum) {
    snprintf(record->modules[0].checksum, sizeof record->modules[0].checksum, "%s", checksum);
}

static void set_interface(struct record *record, const char *interface) {
    snprintf(record->modules[0].interface, sizeof record->modules[0].interface, "%s", interface);
}

static void compile(struct record *record, const struct source *source) {
    record_forget_output(record);
    record->modules = calloc(1, sizeof *record->modules);
    record->module_count = 1;
    record->modules[0].name = strdup(source->name);
    set_checksum(record, "first");
    set_interface(record, "first");
    add_words(&record->compile, source->compile);
    add_words(&record->exports, source->exports);
    add_words(&record->runtime, source->runtime);
    add_words(&record->files, source->files);
    record->is_compiled = true;
}

static void settle(struct project *project) {
    assert_true(plan_link(&project->plan));
    for (size_t i = 0; i < project->manifest.count; i++)
        plan_inputs(&project->plan, project->manifest.records[i], project->manifest.records[i]->inputs);
}

static void open_project(struct project *project, const struct source *sources, size_t count) {
    *project = (struct project){.tree = {.files = project->tree_files}};
    for (size_t i = 0; i < count; i++) {
        struct record *record = record_new(sources[i].name, "app");
        compile(record, &sources[i]);
        assert_true(manifest_add(&project->manifest, record));
    }
    project->plan.manifest = &project->manifest;
    project->plan.tree = &project->tree;
    settle(project);
}

static void close_project(struct project *project) {
    plan_free(&project->plan);
    manifest_free(&project->manifest);
}

static struct record *find(struct project *project, const char *name) {
    for (size_t i = 0; i < project->manifest.count; i++)
        if (strcmp(project->manifest.records[i]->path, name) == 0) return project->manifest.records[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void edit(struct project *project, const char *name) {
    find(project, name)->digest[0]++;
}

/* What is compiled next, of what is stale: how many, 0 when nothing is. */
static size_t plan_round(struct plan *plan, struct record **ret) {
    return plan_ready(plan, ret, plan_stale(plan, "app", ret));
}

/* The next round's files, in the project's order. */
static void assert_round(struct project *project, const char *expected) {
    struct record *round[FILES + 1];
    char names[128] = "";
    assert_true(plan_link(&project->plan));
    size_t count = plan_round(&project->plan, round);
    for (size_t i = 0; i < count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", round[i]->path);
    if (count > 0) names[strlen(names) - 1] = '\0';
    assert_string_equal(names, expected);
}

/* As if the round's files had been compiled, to other code if checksum is given. */
static void compile_round(struct project *project, const char *checksum) {
    struct record *round[FILES + 1];
    size_t count = plan_round(&project->plan, round);
    for (size_t i = 0; i < count; i++) {
        round[i]->is_compiled = true;
        round[i]->compilations++;
        if (checksum) set_checksum(round[i], checksum);
    }
    assert_true(plan_link(&project->plan));
    for (size_t i = 0; i < count; i++) plan_inputs(&project->plan, round[i], round[i]->inputs);
}

/* ---- what follows from a change ---- */

static const struct source macros[] = {
    {.name = "helper"},
    {.name = "macro", .runtime = "helper"},
    {.name = "user", .compile = "macro"},
    {.name = "other", .runtime = "macro helper user"},
};

static void test_nothing_changed(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    assert_round(&project, "");
}

static void test_a_body_compiles_one_file(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    edit(&project, "other");
    assert_round(&project, "other");
    compile_round(&project, "second");
    assert_round(&project, "");
    edit(&project, "user"); /* that `other` calls it is of no matter */
    assert_round(&project, "user");
    compile_round(&project, "second");
    assert_round(&project, "");
}

static void test_a_macro_compiles_its_users(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    edit(&project, "macro");
    assert_round(&project, "macro");
    compile_round(&project, "second");
    assert_round(&project, "user");
    compile_round(&project, "second");
    assert_round(&project, "");
}

/* A comment in a macro's file changes nothing that ran. */
static void test_the_same_code_compiles_nobody_else(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    edit(&project, "macro");
    assert_round(&project, "macro");
    compile_round(&project, NULL);
    assert_round(&project, "");
}

static void test_what_a_macro_calls_compiles_its_users(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    edit(&project, "helper");
    assert_round(&project, "helper");
    compile_round(&project, "second");
    assert_round(&project, "user");
}

static const struct source structs[] = {
    {.name = "struct"},
    {.name = "user", .exports = "struct"},
    {.name = "caller", .runtime = "struct user"},
};

static void test_an_interface_compiles_who_was_compiled_against_it(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, structs, ARRAY_SIZE(structs));
    edit(&project, "struct");
    compile_round(&project, "second");
    assert_round(&project, ""); /* only a body */
    edit(&project, "struct");
    compile_round(&project, "third");
    set_interface(find(&project, "struct"), "second");
    assert_round(&project, "user");
    compile_round(&project, "second");
    assert_round(&project, "");
}

static void test_a_header_compiles_who_read_it(void **state) {
    (void)state;
    static const struct source sources[] = {{.name = "a", .files = "a.hrl"}, {.name = "b"}};
    CLEANUP(close_project) struct project project;
    open_project(&project, sources, ARRAY_SIZE(sources));
    project.tree_files[0] = (struct tree_file){.path = (char *)"a.hrl", .digest = {1}};
    project.tree.count = 1; /* it came: as if it had changed */
    assert_round(&project, "a");
    compile_round(&project, NULL);
    assert_round(&project, "");
    project.tree_files[0].digest[0] = 2;
    assert_round(&project, "a");
    project.tree.count = 0; /* it went */
    assert_round(&project, "a");
}

static void test_a_header_of_the_same_name_may_be_found_first(void **state) {
    (void)state;
    static const struct source sources[] = {{.name = "a", .files = "include/a.hrl"}, {.name = "b"}};
    CLEANUP(close_project) struct project project;
    open_project(&project, sources, ARRAY_SIZE(sources));
    project.tree_files[0] = (struct tree_file){.path = (char *)"include/a.hrl"};
    project.tree.count = 1;
    settle(&project);
    project.tree_files[1] = (struct tree_file){.path = (char *)"src/b.hrl"};
    project.tree.count = 2;
    assert_round(&project, "");
    project.tree_files[1].path = (char *)"src/a.hrl";
    assert_round(&project, "a");
}

static void test_configuration_compiles_who_read_it(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    find(&project, "helper")->reads_config = true;
    settle(&project);
    project.plan.config[0] = 1;
    assert_round(&project, "helper");
}

static void test_options_compile_their_files(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, structs, ARRAY_SIZE(structs));
    for (size_t i = 0; i < project.manifest.count; i++) project.manifest.records[i]->options[0] = 1;
    assert_round(&project, "struct user caller");
}

/* ---- files that come and go ---- */

static void test_a_new_file_is_compiled_and_who_wanted_it(void **state) {
    (void)state;
    static const struct source sources[] = {{.name = "user", .compile = "wanted"},
                                            {.name = "other", .runtime = "wanted"}};
    static const struct source wanted = {.name = "wanted"};
    CLEANUP(close_project) struct project project;
    open_project(&project, sources, ARRAY_SIZE(sources));
    struct record *record = record_new("wanted", "app");
    assert_true(manifest_add(&project.manifest, record));
    assert_round(&project, "wanted");
    compile(record, &wanted);
    compile_round(&project, NULL);
    assert_round(&project, "user");
}

static void test_a_deleted_file_compiles_who_ran_it(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    record_free(project.manifest.records[0]);
    memmove(project.manifest.records, project.manifest.records + 1, --project.manifest.count * sizeof(struct record *));
    assert_round(&project, "user"); /* its macro called the one that went */
}

/* ---- orders ---- */

/* Both changed: the user is compiled once, after what runs in its compilation. */
static void test_what_runs_is_compiled_first(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    edit(&project, "user");
    edit(&project, "macro");
    edit(&project, "other");
    assert_round(&project, "macro other");
    compile_round(&project, "second");
    assert_round(&project, "user");
    compile_round(&project, "second");
    assert_round(&project, "");
}

static const struct source circle[] = {{.name = "a", .compile = "m"},
                                       {.name = "m", .runtime = "b"},
                                       {.name = "b", .compile = "n"},
                                       {.name = "n", .runtime = "a"}};

/* a's compilation runs m, which may call b; b's runs n, which may call a. */
static void test_circles_come_to_an_end(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, circle, ARRAY_SIZE(circle));
    edit(&project, "a");
    assert_round(&project, "a");
    compile_round(&project, "second");
    assert_round(&project, "b");
    compile_round(&project, NULL); /* it came out the same */
    assert_round(&project, "");
    edit(&project, "a");
    edit(&project, "b");
    assert_round(&project, "a b"); /* each waits for the other */
}

/* Code that is another each time it is compiled: a time of day, say. */
static void test_code_that_never_settles(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    struct record *round[FILES + 1];
    char checksum[16];
    int rounds = 0;
    open_project(&project, circle, ARRAY_SIZE(circle));
    edit(&project, "a");
    while (plan_link(&project.plan) && plan_round(&project.plan, round) > 0 && rounds < 100) {
        snprintf(checksum, sizeof checksum, "c%d", rounds++);
        compile_round(&project, checksum);
    }
    assert_in_range(rounds, 2, 20);
}

static void test_all_new_is_one_round(void **state) {
    (void)state;
    CLEANUP(close_project) struct project project;
    open_project(&project, macros, ARRAY_SIZE(macros));
    for (size_t i = 0; i < project.manifest.count; i++) record_forget_output(project.manifest.records[i]);
    assert_round(&project, "helper macro user other");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_changed),
        cmocka_unit_test(test_a_body_compiles_one_file),
        cmocka_unit_test(test_a_macro_compiles_its_users),
        cmocka_unit_test(test_the_same_code_compiles_nobody_else),
        cmocka_unit_test(test_what_a_macro_calls_compiles_its_users),
        cmocka_unit_test(test_an_interface_compiles_who_was_compiled_against_it),
        cmocka_unit_test(test_a_header_compiles_who_read_it),
        cmocka_unit_test(test_a_header_of_the_same_name_may_be_found_first),
        cmocka_unit_test(test_configuration_compiles_who_read_it),
        cmocka_unit_test(test_options_compile_their_files),
        cmocka_unit_test(test_a_new_file_is_compiled_and_who_wanted_it),
        cmocka_unit_test(test_a_deleted_file_compiles_who_ran_it),
        cmocka_unit_test(test_what_runs_is_compiled_first),
        cmocka_unit_test(test_circles_come_to_an_end),
        cmocka_unit_test(test_code_that_never_settles),
        cmocka_unit_test(test_all_new_is_one_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
