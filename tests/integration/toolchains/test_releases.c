/* What releases of OTP changed, seen through the service: closures of code that a reload would purge, native records,
   regular expressions. SANDBOX_TEST_TOOLCHAIN names the release, as tools/toolchains/test.sh does. */
#include <stdlib.h>

#include "processes.h"
#include "support.h"

enum { FIRST_WITH_UNCOUNTED_CLOSURES = 27, FIRST_WITH_REGEX_REFERENCES = 28, FIRST_WITH_RECORDS = 29 };

struct releases {
    struct world *world;
    int release;
};

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static void answers(struct world *world, const char *id, const char *language, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, id, language, code);
    if (!string_equal(text, expected)) fail_msg("%s is %s, not %s", code, text, expected);
}

/* A reload that has committed: what can be purged has been. */
static void reload(struct world *world, const char *id) {
    json_t *result = world_op(world, "reload", "{s:s, s:b, s:i}", "id", id, "wait", 1, "probation_ms", 1);
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    json_decref(result);
}

/* ---- closures of old code ---- */

/* Its closures tell which code they are of. */
static void write_maker(struct world *world, const char *mark) {
    char text[256];
    snprintf(text, sizeof text,
             "-module(maker).\n-export([make/0, make/1, version/0]).\n"
             "make() -> fun() -> {made_by, %s} end.\n"
             "make(By) -> fun() -> {By, version()} end.\nversion() -> %s.\n",
             mark, mark);
    world_file(world, "closures/src/maker.erl", text);
}

/* Keeps a closure in each of the places. None of its processes runs code of `maker`. */
static const char *write_closures(struct world *world) {
    write_maker(world, "base");
    world_file(world, "closures/src/closures_sup.erl",
               "-module(closures_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
               "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
               "init([]) -> {ok, {#{}, [#{id => keeper, start => {keeper, start_link, []}}]}}.\n");
    world_file(
        world, "closures/src/keeper.erl",
        "-module(keeper).\n-behaviour(gen_server).\n-compile([export_all, nowarn_export_all]).\n"
        "start_link() -> gen_server:start_link({local, keeper}, keeper, [], []).\n"
        "init([]) -> {ok, nothing}.\n"
        "handle_call({keep, F}, _, _) -> {reply, ok, #{kept => [F]}};\n"
        "handle_call(forget, _, _) -> {reply, ok, nothing};\n"
        "handle_call(run, _, #{kept := [F]} = State) -> {reply, F(), State}.\n"
        "handle_cast(_, State) -> {noreply, State}.\n"
        "started(Function, Message) ->\n"
        "    register(kept, spawn(keeper, Function, [])), kept ! {take, Message, self()},\n"
        "    receive taken -> ok end.\n"
        "run() -> kept ! {go, self()}, receive {ran, Result} -> Result end.\n"
        "ended() -> P = whereis(kept), M = monitor(process, P), exit(P, kill),\n"
        "    receive {'DOWN', M, _, _, _} -> ok end.\n"
        "mailbox() -> receive {take, Message, From} -> self() ! Message, From ! taken, mailbox();\n"
        "    {go, From} -> receive {run, F} -> From ! {ran, F()}, mailbox() end end.\n"
        "table() -> receive {take, {run, F}, From} ->\n"
        "    ets:new(closures, [named_table, public]), ets:insert(closures, {f, F}), From ! taken, table() end.\n"
        "timer() -> receive {take, Message, From} ->\n"
        "    T = erlang:send_after(3600000, self(), Message), From ! taken, timer(T, term_to_binary(Message)) end.\n"
        "timer(T, Copy) -> receive {go, From} ->\n"
        "    true = is_integer(erlang:read_timer(T)), {run, F} = binary_to_term(Copy), From ! {ran, F()}, timer(T, "
        "Copy)\n"
        "    end.\n");
    return world_path(world, "closures");
}

struct place {
    const char *where;               /* as the answer names it */
    const char *keep, *run, *forget; /* code; F is the closure */
};

static const struct place places[] = {
    {"state", "gen_server:call(keeper, {keep, F})", "gen_server:call(keeper, run)", "gen_server:call(keeper, forget)"},
    {"mailbox", "keeper:started(mailbox, {run, F})", "keeper:run()", "keeper:ended()"},
    {"ets", "keeper:started(table, {run, F})", "(ets:lookup_element(closures, f, 2))()", "keeper:ended()"},
    {"timer", "keeper:started(timer, {run, F})", "keeper:run()", "keeper:ended()"},
    {"persistent_term", "persistent_term:put(kept, [F])", "(hd(persistent_term:get(kept)))()",
     "persistent_term:erase(kept)"},
};

/* Refused, with the place where a closure of the sandbox's module is. A VM that counts closures does not tell where. */
static void is_refused(const struct releases *test, const char *id, const char *module, const char *where) {
    json_t *problem = world_fails(test->world, "reload", "reload_failed", "{s:s, s:s}", "id", id, "on_busy", "refuse");
    json_t *result = json_object_get(problem, "result"), *holder;
    CLEANUP_FREE char *shown = json_dumps(result, JSON_COMPACT);
    bool is_named = test->release < FIRST_WITH_UNCOUNTED_CLOSURES;
    size_t i;
    assert_string_equal(text_of(result, "step"), "busy");
    assert_string_equal(text_of(result, "module"), module);
    json_array_foreach(json_object_get(result, "holders"), i, holder) is_named |=
        string_equal(text_of(holder, "where"), where);
    if (!is_named) fail_msg("no holder is the %s: %s", where, shown);
    json_decref(problem);
}

/* Two reloads replace and would then purge the closure's code. */
static void closure_outlives_reloads(const struct releases *test, const char *make, const struct place *place) {
    struct world *world = test->world;
    char code[256];
    write_maker(world, "first");
    reload(world, "closures");
    snprintf(code, sizeof code, "F = %s, %s, ok.", make, place->keep);
    answers(world, "closures", NULL, code, "ok");
    write_maker(world, "second");
    reload(world, "closures");
    write_maker(world, "third");
    is_refused(test, "closures", "maker", place->where);
    snprintf(code, sizeof code, "{%s, maker:version()}.", place->run);
    answers(world, "closures", NULL, code, "{{made_by,first},second}");
    snprintf(code, sizeof code, "%s, ok.", place->forget);
    answers(world, "closures", NULL, code, "ok");
    reload(world, "closures");
    answers(world, "closures", NULL, "{(maker:make())(), maker:version()}.", "{{made_by,third},third}");
}

static void closures_of_old_code_go_on_working(void **state) {
    const struct releases *test = *state;
    json_decref(world_create(test->world, "closures", write_closures(test->world), "medium"));
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        closure_outlives_reloads(test, "maker:make()", &places[i]); /* OTP 26 shares these without a count */
        closure_outlives_reloads(test, "maker:make(made_by)", &places[i]);
    }
    world_destroy(test->world, "closures");
}

/* ---- native records ---- */

static const char *write_records(struct world *world, const char *mark) {
    char text[2048];
    world_file(world, "records/src/records_sup.erl",
               "-module(records_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
               "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
               "init([]) -> {ok, {#{}, [#{id => shapes, start => {shapes, start_link, []}}]}}.\n");
    int length = snprintf(text, sizeof text,
                          "-module(shapes).\n-behaviour(gen_server).\n-compile([export_all, nowarn_export_all]).\n"
                          "-export_record([point]).\n-record #point{x = 0, y = nothing}.\n"
                          "-record #hidden{inner = nothing}.\n"
                          "start_link() -> gen_server:start_link({local, shapes}, shapes, [], []).\n"
                          "init([]) -> {ok, #point{y = [#hidden{inner = {1, <<\"two\">>}}]}}.\n"
                          "point(X, Y) -> #point{x = X, y = Y}.\n"
                          "version() -> %s.\n"
                          "moved(Point, X) -> Point#point{x = X}.\n"
                          "keep(Point) -> Point#point{y = #hidden{inner = fun() -> {made_by, %s} end}}.\n"
                          "handle_call({put, New}, _, _) -> {reply, ok, New};\n"
                          "handle_call(run, _, #point{y = #hidden{inner = F}} = State) -> {reply, F(), State}.\n"
                          "handle_cast(boom, #point{}) -> error(boom).\n"
                          "handle_info({From, #point{x = X} = Point}, State) ->\n"
                          "    From ! Point#point{x = X + 1}, logger:warning(\"got ~p\", [Point]), {noreply, State}.\n",
                          mark, mark);
    assert_true(length < (int)sizeof text);
    world_file(world, "records/src/shapes.erl", text);
    return world_path(world, "records");
}

#define HIDDEN_TEXT "[#shapes:hidden{inner = {1,<<\"two\">>}}]"

static void a_result_shows_them(struct world *world) {
    answers(world, "records", "erlang", "shapes:point(1, a).", "#shapes:point{x = 1,y = a}");
    answers(world, "records", "elixir", ":shapes.point(1, [:a])", "#shapes:point{x = 1,y = [a]}");
    answers(world, "records", "erlang", "#{at => shapes:point(1, [2])}.", "#{at => #shapes:point{x = 1,y = [2]}}");
}

static void messages_carry_them(struct world *world) {
    answers(world, "records", "erlang",
            "shapes ! {self(), shapes:point(5, <<\"sent\">>)}, receive R -> {is_record(R, shapes, point), R} end.",
            "{true,#shapes:point{x = 6,y = <<\"sent\">>}}");
}

struct awaited_record {
    struct world *world;
    const char *level, *text;
};

static bool is_logged(void *data) {
    const struct awaited_record *awaited = data;
    json_t *list = world_op(awaited->world, "logs", "{s:s}", "id", "records"), *record;
    bool is_found = false;
    size_t i;
    json_array_foreach(list, i, record) {
        const char *text = text_of(record, "text");
        is_found |= text && strstr(text, awaited->text) && string_equal(text_of(record, "level"), awaited->level);
    }
    json_decref(list);
    return is_found;
}

static void wait_logged(struct world *world, const char *level, const char *text) {
    struct awaited_record awaited = {world, level, text};
    if (!wait_until(is_logged, &awaited, WORLD_DEADLINE_MS)) fail_msg("no record of level %s has: %s", level, text);
}

/* One that the application logs, and the report of a process that crashes with one in its state. */
static void log_records_show_them(struct world *world) {
    wait_logged(world, "warning", "#shapes:point{x = 5");
    answers(world, "records", "erlang", "ok = gen_server:call(shapes, {put, shapes:point(crashed, here)}).", "ok");
    answers(world, "records", "erlang", "gen_server:cast(shapes, boom).", "ok");
    wait_logged(world, "error", "#shapes:point{x = crashed");
}

static void states_are_kept_with_them(struct world *world) {
    json_t *restarted = world_op(world, "restart", "{s:s}", "id", "records");
    CLEANUP_FREE char *shown = json_dumps(restarted, JSON_COMPACT);
    if (json_integer_value(json_object_get(json_object_get(restarted, "states"), "kept")) != 1) fail_msg("%s", shown);
    json_decref(restarted);
    answers(world, "records", "erlang", "sys:get_state(shapes).", "#shapes:point{x = kept,y = " HIDDEN_TEXT "}");
}

/* The search for closures looks into them. */
static void closures_are_found_in_them(const struct releases *test) {
    struct world *world = test->world;
    write_records(world, "first");
    reload(world, "records");
    answers(world, "records", "erlang", "gen_server:call(shapes, {put, shapes:keep(shapes:point(0, none))}).", "ok");
    write_records(world, "second");
    reload(world, "records");
    write_records(world, "third");
    is_refused(test, "records", "shapes", "state");
    answers(world, "records", "erlang", "{gen_server:call(shapes, run), shapes:version()}.",
            "{{made_by,first},second}");
}

static void native_records_are_terms_like_others(void **state) {
    const struct releases *test = *state;
    struct world *world = test->world;
    if (test->release < FIRST_WITH_RECORDS) skip();
    json_decref(world_create(world, "records", write_records(world, "base"), "medium"));
    answers(world, "records", "erlang", "sys:get_state(shapes).", "#shapes:point{x = 0,y = " HIDDEN_TEXT "}");
    a_result_shows_them(world);
    messages_carry_them(world);
    log_records_show_them(world);
    answers(world, "records", "erlang", "sys:replace_state(shapes, fun(P) -> shapes:moved(P, kept) end), ok.", "ok");
    write_records(world, "changed");
    reload(world, "records");
    answers(world, "records", "erlang", "{shapes:version(), sys:get_state(shapes)}.",
            "{changed,#shapes:point{x = kept,y = " HIDDEN_TEXT "}}");
    states_are_kept_with_them(world);
    closures_are_found_in_them(test);
    world_destroy(world, "records");
}

/* ---- regular expressions ---- */

/* Since OTP 28 they are references, which no other VM knows. */
static void regular_expressions_outlive_restarts(void **state) {
    const struct releases *test = *state;
    struct world *world = test->world;
    json_decref(world_create(world, "counter", EXAMPLES "/counter", "medium"));
    answers(world, "counter", NULL,
            "old = ~r/^a+B$/i; :sys.replace_state(Counter.Server, fn _ -> %{regex: [old, 7], from: old.source} end); "
            "is_reference(elem(old.re_pattern, 4))",
            test->release < FIRST_WITH_REGEX_REFERENCES ? "false" : "true");
    json_t *restarted = world_op(world, "restart", "{s:s}", "id", "counter");
    json_t *states = json_object_get(restarted, "states");
    CLEANUP_FREE char *shown = json_dumps(states, JSON_COMPACT);
    if (json_integer_value(json_object_get(states, "kept")) != 1) fail_msg("%s", shown);
    json_decref(restarted);
    answers(world, "counter", NULL,
            "%{regex: [new, 7], from: \"^a+B$\"} = :sys.get_state(Counter.Server); "
            "{Regex.match?(new, \"AAb\"), Regex.match?(new, \"c\")}",
            "{true, false}");
    world_destroy(world, "counter");
}

/* ---- the world ---- */

static int open_world(void **state) {
    struct releases *test = calloc(1, sizeof *test);
    assert_non_null(test);
    test->world = world_open(NULL);
    json_t *list = world_op(test->world, "toolchains", NULL), *item;
    size_t i;
    json_array_foreach(list, i, item) {
        if (json_is_true(json_object_get(item, "default"))) test->release = atoi(text_of(item, "otp"));
    }
    json_decref(list);
    assert_true(test->release > 0);
    *state = test;
    return 0;
}

static int close_world(void **state) {
    struct releases *test = *state;
    world_close(test->world);
    free(test);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closures_of_old_code_go_on_working),
        cmocka_unit_test(native_records_are_terms_like_others),
        cmocka_unit_test(regular_expressions_outlive_restarts),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
