#include "tally.h"

#include "processes.h"

const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

const char *tally_write(struct world *world, const struct tally *tally) {
    char text[4096];
    int length =
        snprintf(text, sizeof text,
                 "-module(tally).\n"
                 "-behaviour(gen_server).\n"
                 "-compile([export_all, nowarn_export_all]).\n"
                 "%s\n"
                 "start_link(Name) -> gen_server:start_link({local, Name}, ?MODULE, [], []).\n"
                 "init([]) -> %s.\n"
                 "handle_call(add, _From, N) -> {reply, {%s, N + 1}, N + 1}.\n"
                 "handle_cast(wait, N) -> receive go_on -> {noreply, N} end.\n"
                 "%s\n",
                 tally->attributes ? tally->attributes : "", tally->init ? tally->init : "{ok, 0}", tally->version,
                 tally->more ? tally->more : "code_change(_Old, State, _Extra) -> {ok, State}.");
    assert_true(length < (int)sizeof text);
    world_file(world, "app/src/tally_sup.erl",
               "-module(tally_sup).\n"
               "-behaviour(supervisor).\n"
               "-export([start_link/0, init/1]).\n"
               "start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).\n"
               "init([]) -> {ok, {#{}, [#{id => Name, start => {tally, start_link, [Name]}} || "
               "Name <- [tally, spare, third]]}}.\n");
    world_file(world, "app/src/tally.erl", text);
    return world_path(world, "app");
}

const char *tally_write_version(struct world *world, const char *version, const char *more) {
    return tally_write(world, &(struct tally){.version = version, .more = more});
}

void tally_assert_eval(struct world *world, const char *code, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, code);
    assert_string_equal(text, expected);
}

void tally_assert_answers(struct world *world, const char *expected) {
    tally_assert_eval(world, "gen_server:call(tally, add)", expected);
}

struct expectation {
    struct world *world;
    int version, found;
};

static bool is_current(void *data) {
    struct expectation *expected = data;
    json_t *list = world_op(expected->world, "versions", "{s:s, s:s}", "id", "a", "module", "tally"), *item;
    size_t i;
    expected->found = 0;
    json_array_foreach(list, i, item) {
        if (json_is_true(json_object_get(item, "current")))
            expected->found = (int)json_integer_value(json_object_get(item, "version"));
    }
    json_decref(list);
    return expected->found == expected->version;
}

void tally_assert_current(struct world *world, int version) {
    struct expectation expected = {world, version, 0};
    if (!wait_until(is_current, &expected, WORLD_DEADLINE_MS))
        fail_msg("version %d is current, not %d", expected.found, version);
}
