/* Folders that callers hand to sandboxes, and named volumes, with the real service and real VMs. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "leftovers.h"
#include "processes.h"

static struct world *world;

static int open_world(void **state) {
    (void)state;
    world = world_open(NULL);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(world);
    return 0;
}

/* A folder of the test's, with one file in it. */
static const char *make_folder(const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s/in", name);
    world_file(world, file, "from outside");
    return world_path(world, name);
}

static json_t *volumes(const char *folder, const char *rest) {
    return json_pack("[o]", json_sprintf("%s:%s", folder, rest));
}

static void create(const char *id, const char *profile, json_t *list) {
    world_do(world, "create", "{s:s, s:s, s:s, s:o}", "id", id, "source", EXAMPLES "/counter_erl", "profile", profile,
             "volumes", list);
}

static void assert_says(const char *id, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, id, "erlang", code);
    assert_string_equal(text, expected);
}

/* Also one that waited in the pool, and one that is made anew for a restart. */
static void a_sandbox_writes_to_its_owners_folder(void **state) {
    const char *folder = make_folder("work");
    char written[256];
    struct stat status;
    (void)state;
    snprintf(written, sizeof written, "%s/out", folder);
    create("writer", "medium", volumes(folder, "/mnt/work"));
    assert_says("writer", "file:read_file(\"/mnt/work/in\").", "{ok,<<\"from outside\">>}");
    assert_says("writer", "file:write_file(\"/mnt/work/out\", <<\"x\">>).", "ok");
    assert_int_equal(stat(written, &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    json_t *info = world_info(world, "writer");
    json_t *told = json_array_get(json_object_get(info, "volumes"), 0);
    assert_string_equal(json_string_value(json_object_get(told, "source")), folder);
    assert_string_equal(json_string_value(json_object_get(told, "path")), "/mnt/work");
    assert_false(json_is_true(json_object_get(told, "read_only")));
    json_decref(info);
    world_do(world, "restart", "{s:s}", "id", "writer");
    assert_says("writer", "file:write_file(\"/mnt/work/out\", <<\"again\">>).", "ok");
    CLEANUP_FREE char *text = read_whole(written);
    assert_string_equal(text, "again");
    world_destroy(world, "writer");
}

static void what_is_to_be_read_is_read_only(void **state) {
    (void)state;
    create("reader", "high", volumes(make_folder("books"), "/data/books:ro"));
    assert_says("reader", "file:read_file(\"/data/books/in\").", "{ok,<<\"from outside\">>}");
    assert_says("reader", "file:write_file(\"/data/books/out\", <<>>).", "{error,erofs}");
    assert_says("reader", "file:write_file(\"/data/own\", <<>>).", "ok");
    world_destroy(world, "reader");
}

/* Programs are for a profile that allows them. */
static void a_program_runs_where_the_profile_allows_programs(void **state) {
    const char *folder = make_folder("tools");
    char program[256];
    (void)state;
    snprintf(program, sizeof program, "%s/say", folder);
    world_copy(world, "tools/say", "/bin/echo", SIZE_MAX);
    assert_int_equal(chmod(program, 0755), 0);
    create("runner", "low", volumes(folder, "/mnt/tools:ro"));
    assert_says("runner", "os:cmd(\"/mnt/tools/say yes\").", "\"yes\\n\"");
    world_destroy(world, "runner");
}

/* Every refusal leaves nothing: no sandbox, no permission. */
static void bad_input_is_refused(void **state) {
    static const struct {
        const char *rest, *code;
    } cases[] = {{"/etc", "invalid_input"},        {"/mnt", "invalid_input"},      {"/mnt/", "invalid_input"},
                 {"/mnt/../etc", "invalid_input"}, {"/mnt/a/", "invalid_input"},   {"/tmp/a", "invalid_input"},
                 {"/mnt//a", "invalid_input"},     {"/dataset/a", "invalid_input"}};
    const char *folder = make_folder("plain");
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        json_decref(world_fails(world, "create", cases[i].code, "{s:s, s:s, s:o}", "id", "bad", "source",
                                EXAMPLES "/counter_erl", "volumes", volumes(folder, cases[i].rest)));
    char file[256];
    snprintf(file, sizeof file, "%s/in", folder);
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes(file, "/mnt/a")));
    json_decref(world_fails(world, "create", "not_found", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes("/nowhere/at/all", "/mnt/a")));
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:o}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", volumes(world_home(world), "/mnt/a")));
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:[s, s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "/tmp:/mnt/a", "/tmp:/mnt/a/b"));
}

/* What a sandbox made of a folder leads nowhere when it starts again. */
static void a_folder_that_became_a_link_stops_a_restart(void **state) {
    char inner[256], aside[256];
    (void)state;
    make_folder("outer/inner");
    snprintf(inner, sizeof inner, "%s/inner", world_path(world, "outer"));
    snprintf(aside, sizeof aside, "%s/aside", world_path(world, "outer"));
    world_do(world, "create", "{s:s, s:s, s:[o, o]}", "id", "swapper", "source", EXAMPLES "/counter_erl", "volumes",
             json_sprintf("%s:/mnt/outer", world_path(world, "outer")), json_sprintf("%s:/mnt/inner", inner));
    assert_says("swapper",
                "{file:rename(\"/mnt/outer/inner\", \"/mnt/outer/aside\"), "
                "file:make_symlink(\"/etc\", \"/mnt/outer/inner\")}.",
                "{ok,ok}");
    json_decref(world_fails(world, "restart", "invalid_input", "{s:s}", "id", "swapper"));
    assert_int_equal(unlink(inner), 0);
    assert_int_equal(rename(aside, inner), 0);
    world_do(world, "restart", "{s:s}", "id", "swapper");
    assert_says("swapper", "file:read_file(\"/mnt/inner/in\").", "{ok,<<\"from outside\">>}");
    world_destroy(world, "swapper");
}

/* ---- named volumes ---- */

static void make_volume(const char *name, json_int_t size_bytes) {
    world_do(world, "volume-create", "{s:s, s:I}", "name", name, "size_bytes", size_bytes);
}

static void image_path(const char *name, char ret[256]) {
    snprintf(ret, 256, "%s/volumes/%u-%s", world_home(world), geteuid(), name);
}

static bool any_device_has_image(void *data) {
    FILE *devices = popen("cat /sys/block/loop*/loop/backing_file 2>/dev/null", "re");
    char line[512];
    bool found = false;
    while (fgets(line, sizeof line, devices)) found |= strstr(line, data) && !strstr(line, "/.spare-");
    pclose(devices);
    return found;
}

static bool no_device_has_image(void *data) {
    return !any_device_has_image(data);
}

static void assert_no_device_is_left(void) {
    if (!wait_until(no_device_has_image, (void *)world_home(world), WORLD_DEADLINE_MS))
        fail_msg("loop devices are left");
}

static void a_volume_outlives_its_sandboxes(void **state) {
    (void)state;
    make_volume("kept", 32 << 20);
    create("first", "high", json_pack("[s, s]", "kept:/mnt/kept", "kept:/data/same:ro"));
    assert_says("first", "file:list_dir(\"/mnt/kept\").", "{ok,[]}");
    assert_says("first", "file:write_file(\"/mnt/kept/x\", <<\"1\">>).", "ok");
    assert_says("first", "file:read_file(\"/data/same/x\").", "{ok,<<\"1\">>}");
    assert_says("first", "file:write_file(\"/data/same/y\", <<>>).", "{error,erofs}");
    world_do(world, "restart", "{s:s}", "id", "first");
    assert_says("first", "file:read_file(\"/mnt/kept/x\").", "{ok,<<\"1\">>}");
    /* Another sandbox of the same owner has it at the same time, with a uid of its own. */
    create("second", "medium", json_pack("[s]", "kept:/mnt/kept"));
    assert_says("second", "file:write_file(\"/mnt/kept/x\", <<\"2\">>).", "ok");
    assert_says("first", "file:read_file(\"/mnt/kept/x\").", "{ok,<<\"2\">>}");
    json_decref(world_fails(world, "volume-remove", "conflict", "{s:s}", "name", "kept"));
    world_destroy(world, "first");
    json_decref(world_fails(world, "volume-remove", "conflict", "{s:s}", "name", "kept"));
    world_destroy(world, "second");
    assert_no_device_is_left();
    create("third", "medium", json_pack("[s]", "kept:/mnt/kept"));
    assert_says("third", "file:read_file(\"/mnt/kept/x\").", "{ok,<<\"2\">>}");
    world_destroy(world, "third");
    world_do(world, "volume-remove", "{s:s}", "name", "kept");
    json_decref(world_fails(world, "volume-remove", "not_found", "{s:s}", "name", "kept"));
    json_t *list = world_op(world, "volumes", "{}");
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

static void a_full_volume_hurts_nothing_else(void **state) {
    (void)state;
    make_volume("small", 16 << 20);
    create("filler", "medium", json_pack("[s]", "small:/mnt/small"));
    assert_says("filler", "file:write_file(\"/mnt/small/big\", binary:copy(<<0>>, 32 bsl 20)).", "{error,enospc}");
    assert_says("filler", "file:write_file(\"/data/x\", <<\"1\">>).", "ok");
    assert_says("filler", "file:delete(\"/mnt/small/big\"), file:write_file(\"/mnt/small/y\", <<\"1\">>).", "ok");
    world_destroy(world, "filler");
    world_do(world, "volume-remove", "{s:s}", "name", "small");
}

static void damage(const char *name, off_t at, const void *bytes, size_t size) {
    char path[256];
    image_path(name, path);
    assert_no_device_is_left();
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
}

/* As a disk that lost something does; a stranger can't write an image. */
static void a_damaged_image_is_told(void **state) {
    static const uint8_t has_errors[] = {2, 0}, none[1024] = {0};
    (void)state;
    make_volume("torn", 16 << 20);
    damage("torn", 1024 + 0x3A, has_errors, sizeof has_errors);
    json_t *problem = world_fails(world, "create", "malformed_data", "{s:s, s:s, s:[s]}", "id", "bad", "source",
                                  EXAMPLES "/counter_erl", "volumes", "torn:/mnt/torn");
    assert_non_null(strstr(json_string_value(json_object_get(problem, "detail")), "'torn' is damaged"));
    json_decref(problem);
    damage("torn", 1024, none, sizeof none);
    json_decref(world_fails(world, "create", "malformed_data", "{s:s, s:s, s:[s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "torn:/mnt/torn"));
    world_do(world, "volume-remove", "{s:s}", "name", "torn");
    assert_no_device_is_left();
}

static void bad_volumes_are_refused(void **state) {
    static const char *const names[] = {"../x", ".x", "-x", "a/b", "a b", "a\tb", "", "\xC3\xA9"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        json_decref(world_fails(world, "volume-create", "invalid_input", "{s:s}", "name", names[i]));
    json_decref(world_fails(world, "volume-create", "invalid_input", "{s:s, s:i}", "name", "tiny", "size_bytes", 1));
    json_decref(world_fails(world, "create", "not_found", "{s:s, s:s, s:[s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "unknown:/mnt/a"));
    make_volume("twice", 16 << 20);
    json_decref(world_fails(world, "volume-create", "already_exists", "{s:s}", "name", "twice"));
    json_decref(world_fails(world, "create", "invalid_input", "{s:s, s:s, s:[s, s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "twice:/mnt/a", "twice:/mnt/a"));
    world_do(world, "volume-remove", "{s:s}", "name", "twice");
}

/* The next daemon and launcher know them, and what runs goes on with them. */
static void volumes_outlive_the_service(void **state) {
    (void)state;
    make_volume("steady", 16 << 20);
    create("holder", "medium", json_pack("[s]", "steady:/mnt/steady"));
    assert_says("holder", "file:write_file(\"/mnt/steady/x\", <<\"1\">>).", "ok");
    uint64_t since = world_now(world);
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    (void)since;
    assert_says("holder", "file:read_file(\"/mnt/steady/x\").", "{ok,<<\"1\">>}");
    json_decref(world_fails(world, "volume-remove", "conflict", "{s:s}", "name", "steady"));
    world_do(world, "restart", "{s:s}", "id", "holder");
    assert_says("holder", "file:read_file(\"/mnt/steady/x\").", "{ok,<<\"1\">>}");
    world_destroy(world, "holder");
    world_do(world, "volume-remove", "{s:s}", "name", "steady");
    assert_no_device_is_left();
}

/* The image is root's and lies where the daemon can't look. */
static void images_are_out_of_the_daemons_reach(void **state) {
    char path[256];
    struct stat status;
    (void)state;
    make_volume("apart", 16 << 20);
    image_path("apart", path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    world_do(world, "volume-remove", "{s:s}", "name", "apart");
}

/* ---- /data as a volume ---- */

/* Without what is kept to be copied, and for the next sandbox. */
static size_t count_images(const char *folder) {
    size_t count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 !string_starts(entry->d_name, ".blank-") && !string_starts(entry->d_name, ".spare-");
    closedir(listing);
    return count;
}

static bool is_empty(void *data) {
    return count_images(data) == 0;
}

/* The launcher removes an image in its own time. */
static void assert_is_emptied(char *folder) {
    if (!wait_until(is_empty, folder, WORLD_DEADLINE_MS)) fail_msg("an image is left");
}

/* As it ends, one process tells the other what to write, which writes more as it ends itself. */
static const char last_words[] =
    "-module(last).\n-export([start_link/0, start/1, init/1, handle_call/3, handle_cast/2, terminate/2]).\n"
    "start_link() -> supervisor:start_link(?MODULE, tree).\n"
    "start(Id) -> gen_server:start_link({local, Id}, ?MODULE, Id, []).\n"
    "init(tree) -> {ok, {#{}, [#{id => Id, start => {?MODULE, start, [Id]}} || Id <- [writer, teller]]}};\n"
    "init(Id) -> process_flag(trap_exit, true), {ok, Id}.\n"
    "handle_call(Words, _, Id) -> {reply, file:write_file(\"/mnt/work/told\", Words), Id}.\n"
    "handle_cast(_, Id) -> {noreply, Id}.\n"
    "terminate(_, teller) -> gen_server:call(writer, <<\"told\">>, infinity);\n"
    "terminate(_, writer) -> file:write_file(\"/mnt/work/last\", <<\"written\">>).\n";

static void assert_left(const char *name, const char *expected) {
    char path[256];
    snprintf(path, sizeof path, "work/%s", name);
    CLEANUP_FREE char *file = strdup(world_path(world, path)), *text = read_whole(file);
    if (!text || strcmp(text, expected) != 0) fail_msg("%s has %s", file, text ? text : "not been written");
    assert_int_equal(unlink(file), 0);
}

/* What it would lose without, a database for one. The states of a restart are taken before. */
static void an_application_stops_in_order_where_files_outlive_it(void **state) {
    const char *folder = make_folder("work");
    (void)state;
    world_file(world, "last.erl", last_words);
    world_do(world, "create", "{s:s, s:s, s:s, s:o}", "id", "last", "source", world_path(world, "last.erl"),
             "supervisor", "last", "volumes", volumes(folder, "/mnt/work"));
    static const bool fresh[] = {true, false};
    for (size_t i = 0; i < ARRAY_SIZE(fresh); i++) {
        world_do(world, "restart", "{s:s, s:b}", "id", "last", "fresh", fresh[i]);
        assert_left("told", "told");
        assert_left("last", "written");
    }
    world_destroy(world, "last");
    assert_left("last", "written");
}

/* Its code would run on. */
static void one_that_is_destroyed_for_a_limit_does_not_stop_in_order(void **state) {
    const char *folder = make_folder("work");
    uint64_t since = world_now(world);
    (void)state;
    world_file(world, "last.erl", last_words);
    world_do(world, "create", "{s:s, s:s, s:s, s:o}", "id", "bold", "source", world_path(world, "last.erl"),
             "supervisor", "last", "volumes", volumes(folder, "/mnt/work"));
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "bold", "set", "processes", "50:destroy");
    free(world_try_eval(world, "bold", "erlang", "[spawn(timer, sleep, [infinity]) || _ <- lists:seq(1, 200)].",
                        WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"destroyed", "bold", NULL, NULL}));
    assert_int_equal(access(world_path(world, "work/last"), F_OK), -1);
}

/* One that never stops is ended after its time. */
static void an_application_that_never_stops_is_ended(void **state) {
    (void)state;
    world_file(world, "stuck.erl",
               "-module(stuck).\n-export([start_link/0, init/1, handle_call/3, handle_cast/2, terminate/2]).\n"
               "start_link() -> supervisor:start_link({local, top}, ?MODULE, tree).\n"
               "init(tree) -> {ok, {#{}, [#{id => child, start => {gen_server, start_link, [?MODULE, child, []]}, "
               "shutdown => infinity}]}};\n"
               "init(child) -> process_flag(trap_exit, true), {ok, child}.\n"
               "handle_call(_, _, Id) -> {noreply, Id}.\nhandle_cast(_, Id) -> {noreply, Id}.\n"
               "terminate(_, _) -> timer:sleep(infinity).\n");
    world_do(world, "create", "{s:s, s:s, s:s, s:o}", "id", "stuck", "source", world_path(world, "stuck.erl"),
             "supervisor", "stuck", "volumes", volumes(make_folder("work"), "/mnt/work"));
    world_do(world, "restart", "{s:s}", "id", "stuck");
    world_destroy(world, "stuck");
}

static void own_data_outlives_restarts_and_ends_with_its_sandbox(void **state) {
    char folder[256];
    (void)state;
    snprintf(folder, sizeof folder, "%s/volumes", world_home(world));
    world_do(world, "create", "{s:s, s:s, s:i}", "id", "owner", "source", EXAMPLES "/counter_erl", "data_size_bytes",
             16 << 20);
    assert_int_equal(count_images(folder), 1);
    assert_says("owner", "file:write_file(\"/data/x\", <<\"1\">>), file:get_cwd().", "{ok,\"/data\"}");
    assert_says("owner", "file:write_file(\"/data/big\", binary:copy(<<0>>, 32 bsl 20)).", "{error,enospc}");
    assert_says("owner", "file:delete(\"/data/big\"), file:write_file(\"/tmp/y\", <<\"1\">>).", "ok");
    json_t *list = world_op(world, "volumes", "{}");
    assert_int_equal(json_array_size(list), 0); /* callers name no such volume */
    json_decref(list);
    world_do(world, "restart", "{s:s}", "id", "owner");
    assert_says("owner", "file:read_file(\"/data/x\").", "{ok,<<\"1\">>}");
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", "owner", "set", "disk", "32M");
    world_destroy(world, "owner");
    assert_is_emptied(folder);
    assert_no_device_is_left();
    json_decref(world_fails(world, "create", NULL, "{s:s, s:s, s:i}", "id", "bad", "source", "/nowhere",
                            "data_size_bytes", 16 << 20));
    assert_is_emptied(folder);
    json_decref(world_fails(world, "volume-create", "invalid_input", "{s:s}", "name", "_mine"));
    json_decref(world_fails(world, "create", "not_found", "{s:s, s:s, s:[s]}", "id", "bad", "source",
                            EXAMPLES "/counter_erl", "volumes", "_mine:/mnt/a"));
}

/* ---- cp ---- */

static int run_cp(const char *from, const char *to) {
    char command[1024];
    snprintf(command, sizeof command, "%s/sandbox --home %s cp '%s' '%s' 2>/dev/null", BIN, world_home(world), from,
             to);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void files_are_copied_both_ways(void **state) {
    char from[256], back[256], file[1200];
    (void)state;
    world_file(world, "tree/a", "one");
    world_file(world, "tree/sub/b", "two");
    world_file(world, "tree/sub/empty", "");
    world_copy(world, "tree/large", BIN "/sandbox", 700000);
    snprintf(from, sizeof from, "%s", world_path(world, "tree"));
    snprintf(back, sizeof back, "%s", world_path(world, "back"));
    create("copied", "high", volumes(make_folder("shared"), "/mnt/shared"));
    assert_int_equal(run_cp(from, "copied:/data/tree"), 0);
    assert_says("copied", "file:read_file(\"/data/tree/sub/b\").", "{ok,<<\"two\">>}");
    assert_says("copied", "filelib:file_size(\"/data/tree/large\").", "700000");
    assert_int_equal(run_cp("copied:/data/tree", back), 0);
    snprintf(file, sizeof file, "cmp -s %s/large %s/large && cmp -s %s/sub/b %s/sub/b", from, back, from, back);
    assert_int_equal(system(file), 0);
    snprintf(file, sizeof file, "%s/a", from);
    assert_int_equal(run_cp(file, "copied:/mnt/shared/"), 0);
    snprintf(file, sizeof file, "%s/a", world_path(world, "shared"));
    CLEANUP_FREE char *text = read_whole(file);
    assert_string_equal(text, "one");
    assert_int_equal(run_cp(from, back), 2); /* two places here */
    world_destroy(world, "copied");
}

/* What a sandbox lays out leads the copy nowhere: not out of the sandbox's places, nor out of the destination. */
static void a_hostile_sandbox_copies_nothing_else(void **state) {
    char back[256], file[300];
    (void)state;
    snprintf(back, sizeof back, "%s", world_path(world, "trap"));
    create("hostile", "low", json_array());
    assert_says(
        "hostile",
        "ok = file:make_dir(\"/data/t\"), ok = file:make_symlink(\"/etc\", \"/data/t/etc\"),"
        "ok = file:make_symlink(\"/etc/passwd\", \"/data/t/passwd\"), ok = file:write_file(\"/data/t/good\", <<>>),"
        "ok = file:write_file(<<\"/data/t/\\e[2J\">>, <<>>), ok = file:write_file(<<\"/data/t/\", 255>>, <<>>),"
        "os:cmd(\"mkfifo /data/t/pipe\").",
        "[]");
    assert_int_equal(run_cp("hostile:/data/t", back), 1); /* and says what was left out */
    assert_int_equal(count_entries(back), 1);
    snprintf(file, sizeof file, "%s/good", back);
    assert_int_equal(access(file, F_OK), 0);
    static const char *const places[] = {"/data/t/etc/passwd", "/etc/passwd", "/data/../etc/passwd", "/tmp/x",
                                         "/proc/1/status",     "/data/t/pipe"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(file, sizeof file, "hostile:%s", places[i]);
        assert_int_not_equal(run_cp(file, world_path(world, "got")), 0);
        assert_int_not_equal(access(world_path(world, "got"), F_OK), 0);
    }
    json_decref(world_fails(world, "file-write", "invalid_input", "{s:s, s:s, s:s}", "id", "hostile", "path",
                            "/data/t/passwd", "data", "eA=="));
    json_decref(world_fails(world, "file-write", "invalid_input", "{s:s, s:s, s:s}", "id", "hostile", "path",
                            "/data/t/pipe", "data", "eA=="));
    json_decref(world_fails(world, "file-write", "invalid_input", "{s:s, s:s, s:s}", "id", "hostile", "path", "/data/x",
                            "data", "!"));
    /* A link that waits where the copy would go is not followed either. */
    assert_int_equal(symlink("/nowhere/at/all", world_path(world, "waiting")), 0);
    assert_int_not_equal(run_cp("hostile:/data/t/good", world_path(world, "waiting")), 0);
    world_destroy(world, "hostile");
}

/* ---- deaths, and many of them ---- */

static bool is_begun(void *data) {
    return count_images(data) > 0;
}

/* A process that asks, and may be cut short with the service. */
static pid_t begin(const char *op, json_t *params) {
    CLEANUP_FREE char *text = json_dumps(params, JSON_COMPACT);
    json_decref(params);
    pid_t pid = fork();
    if (pid == 0) {
        struct sbx *client = NULL;
        int failed = sbx_open(world_home(world), &client, NULL) < 0 || sbx_op(client, op, text, NULL, NULL) < 0;
        _exit(failed);
    }
    return pid;
}

static void kill_service(bool launcher, bool daemon) {
    pid_t daemon_pid = world_pid(world, "daemon.lock");
    if (launcher) process_end(world_pid(world, "launcher.lock"), SIGKILL);
    if (daemon) process_end(daemon_pid, SIGKILL);
}

static void a_volume_that_was_cut_short_is_whole_or_gone(void **state) {
    char folder[256];
    (void)state;
    snprintf(folder, sizeof folder, "%s/volumes", world_home(world));
    for (int victim = 1; victim <= 3; victim++) {
        pid_t pid = begin("volume-create", json_pack("{s:s, s:i}", "name", "cut", "size_bytes", 64 << 20));
        assert_true(wait_until(is_begun, folder, WORLD_DEADLINE_MS));
        kill_service(victim & 1, victim & 2);
        json_decref(world_op(world, "health", "{}")); /* a launcher that is gone is started by the next command */
        waitpid(pid, NULL, 0);
        json_t *list = world_op(world, "volumes", "{}");
        if (json_array_size(list) == 0) make_volume("cut", 16 << 20);
        json_decref(list);
        create("user", "medium", json_pack("[s]", "cut:/mnt/cut"));
        assert_says("user", "file:write_file(\"/mnt/cut/x\", <<\"1\">>).", "ok");
        world_destroy(world, "user");
        world_do(world, "volume-remove", "{s:s}", "name", "cut");
        assert_is_emptied(folder);
    }
    assert_no_device_is_left();
}

static void a_create_that_was_cut_short_leaves_no_data(void **state) {
    char folder[256];
    (void)state;
    snprintf(folder, sizeof folder, "%s/volumes", world_home(world));
    for (int victim = 1; victim <= 3; victim++) {
        pid_t pid =
            begin("create", json_pack("{s:s, s:s, s:i, s:o}", "id", "cut", "source", EXAMPLES "/counter_erl",
                                      "data_size_bytes", 16 << 20, "volumes", volumes(make_folder("cut"), "/mnt/cut")));
        assert_true(wait_until(is_begun, folder, WORLD_DEADLINE_MS));
        kill_service(victim & 1, victim & 2);
        json_decref(world_op(world, "health", "{}")); /* a launcher that is gone is started by the next command */
        waitpid(pid, NULL, 0);
        json_t *list = world_op(world, "list", "{}");
        if (json_array_size(list) > 0) {
            assert_says("cut", "file:write_file(\"/data/x\", <<\"1\">>).", "ok");
            world_destroy(world, "cut");
        }
        json_decref(list);
        assert_is_emptied(folder);
    }
    assert_no_device_is_left();
}

/* So many at a time of `make stress`. */
static void many_leave_nothing(void **state) {
    const char *wanted = getenv("VOLUMES_MANY");
    int count = wanted ? atoi(wanted) : 4;
    (void)state;
    make_volume("common", 16 << 20);
    for (int i = 0; i < count; i++) {
        json_t *list = volumes(make_folder("common"), "/mnt/folder");
        json_array_append_new(list, json_string("common:/mnt/common"));
        world_do(world, "create", "{s:s, s:s, s:o}", "id", "one", "source", EXAMPLES "/counter_erl", "volumes", list);
        world_destroy(world, "one");
    }
    world_do(world, "volume-remove", "{s:s}", "name", "common");
    assert_no_device_is_left();
    CLEANUP_FREE char *mounts = read_whole("/proc/self/mounts");
    assert_null(strstr(mounts, world_home(world)));
}

static void nothing_is_left_of_permissions(void **state) {
    struct footprint *footprint = footprint_take(world_home(world));
    (void)state;
    assert_int_equal(footprint_stray_record_count(footprint), 0);
    footprint_free(footprint);
}

int main(void) {
    const struct test_case cases[] = {
        CASE(a_sandbox_writes_to_its_owners_folder),
        CASE(what_is_to_be_read_is_read_only),
        LONG_CASE(a_program_runs_where_the_profile_allows_programs),
        CASE(bad_input_is_refused),
        CASE(a_folder_that_became_a_link_stops_a_restart),
        CASE(a_volume_outlives_its_sandboxes),
        CASE(a_full_volume_hurts_nothing_else),
        LONG_CASE(a_damaged_image_is_told),
        CASE(bad_volumes_are_refused),
        CASE(images_are_out_of_the_daemons_reach),
        CASE(an_application_stops_in_order_where_files_outlive_it),
        CASE(one_that_is_destroyed_for_a_limit_does_not_stop_in_order),
        LONG_CASE(an_application_that_never_stops_is_ended),
        LONG_CASE(own_data_outlives_restarts_and_ends_with_its_sandbox),
        LONG_CASE(files_are_copied_both_ways),
        CASE(a_hostile_sandbox_copies_nothing_else),
        LONG_CASE(volumes_outlive_the_service),
        LONG_CASE(a_volume_that_was_cut_short_is_whole_or_gone),
        LONG_CASE(a_create_that_was_cut_short_leaves_no_data),
        LONG_CASE(many_leave_nothing),
        CASE(nothing_is_left_of_permissions),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
