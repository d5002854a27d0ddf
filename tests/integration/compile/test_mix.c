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
    const char *name;
    const char *file, *text;
    const char *said; /* in the error */
    bool is_brief;    /* in every run; the others by `make stress`: each costs a compiler */
};

/* mix.exs with code that runs when it is loaded, and dependencies. */
#define HARMFUL_MIX(code, deps)                                                                                        \
    code "\ndefmodule Harm.MixProject do\n  use Mix.Project\n"                                                         \
         "  def project, do: [app: :harm, version: \"1.0.0\", deps: [" deps "]]\nend\n"
#define PRINTS_MUCH "String.duplicate(\"x\", 1_048_576)"

static const struct harm harms[] = {
    {"reads", "mix.exs", HARMFUL_MIX("File.read!(\"../secret/key\")", ""), "no such file or directory", true},
    {"climbs", "mix.exs", HARMFUL_MIX(":ok", "{:etc, path: \"../../../../../../etc\"}"), "which was not handed over",
     false},
    {"writes", "mix.exs", HARMFUL_MIX("File.write!(\"lib/new.ex\", \"\")", ""), "read-only file system", false},
    {"forks", "mix.exs", HARMFUL_MIX("System.cmd(\"/bin/sh\", [\"-c\", \"id\"])", ""), "", false},
    {"prints", "mix.exs", HARMFUL_MIX("Enum.each(1..1024, fn _ -> IO.write(" PRINTS_MUCH ") end)", ""),
     "printed more than", false},
    {"lies", "mix.exs", HARMFUL_MIX(":ok", "{:gone, path: \"libs/gone\"}"), "there is no folder libs/gone", false},
    {"connects", "mix.exs", HARMFUL_MIX("{:ok, _} = :gen_tcp.connect({127, 0, 0, 1}, 22, [])", ""), "", false},
    {"eats", "mix.exs", HARMFUL_MIX("Enum.reduce(1..1_000_000_000, [], &[{&1, &1} | &2])", ""), "", false},
    {"r3_reads", "rebar.config.script", "{ok, Key} = file:read_file(\"../secret/key\"), [{key, Key}].\n", "enoent",
     true},
    {"r3_host", "rebar.config.script", "{ok, Key} = file:read_file(\"/etc/passwd\"), [{key, Key}].\n", "", false},
    {"r3_writes", "rebar.config.script", "ok = file:write_file(\"src/new.erl\", \"\"), [].\n", "", false},
    {"r3_forks", "rebar.config.script", "\"uid\" ++ _ = os:cmd(\"id\"), [].\n", "", false},
    {"r3_prints", "rebar.config.script",
     "X = lists:duplicate(1048576, $x), [io:put_chars(X) || _ <- lists:seq(1, 1024)], [].\n", "printed more than",
     false},
    {"r3_halts", "rebar.config.script", "halt(0).\n", "", false},
    {"r3_lies", "rebar.config.script", "[{deps, [{gone, {path, \"../secret\"}}]}].\n", "the dependency gone is not",
     false},
    {"r3_climbs", "rebar.config", "{project_app_dirs, [\"../secret\"]}.\n{src_dirs, [\"../../secret\"]}.\n", "", false},
};

static void write_harm(struct world *world, const char *folder, const struct harm *harm) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", folder, harm->file);
    world_file(world, name, harm->text);
    snprintf(name, sizeof name, "%s/lib/harm.ex", folder);
    write_module(world, name, "Harm", "");
    if (strcmp(harm->file, "mix.exs") == 0) return;
    snprintf(name, sizeof name, "%s/src/harm.app.src", folder);
    world_file(world, name, "{application, harm, [{vsn, \"1\"}]}.\n");
    snprintf(name, sizeof name, "%s/rebar.config", folder);
    if (strcmp(harm->file, "rebar.config") != 0) world_file(world, name, "");
}

/* Each fails alone, and says nothing of what it was not given. */
static void check_harm(struct world *world, const struct harm *harm) {
    char folder[64];
    snprintf(folder, sizeof folder, "harm_%s", harm->name);
    write_harm(world, folder, harm);
    uint64_t begun_ms = clock_monotonic_ms();
    json_t *outcome = world_fails(world, "compile", NULL, "{s:s}", "source", world_path(world, folder));
    CLEANUP_FREE char *text = json_dumps(outcome, JSON_COMPACT);
    if (!strstr(text, harm->said)) fail_msg("%s: %.600s", harm->name, text); /* cmocka 1 breaks off at 1,024 bytes */
    if (strstr(text, "very-secret")) fail_msg("%s tells the secret: %.600s", harm->name, text);
    if (getenv("COMPILE_AT_LENGTH"))
        print_message("%s: %llu ms, %.200s\n", harm->name, (unsigned long long)(clock_monotonic_ms() - begun_ms), text);
    json_decref(outcome);
}

static void harm_stays_with_its_project(void **state) {
    struct world *world = *state;
    world_file(world, "secret/key", "very-secret");
    world_file(world, "secret/key.erl", "-module(key).\n-export([x/0]).\nx() -> 'very-secret'.\n");
    for (size_t i = 0; i < ARRAY_SIZE(harms); i++)
        if (harms[i].is_brief || getenv("COMPILE_AT_LENGTH")) check_harm(world, &harms[i]);
    write_shop(world, "3");
    json_decref(build_compile(world, world_path(world, "shop")));
    build_assert_no_leftovers(world);
}

/* Loops end with the compilation's deadline, and nothing is left of them. */
static void loops_end(void **state) {
    (void)state;
    if (!getenv("COMPILE_AT_LENGTH")) return;
    static const struct harm loops[] = {
        {"loops", "mix.exs", HARMFUL_MIX("Stream.cycle([1]) |> Stream.run()", ""), "", false},
        {"r3_loops", "rebar.config.script", "F = fun(G) -> G(G) end, F(F).\n", "", false},
        {"spawns", "rebar.config.script",
         "F = fun(G) -> [spawn(fun() -> G(G) end) || _ <- [1, 2]], receive after infinity -> ok end end, F(F).\n", "",
         false},
    };
    struct world *world = world_open("compile-deadline = 3s\n");
    for (size_t i = 0; i < ARRAY_SIZE(loops); i++) check_harm(world, &loops[i]);
    world_close(world);
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
        cmocka_unit_test(loops_end),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
