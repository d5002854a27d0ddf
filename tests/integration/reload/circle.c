/* Reloads a circle of twelve modules through ten versions and back, and checks that every process keeps its state. */
#include "circle.h"

#include "tally.h"

enum { MODULES = 12, VERSIONS = 11 };

/* A server whose answer takes all twelve, once around; its state names the versions that it has been. Every third
   module includes a header that says the version, the others say it themselves. */
static void write_module(struct world *world, int module, int version) {
    char name[64], text[2048], says[32];
    snprintf(name, sizeof name, "app/src/circle_%d.erl", module);
    snprintf(says, sizeof says, module % 3 == 0 ? "?VERSION" : "%d", version);
    snprintf(text, sizeof text,
             "-module(circle_%d).\n"
             "-behaviour(gen_server).\n"
             "-include(\"version.hrl\").\n"
             "-export([start_link/0, around/1, init/1, handle_call/3, handle_cast/2, code_change/3]).\n"
             "start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).\n"
             "init([]) -> {ok, [1]}.\n"
             "handle_call(get, _, S) -> {reply, {S, around(%d)}, S}.\n"
             "handle_cast(_, S) -> {noreply, S}.\n"
             "around(0) -> 0;\n"
             "around(Left) -> %s + circle_%d:around(Left - 1).\n"
             "code_change({down, _}, [_ | S], _) -> {ok, S};\n"
             "code_change(_, S, _) -> {ok, [%d | S]}.\n",
             module, MODULES, says, module % MODULES + 1, version);
    world_file(world, name, text);
}

static void write_version(struct world *world, int version) {
    char header[64];
    snprintf(header, sizeof header, "-define(VERSION, %d).\n", version);
    world_file(world, "app/src/version.hrl", header);
    for (int module = 1; module <= MODULES; module++) write_module(world, module, version);
}

/* So many of the modules, the first ones, are of the lower version. */
static void assert_states(struct world *world, int version, int lower) {
    char code[512], expected[64];
    snprintf(code, sizeof code,
             "Get = fun(M) -> gen_server:call(list_to_atom(\"circle_\" ++ integer_to_list(M)), get) end, "
             "V = fun(M) when M =< %d -> %d; (_) -> %d end, All = lists:seq(1, %d), "
             "[{lists:seq(V(M), 1, -1), lists:sum(lists:map(V, All))} || M <- All] =:= lists:map(Get, All).",
             lower, version - 1, version, MODULES);
    snprintf(expected, sizeof expected, "true");
    tally_assert_eval(world, code, expected);
}

static void go_up(struct world *world, int version) {
    write_version(world, version);
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    assert_string_equal(text_of(result, "status"), "hot_reloaded");
    assert_int_equal(json_array_size(json_object_get(result, "modules")), MODULES);
    assert_int_equal(json_array_size(json_object_get(result, "processes")), MODULES);
    json_decref(result);
    assert_states(world, version, 0);
}

/* One module after the other: in between, both versions work together. */
static void go_down(struct world *world, int version) {
    char name[32];
    for (int module = 1; module <= MODULES; module++) {
        snprintf(name, sizeof name, "circle_%d", module);
        json_t *result = world_op(world, "rollback", "{s:s, s:s, s:i}", "id", "a", "module", name, "to", version);
        assert_string_equal(text_of(result, "status"), "hot_reloaded");
        json_decref(result);
        assert_states(world, version + 1, module);
    }
}

void ten_versions_up_and_down(void **state) {
    struct world *world = world_open(NULL);
    (void)state;
    world_file(world, "app/src/circle_sup.erl",
               "-module(circle_sup).\n"
               "-behaviour(supervisor).\n"
               "-export([start_link/0, init/1]).\n"
               "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
               "init([]) -> {ok, {#{}, [#{id => M, start => {list_to_atom(\"circle_\" ++ integer_to_list(M)), "
               "start_link, []}} || M <- lists:seq(1, 12)]}}.\n");
    write_version(world, 1);
    json_decref(world_create(world, "a", world_path(world, "app"), "medium"));
    assert_states(world, 1, 0);
    for (int version = 2; version <= VERSIONS; version++) go_up(world, version);
    for (int version = VERSIONS - 1; version >= 1; version--) go_down(world, version);
    world_destroy(world, "a");
    world_close(world);
}
