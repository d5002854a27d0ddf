/* Configuration that is evaluated where the application runs: config/runtime.exs, files and variables of the caller. It
   is applied at the start and while it runs, and what it holds is shown nowhere. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cases.h"
#include "support.h"

#define SECRET "swordfish-7731"
#define FILE_SECRET "marlin-4410-marlin"

/* With what a stock endpoint has for developers. */
static void write_config(struct world *world, const char *colour) {
    char text[512];
    snprintf(text, sizeof text,
             "import Config\nconfig :shop, Shop.Endpoint, port: 4000, code_reloader: true,\n"
             "  watchers: [esbuild: {Esbuild, :install_and_run, [:shop, []]}, npx: [\"tailwind\", \"--watch\"]]\n"
             "config :shop, colour: :%s, nested: [a: 1, b: 2]\nconfig :logger, level: :debug\n",
             colour);
    world_file(world, "shop/config/config.exs", text);
}

static void write_shop(struct world *world) {
    world_file(world, "shop/mix.exs",
               "defmodule Shop.MixProject do\n  use Mix.Project\n"
               "  def project, do: [app: :shop, version: \"1.0.0\"]\n"
               "  def application, do: [mod: {Shop, []}]\nend\n");
    world_file(
        world, "shop/lib/shop.ex",
        "defmodule Shop do\n  use Application\n"
        "  def start(_, _) do\n    :persistent_term.put(:begun, Application.get_env(:shop, :colour))\n"
        "    Supervisor.start_link([], strategy: :one_for_one)\n  end\n"
        "  def config_change(changed, new, removed),\n"
        "    do: :persistent_term.put(:told, {changed, new, removed})\n"
        "  def values, do: for(key <- [:colour, :nested, :secret, :seen, :key], do: Application.get_env(:shop, key))\n"
        "end\n");
    world_file(world, "shop/config/runtime.exs",
               "import Config\nconfig :shop, secret: System.fetch_env!(\"SECRET\"), seen: Application.get_env(:shop, "
               ":colour)\n");
    write_config(world, "red");
}

static void assert_text(struct world *world, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "shop", NULL, code);
    assert_string_equal(text, expected);
}

static void a_missing_variable_is_named(void **state) {
    struct world *world = *state;
    write_shop(world);
    json_t *problem =
        world_fails(world, "create", "start_failed", "{s:s, s:s}", "id", "shop", "source", world_path(world, "shop"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    assert_non_null(strstr(detail, "config/runtime.exs"));
    assert_non_null(strstr(detail, "give it with --env SECRET=VALUE"));
    json_decref(problem);
}

/* Later ones go over earlier ones: config.exs, runtime.exs, then the caller's in their order. */
static void everything_is_configured_in_its_order(void **state) {
    struct world *world = *state;
    json_decref(world_op(world, "create", "{s:s, s:s, s:{s:s}, s:{s:s, s:s}}", "id", "shop", "source",
                         world_path(world, "shop"), "env", "SECRET", SECRET, "config", "prod.exs",
                         "import Config\nconfig :shop, nested: [b: 3], key: \"" FILE_SECRET "\"\n", "sys.config",
                         "[{kernel, [{logger_level, notice}]}, {shop, [{colour, green}]}]."));
    assert_text(world, "Shop.values()", "[:green, [a: 1, b: 3], \"" SECRET "\", :red, \"" FILE_SECRET "\"]");
    assert_text(world, "Application.get_env(:kernel, :logger_level)", ":notice");
    json_decref(world_op(world, "restart", "{s:s, s:b}", "id", "shop", "fresh", 1));
    assert_text(world, "Shop.values()", "[:green, [a: 1, b: 3], \"" SECRET "\", :red, \"" FILE_SECRET "\"]");
}

static bool has_said(struct world *world, const char *words) {
    json_t *records = world_op(world, "logs", "{s:s, s:s}", "id", "shop", "grep", words);
    bool is_said = json_array_size(records) > 0;
    json_decref(records);
    return is_said;
}

static void what_no_sandbox_can_do_is_turned_off(void **state) {
    struct world *world = *state;
    assert_text(world, "Application.get_env(:shop, Shop.Endpoint)", "[port: 4000, code_reloader: false, watchers: []]");
    assert_true(has_said(world, "turned off in Shop.Endpoint: "));
    assert_true(has_said(world, "watchers (esbuild, npx), which run programs of the host"));
}

/* ---- a server of Phoenix ---- */

/* A dependency of that name, which has nothing but its name. */
static void write_web(struct world *world) {
    world_file(world, "web/mix.exs",
               "defmodule Web.MixProject do\n  use Mix.Project\n"
               "  def project, do: [app: :web, version: \"1.0.0\", deps: [{:phoenix, path: \"deps/phoenix\"}]]\n"
               "  def application, do: [mod: {Web, []}]\nend\n");
    world_file(world, "web/lib/web.ex",
               "defmodule Web do\n  use Application\n"
               "  def start(_, _) do\n    :persistent_term.put(:serves, Application.get_env(:phoenix, "
               ":serve_endpoints))\n    Supervisor.start_link([], strategy: :one_for_one)\n  end\nend\n");
    world_file(world, "web/deps/phoenix/mix.exs",
               "defmodule Phoenix.MixProject do\n  use Mix.Project\n"
               "  def project, do: [app: :phoenix, version: \"1.0.0\"]\nend\n");
}

static void assert_serves(struct world *world, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "web", NULL, ":persistent_term.get(:serves)");
    assert_string_equal(text, expected);
    world_destroy(world, "web");
}

/* Its endpoints listen where a port is published, unless the project says otherwise. */
static void a_published_port_is_served(void **state) {
    struct world *world = *state;
    static const char no[] = "import Config\nconfig :phoenix, serve_endpoints: false\n";
    write_web(world);
    const char *source = world_path(world, "web");
    json_decref(world_op(world, "create", "{s:s, s:s}", "id", "web", "source", source));
    assert_serves(world, "nil");
    json_decref(world_op(world, "create", "{s:s, s:s, s:[s]}", "id", "web", "source", source, "publish", "0:4000"));
    assert_serves(world, "true");
    json_decref(world_op(world, "create", "{s:s, s:s, s:[s], s:{s:s}}", "id", "web", "source", source, "publish",
                         "0:4000", "config", "no.exs", no));
    assert_serves(world, "false");
}

/* ---- while it runs ---- */

static const char *status_of(const json_t *result) {
    const char *status = json_string_value(json_object_get(json_object_get(result, "configuration"), "status"));
    return status ? status : "";
}

static void another_configuration_is_told_and_applied(void **state) {
    struct world *world = *state;
    write_config(world, "blue");
    json_t *result = world_op(world, "reload", "{s:s}", "id", "shop");
    assert_string_equal(status_of(result), "changed");
    json_decref(result);
    assert_text(world, "Application.get_env(:shop, :seen)", ":red");
    result = world_op(world, "reload", "{s:s, s:b}", "id", "shop", "config", 1);
    assert_string_equal(status_of(result), "applied");
    json_t *applications = json_object_get(json_object_get(result, "configuration"), "applications");
    assert_int_equal(json_array_size(applications), 1);
    json_t *shop = json_array_get(applications, 0);
    assert_string_equal(json_string_value(json_object_get(shop, "name")), "shop");
    assert_string_equal(json_string_value(json_object_get(shop, "outcome")), "told");
    json_decref(result);
    assert_text(world, ":persistent_term.get(:told)", "{[seen: :blue], [], []}");
    result = world_op(world, "reload", "{s:s, s:b}", "id", "shop", "config", 1);
    assert_int_equal(json_array_size(json_object_get(json_object_get(result, "configuration"), "applications")), 0);
    json_decref(result);
}

/* The VM keeps what it had, and the words of the failure hide the variable's value. */
static void one_that_fails_changes_nothing(void **state) {
    struct world *world = *state;
    world_file(world, "shop/config/runtime.exs",
               "import Config\nconfig :shop, seen: :lost\nraise \"no \" <> System.fetch_env!(\"SECRET\")\n");
    json_t *problem = world_fails(world, "reload", "runtime_error", "{s:s, s:b}", "id", "shop", "config", 1);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    assert_non_null(strstr(detail, "(RuntimeError) no …"));
    assert_non_null(strstr(detail, "config/runtime.exs"));
    json_decref(problem);
    assert_text(world, "Application.get_env(:shop, :seen)", ":blue");
    write_shop(world);
}

static void a_save_is_told_and_a_restart_applies_it(void **state) {
    struct world *world = *state;
    uint64_t before = world_now(world);
    world_do(world, "watch", "{s:s, s:s}", "id", "shop", "action", "on");
    struct event_pattern changed = {"watch_reloaded", "shop", "configuration", "changed"};
    json_decref(world_wait_event(world, before, &changed)); /* what lay there when it began */
    before = world_now(world);
    write_config(world, "black");
    json_decref(world_wait_event(world, before, &changed));
    world_do(world, "watch", "{s:s, s:s}", "id", "shop", "action", "off");
    json_decref(world_op(world, "restart", "{s:s, s:b}", "id", "shop", "fresh", 1));
    assert_text(world, "Application.get_env(:shop, :seen)", ":black");
}

/* What was mended in its source is what it starts with, and a source that is wrong still is told. */
static void one_that_did_not_start_is_mended_by_a_restart(void **state) {
    struct world *world = *state;
    world_file(world, "shop/config/runtime.exs", "import Config\nraise \"a mistake\"\n");
    json_decref(world_op(world, "reload", "{s:s}", "id", "shop"));
    for (unsigned i = 0; i < 2; i++) {
        json_t *problem = world_fails(world, "restart", "start_failed", "{s:s}", "id", "shop");
        assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "a mistake"));
        json_decref(problem);
    }
    write_shop(world);
    write_config(world, "black");
    world_file(world, "shop/lib/shop/more.ex", "defmodule Shop.More do\n");
    json_t *problem = world_fails(world, "restart", "compile_failed", "{s:s}", "id", "shop");
    assert_int_equal(json_array_size(json_object_get(json_object_get(problem, "result"), "errors")), 1);
    json_decref(problem);
    world_file(world, "shop/lib/shop/more.ex", "defmodule Shop.More do\n  def x, do: 1\nend\n");
    json_decref(world_op(world, "restart", "{s:s}", "id", "shop"));
    assert_text(world, "{Shop.More.x(), Application.get_env(:shop, :seen)}", "{1, :black}");
}

/* A source that is gone keeps nothing from starting that could start before. */
static void one_without_its_source_starts_as_it_is(void **state) {
    struct world *world = *state;
    CLEANUP_FREE char *here = strdup(world_path(world, "shop")), *away = strdup(world_path(world, "away"));
    world_file(world, "shop/config/runtime.exs", "import Config\nraise \"a mistake\"\n");
    json_decref(world_op(world, "reload", "{s:s}", "id", "shop"));
    json_decref(world_fails(world, "restart", "start_failed", "{s:s}", "id", "shop"));
    assert_int_equal(rename(here, away), 0);
    json_decref(world_fails(world, "restart", "start_failed", "{s:s}", "id", "shop"));
    assert_int_equal(rename(away, here), 0);
    write_shop(world);
    write_config(world, "black");
    json_decref(world_op(world, "restart", "{s:s}", "id", "shop"));
    assert_text(world, "Application.get_env(:shop, :seen)", ":black");
}

/* ---- secrets ---- */

static void assert_hidden_in(const char *where, const char *text) {
    if (strstr(text, SECRET) || strstr(text, FILE_SECRET)) fail_msg("%s shows a secret", where);
}

static bool has(const char *path, const char *words) {
    CLEANUP_FREE uint8_t *content = NULL;
    size_t size = 0;
    struct error ignored;
    return file_load(path, 1 << 30, &content, &size, &ignored) == 0 && memmem(content, size, words, strlen(words));
}

/* The registry alone, which restarts need, and which the service alone can read. */
static size_t count_files_with_secrets(const char *folder, bool in_registry) {
    size_t count = 0;
    DIR *directory = opendir(folder);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        char path[PATH_MAX];
        struct stat status;
        if (entry->d_name[0] == '.' || string_format(path, sizeof path, NULL, "%s/%s", folder, entry->d_name) < 0)
            continue;
        if (lstat(path, &status) < 0) continue;
        if (S_ISDIR(status.st_mode)) count += count_files_with_secrets(path, in_registry);
        if (!S_ISREG(status.st_mode) || string_starts(entry->d_name, "registry.") != in_registry) continue;
        if (!has(path, SECRET) && !has(path, FILE_SECRET)) continue;
        if (!in_registry) fail_msg("%s has a secret", path);
        count++;
    }
    if (directory) closedir(directory);
    return count;
}

static void nothing_shows_a_value(void **state) {
    struct world *world = *state;
    static const char *const operations[] = {"list", "info", "events", "audit", "logs", "stats", "versions", "limits"};
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
        bool has_id = i == 1 || i >= 4;
        json_t *answer =
            has_id ? world_op(world, operations[i], "{s:s}", "id", "shop") : world_op(world, operations[i], "{}");
        CLEANUP_FREE char *text = json_dumps(answer, JSON_ENCODE_ANY);
        json_decref(answer);
        assert_true(strlen(text) > 2 || i == 4);
        assert_hidden_in(operations[i], text);
    }
    assert_true(count_files_with_secrets(world_home(world), true) > 0); /* so the search can find one */
    count_files_with_secrets(world_home(world), false);
    count_files_with_secrets("/run/sandbox", false);
}

/* ---- those that mean harm, or have a mistake ---- */

struct harm {
    const char *file, *text;
    const char *said;
};

/* As many of these in every run, by `make test-long`, and all of them by `make stress`: each costs a VM. */
enum { BRIEFLY = 1, LONGER = 3 };

static const struct harm harms[] = {
    {"runtime.exs", "import Config\nconfig :shop, key: \"" FILE_SECRET "\n", "runtime.exs:"},
    {"sys.config", "[{shop, [{key, \"" FILE_SECRET "\"}}].\n", "sys.config:1: the syntax is wrong"},
    {"runtime.exs", "Process.exit(self(), :kill)\n", "its evaluation was ended: killed"},
    /* As one that a reload evaluates, above. */
    {"runtime.exs", "import Config\nraise \"no \" <> \"" FILE_SECRET "\"\n", "(RuntimeError) no …"},
    {"sys.config", "{shop, []}.\n", "it is not a list"},
    {"sys.config", "[\"/etc/shadow\"].\n", "an entry is {Application, [{Key, Value}]}"},
    {"runtime.exs", "exit(:enough)\n", ":enough"},
    {"runtime.exs", "System.halt(3)\n", "3"},
    {"runtime.exs", "System.cmd(\"/bin/sh\", [\"-c\", \"id\"])\n", ""},
    {"runtime.exs", "for _ <- 1..100_000, do: spawn(fn -> Process.sleep(:infinity) end)\n", ""},
    {"runtime.exs", "Stream.iterate([1], &[&1 | &1]) |> Enum.to_list()\n", ""},
};

static void harm_fails_its_own_create(void **state) {
    struct world *world = *state;
    size_t count = getenv("COMPILE_AT_LENGTH") ? ARRAY_SIZE(harms) : tests_at_length() ? LONGER : BRIEFLY;
    if (count < LONGER) cases_leave(LONGER - count);
    for (size_t i = 0; i < count; i++) {
        json_t *problem =
            world_fails(world, "create", NULL, "{s:s, s:s, s:{s:s}, s:{s:s}}", "id", "harm", "source",
                        world_path(world, "shop"), "env", "SECRET", SECRET, "config", harms[i].file, harms[i].text);
        CLEANUP_FREE char *text = json_dumps(problem, 0);
        const char *detail = json_string_value(json_object_get(problem, "detail"));
        assert_hidden_in(harms[i].text, text);
        if (!strstr(detail, harms[i].said)) fail_msg("%s: %s", harms[i].text, detail);
        json_decref(problem);
    }
    assert_text(world, "Application.get_env(:shop, :seen)", ":black");
}

/* ---- the service's own settings ---- */

/* These lines after those that the world began with. */
static void write_settings(struct world *world, const char *lines) {
    static char begun[4096];
    char path[PATH_MAX];
    assert_int_equal(string_format(path, sizeof path, NULL, "%s/sandbox.conf", world_home(world)), 0);
    CLEANUP_FREE char *now = read_whole(path);
    if (!begun[0]) snprintf(begun, sizeof begun, "%s# begun\n", now ? now : "");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s%s", begun, lines) > 0);
    assert_int_equal(fclose(file), 0);
}

static bool lists(const json_t *answer, const char *list, const char *name) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(answer, list), i, entry) {
        if (strcmp(json_string_value(entry), name) == 0) return true;
    }
    return false;
}

static const char *const tight = "boot-deadline = 59s\nwebhook-events = all\n[quota]\nsandboxes = 150\n"
                                 "[toolchain other]\notp = /nowhere/otp\n"
                                 "[profile tight]\ninherits = high\nprocesses = 40\n";

static json_int_t profile_limit(struct world *world, const char *name) {
    json_t *profiles = world_op(world, "profiles", "{}"), *profile;
    json_int_t processes = -1;
    size_t i;
    json_array_foreach(profiles, i, profile) {
        if (strcmp(json_string_value(json_object_get(profile, "name")), name) == 0)
            processes = json_integer_value(json_object_get(profile, "processes"));
    }
    json_decref(profiles);
    return processes;
}

static void settings_are_read_again(void **state) {
    struct world *world = *state;
    write_settings(world, tight);
    assert_int_equal(profile_limit(world, "tight"), -1);
    json_t *answer = world_op(world, "reload-config", "{}");
    static const char *const changed[] = {"boot-deadline", "quotas", "toolchains", "profiles"};
    for (size_t i = 0; i < ARRAY_SIZE(changed); i++) assert_true(lists(answer, "changed", changed[i]));
    assert_int_equal(json_array_size(json_object_get(answer, "changed")), ARRAY_SIZE(changed));
    assert_true(lists(answer, "at_start", "webhook-events"));
    json_decref(answer);
    assert_int_equal(profile_limit(world, "tight"), 40);
    json_decref(world_fails(world, "create", "toolchain_missing", "{s:s, s:s, s:s}", "id", "other", "source",
                            world_path(world, "shop"), "toolchain", "other"));
    answer = world_op(world, "reload-config", "{}");
    assert_int_equal(json_array_size(json_object_get(answer, "changed")), 0);
    json_decref(answer);
}

/* Whichever part is bad: all stays, and the line is told. */
static void bad_settings_change_nothing(void **state) {
    struct world *world = *state;
    static const struct {
        const char *lines, *said;
    } bad[] = {
        {"boot-deadline = soon\n", "boot-deadline is 'soon'"},
        {"boot-deadline = 58s\nno-such = 1\n", "there is no setting 'no-such'"},
        {"[quota]\nsandboxes = many\n", "many"},
        {"[profile tight]\ninherits = high\nprocesses = few\n", "few"},
        {"[profile tight]\ninherits = high\nprocesses = 30\n[toolchain other]\nelixir = /nowhere\n",
         "needs 'otp = DIR'"},
        {"toolchain = absent\n", "absent"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        write_settings(world, bad[i].lines);
        json_t *problem = world_fails(world, "reload-config", "invalid_input", "{}");
        const char *detail = json_string_value(json_object_get(problem, "detail"));
        if (!strstr(detail, bad[i].said)) fail_msg("%s: %s", bad[i].lines, detail);
        if (i < 4 && !strstr(detail, "sandbox.conf:")) fail_msg("no line: %s", detail);
        json_decref(problem);
        assert_int_equal(profile_limit(world, "tight"), 40);
    }
    write_settings(world, tight);
    json_t *answer = world_op(world, "reload-config", "{}");
    assert_int_equal(json_array_size(json_object_get(answer, "changed")), 0);
    json_decref(answer);
}

/* A running sandbox keeps its profile until it starts again. */
static void a_sandbox_gets_its_profile_anew_by_a_restart(void **state) {
    struct world *world = *state;
    world_do(world, "create", "{s:s, s:s, s:s, s:{s:s}}", "id", "tight", "source", world_path(world, "shop"), "profile",
             "tight", "env", "SECRET", SECRET);
    write_settings(world, "[profile tight]\ninherits = medium\n");
    json_decref(world_op(world, "reload-config", "{}"));
    json_decref(world_info(world, "tight"));
    json_decref(world_op(world, "restart", "{s:s, s:b}", "id", "tight", "fresh", 1));
    write_settings(world, "");
    json_decref(world_op(world, "reload-config", "{}"));
    json_decref(world_op(world, "restart", "{s:s, s:b}", "id", "tight", "fresh", 1));
    json_t *info = world_info(world, "tight");
    assert_string_equal(json_string_value(json_object_get(info, "profile")), "tight");
    json_decref(info);
    world_destroy(world, "tight");
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
    const struct test_case cases[] = {
        CASE(a_missing_variable_is_named),
        CASE(everything_is_configured_in_its_order),
        CASE(what_no_sandbox_can_do_is_turned_off),
        CASE(a_published_port_is_served),
        CASE(another_configuration_is_told_and_applied),
        CASE(one_that_fails_changes_nothing),
        CASE(a_save_is_told_and_a_restart_applies_it),
        LONG_CASE(one_that_did_not_start_is_mended_by_a_restart),
        LONG_CASE(one_without_its_source_starts_as_it_is),
        CASE(harm_fails_its_own_create),
        CASE(settings_are_read_again),
        CASE(bad_settings_change_nothing),
        LONG_CASE(a_sandbox_gets_its_profile_anew_by_a_restart),
        CASE(nothing_shows_a_value),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
