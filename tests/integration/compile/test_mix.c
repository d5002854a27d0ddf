/* Mix projects through the whole service: dependencies as Mix means them, other folders that are handed over, and
   projects that mean harm. */
#include <stdlib.h>

#include "builds.h"
#include "support.h"

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void write_mix(struct world *world, const char *folder, const char *app, const char *deps, const char *more) {
    char name[128], text[1024];
    snprintf(name, sizeof name, "%s/mix.exs", folder);
    snprintf(text, sizeof text,
             "defmodule Project_%s.MixProject do\n  use Mix.Project\n"
             "  def project, do: [app: :%s, version: \"1.0.0\", deps: [%s]%s]\nend\n",
             app, app, deps, more);
    world_file(world, name, text);
}

static void write_module(struct world *world, const char *path, const char *name, const char *body) {
    char text[512];
    snprintf(text, sizeof text, "defmodule %s do\n%s\nend\n", name, body);
    world_file(world, path, text);
}

/* ---- dependencies ---- */

/* A library as they come: with an optional dependency, a tool, a warning, and another library. */
static void write_library(struct world *world) {
    write_mix(world, "shop/deps/web", "web",
              "{:absent, \"~> 1.0\", optional: true}, {:tool, \"~> 1.0\", only: :dev}, {:erl, \"~> 1.0\"}",
              ", xref: [exclude: [Absent]]");
    write_module(world, "shop/deps/web/lib/web.ex", "Web",
                 "  def x(unused), do: Absent.y()\n  def env, do: unquote(Mix.env())");
    world_file(world, "shop/deps/erl/rebar.config", "{deps, [deep]}.\n");
    world_file(world, "shop/deps/erl/src/erl.app.src", "{application, erl, [{vsn, \"1.0.0\"}]}.\n");
    world_file(world, "shop/deps/erl/src/erl.erl", "-module(erl).\n-export([x/0]).\nx() -> deep:x().\n");
    world_file(world, "shop/deps/deep/rebar.config", "");
    world_file(world, "shop/deps/deep/src/deep.app.src", "{application, deep, [{vsn, \"1.0.0\"}]}.\n");
    world_file(world, "shop/deps/deep/src/deep.erl", "-module(deep).\n-export([x/0]).\nx() -> 1.\n");
}

static void write_shop(struct world *world, const char *value) {
    char body[128];
    snprintf(body, sizeof body, "  def env, do: unquote(Mix.env())\n  def value, do: %s", value);
    write_module(world, "shop/lib/shop.ex", "Shop", body);
}

static size_t count_warnings(const json_t *report) {
    return json_array_size(json_object_get(report, "warnings"));
}

/* Only those that Mix wants are wanted, and a dependency's warnings are told when it is compiled. */
static void dependencies_are_those_that_mix_means(void **state) {
    struct world *world = *state;
    write_mix(world, "shop", "shop", "{:web, \"~> 1.0\"}", "");
    write_library(world);
    write_shop(world, "1");
    json_t *report = build_compile(world, world_path(world, "shop"));
    build_assert_compiled(report, (const char *const[]){"Shop", "Web", "deep", "erl", NULL});
    assert_int_equal(count_warnings(report), 1);
    assert_string_equal(text_of(json_array_get(json_object_get(report, "warnings"), 0), "file"), "deps/web/lib/web.ex");
    json_decref(report);
    write_shop(world, "2");
    report = build_compile(world, world_path(world, "shop"));
    build_assert_compiled(report, (const char *const[]){"Shop", NULL});
    assert_int_equal(count_warnings(report), 0);
    json_decref(report);
    report = build_compile(world, world_path(world, "shop")); /* from the cache */
    assert_int_equal(count_warnings(report), 0);
    json_decref(report);
}

/* A build belongs to its environment. */
static void environments_have_builds_of_their_own(void **state) {
    struct world *world = *state;
    json_t *report = world_op(world, "compile", "{s:s, s:s}", "source", world_path(world, "shop"), "mix_env", "prod");
    assert_false(json_is_true(json_object_get(report, "cache_hit")));
    json_decref(report);
}

/* ---- folders that are handed over ---- */

static void a_folder_beside_is_read_when_it_is_handed_over(void **state) {
    struct world *world = *state;
    write_mix(world, "mono/apps/till", "till", "{:core, path: \"../../libs/core\"}", "");
    write_module(world, "mono/apps/till/lib/till.ex", "Till", "  def price, do: Core.price()");
    write_mix(world, "mono/libs/core", "core", "", "");
    write_module(world, "mono/libs/core/lib/core.ex", "Core", "  def price, do: 7");
    CLEANUP_FREE char *till = strdup(world_path(world, "mono/apps/till"));
    CLEANUP_FREE char *core = strdup(world_path(world, "mono/libs/core"));
    json_t *problem = world_fails(world, "compile", "compile_failed", "{s:s}", "source", till);
    json_t *error = json_array_get(json_object_get(json_object_get(problem, "result"), "errors"), 0);
    assert_non_null(strstr(text_of(error, "message"), "Hand it over with --with ../../libs/core"));
    json_decref(problem);
    for (unsigned i = 0; i < 2; i++) {
        json_t *report = world_op(world, "compile", "{s:s, s:[s]}", "source", till, "with", core);
        build_assert_compiled(report, i == 0 ? (const char *const[]){"Core", "Till", NULL}
                                             : (const char *const[]){"Core", NULL});
        json_decref(report);
        write_module(world, "mono/libs/core/lib/core.ex", "Core", "  def price, do: 8");
    }
    json_decref(world_fails(world, "compile", "invalid_input", "{s:s, s:[s]}", "source", till, "with",
                            world_path(world, "mono")));
}

/* ---- projects that mean harm ---- */

struct harm {
    const char *name, *code; /* of mix.exs, run when it is loaded */
    const char *deps;
    const char *said; /* in the error */
};

enum { BRIEFLY = 2 }; /* as many of these in every run, all of them by `make stress`: each costs a compiler */

static const struct harm harms[] = {
    {"reads", "File.read!(\"../secret/key\")", "", "no such file or directory"},
    {"climbs", ":ok", "{:etc, path: \"../../../../../../etc\"}", "which was not handed over"},
    {"writes", "File.write!(\"lib/new.ex\", \"\")", "", "read-only file system"},
    {"forks", "System.cmd(\"/bin/sh\", [\"-c\", \"id\"])", "", ""},
    {"prints", "Enum.each(1..64, fn _ -> IO.write(String.duplicate(\"x\", 1_048_576)) end)", "", "printed more than"},
    {"lies", ":ok", "{:gone, path: \"libs/gone\"}", "there is no folder libs/gone"},
};

static void harm_stays_with_its_project(void **state) {
    struct world *world = *state;
    world_file(world, "secret/key", "secret");
    size_t count = getenv("COMPILE_AT_LENGTH") ? ARRAY_SIZE(harms) : BRIEFLY;
    for (size_t i = 0; i < count; i++) {
        char folder[64], name[128], text[1024];
        snprintf(folder, sizeof folder, "harm_%s", harms[i].name);
        snprintf(name, sizeof name, "%s/mix.exs", folder);
        snprintf(text, sizeof text,
                 "%s\ndefmodule Harm.MixProject do\n  use Mix.Project\n"
                 "  def project, do: [app: :harm, version: \"1.0.0\", deps: [%s]]\nend\n",
                 harms[i].code, harms[i].deps);
        world_file(world, name, text);
        snprintf(name, sizeof name, "%s/lib/harm.ex", folder);
        write_module(world, name, "Harm", "");
        json_t *problem = world_fails(world, "compile", "compile_failed", "{s:s}", "source", world_path(world, folder));
        json_t *error = json_array_get(json_object_get(json_object_get(problem, "result"), "errors"), 0);
        const char *said = error ? text_of(error, "message") : text_of(problem, "detail");
        if (!strstr(said, harms[i].said)) fail_msg("%s: %s", harms[i].name, said);
        json_decref(problem);
    }
    write_shop(world, "3");
    json_decref(build_compile(world, world_path(world, "shop")));
    build_assert_no_leftovers(world);
}

static int open_world(void **state) {
    *state = world_open("warm-nodes = 0\n");
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dependencies_are_those_that_mix_means),
        cmocka_unit_test(environments_have_builds_of_their_own),
        cmocka_unit_test(a_folder_beside_is_read_when_it_is_handed_over),
        cmocka_unit_test(harm_stays_with_its_project),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
