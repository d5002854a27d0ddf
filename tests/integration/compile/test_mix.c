/* Mix projects through the whole service: a stock one with dependencies as Mix means them, other folders that are
   handed over, and projects that mean harm. */
#include <stdlib.h>

#include "builds.h"
#include "cases.h"
#include "stock.h"

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

/* ---- folders that are handed over ---- */

/* By a member of an umbrella, which needs another member too. */
static void write_umbrella(struct world *world) {
    static const char shared[] = ", build_path: \"../../_build\", config_path: \"../../config/config.exs\", "
                                 "deps_path: \"../../deps\", lockfile: \"../../mix.lock\"";
    world_file(world, "mono/shop/mix.exs",
               "defmodule Project_shop.MixProject do\n  use Mix.Project\n"
               "  def project, do: [apps_path: \"apps\", version: \"1.0.0\", deps: []]\nend\n");
    world_file(world, "mono/shop/config/config.exs", "import Config\nconfig :till, price: 7\n");
    write_mix(world, "mono/shop/apps/till", "till",
              "{:stock, in_umbrella: true}, {:core, path: \"../../../libs/core\"}", shared);
    write_module(
        world, "mono/shop/apps/till/lib/till.ex", "Till",
        "  @price Application.compile_env!(:till, :price)\n  def price, do: Core.price() + Stock.size() + @price");
    write_mix(world, "mono/shop/apps/stock", "stock", "", shared);
    write_module(world, "mono/shop/apps/stock/lib/stock.ex", "Stock", "  def size, do: 1");
    write_mix(world, "mono/libs/core", "core", "", "");
    write_module(world, "mono/libs/core/lib/core.ex", "Core", "  def price, do: 7");
}

/* In the compiler that the umbrella has. */
static void assert_compiles_core_anew(struct world *world, const char *price) {
    CLEANUP_FREE char *shop = strdup(world_path(world, "mono/shop"));
    char body[64];
    snprintf(body, sizeof body, "  def price, do: %s", price);
    write_module(world, "mono/libs/core/lib/core.ex", "Core", body);
    json_t *report =
        world_op(world, "compile", "{s:s, s:[s]}", "source", shop, "with", world_path(world, "mono/libs/core"));
    build_assert_compiled(report, (const char *const[]){"Core", NULL});
    json_decref(report);
}

static void a_folder_beside_is_read_when_it_is_handed_over(void **state) {
    struct world *world = *state;
    write_umbrella(world);
    CLEANUP_FREE char *shop = strdup(world_path(world, "mono/shop"));
    CLEANUP_FREE char *core = strdup(world_path(world, "mono/libs/core"));
    json_t *problem = world_fails(world, "compile", "compile_failed", "{s:s}", "source", shop);
    json_t *error = json_array_get(json_object_get(json_object_get(problem, "result"), "errors"), 0);
    assert_non_null(strstr(text_of(error, "message"), "Hand it over with --with ../libs/core"));
    json_decref(problem);
    json_t *report = world_op(world, "compile", "{s:s, s:[s]}", "source", shop, "with", core);
    build_assert_compiled(report, (const char *const[]){"Core", "Stock", "Till", NULL});
    json_decref(report);
    assert_compiles_core_anew(world, "8");
    json_decref(world_fails(world, "compile", "invalid_input", "{s:s, s:[s]}", "source", shop, "with",
                            world_path(world, "mono")));
}

/* ---- projects that mean harm ---- */

struct harm {
    const char *name;
    const char *file, *text;
    const char *said;                      /* in the error */
    enum { STRESS, LONG, EVERY_RUN } when; /* each costs a compiler: by `make stress`, also `make test-long`, always */
};

/* mix.exs with code that runs when it is loaded, and dependencies. */
#define HARMFUL_MIX(code, deps)                                                                                        \
    code "\ndefmodule Harm.MixProject do\n  use Mix.Project\n"                                                         \
         "  def project, do: [app: :harm, version: \"1.0.0\", deps: [" deps "]]\nend\n"
#define PRINTS_MUCH "String.duplicate(\"x\", 1_048_576)"

static const struct harm harms[] = {
    {"reads", "mix.exs", HARMFUL_MIX("File.read!(\"../secret/key\")", ""), "no such file or directory", EVERY_RUN},
    {"climbs", "mix.exs", HARMFUL_MIX(":ok", "{:etc, path: \"../../../../../../etc\"}"), "which was not handed over",
     STRESS},
    {"writes", "mix.exs", HARMFUL_MIX("File.write!(\"lib/new.ex\", \"\")", ""), "read-only file system", STRESS},
    {"forks", "mix.exs", HARMFUL_MIX("System.cmd(\"/bin/sh\", [\"-c\", \"id\"])", ""), "", STRESS},
    {"prints", "mix.exs", HARMFUL_MIX("Enum.each(1..1024, fn _ -> IO.write(" PRINTS_MUCH ") end)", ""),
     "printed more than", STRESS},
    {"lies", "mix.exs", HARMFUL_MIX(":ok", "{:gone, path: \"libs/gone\"}"), "there is no folder libs/gone", STRESS},
    {"connects", "mix.exs", HARMFUL_MIX("{:ok, _} = :gen_tcp.connect({127, 0, 0, 1}, 22, [])", ""), "", STRESS},
    {"eats", "mix.exs", HARMFUL_MIX("Enum.reduce(1..1_000_000_000, [], &[{&1, &1} | &2])", ""), "", STRESS},
    {"r3_reads", "rebar.config.script", "{ok, Key} = file:read_file(\"../secret/key\"), [{key, Key}].\n", "enoent",
     LONG},
    {"r3_host", "rebar.config.script", "{ok, Key} = file:read_file(\"/etc/passwd\"), [{key, Key}].\n", "", STRESS},
    {"r3_writes", "rebar.config.script", "ok = file:write_file(\"src/new.erl\", \"\"), [].\n", "", STRESS},
    {"r3_forks", "rebar.config.script", "\"uid\" ++ _ = os:cmd(\"id\"), [].\n", "", STRESS},
    {"r3_prints", "rebar.config.script",
     "X = lists:duplicate(1048576, $x), [io:put_chars(X) || _ <- lists:seq(1, 1024)], [].\n", "printed more than",
     STRESS},
    {"r3_halts", "rebar.config.script", "halt(0).\n", "", STRESS},
    {"r3_lies", "rebar.config.script", "[{deps, [{gone, {path, \"../secret\"}}]}].\n", "the dependency gone is not",
     STRESS},
    {"r3_climbs", "rebar.config", "{project_app_dirs, [\"../secret\"]}.\n{src_dirs, [\"../../secret\"]}.\n", "",
     STRESS},
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

static bool is_tried(const struct harm *harm) {
    if (getenv("COMPILE_AT_LENGTH") || harm->when == EVERY_RUN) return true;
    if (harm->when == LONG && !tests_at_length()) cases_leave(1);
    return harm->when == LONG && tests_at_length();
}

static void harm_stays_with_its_project(void **state) {
    struct world *world = *state;
    world_file(world, "secret/key", "very-secret");
    world_file(world, "secret/key.erl", "-module(key).\n-export([x/0]).\nx() -> 'very-secret'.\n");
    for (size_t i = 0; i < ARRAY_SIZE(harms); i++)
        if (is_tried(&harms[i])) check_harm(world, &harms[i]);
    stock_goes_on(world);
    build_assert_no_leftovers(world);
}

/* Loops end with the compilation's deadline, and nothing is left of them. */
static void loops_end(void **state) {
    (void)state;
    if (!getenv("COMPILE_AT_LENGTH")) return;
    static const struct harm loops[] = {
        {"loops", "mix.exs", HARMFUL_MIX("Stream.cycle([1]) |> Stream.run()", ""), "", STRESS},
        {"r3_loops", "rebar.config.script", "F = fun(G) -> G(G) end, F(F).\n", "", STRESS},
        {"spawns", "rebar.config.script",
         "F = fun(G) -> [spawn(fun() -> G(G) end) || _ <- [1, 2]], receive after infinity -> ok end end, F(F).\n", "",
         STRESS},
    };
    struct world *world = world_open("compile-deadline = 3s\n");
    for (size_t i = 0; i < ARRAY_SIZE(loops); i++) check_harm(world, &loops[i]);
    world_close(world);
}

/* More than a large web application has with its dependencies. Each is mounted by itself. */
static void many_applications_run_together(void **state) {
    enum { MANY = 150 };
    struct world *world = *state;
    CLEANUP(buf_free) struct buf needed = BUF_INIT;
    for (unsigned i = MANY; i-- > 0;) {
        char name[64];
        CLEANUP_FREE char *text = string_print("{application, a%u, [{vsn, \"1\"}, {registered, []}, "
                                               "{applications, [kernel, stdlib%s]}]}.\n",
                                               i, i == 0 ? buf_string(&needed) : "");
        snprintf(name, sizeof name, "many/apps/a%u/src/a%u.app.src", i, i);
        world_file(world, name, text);
        buf_printf(&needed, ", a%u", i);
    }
    world_file(world, "many/rebar.config", "{erl_opts, []}.\n");
    world_file(world, "many/apps/a0/src/a0.erl", "-module(a0).\n");
    json_decref(
        world_op(world, "create", "{s:s, s:s, s:s}", "id", "many", "source", world_path(world, "many"), "app", "a0"));
    CLEANUP_FREE char *text =
        world_eval_text(world, "many", "erlang",
                        "length([A || {A, _, _} <- application:which_applications(), hd(atom_to_list(A)) =:= $a]).");
    assert_string_equal(text, "150");
    world_destroy(world, "many");
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
    const struct test_case cases[] = {
        CASE(stock_has_the_modules_that_mix_makes),
        CASE(stock_starts_as_mix_starts_it),
        CASE(stock_is_configured_as_in_development),
        CASE(stock_changes_compile_what_they_must),
        LONG_CASE(stock_has_its_sources_where_they_are_wanted),
        LONG_CASE(stock_runs_as_a_release),
        LONG_CASE(stock_in_its_test_environment_is_another),
        LONG_CASE(a_folder_beside_is_read_when_it_is_handed_over),
        LONG_CASE(many_applications_run_together),
        CASE(harm_stays_with_its_project),
        CASE(loops_end),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
