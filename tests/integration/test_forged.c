/* A project that takes its compiler node over: from then on every answer is the project's own. Few bytes of it must not
   become much in the daemon. */
#include "support.h"

#include <limits.h>

enum { FILES = 100, WARNINGS_EACH = 950, WARNINGS_MAX = 1000 };

/* The file `mode` says what it answers. */
static const char project_text[] =
    "defmodule Forged.MixProject do\n"
    "  use Mix.Project\n"
    "  def project, do: [app: :forged, version: \"0.1.0\", deps: []]\n"
    "  def application, do: []\n"
    "end\n"
    ":code.unstick_mod(:sbx_compile)\n"
    "Code.compiler_options(ignore_module_conflict: true)\n"
    "defmodule :sbx_compile do\n"
    "  def mode, do: String.trim(File.read!(\"/src/project/mode\"))\n"
    "  def put(_), do: {:ok, %{}}\n"
    "  def project(_) do\n"
    "    sources = for i <- 1..2000, do: String.duplicate(\"a\", 3000) <> \"#{i}.ex\"\n"
    "    app = %{name: \"forged\", dir: \".\", sources: sources, options: \"\", needs: [], priv: false}\n"
    "    {:ok, %{apps: [app], main: \"forged\", loose: false, config: nil, described_by: [\"mix.exs\"], problems: "
    "[]}}\n"
    "  end\n"
    "  def compile(%{files: files}) do\n"
    "    {:ok, %{files: for({file, i} <- Enum.with_index(files), do: answer(file, i, mode()))}}\n"
    "  end\n"
    "  def answer(file, i, mode) do\n"
    "    name = :\"m#{i}\"\n"
    "    {:ok, ^name, beam} = :compile.forms([{:attribute, 1, :module, name}])\n"
    "    names = if mode == \"names\" and i < 15, do: for(i <- 1..19000, do: \"n#{i}\"), else: []\n"
    "    warnings = if mode == \"warnings\", do: List.duplicate(%{}, 950), else: []\n"
    "    %{file: file, modules: [%{module: Atom.to_string(name), beam: beam}], compile: names, exports: [],\n"
    "      runtime: [], includes: [], resources: if(mode == \"outside\", do: [\"../x\"], else: []), config: false, "
    "warnings: warnings}\n"
    "  end\n"
    "  def finish(%{apps: apps}) do\n"
    "    app = "
    "\"{application,forged,[{vsn,\\\"1\\\"},{modules,[]},{registered,[]},{applications,[kernel,stdlib]}]}.\"\n"
    "    apps = for a <- apps, do: %{name: a.name, app_file: app, language: :elixir}\n"
    "    {:ok, %{apps: apps, supervisor: nil, consolidated: []}}\n"
    "  end\n"
    "end\n";

/* Each file is another one in each mode, and is compiled again. */
static void write_files(struct world *world, const char *name, const char *mode) {
    char path[256];
    snprintf(path, sizeof path, "%s/mode", name);
    world_file(world, path, mode);
    for (int i = 0; i < FILES; i++) {
        char text[64];
        snprintf(path, sizeof path, "%s/lib/f%d.ex", name, i);
        snprintf(text, sizeof text, "# %s\n", mode);
        world_file(world, path, text);
    }
}

static void write_project(struct world *world, const char *name, const char *mode, char ret_path[PATH_MAX]) {
    char path[256];
    snprintf(path, sizeof path, "%s/mix.exs", name);
    world_file(world, path, project_text);
    write_files(world, name, mode);
    snprintf(ret_path, PATH_MAX, "%s", world_path(world, name));
}

/* Those of all files together, and the rest is counted; found in the cache it is the same. */
static void warnings_are_bounded(void **state) {
    struct world *world = *state;
    char path[PATH_MAX];
    write_project(world, "warnings", "warnings", path);
    for (int i = 0; i < 2; i++) {
        json_t *report = world_op(world, "compile", "{s:s}", "source", path);
        assert_int_equal(json_array_size(json_object_get(report, "beam_files")), FILES);
        assert_int_equal(json_array_size(json_object_get(report, "warnings")), WARNINGS_MAX);
        assert_int_equal(json_integer_value(json_object_get(report, "warnings_left_out")),
                         FILES * WARNINGS_EACH - WARNINGS_MAX);
        json_decref(report);
    }
}

static void assert_too_large(struct world *world, const char *path, const char *of_what) {
    json_t *problem = world_fails(world, "compile", "too_large", "{s:s}", "source", path);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    assert_non_null(strstr(detail, of_what));
    json_decref(problem);
}

/* In the node that answered well before. */
static void names_are_bounded(void **state) {
    struct world *world = *state;
    write_files(world, "warnings", "names");
    assert_too_large(world, world_path(world, "warnings"), "depend on more than 250000");
}

/* A file that was not handed over is no file of the project. */
static void paths_lead_nowhere_else(void **state) {
    struct world *world = *state;
    char path[PATH_MAX];
    write_project(world, "outside", "outside", path);
    json_t *problem = world_fails(world, "compile", "protocol_violation", "{s:s}", "source", path);
    assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "../x, which was not handed over"));
    json_decref(problem);
}

/* The node describes the project again once a file that says what it is has changed. */
static void paths_are_bounded(void **state) {
    struct world *world = *state;
    char path[PATH_MAX];
    write_project(world, "paths", "plain", path);
    world_do(world, "compile", "{s:s}", "source", path);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "%s# changed\n", project_text);
    world_file(world, "paths/mix.exs", buf_string(&text));
    assert_too_large(world, path, "their paths have more than 4 MiB");
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
        cmocka_unit_test(warnings_are_bounded),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(paths_lead_nowhere_else),
        cmocka_unit_test(paths_are_bounded),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
