/* A stock Phoenix project in development, with dependencies of our own: what Mix means by each line of its mix.exs and
   of its configuration is what is compiled and started, and a change compiles what it must. */
#include "stock.h"

#include <stdlib.h>

#include "builds.h"

/* ---- writing it ---- */

/* "-- PATH --" on a line of its own. */
static bool is_heading(const char *line, char ret_path[PATH_MAX]) {
    int length = 0;
    return sscanf(line, "-- %4000s --%n", ret_path, &length) == 1 && length > 0 && line[length] == '\n';
}

static char *next_line(char *line) {
    char *end = strchr(line, '\n');
    return end ? end + 1 : NULL;
}

/* Up to the next heading, which keeps its place. */
static char *end_of_file(char *text) {
    char path[PATH_MAX];
    while (text && *text && !is_heading(text, path)) text = next_line(text);
    return text && *text ? text : NULL;
}

const char *stock_write(struct world *world, const char *folder) {
    CLEANUP_FREE char *tree = read_whole(STOCK_TREE);
    assert_non_null(tree);
    unsigned count = 0;
    for (char *at = end_of_file(tree); at; count++) {
        char path[PATH_MAX], name[2 * PATH_MAX];
        assert_true(is_heading(at, path));
        char *text = next_line(at);
        at = end_of_file(text);
        size_t size = at ? (size_t)(at - text) : strlen(text);
        CLEANUP_FREE char *content = strndup(text, size);
        snprintf(name, sizeof name, "%s/%s", folder, path);
        world_file(world, name, content);
    }
    assert_true(count > 50);
    return world_path(world, folder);
}

/* Replace the first such words of a file. */
static void edit(struct world *world, const char *file, const char *from, const char *to) {
    CLEANUP_FREE char *text = read_whole(world_path(world, file));
    assert_non_null(text);
    char *found = strstr(text, from);
    if (!found) fail_msg("%s has no '%s'", file, from);
    CLEANUP_FREE char *edited = string_print("%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
    world_file(world, file, edited);
}

/* ---- what it is made of ---- */

static const char *const development[] = {
    /* the project's own, its derived and implemented protocols, and what its compilers made */
    "Shop", "Shop.Application", "Shop.Repo", "Shop.Types", "Shop.Item", "Shop.Priced", "Shop.Priced.Shop.Item",
    "Json.Encoder.Shop.Item", "Shop.Till", "ShopWeb", "ShopWeb.CoreComponents", "ShopWeb.PageHTML", "ShopWeb.ErrorHTML",
    "ShopWeb.Router", "ShopWeb.Endpoint", "Shop.Colocated",
    /* dependencies */
    "Web.Application", "Web.Component", "Web.Router", "Web.PubSub", "Web.Endpoint", "Web.CodeReloader", "Web.Watcher",
    "Store", "Store.DefaultTypes", "Store.Repo", "Store.Types", "Json", "Json.Encoder", "Json.Encoder.Any",
    "Labels.Application", "Mix.Tasks.Compile.Labels", "Mix.Tasks.Compile.Colocated", "LiveReload.Application", "Manual",
    "Bundler", "lines", "sums", "Core", NULL};

/* What development alone has is gone, and test/support is there. */
static const char *const not_in_test[] = {"LiveReload.Application", "Manual", NULL};
static const char *const only_in_test[] = {"ShopWeb.ConnCase", "HtmlCheck", NULL};

static bool is_among(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

static size_t count_names(const char *const *names) {
    size_t count = 0;
    while (names[count]) count++;
    return count;
}

static bool has_beam(const json_t *beam_files, const char *module) {
    size_t i;
    json_t *path;
    json_array_foreach(beam_files, i, path) {
        const char *name = strrchr(json_string_value(path), '/') + 1;
        if (string_starts(name, "Elixir.")) name += strlen("Elixir.");
        if (string_starts(name, module) && strcmp(name + strlen(module), ".beam") == 0) return true;
    }
    return false;
}

/* All of the build, whatever of it was compiled now. */
static void assert_built(const json_t *report, const char *const *names, const char *const *without,
                         const char *const *more) {
    json_t *beam_files = json_object_get(report, "beam_files");
    CLEANUP_FREE char *text = json_dumps(beam_files, JSON_COMPACT);
    for (const char *const *name = names; *name; name++)
        if (has_beam(beam_files, *name) == is_among(without, *name)) fail_msg("%s: %.900s", *name, text);
    for (const char *const *name = more; *name; name++)
        if (!has_beam(beam_files, *name)) fail_msg("%s is not in %.900s", *name, text);
    if (json_array_size(beam_files) != count_names(names) - count_names(without) + count_names(more))
        fail_msg("there are others in %.900s", text);
}

/* Versions of Elixir warn of different things in different words. */
static bool has_warning_of(const json_t *report, const char *words) {
    CLEANUP_FREE char *text = json_dumps(json_object_get(report, "warnings"), 0);
    return strstr(text, words);
}

static void assert_no_warning_of(const json_t *report, const char *words) {
    CLEANUP_FREE char *text = json_dumps(json_object_get(report, "warnings"), JSON_COMPACT);
    if (has_warning_of(report, words)) fail_msg("'%s' is in %.900s", words, text);
}

static void assert_text_in(struct world *world, const char *id, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, id, NULL, code);
    if (strcmp(text, expected) != 0) fail_msg("%s is %s, not %s", code, text, expected);
}

static void assert_text(struct world *world, const char *code, const char *expected) {
    assert_text_in(world, "stock", code, expected);
}

/* ---- cases ---- */

static const char *const none[] = {NULL};

void stock_has_the_modules_that_mix_makes(void **state) {
    struct world *world = *state;
    json_t *sandbox = world_op(world, "create", "{s:s, s:s, s:{s:s}}", "id", "stock", "source",
                               stock_write(world, "stock"), "env", "DATABASE_URL", "ecto://shop");
    json_t *report = json_object_get(sandbox, "compilation");
    assert_built(report, development, none, none);
    assert_no_warning_of(report, "Absent");        /* xref: [exclude: …], elixirc_options: [no_warn_undefined: …] */
    assert_no_warning_of(report, "is not in the"); /* optional and other authors' tools are not missed */
    assert_true(has_warning_of(report, "deps/web/lib/web/pub_sub.ex")); /* once, when it is compiled */
    json_decref(sandbox);
}

/* Tools that are for developers, or not for run time, are compiled and never started. */
void stock_starts_as_mix_starts_it(void **state) {
    struct world *world = *state;
    assert_text(world,
                "Enum.sort(for {app, _, _} <- Application.started_applications(), "
                "String.starts_with?(to_string(:code.lib_dir(app)), \"/app\"), do: app)",
                "[:core, :json, :labels, :lines, :live_reload, :shop, :store, :sums, :web]");
    assert_text(world, "{Shop.env(), Web.Application.env(), Core.env()}", "{:dev, :prod, :prod}");
    assert_text(world, "Enum.map([Shop.Priced, Json.Encoder, Enumerable], &Protocol.consolidated?/1)",
                "[true, true, true]");
    assert_text(world, "{Shop.Till.sell(%Shop.Item{cents: 7}), Web.Application.json(%Shop.Item{})}",
                "{7, \"[:cents, :name]\"}");
    assert_text(world, "{Shop.Repo.types(), Store.types()}", "{[:int, :money], [:int, :text]}");
    assert_text(world, "{File.read!(Application.app_dir(:shop, \"priv/labels.list\")), Shop.Colocated.app()}",
                "{\"en\", :shop}");
    assert_text(world, "File.ls!(Application.app_dir(:shop, \"priv/static\"))", "[\"favicon.ico\"]");
}

/* With what a developer's endpoint has: neither a reloader nor a watcher was started, and nothing else is lost. */
void stock_is_configured_as_in_development(void **state) {
    struct world *world = *state;
    assert_text(world, "{ShopWeb.Endpoint.code_reloading?(), Supervisor.which_children(ShopWeb.Endpoint)}",
                "{true, []}");
    assert_text(
        world,
        "Enum.sort(Keyword.take(Application.get_env(:shop, ShopWeb.Endpoint), [:url, :check_origin, :watchers]))",
        "[check_origin: false, url: [host: \"localhost\"], watchers: []]");
    assert_text(world, "Enum.sort(Shop.Repo.config())",
                "[hostname: \"localhost\", pool_size: 10, url: \"ecto://shop\", username: \"postgres\"]");
    assert_text(world, "Enum.map(ShopWeb.Router.routes(), &ShopWeb.Endpoint.call(elem(&1, 0)))",
                "[\"<h1>Shop</h1>\", \"<button>Buy</button>\"]");
    assert_text(world, "{Application.get_env(:web, :json_library), Application.get_env(:web, :stacktrace_depth)}",
                "{Json, 20}");
}

struct change {
    const char *file, *from, *to;
    const char *const *compiled;
    const char *code, *result; /* afterwards, in the sandbox that was reloaded */
};

#define MODULES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct change changes[] = {
    {"lib/shop/till.ex", "[sum, cents]", "[cents, sum, 1]", MODULES("Shop.Till"), "Shop.Till.sell(%Shop.Item{})", "8"},
    {"lib/shop_web/components/core_components.ex", "<button>", "<button >", MODULES("ShopWeb.CoreComponents"),
     "ShopWeb.PageHTML.buy()", "\"<button >Buy</button>\""},
    {"lib/shop_web/controllers/page_html/home.html.heex", "Shop", "Open", MODULES("ShopWeb.PageHTML"),
     "ShopWeb.Endpoint.call(\"/\")", "\"<h1>Open</h1>\""},
    {"lib/shop_web.ex", "use Web.Component", "use Web.Component, []",
     MODULES("ShopWeb", "ShopWeb.PageHTML", "ShopWeb.ErrorHTML"), "ShopWeb.ErrorHTML.render(\"404\", %{})",
     "\"<button >404</button>\""},
    /* A module that a function made belongs to the file that called it, and follows that function. */
    {"deps/store/lib/store/default_types.ex", ":text", ":json", MODULES("Store.DefaultTypes"), "Store.types()",
     "[:int, :json]"},
    {"deps/store/lib/store/types.ex", "[:int |", "[:float |",
     MODULES("Store.Types", "Store.DefaultTypes", "Shop.Types"), "{Shop.Repo.types(), Store.types()}",
     "{[:float, :money], [:float, :json]}"},
    {"lib/shop/types.ex", ":money", ":time", MODULES("Shop.Types"), "Shop.Repo.types()", "[:float, :time]"},
    {"deps/sums/include/sums.hrl", "sums:add(A, B)", "sums:add(B, A + 1)", MODULES("lines"), ":lines.sum([1, 2])", "5"},
};

void stock_changes_compile_what_they_must(void **state) {
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        char file[256];
        snprintf(file, sizeof file, "stock/%s", changes[i].file);
        edit(world, file, changes[i].from, changes[i].to);
        json_t *result = world_op(world, "reload", "{s:s}", "id", "stock");
        json_t *report = json_object_get(result, "compilation");
        build_assert_compiled(report, changes[i].compiled);
        assert_no_warning_of(report, "deps/");
        assert_text(world, changes[i].code, changes[i].result);
        json_decref(result);
    }
}

void stock_in_its_test_environment_is_another(void **state) {
    struct world *world = *state;
    char build[PATH_MAX];
    json_t *report = world_op(world, "compile", "{s:s, s:s}", "source", world_path(world, "stock"), "mix_env", "test");
    assert_false(json_is_true(json_object_get(report, "cache_hit")));
    assert_built(report, development, not_in_test, only_in_test);
    build_last(world, build);
    json_t *facts = build_facts(build);
    assert_int_equal(json_array_size(json_object_get(facts, "consolidated")), 0);
    json_decref(facts);
    json_decref(report);
}

static void assert_sources(struct world *world, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "sources", NULL,
                                              "for {app, path} <- [shop: \"lib/shop.ex\", core: \"code/core.ex\", "
                                              "lines: \"src/lines.erl\", sums: \"include/sums.hrl\"], "
                                              "do: File.exists?(Application.app_dir(app, path))");
    assert_string_equal(text, expected);
}

/* include is always there, what was compiled where the caller wants it, and a save is there from the next start on. */
void stock_has_its_sources_where_they_are_wanted(void **state) {
    struct world *world = *state;
    for (int with = 0; with < 2; with++) {
        if (with) world_destroy(world, "sources");
        json_decref(world_op(world, "create", "{s:s, s:s, s:{s:s}, s:b}", "id", "sources", "source",
                             world_path(world, "stock"), "env", "DATABASE_URL", "ecto://shop", "with_sources", with));
        assert_sources(world, with ? "[true, true, true, true]" : "[false, false, false, true]");
    }
    edit(world, "stock/lib/shop.ex", "  def env", "  # a comment\n  def env");
    json_decref(world_op(world, "reload", "{s:s}", "id", "sources"));
    json_decref(world_op(world, "restart", "{s:s}", "id", "sources"));
    CLEANUP_FREE char *text = world_eval_text(world, "sources", NULL,
                                              "File.read!(Application.app_dir(:shop, \"lib/shop.ex\")) =~ \"comment\"");
    assert_string_equal(text, "true");
    world_destroy(world, "sources");
}

/* ---- as a release ---- */

/* The project's last build, laid out as a release: `mix release` itself would take longer than all else here. */
static const char *write_release(struct world *world, const char *folder) {
    static const char lay_out[] = "set -e; mkdir -p '%s/lib' '%s/releases/1'; cd '%s'; for app in */; do "
                                  "cp -r \"$app\" '%s/lib/'\"${app%%/}-1\"; done; "
                                  "mv '%s'/lib/*/consolidated '%s/releases/1/'; chmod -R a+rX '%s'";
    static const char listed[] =
        "{release, {\"shop\", \"1\"}, {erts, \"13.0\"}, [{kernel, \"1\"}, {stdlib, \"1\"}, {elixir, \"1\"}, {core, "
        "\"1\"},\n"
        " {json, \"1\"}, {labels, \"1\", none}, {manual, \"1\", load}, {lines, \"1\"}, {live_reload, \"1\"}, {sums, "
        "\"1\"}, {store, \"1\"},\n"
        " {web, \"1\"}, {shop, \"1\"}]}.\n";
    static const char config[] =
        "[{shop, [{'Elixir.ShopWeb.Endpoint', []}, {'Elixir.Shop.Repo', []}, {colour, blue}]}].\n";
    char build[PATH_MAX], name[128];
    build_last(world, build);
    CLEANUP_FREE char *release = strdup(world_path(world, folder));
    CLEANUP_FREE char *command = string_print(lay_out, release, release, build, release, release, release, release);
    assert_int_equal(system(command), 0);
    snprintf(name, sizeof name, "%s/releases/start_erl.data", folder);
    world_file(world, name, "13.0 1\n");
    snprintf(name, sizeof name, "%s/releases/1/shop.rel", folder);
    world_file(world, name, listed);
    snprintf(name, sizeof name, "%s/releases/1/sys.config", folder);
    world_file(world, name, config);
    snprintf(name, sizeof name, "%s/releases/1/runtime.exs", folder);
    world_file(world, name, "import Config\nconfig :shop, Shop.Repo, url: System.fetch_env!(\"DATABASE_URL\")\n");
    return world_path(world, folder);
}

/* Its applications start with its configuration, and a newer release is loaded into the processes of the first. */
void stock_runs_as_a_release(void **state) {
    struct world *world = *state;
    json_decref(world_op(world, "create", "{s:s, s:s, s:{s:s}}", "id", "release", "source",
                         write_release(world, "release"), "env", "DATABASE_URL", "ecto://release"));
    assert_text_in(world, "release",
                   "Enum.sort(for {app, _, _} <- Application.started_applications(), "
                   "String.starts_with?(to_string(:code.lib_dir(app)), \"/app\"), do: app)",
                   "[:core, :json, :labels, :lines, :live_reload, :shop, :store, :sums, :web]");
    assert_text_in(world, "release", "{Shop.Repo.config(), Application.get_env(:shop, :colour)}",
                   "{[url: \"ecto://release\"], :blue}");
    assert_text_in(world, "release", "Enum.map([Shop.Priced, Json.Encoder, Enumerable], &Protocol.consolidated?/1)",
                   "[true, true, true]");
    assert_text_in(world, "release", "Shop.Till.sell(%Shop.Item{cents: 7})", "11");
    edit(world, "stock/lib/shop/till.ex", "[cents, sum, 1]", "[cents, sum, 100]");
    json_decref(world_op(world, "reload", "{s:s}", "id", "stock")); /* which compiles it */
    json_t *result = world_op(world, "reload", "{s:s, s:[s]}", "id", "release", "paths", write_release(world, "newer"));
    assert_string_equal(json_string_value(json_object_get(result, "status")), "hot_reloaded");
    assert_int_equal(json_array_size(json_object_get(result, "modules")), 1);
    json_decref(result);
    assert_text_in(world, "release", "Shop.Till.sell(%Shop.Item{cents: 7})", "121");
    world_destroy(world, "release");
}

/* ---- the last ---- */

void stock_goes_on(struct world *world) {
    edit(world, "stock/lib/shop/types.ex", ":time", ":date");
    json_t *result = world_op(world, "reload", "{s:s}", "id", "stock");
    build_assert_compiled(json_object_get(result, "compilation"), MODULES("Shop.Types"));
    json_decref(result);
    assert_text(world, "Shop.Repo.types()", "[:float, :date]");
    world_destroy(world, "stock");
}
