/* Compiling again and again: failures, killed and endless compilers, several at once, strangers, and a service that
   starts anew. What each change compiles is test_compile_changes.c's. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "builds.h"
#include "cases.h"
#include "processes.h"

/* Every node is a compiler. */
#define SETTINGS "compile-cache = 1M\nwarm-nodes = 0\n"
enum { CACHE_MAX_BYTES = 1 << 20 };

/* ---- projects ---- */

#define PROJECT "honest/victim"

#define MODULES(...)                                                                                                   \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }

static void write_value(struct world *world, const char *folder, const char *module, const char *value) {
    char name[128], text[256];
    snprintf(name, sizeof name, "%s/%s.erl", folder, module);
    snprintf(text, sizeof text, "-module(%s).\n-export([value/0]).\nvalue() -> %s.\n", module, value);
    world_file(world, name, text);
}

static void compile_gives(struct world *world, const char *folder, const char *const *modules) {
    json_t *report = build_compile(world, world_path(world, folder));
    build_assert_compiled(report, modules);
    json_decref(report);
    build_assert_no_leftovers(world);
}

/* A parse transform that never returns, and a module that wants it. It shows itself at work first, then waits. */
static void write_endless(struct world *world, const char *folder) {
    char name[128];
    snprintf(name, sizeof name, "%s/endless.erl", folder);
    world_file(world, name,
               "-module(endless).\n-export([parse_transform/2]).\n"
               "parse_transform(_, _) -> spin(element(1, statistics(runtime)) + 200), receive never -> ok end.\n"
               "spin(Until) -> element(1, statistics(runtime)) < Until andalso spin(Until).\n");
    snprintf(name, sizeof name, "%s/user.erl", folder);
    world_file(world, name, "-module(user).\n-compile({parse_transform, endless}).\n");
}

/* ---- compilers ---- */

/* The launcher has other children too, some for a moment only. */
static bool is_nodes_init(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    CLEANUP_FREE char *name = read_whole(path);
    return name && strcmp(name, "sandbox-init\n") == 0;
}

/* The VM of the newest node; 0 when there is none. */
static pid_t newest_compiler(struct world *world) {
    char path[64];
    pid_t launcher = world_pid(world, "launcher.lock"), found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    CLEANUP_FREE char *text = read_whole(path);
    assert_non_null(text);
    for (char *rest = NULL, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (is_nodes_init(pid)) found = process_child(pid);
    }
    return found;
}

static unsigned long used_ticks(pid_t pid) {
    char path[64];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    const char *after = text ? strrchr(text, ')') : NULL;
    if (after) sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return user + kernel;
}

struct spinning {
    pid_t pid;
    unsigned long ticks;
};

static bool spins(void *data) {
    const struct spinning *spinning = data;
    return used_ticks(spinning->pid) > spinning->ticks;
}

/* A compiler at rest, which was given something endless to do, uses the processor for a moment. */
static void await_spinning(pid_t pid, unsigned long resting_ticks) {
    enum { COMPILING_TICKS = 10 }; /* of 10 ms: more than what the sources before it take */
    assert_true(wait_until(spins, &(struct spinning){pid, resting_ticks + COMPILING_TICKS}, WORLD_DEADLINE_MS));
}

/* ---- in the background ---- */

struct background {
    pthread_t thread;
    struct world *world;
    char path[256];
    json_t *report; /* or an error */
    struct sbx_error error;
};

static void *run_background(void *data) {
    struct background *background = data;
    CLEANUP_FREE char *answer = NULL;
    if (sbx_compile(world_client(background->world), background->path, NULL, &answer, &background->error) == 0)
        background->report = json_loads(answer, 0, NULL);
    return NULL;
}

static void begin_compiling(struct background *background, struct world *world, const char *folder) {
    *background = (struct background){.world = world};
    snprintf(background->path, sizeof background->path, "%s", world_path(world, folder));
    assert_int_equal(pthread_create(&background->thread, NULL, run_background, background), 0);
}

/* Its channel and its process end, and either may be noticed first. */
static void expect_death(struct background *background) {
    pthread_join(background->thread, NULL);
    assert_null(background->report);
    assert_string_equal(background->error.code, "node_failed");
    const char *detail = background->error.detail;
    if (!strstr(detail, "the compiler node ended") && !strstr(detail, "compiling failed: the node closed"))
        fail_msg("%s", detail);
    sbx_error_clear(&background->error);
}

/* ---- errors ---- */

static void a_mistake_keeps_the_compiler(void **state) {
    struct world *world = *state;
    write_value(world, PROJECT, "one", "1");
    write_value(world, PROJECT, "two", "2");
    compile_gives(world, PROJECT, MODULES("one", "two"));
    pid_t compiler = newest_compiler(world);
    write_value(world, PROJECT, "one", "unknown()");
    json_t *problem = world_fails(world, "compile", "compile_failed", "{s:s}", "source", world_path(world, PROJECT));
    json_t *error = json_array_get(json_object_get(json_object_get(problem, "result"), "errors"), 0);
    assert_string_equal(json_string_value(json_object_get(error, "file")), "one.erl");
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 3);
    json_decref(problem);
    build_assert_no_leftovers(world);
    write_value(world, PROJECT, "one", "3");
    compile_gives(world, PROJECT, MODULES("one"));
    assert_true(compiler > 0);
    assert_int_equal(newest_compiler(world), compiler);
}

/* It comes as a copy each time, into the folder that its compiler has. A compiler that has seen one project
   makes nothing for another. */
static void a_single_file_keeps_its_compiler(void **state) {
    struct world *world = *state;
    write_value(world, "files", "single", "1");
    compile_gives(world, "files/single.erl", MODULES("single"));
    pid_t compiler = newest_compiler(world);
    write_value(world, "files", "single", "2");
    compile_gives(world, "files/single.erl", MODULES("single"));
    assert_true(compiler > 0);
    assert_int_equal(newest_compiler(world), compiler);
    write_value(world, "elsewhere", "single", "1");
    compile_gives(world, "elsewhere/single.erl", MODULES(NULL));
    write_value(world, "elsewhere", "single", "2");
    compile_gives(world, "elsewhere/single.erl", MODULES("single"));
    assert_int_equal(kill(newest_compiler(world), SIGKILL), 0);
    assert_int_equal(kill(compiler, SIGKILL), 0);
    build_assert_no_folders(world);
}

/* ---- how a folder starts that doesn't say it ---- */

static void expect_supervisor(struct world *world, const char *name) {
    char build[PATH_MAX];
    build_last(world, build);
    json_t *facts = build_facts(build);
    const char *found = json_string_value(json_object_get(facts, "supervisor"));
    assert_string_equal(found ? found : "none", name);
    json_decref(facts);
}

static void write_supervisor(struct world *world, const char *attribute) {
    char text[256];
    snprintf(text, sizeof text,
             "-module(g_sup).\n%s\n-export([start_link/0, init/1]).\nstart_link() -> supervisor:start_link(?MODULE, "
             "[]).\ninit(_) -> {ok, {#{}, []}}.\n",
             attribute);
    world_file(world, "guess/g_sup.erl", text);
}

static void a_folders_supervisor_is_found_as_it_changes(void **state) {
    struct world *world = *state;
    write_value(world, "guess", "g_one", "1");
    write_supervisor(world, "");
    compile_gives(world, "guess", MODULES("g_one", "g_sup"));
    expect_supervisor(world, "none");
    write_supervisor(world, "-behaviour(supervisor).");
    compile_gives(world, "guess", MODULES("g_sup"));
    expect_supervisor(world, "g_sup");
    write_value(world, "guess", "g_one", "2"); /* which is no part of it */
    compile_gives(world, "guess", MODULES("g_one"));
    expect_supervisor(world, "g_sup");
    write_supervisor(world, "%");
    compile_gives(world, "guess", MODULES("g_sup"));
    expect_supervisor(world, "none");
}

/* ---- linked sources ---- */

static void a_linked_source_follows_its_target(void **state) {
    struct world *world = *state;
    write_value(world, "linked/kept", "l_one", "1");
    write_value(world, "linked/src", "l_two", "2");
    assert_int_equal(rename(world_path(world, "linked/kept/l_one.erl"), world_path(world, "linked/kept/l_one.txt")), 0);
    assert_int_equal(symlink("../kept/l_one.txt", world_path(world, "linked/src/l_one.erl")), 0);
    compile_gives(world, "linked", MODULES("l_one", "l_two"));
    write_value(world, "linked/src", "l_two", "3");
    compile_gives(world, "linked", MODULES("l_two"));
    world_file(world, "linked/kept/l_one.txt", "-module(l_one).\n-export([value/0]).\nvalue() -> 4.\n");
    compile_gives(world, "linked", MODULES("l_one"));
}

/* ---- another service ---- */

static void a_new_service_goes_on_where_the_last_was(void **state) {
    struct world *world = *state;
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    write_value(world, PROJECT, "two", "4");
    json_t *report = build_compile(world, world_path(world, PROJECT));
    build_assert_compiled(report, MODULES("two"));
    assert_true(json_is_true(json_object_get(report, "incremental")));
    json_decref(report);
    build_assert_no_leftovers(world);
}

/* ---- one name in two folders ---- */

static bool build_holds(struct world *world, const char *file, const char *text) {
    enum { BEAM_MAX_BYTES = 1 << 16 };
    static char beam[BEAM_MAX_BYTES];
    char build[PATH_MAX], path[PATH_MAX];
    build_last(world, build);
    assert_int_equal(string_format(path, sizeof path, NULL, "%s/%s", build, file), 0);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, beam, sizeof beam);
    assert_true(size > 0);
    return memmem(beam, (size_t)size, text, strlen(text)) != NULL;
}

/* The same module, to the byte, is compiled with a parse transform of the same name. */
static void write_transformed(struct world *world, const char *folder, const char *value) {
    char name[128], text[512];
    snprintf(name, sizeof name, "%s/victim.erl", folder);
    world_file(world, name,
               "-module(victim).\n-compile({parse_transform, shared}).\n-export([value/0]).\n"
               "value() -> nothing.\n");
    snprintf(name, sizeof name, "%s/shared.erl", folder);
    snprintf(text, sizeof text,
             "-module(shared).\n-export([parse_transform/2]).\n"
             "parse_transform(Forms, _) -> [form(Form) || Form <- Forms].\n"
             "form({function, At, value, 0, _}) ->\n"
             "    {function, At, value, 0, [{clause, At, [], [], [{atom, At, %s}]}]};\n"
             "form(Form) -> Form.\n",
             value);
    world_file(world, name, text);
}

/* ---- a compiler that never comes to an end ---- */

/* Nor does the project beside it poison this one, which has modules of the same names. */
static void a_killed_compiler_fails_its_project_alone(void **state) {
    struct world *world = *state;
    struct background endless;
    write_transformed(world, "hostile/victim", "poisoned");
    pid_t compiler = newest_compiler(world);
    unsigned long resting_ticks = used_ticks(compiler);
    write_endless(world, PROJECT);
    begin_compiling(&endless, world, PROJECT);
    await_spinning(compiler, resting_ticks);
    json_t *report = build_compile(world, world_path(world, "hostile/victim")); /* waits for no other */
    build_assert_compiled(report, MODULES("shared", "victim"));
    assert_true(build_holds(world, "victim/ebin/victim.beam", "poisoned"));
    json_decref(report);
    process_end(compiler, SIGKILL);
    expect_death(&endless);
    build_assert_no_leftovers(world);
    unlink(world_path(world, PROJECT "/user.erl"));
    write_transformed(world, PROJECT, "genuine");
    compile_gives(world, PROJECT, MODULES("endless", "shared", "victim"));
    assert_true(build_holds(world, "victim/ebin/victim.beam", "genuine"));
    assert_false(build_holds(world, "victim/ebin/victim.beam", "poisoned"));
}

static void expect_advice(json_t *problem, const char *advice) {
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    if (!strstr(detail, advice)) fail_msg("'%s' does not say '%s'", detail, advice);
    json_decref(problem);
}

/* In time and in memory: the answer has the option that gives it more. */
static void a_compiler_that_passes_its_bounds_is_ended(void **state) {
    struct world *world = *state;
    write_endless(world, "endless");
    expect_advice(world_fails(world, "compile", "timeout", "{s:s, s:i}", "source", world_path(world, "endless"),
                              "compile_timeout_ms", 700),
                  "took longer than 700 ms; give it more, such as --compile-timeout 2s");
    const char *eats = world_file(world, "eats.ex",
                                  "defmodule Eats do\n  all = for i <- 1..20, do: :binary.copy(<<i>>, 100_000_000)\n"
                                  "  def x, do: unquote(length(all))\nend\n");
    expect_advice(
        world_fails(world, "compile", "limit_reached", "{s:s, s:s}", "source", eats, "compile_memory_bytes", "128M"),
        "more memory than its 128 MiB; give it more, such as --compile-memory 256M");
    expect_advice(
        world_fails(world, "compile", "limit_reached", "{s:s, s:s}", "source", eats, "compile_memory_bytes", "8G"),
        "compile-memory-max");
    build_assert_no_leftovers(world);
}

/* A sandbox keeps what it was created with, or reloaded with since. */
static void bounds_stay_with_the_sandbox(void **state) {
    struct world *world = *state;
    write_value(world, "bounded", "bounded", "1");
    world_do(world, "create", "{s:s, s:s, s:s, s:s}", "id", "bounded", "source", world_path(world, "bounded"),
             "compile_timeout_ms", "40s", "compile_memory_bytes", "512M");
    world_do(world, "reload", "{s:s, s:s}", "id", "bounded", "compile_timeout_ms", "50s");
    json_t *info = world_op(world, "info", "{s:s}", "id", "bounded");
    assert_int_equal(json_integer_value(json_object_get(info, "compile_timeout_ms")), 50000);
    assert_int_equal(json_integer_value(json_object_get(info, "compile_memory_bytes")), 512 << 20);
    json_decref(info);
    expect_advice(
        world_fails(world, "reload", "limit_reached", "{s:s, s:s}", "id", "bounded", "compile_timeout_ms", "3h"),
        "compile-deadline-max");
    world_do(world, "destroy", "{s:s}", "id", "bounded");
}

/* ---- several at once ---- */

static void one_project_is_compiled_once(void **state) {
    enum { CALLERS = 4 };
    struct world *world = *state;
    struct background callers[CALLERS];
    size_t compilations = 0, hits = 0;
    write_value(world, "queue", "q_one", "1");
    write_value(world, "queue", "q_two", "2");
    for (size_t i = 0; i < CALLERS; i++) begin_compiling(&callers[i], world, "queue");
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        if (!callers[i].report) fail_msg("%s", callers[i].error.detail);
        compilations += json_array_size(json_object_get(callers[i].report, "compiled")) == 2;
        hits += json_is_true(json_object_get(callers[i].report, "cache_hit"));
        json_decref(callers[i].report);
    }
    assert_int_equal(compilations, 1);
    assert_int_equal(hits, CALLERS - 1);
}

/* ---- strangers ---- */

/* Not even where all of it is the same: what is compiled is compiled from one's own folder. */
static void the_same_elsewhere_is_compiled_there(void **state) {
    struct world *world = *state;
    write_transformed(world, "here/victim", "genuine");
    compile_gives(world, "here/victim", MODULES("shared", "victim"));
    write_transformed(world, "there/victim", "genuine");
    compile_gives(world, "there/victim", MODULES("shared", "victim"));
}

static void two_of_one_name_do_not_mix(void **state) {
    struct world *world = *state;
    write_value(world, "first/same", "same_name", "first");
    write_value(world, "second/same", "same_name", "second");
    json_decref(world_create(world, "first", world_path(world, "first/same"), "medium"));
    json_decref(world_create(world, "second", world_path(world, "second/same"), "medium"));
    CLEANUP_FREE char *first = world_eval_text(world, "first", NULL, "same_name:value()");
    CLEANUP_FREE char *second = world_eval_text(world, "second", NULL, "same_name:value()");
    assert_string_equal(first, "first");
    assert_string_equal(second, "second");
    world_destroy(world, "first");
    world_destroy(world, "second");
}

/* ---- the cache ---- */

/* Of letters that hardly compress. */
static void write_large(struct world *world, unsigned seed) {
    enum { LETTERS = 150000 };
    struct buf text = BUF_INIT;
    buf_append_string(&text, "-module(large).\n-export([value/0]).\nvalue() -> <<\"");
    for (size_t i = 0; i < LETTERS; i++) {
        seed = seed * 1664525 + 1013904223;
        buf_append_byte(&text, (uint8_t)('A' + (seed >> 16) % 26));
    }
    buf_append_string(&text, "\">>.\n");
    world_file(world, "large/large.erl", buf_string(&text));
    buf_free(&text);
}

static uint64_t cached_bytes(struct world *world) {
    char path[256];
    uint64_t bytes = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/store/objects", world_home(world));
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(directory);
    return bytes;
}

static void the_cache_has_a_bound(void **state) {
    enum { VERSIONS = 8 };
    struct world *world = *state;
    uint64_t most = 0;
    for (unsigned i = 0; i < VERSIONS; i++) {
        write_large(world, i);
        compile_gives(world, "large", MODULES("large"));
        uint64_t bytes = cached_bytes(world);
        if (bytes > CACHE_MAX_BYTES) fail_msg("%llu bytes are kept", (unsigned long long)bytes);
        if (bytes < most) return; /* something was forgotten */
        most = bytes;
    }
    fail_msg("%llu bytes did not fill the cache", (unsigned long long)most);
}

/* ---- all of it, with one service ---- */

static bool has_few_builds(void *data) {
    enum { BUILDS_KEPT = 64 };
    struct world *world = data;
    char path[PATH_MAX];
    assert_int_equal(string_format(path, sizeof path, NULL, "%s/store/builds", world_home(world)), 0);
    DIR *directory = opendir(path);
    size_t count = 0;
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count < 2 * BUILDS_KEPT + 10; /* and as many again before it looks */
}

/* A VM loads what it never ran before from the build that it was started with. */
static void old_builds_go_and_what_runs_stays(void **state) {
    struct world *world = *state;
    write_value(world, "stays", "s_one", "1");
    write_value(world, "stays", "s_lazy", "lazy");
    json_decref(world_create(world, "stays", world_path(world, "stays"), "medium"));
    write_value(world, "stays", "s_one", "2");
    json_decref(world_op(world, "reload", "{s:s}", "id", "stays"));
    for (int i = 0; i < 200; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        write_value(world, "goes", "g_one", value);
        compile_gives(world, "goes", MODULES("g_one"));
    }
    assert_true(wait_until(has_few_builds, world, WORLD_DEADLINE_MS));
    CLEANUP_FREE char *changed = world_eval_text(world, "stays", NULL, "s_one:value()");
    CLEANUP_FREE char *lazy = world_eval_text(world, "stays", NULL, "s_lazy:value()");
    assert_string_equal(changed, "2");
    assert_string_equal(lazy, "lazy");
    world_destroy(world, "stays");
}

static bool has_spare(void *data) {
    char path[64];
    pid_t launcher = world_pid(data, "launcher.lock");
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    CLEANUP_FREE char *text = read_whole(path);
    for (char *rest = NULL, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        count += is_nodes_init((pid_t)strtol(word, NULL, 10));
    return count == 2 && newest_compiler(data) > 0;
}

/* A test that holds a node to less than it is to have makes the change of its limits fail, and with it the change of
   its share of the CPU. */
static void a_spare_that_stays_slow_is_thrown_away(void **state) {
    (void)state;
    struct world *world = world_open("warm-nodes = 0\nspare-compilers = 1\n");
    struct rlimit descriptors;
    write_value(world, "first", "one", "1");
    compile_gives(world, "first", MODULES("one"));
    assert_true(wait_until(has_spare, world, WORLD_DEADLINE_MS));
    pid_t spare = newest_compiler(world);
    CLEANUP_FD int pidfd = process_open(spare);
    assert_int_equal(prlimit(spare, RLIMIT_NOFILE, NULL, &descriptors), 0);
    descriptors.rlim_cur = --descriptors.rlim_max;
    assert_int_equal(prlimit(spare, RLIMIT_NOFILE, &descriptors, NULL), 0);
    write_value(world, "second", "two", "2");
    compile_gives(world, "second", MODULES("two"));
    assert_true(process_ends(pidfd, WORLD_DEADLINE_MS));
    world_close(world);
}

static int open_world(void **state) {
    *state = world_open(SETTINGS);
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

/* What takes more nodes than the others is left to `make stress`. All but the second go on with one project, in this
   order: its compiler takes half a second of CPU to boot. */
int main(void) {
    const struct test_case cases[] = {
        CASE(a_mistake_keeps_the_compiler),
        LONG_CASE(a_single_file_keeps_its_compiler),
        LONG_CASE(a_new_service_goes_on_where_the_last_was),
        CASE(a_killed_compiler_fails_its_project_alone),
    };
    const struct CMUnitTest at_length[] = {
        cmocka_unit_test(a_spare_that_stays_slow_is_thrown_away),
        cmocka_unit_test(the_same_elsewhere_is_compiled_there),
        cmocka_unit_test(a_linked_source_follows_its_target),
        cmocka_unit_test(a_folders_supervisor_is_found_as_it_changes),
        cmocka_unit_test(a_compiler_that_passes_its_bounds_is_ended),
        cmocka_unit_test(bounds_stay_with_the_sandbox),
        cmocka_unit_test(one_project_is_compiled_once),
        cmocka_unit_test(two_of_one_name_do_not_mix),
        cmocka_unit_test(the_cache_has_a_bound),
        cmocka_unit_test(old_builds_go_and_what_runs_stays),
    };
    return getenv("COMPILE_AT_LENGTH") ? cmocka_run_group_tests(at_length, open_world, close_world)
                                       : cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
