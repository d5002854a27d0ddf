/* Tests which files of a project a task of Mix gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/job.h"

static struct model_app apps[] = {
    {.name = (char *)"one", .dir = (char *)"apps/one", .is_own = true},
    {.name = (char *)"plug", .dir = (char *)"deps/plug"},
    {.name = (char *)"near", .dir = (char *)"libs/near"},
    {.name = (char *)"core", .dir = (char *)"../core"},
};
static const struct model model = {.apps = apps, .app_count = ARRAY_SIZE(apps)};

struct expected {
    const char *path;
    bool is_folder, is_wanted;
};

static void expect(const char *seen, const struct expected *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (extras_wants(&model, seen, all[i].path, all[i].is_folder) != all[i].is_wanted)
            fail_msg("%s is %s", all[i].path, all[i].is_wanted ? "left out" : "taken");
}

static void the_projects_own_files_are_taken(void **state) {
    static const struct expected all[] = {
        {"mix.exs", false, true},
        {"lib", true, true},
        {"priv/repo/migrations/1_a.exs", false, true},
        {"apps/one/lib/one.ex", false, true},
        {"apps/one/priv", true, true},
        {"lib/_build", true, true},
        {"deps", true, true},
    };
    (void)state;
    expect("", all, ARRAY_SIZE(all));
}

static void what_is_built_or_history_is_not(void **state) {
    static const struct expected all[] = {
        {"_build", true, false}, {".git", true, false}, {"assets/node_modules", true, false}, {"x.beam", false, false}};
    (void)state;
    expect("", all, ARRAY_SIZE(all));
}

static void of_dependencies_what_describes_them_is(void **state) {
    static const struct expected all[] = {
        {"deps/plug", true, true},
        {"deps/plug/mix.exs", false, true},
        {"deps/plug/VERSION", false, true},
        {"deps/plug/src", true, true},
        {"deps/plug/priv", true, false},
        {"deps/plug/src/plug.app.src", false, true},
        {"deps/plug/src/plug.erl", false, false},
        {"deps/plug/lib/more.exs", false, true},
        {"deps/other/lib/a.ex", false, false}, /* one that another environment needs */
        {"libs/near/lib/near.ex", false, false},
        {"libs/near/mix.exs", false, true},
    };
    (void)state;
    expect("", all, ARRAY_SIZE(all));
}

static void so_it_is_in_a_folder_beside_the_project(void **state) {
    static const struct expected all[] = {
        {"mix.exs", false, true}, {"lib/core.ex", false, false}, {"priv", true, false}, {"_build", true, false}};
    (void)state;
    expect("../core", all, ARRAY_SIZE(all));
}

static void sources_are_told_by_the_folder_they_lie_in(void **state) {
    static const struct {
        const char *dir, *source, *folder;
    } all[] = {
        {"", "lib/a/b.ex", "lib"},
        {"", "a.erl", NULL},
        {"deps/plug", "deps/plug/src/a.yrl", "src"},
        {"deps/plug", "deps/plug_two/src/a.erl", NULL},
        {"deps/plug", "mix.exs", NULL},
        {"../core", "../core/code/core.ex", "code"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        char *source = (char *)all[i].source, folder[NAME_MAX + 1] = "";
        struct model_app app = {.dir = (char *)all[i].dir, .sources = {.items = &source, .count = 1}};
        assert_int_equal(extras_source_folder(&app, 0, folder), all[i].folder != NULL);
        assert_string_equal(folder, all[i].folder ? all[i].folder : "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_projects_own_files_are_taken),
        cmocka_unit_test(what_is_built_or_history_is_not),
        cmocka_unit_test(of_dependencies_what_describes_them_is),
        cmocka_unit_test(so_it_is_in_a_folder_beside_the_project),
        cmocka_unit_test(sources_are_told_by_the_folder_they_lie_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
