/* Limits, and what is measured: all on one sandbox, whose service has a short heartbeat. */
#include <limits.h>
#include <signal.h>

#include "cases.h"
#include "processes.h"
#include "support.h"

static int open_world(void **state) {
    struct world *world = world_open("heartbeat = 100ms\nheartbeat-deadline = 1200ms\n");
    world_do(world, "create", "{s:s, s:s, s:i, s:i}", "id", "a", "source", EXAMPLES "/counter_erl", "processes", 100,
             "data_size_bytes", 0);
    *state = world;
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    return 0;
}

/* ---- what is measured ---- */

static pid_t os_pid_of(struct world *world) {
    json_t *info = world_info(world, "a");
    pid_t pid = (pid_t)json_integer_value(json_object_get(info, "os_pid"));
    json_decref(info);
    return pid;
}

static json_t *limit_of(json_t *stats, const char *metric) {
    size_t index;
    json_t *limit;
    json_array_foreach(
        json_object_get(stats, "limits"), index,
        limit) if (string_equal(json_string_value(json_object_get(limit, "metric")), metric)) return limit;
    fail_msg("there is no limit '%s'", metric);
    return NULL;
}

static json_int_t number_in(json_t *object, const char *part, const char *name) {
    json_t *value = json_object_get(json_object_get(object, part), name);
    if (!json_is_number(value)) fail_msg("'%s' in '%s' is no number", name, part);
    return (json_int_t)json_number_value(value);
}

static void stats_tell_what_is_used(void **state) {
    struct world *world = *state;
    json_t *stats = world_op(world, "stats", "{s:s, s:s}", "id", "a", "history", "recent");
    assert_in_range(number_in(stats, "now", "memory_bytes"), 5 << 20, 60 << 20);
    assert_in_range(number_in(stats, "now", "processes"), 1, 50);
    assert_in_range(number_in(stats, "now", "atoms"), 5000, 20000);
    assert_in_range(number_in(stats, "vm", "reductions"), 1000, 1LL << 40);
    assert_in_range(number_in(json_object_get(stats, "vm"), "memory", "code_bytes"), 1 << 20, 60 << 20);
    assert_int_equal(json_integer_value(json_object_get(limit_of(stats, "processes"), "limit")), 100);
    assert_string_equal(json_string_value(json_object_get(limit_of(stats, "memory_bytes"), "level")), "normal");
    assert_true(json_array_size(json_object_get(stats, "tasks")) >= 2);
    assert_true(json_array_size(json_object_get(stats, "history")) >= 1);
    json_decref(stats);
    json_decref(world_fails(world, "stats", "not_found", "{s:s}", "id", "b"));
}

static void top_tells_who_uses_most(void **state) {
    struct world *world = *state;
    free(world_eval_text(world, "a", NULL,
                         "register(busy, spawn(fun() -> receive never -> ok end end)), "
                         "[busy ! x || _ <- lists:seq(1, 1000)], ok"));
    json_t *top = world_op(world, "top", "{s:s, s:s, s:i}", "id", "a", "by", "queue", "count", 3);
    json_t *first = json_array_get(top, 0);
    assert_int_equal(json_array_size(top), 3);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "busy");
    assert_int_equal(json_integer_value(json_object_get(first, "message_queue_len")), 1000);
    json_decref(top);
    json_t *all = world_op(world, "top", NULL);
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(all, 0), "id")), "a");
    json_decref(all);
    free(world_eval_text(world, "a", NULL, "exit(whereis(busy), kill)"));
}

/* Asking makes it look; left alone it would take its time with a sandbox that idles. */
static bool has_level(struct world *world, const char *level) {
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "a");
    bool has = string_equal(json_string_value(json_object_get(limit_of(stats, "processes"), "level")), level);
    json_decref(stats);
    return has;
}

static bool is_near(void *data) {
    return has_level(data, "warning");
}

static bool is_calm(void *data) {
    return has_level(data, "normal");
}

/* 80 % of the processes, and back. */
static void nearness_to_a_limit_is_an_event(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    free(world_eval_text(world, "a", NULL,
                         "register(many, spawn(fun() -> [spawn_link(fun() -> receive never -> ok end end) "
                         "|| _ <- lists:seq(1, 80)], receive never -> ok end end))"));
    assert_true(wait_until(is_near, world, WORLD_DEADLINE_MS));
    json_t *alert = world_wait_event(world, since, &(struct event_pattern){"alert", "a", "level", "warning"});
    assert_string_equal(json_string_value(json_object_get(json_object_get(alert, "data"), "metric")), "processes");
    assert_in_range(number_in(alert, "data", "percent"), 80, 94);
    json_decref(alert);
    free(world_eval_text(world, "a", NULL, "exit(whereis(many), kill)"));
    assert_true(wait_until(is_calm, world, WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"alert", "a", "level", "normal"}));
}

/* ---- buffers of sockets, which cgroup v1 does not count as memory ---- */

#define FILL_CONNECTIONS                                                                                               \
    "{ok, Listener} = gen_tcp:listen(0, [{active, false}, {recbuf, 8 bsl 20}]), {ok, Port} = inet:port(Listener), "    \
    "Chunk = binary:copy(<<0>>, 1 bsl 16), "                                                                           \
    "Fill = fun Fill(Socket, Sum) -> case gen_tcp:send(Socket, Chunk) of ok -> Fill(Socket, Sum + 1); _ -> Sum end "   \
    "end, "                                                                                                            \
    "Connect = fun() -> {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, "                                         \
    "[{send_timeout, 5}, {sndbuf, 8 bsl 20}]), {ok, _} = gen_tcp:accept(Listener), Fill(Socket, 0) end, "              \
    "lists:sum([Connect() || _ <- lists:seq(1, 20)]) bsl 6"
#define FILL_DATAGRAMS                                                                                                 \
    "Open = fun() -> {ok, Socket} = gen_udp:open(0, [binary, {active, false}, {recbuf, 8 bsl 20}]), Socket end, "      \
    "Sockets = [Open() || _ <- lists:seq(1, 20)], "                                                                    \
    "[gen_udp:send(S, {127, 0, 0, 1}, element(2, inet:port(S)), binary:copy(<<0>>, 60000)) "                           \
    "|| S <- Sockets, _ <- lists:seq(1, 100)], "                                                                       \
    "Count = fun Count(S, Sum) -> case gen_udp:recv(S, 0, 0) of {ok, _} -> Count(S, Sum + 1); _ -> Sum end end, "      \
    "lists:sum([Count(S, 0) || S <- Sockets]) * 60"

static long long socket_memory(struct world *world) {
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "a");
    long long bytes = number_in(stats, "now", "socket_memory_bytes");
    json_decref(stats);
    return bytes;
}

static bool is_full(void *data) {
    return socket_memory(data) > 15 << 20;
}

static bool is_drained(void *data) {
    return socket_memory(data) < 1 << 20;
}

/* More than a limit of 16 MiB, by what the first connections were given before it was noticed; without one it is ten
   times as much. On cgroup v2 it is all of the memory at most. */
static void unread_data_is_held_at_the_limit(void **state) {
    struct world *world = *state;
    json_t *info = world_op(world, "doctor", NULL);
    assert_true(number_in(info, "daemon", "memory_limit_bytes") >= 2LL << 30);
    bool is_v1 = json_integer_value(json_object_get(info, "cgroup_version")) == 1;
    json_decref(info);
    long most_kib = is_v1 ? 24 << 10 : (128 + 16) << 10;
    uint64_t since = world_now(world);
    static const char *const assaults_on_buffers[] = {FILL_CONNECTIONS, FILL_DATAGRAMS};
    for (size_t i = 0; i < ARRAY_SIZE(assaults_on_buffers); i++) {
        CLEANUP_FREE char *kib = world_eval_text(world, "a", "erlang", assaults_on_buffers[i]);
        assert_in_range(atol(kib), 1 << 10, most_kib);
    }
    if (!is_v1) return;
    assert_true(wait_until(is_drained, world, WORLD_DEADLINE_MS)); /* of what the assaults left */
    free(world_eval_text(world, "a", "erlang",
                         "register(full, spawn(fun() -> " FILL_CONNECTIONS ", receive never -> ok end end))"));
    assert_true(wait_until(is_full, world, WORLD_DEADLINE_MS));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "a", "limit", "socket_memory"}));
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "socket_memory", "1M"));
    free(world_eval_text(world, "a", NULL, "exit(whereis(full), kill)"));
}

/* ---- limits under attack, each of them small now ---- */

static void limits_are_changed_while_it_runs(void **state) {
    struct world *world = *state;
    json_t *list =
        world_op(world, "limits", "{s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}}", "id", "a", "set",
                 "memory", "96M", "processes", "60", "atoms", "30000", "ets_tables", "20", "ets_memory", "8M",
                 "vm_ports", "10", "sockets", "5", "message_queue", "1000", "heap", "4M", "descriptors", "100");
    assert_true(json_array_size(list) >= 16);
    json_decref(list);
    json_t *info = world_info(world, "a");
    assert_int_equal(number_in(info, "limits", "memory_bytes"), 96 << 20);
    assert_int_equal(number_in(info, "limits", "processes"), 60);
    assert_int_equal(number_in(info, "limits", "heap_bytes"), 4 << 20);
    json_decref(info);
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "processes", "100000"));
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "descriptors", "5000"));
    json_decref(world_fails(world, "limits", "invalid_input", "{s:s, s:{s:s}}", "id", "a", "set", "colour", "5"));
}

/* A little now and then, or the agent would hardly look. */
#define WORK "(fun Work() -> lists:seq(1, 5000), receive after 4 -> Work() end end)()"

static const struct {
    const char *limit; /* NULL: told of a moment ago */
    const char *code;
} assaults[] = {
    {"ets_tables", "[ets:new(t, []) || _ <- lists:seq(1, 100)], " WORK},
    {"ets_memory",
     "T = ets:new(t, []), (fun Fill(N) -> ets:insert(T, {N, binary:copy(<<0>>, 60)}), Fill(N + 1) end)(1)"},
    {"heap", "(fun Grow(L) -> Grow([make_ref() | L]) end)([])"},
    {"atoms", "(fun Make(N) -> binary_to_atom(integer_to_binary(N)), Make(N + 1) end)(1)"},
    {"message_queue", "process_flag(message_queue_data, off_heap), (fun Flood() -> self() ! x, Flood() end)()"},
    {"vm_ports", "[open_port({fd, 0, 1}, []) || _ <- lists:seq(1, 50)], " WORK},
    {"sockets", "[gen_udp:open(0) || _ <- lists:seq(1, 8)], " WORK},
    {NULL, "[socket:open(inet, stream) || _ <- lists:seq(1, 50)], " WORK},
};

/* The process that goes too far dies, and no other. */
static void each_limit_holds_under_attack(void **state) {
    struct world *world = *state;
    pid_t os_pid = os_pid_of(world);
    for (size_t i = 0; i < ARRAY_SIZE(assaults); i++) {
        uint64_t since = world_now(world);
        CLEANUP_FREE char *text = world_try_eval(world, "a", "erlang", assaults[i].code, WORLD_DEADLINE_MS);
        if (!strstr(text, "killed")) fail_msg("%s: %s", assaults[i].code, text);
        if (!assaults[i].limit) continue;
        json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "a", "limit", assaults[i].limit}));
    }
    CLEANUP_FREE char *value = world_eval_text(world, "a", NULL, "counter:value()");
    assert_string_equal(value, "0");
    assert_int_equal(os_pid_of(world), os_pid);
}

#define LONG_QUEUE "spawn(fun() -> [self() ! x || _ <- lists:seq(1, 1500)], " WORK " end), ok"

static const struct {
    const char *what;
    const char *code;
    const char *text;
} refusals[] = {
    {"descriptors",
     "Files = [file:open(\"/data/x\", [write, raw]) || _ <- lists:seq(1, 150)], [file:close(F) || {ok, F} <- Files], "
     "{hd(Files) =/= lists:last(Files), lists:last(Files)}",
     "{true,{error,emfile}}"},
    {"a file",
     "{ok, F} = file:open(\"/data/x\", [write, raw]), "
     "{file:pwrite(F, 64 bsl 20, <<1>>), file:pwrite(F, 1 bsl 20, <<1>>)}",
     "{{error,efbig},ok}"},
    {"the disk", "file:write_file(\"/tmp/x\", binary:copy(<<0:8192>>, 56 bsl 10))", "{error,enospc}"},
};

/* The kernel says no, which is an error like any other; all limits were given with the sandbox. */
static void what_the_kernel_holds_is_an_error_inside(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    world_do(world, "create", "{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "id", "b", "source", EXAMPLES "/counter_erl",
             "profile", "low", "limit", "descriptors", "100", "file_size", "64M", "disk", "48M:freeze");
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        CLEANUP_FREE char *text = world_eval_text(world, "b", "erlang", refusals[i].code);
        if (!string_equal(text, refusals[i].text)) fail_msg("%s: %s", refusals[i].what, text);
    }
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "b", "limit", "file_size"}));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "b", "limit", "disk"}));
    json_decref(world_wait_event(world, since,
                                 &(struct event_pattern){"frozen", "b", "reason", "it reached its limit on disk"}));
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "b");
    /* All of /tmp, and little of /data, which is a volume of the same size. */
    assert_in_range(number_in(stats, "now", "disk_bytes"), 46 << 20, 56 << 20);
    assert_in_range(json_integer_value(json_object_get(limit_of(stats, "disk_bytes"), "limit")), 84 << 20, 96 << 20);
    assert_in_range(number_in(stats, "now", "descriptors"), 10, 60);
    json_decref(stats);
    world_do(world, "thaw", "{s:s}", "id", "b");
}

static void set_limit(struct world *world, const char *id, const char *name, const char *value) {
    world_do(world, "limits", "{s:s, s:{s:s}}", "id", id, "set", name, value);
}

/* How many more empty files can be made in /data, and why no more. */
#define MAKE_FILES(prefix)                                                                                             \
    "(fun Make(N) -> case file:write_file(\"/data/" prefix "\" ++ integer_to_list(N), <<>>) of ok -> Make(N + 1); "    \
    "{error, Why} -> {N, Why} end end)(0)"

static long made_files(struct world *world, const char *code) {
    long made = -1;
    char why[16] = "";
    CLEANUP_FREE char *text = world_eval_text(world, "a", "erlang", code);
    if (sscanf(text, "{%ld,%15[a-z]}", &made, why) != 2 || !string_equal(why, "enospc")) fail_msg("%s", text);
    return made;
}

/* Three quarters of them are /data's. The application goes on, and a raised limit lets it make more. */
static void files_are_counted_wherever_they_are_empty(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    pid_t os_pid = os_pid_of(world);
    set_limit(world, "a", "files", "400");
    assert_in_range(made_files(world, MAKE_FILES("e")), 280, 300);
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "a", "limit", "files"}));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"alert", "a", "metric", "files"}));
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "a");
    assert_in_range(number_in(stats, "now", "files"), 280, 310);
    assert_int_equal(json_integer_value(json_object_get(limit_of(stats, "files"), "limit")), 400);
    assert_string_equal(json_string_value(json_object_get(limit_of(stats, "files"), "level")), "critical");
    json_decref(stats);
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "files", "200"));
    set_limit(world, "a", "files", "800");
    assert_in_range(made_files(world, MAKE_FILES("f")), 290, 310);
    free(world_eval_text(world, "a", "erlang",
                         "[file:delete(F) || F <- filelib:wildcard(\"/data/[ef]*\")], "
                         "[file:write_file(\"/tmp/e\" ++ integer_to_list(N), <<>>) || N <- lists:seq(1, 150)], ok"));
    /* What /data has room for and /tmp has not is refused as a whole. */
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "files", "400"));
    assert_in_range(made_files(world, MAKE_FILES("g")), 580, 600);
    free(world_eval_text(world, "a", "erlang", "[file:delete(F) || F <- filelib:wildcard(\"/{data,tmp}/[eg]*\")], ok"));
    set_limit(world, "a", "files", "none"); /* as many as the disk has KiB */
    json_t *info = world_info(world, "a");
    assert_int_equal(number_in(info, "limits", "files"), 16384);
    json_decref(info);
    CLEANUP_FREE char *value = world_eval_text(world, "a", NULL, "counter:value()");
    assert_string_equal(value, "0");
    assert_int_equal(os_pid_of(world), os_pid);
}

static const struct {
    const char *id, *limit, *tight, *code, *usual;
} standstills[] = {
    {"b", "os_tasks", "20:freeze", "spawn(os, cmd, [\"for i in 1 2 3 4 5 6 7 8 9; do sleep 30 & done\"])", "256:warn"},
    {"a", "max_run", "100ms:freeze", "receive never -> ok end", "5m:kill_process"},
};

/* Nothing inside dies of these but what ran too long: the policy is what follows. */
static void what_is_only_refused_is_acted_on(void **state) {
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(standstills); i++) {
        const char *id = standstills[i].id;
        uint64_t since = world_now(world);
        char reason[64];
        set_limit(world, id, standstills[i].limit, standstills[i].tight);
        free(world_try_eval(world, id, "erlang", standstills[i].code, WORLD_DEADLINE_MS));
        snprintf(reason, sizeof reason, "it reached its limit on %s", standstills[i].limit);
        json_decref(world_wait_event(world, since, &(struct event_pattern){"frozen", id, "reason", reason}));
        world_do(world, "thaw", "{s:s}", "id", id);
        set_limit(world, id, standstills[i].limit, standstills[i].usual);
    }
}

static bool is_throttled(struct world *world, const char *id) {
    json_t *stats = world_op(world, "stats", "{s:s}", "id", id);
    bool throttled = json_is_true(json_object_get(stats, "throttled"));
    json_decref(stats);
    return throttled;
}

static bool is_bomb_throttled(void *data) {
    return is_throttled(data, "b");
}

/* Some that are refused are no bomb. */
static void a_bomb_of_programs_is_throttled_whatever_the_policy(void **state) {
    struct world *world = *state;
    assert_false(is_throttled(world, "b"));
    set_limit(world, "b", "os_tasks", "20:warn");
    free(world_eval_text(world, "b", "erlang",
                         "spawn(fun Bomb() -> os:cmd(\"sleep 9 & sleep 9 & sleep 9 & sleep 9 & sleep 9 & sleep 9\"), "
                         "Bomb() end)"));
    assert_true(wait_until(is_bomb_throttled, world, WORLD_DEADLINE_MS));
}

static void a_sandbox_is_destroyed_where_the_policy_says_so(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    set_limit(world, "b", "os_tasks", ":destroy"); /* the bomb goes on */
    json_decref(world_wait_event(world, since, &(struct event_pattern){"destroyed", "b", NULL, NULL}));
    json_decref(world_fails(world, "info", "not_found", "{s:s}", "id", "b"));
}

static long number_in_file(const char *format, const char *group) {
    char path[PATH_MAX];
    long number = 0;
    snprintf(path, sizeof path, format, group);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%ld", &number) != 1) number = 0;
    if (file) fclose(file);
    return number;
}

/* The quota of its cgroup, in percent; 0 where there is none. */
static long cpu_quota_percent(pid_t pid) {
    static const char *const files[] = {"/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", "/sys/fs/cgroup%s/cpu.max"};
    char path[PATH_MAX], line[PATH_MAX], *colon;
    long quota_us = 0;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (quota_us == 0 && fgets(line, sizeof line, file) && (colon = strrchr(line, ':'))) {
        if (!strstr(line, ":cpu:") && !strstr(line, ":cpu,") && !string_starts(line, "0::")) continue;
        colon[strcspn(colon, "\n")] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) quota_us += number_in_file(files[i], colon + 1);
    }
    fclose(file);
    return quota_us / 1000;
}

static bool is_slowed_down(void *data) {
    return cpu_quota_percent(os_pid_of(data)) == 5;
}

/* The process lives, and the sandbox is held instead. */
static void a_policy_decides_what_happens(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    set_limit(world, "a", "message_queue", ":warn");
    free(world_eval_text(world, "a", NULL, LONG_QUEUE));
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "a", "policy", "warn"}));
    assert_false(is_throttled(world, "a"));
    set_limit(world, "a", "message_queue", ":throttle");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"limit", "a", "policy", "throttle"}));
    assert_true(is_throttled(world, "a"));
    assert_true(wait_until(is_slowed_down, world, WORLD_DEADLINE_MS));
    set_limit(world, "a", "cpu", "90%"); /* from then on; for now it stays slow */
    assert_true(is_slowed_down(world));
    set_limit(world, "a", "message_queue", ":freeze");
    json_decref(
        world_wait_event(world, since, &(struct event_pattern){"frozen", "a", "reason", "it reached its limit"}));
    json_decref(world_fails(world, "limits", "conflict", "{s:s, s:{s:s}}", "id", "a", "set", "atoms", "40000"));
    set_limit(world, "a", "ttl", "1h");
    world_do(world, "thaw", "{s:s}", "id", "a");
}

static void a_new_vm_follows_where_the_policy_says_so(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    set_limit(world, "a", "message_queue", ":restart");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"status", "a", "to", "error"}));
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "restarted", .sandbox_id = "a"}));
    set_limit(world, "a", "message_queue", "1000:kill_process");
}

/* ---- what a limit killed ---- */

static void assert_told(const json_t *sandbox) {
    const char *detail = json_string_value(json_object_get(json_object_get(sandbox, "last_error"), "detail"));
    if (!detail || !strstr(detail, "its limit on processes killed ")) fail_msg("%s", detail ? detail : "no error");
    if (!strstr(detail, " of 50; --limit processes=N gives it more")) fail_msg("%s", detail);
}

/* A server with more processes than it may have runs without some of them, and its owner has to hear of it. */
static void what_a_limit_killed_is_told(void **state) {
    struct world *world = *state;
    world_file(world, "crowd/src/crowd.app.src", "{application, crowd, [{vsn, \"1\"}, {mod, {crowd, []}}]}.\n");
    world_file(world, "crowd/src/crowd.erl",
               "-module(crowd).\n-export([start/2, stop/1, init/1]).\n"
               "start(_, _) -> {ok, Top} = supervisor:start_link(?MODULE, []),\n"
               "    [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 100)], {ok, Top}.\nstop(_) -> "
               "ok.\ninit([]) -> {ok, {#{}, []}}.\n");
    json_t *created = world_op(world, "create", "{s:s, s:s, s:i}", "id", "crowd", "source", world_path(world, "crowd"),
                               "processes", 50);
    json_t *info = world_info(world, "crowd");
    json_t *logs = world_op(world, "logs", "{s:s, s:s}", "id", "crowd", "stream", "service");
    assert_told(created);
    assert_told(info);
    assert_string_equal(json_string_value(json_object_get(info, "status")), "running");
    assert_string_equal(json_string_value(json_object_get(json_array_get(logs, 0), "level")), "warning");
    json_decref(logs);
    json_decref(info);
    json_decref(created);
    world_destroy(world, "crowd");
}

/* ---- schedulers ---- */

static json_int_t schedulers_of(struct world *world, const char *id) {
    json_t *info = world_info(world, id);
    CLEANUP_FREE char *inside = world_eval_text(world, id, NULL, "erlang:system_info(schedulers_online)");
    json_int_t told = json_integer_value(json_object_get(info, "schedulers"));
    assert_int_equal(strtol(inside, NULL, 10), told);
    json_decref(info);
    return told;
}

static void create_with_cpu(struct world *world, const char *id, const char *profile, const char *cpu) {
    world_do(world, "create", "{s:s, s:s, s:s, s:{s:s}}", "id", id, "source", EXAMPLES "/counter_erl", "profile",
             profile, "limit", "cpu", cpu);
}

/* Whether or not its VM was booted ahead, and a restart follows a limit that was changed. */
static void a_vm_has_a_scheduler_for_each_core_it_may_use(void **state) {
    struct world *world = *state;
    json_int_t cores = sysconf(_SC_NPROCESSORS_ONLN), two = cores < 2 ? 1 : 2;
    assert_int_equal(schedulers_of(world, "a"), 1);
    create_with_cpu(world, "two", "medium", "150%");
    assert_int_equal(schedulers_of(world, "two"), two);
    create_with_cpu(world, "many", "low", "102400%");
    assert_in_range(schedulers_of(world, "many"), two, cores);
    set_limit(world, "two", "cpu", "100%");
    assert_int_equal(schedulers_of(world, "two"), two);
    json_decref(world_op(world, "restart", "{s:s}", "id", "two"));
    assert_int_equal(schedulers_of(world, "two"), 1);
    world_destroy(world, "two");
    world_destroy(world, "many");
}

int main(void) {
    const struct test_case cases[] = {
        CASE(stats_tell_what_is_used),
        CASE(top_tells_who_uses_most),
        CASE(nearness_to_a_limit_is_an_event),
        CASE(unread_data_is_held_at_the_limit),
        CASE(limits_are_changed_while_it_runs),
        CASE(what_a_limit_killed_is_told),
        LONG_CASE(a_vm_has_a_scheduler_for_each_core_it_may_use),
        CASE(each_limit_holds_under_attack),
        CASE(what_the_kernel_holds_is_an_error_inside),
        CASE(files_are_counted_wherever_they_are_empty),
        CASE(what_is_only_refused_is_acted_on),
        CASE(a_bomb_of_programs_is_throttled_whatever_the_policy),
        CASE(a_sandbox_is_destroyed_where_the_policy_says_so),
        CASE(a_policy_decides_what_happens),
        LONG_CASE(a_new_vm_follows_where_the_policy_says_so),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_world, close_world);
}
