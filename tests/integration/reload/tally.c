/* Writes, reloads and queries the application of the reload tests. */
#include "tally.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

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

int tally_current(struct world *world) {
    json_t *list = world_op(world, "versions", "{s:s, s:s}", "id", "a", "module", "tally"), *item;
    size_t i;
    int current = 0;
    json_array_foreach(list, i, item) {
        if (json_is_true(json_object_get(item, "current")))
            current = (int)json_integer_value(json_object_get(item, "version"));
    }
    json_decref(list);
    return current;
}

struct expectation {
    struct world *world;
    int version, found;
};

static bool is_current(void *data) {
    struct expectation *expected = data;
    expected->found = tally_current(expected->world);
    return expected->found == expected->version;
}

void tally_assert_current(struct world *world, int version) {
    struct expectation expected = {world, version, 0};
    if (!wait_until(is_current, &expected, WORLD_DEADLINE_MS))
        fail_msg("version %d is current, not %d", expected.found, version);
}

int tally_reload(struct world *world) {
    json_t *result = world_op(world, "reload", "{s:s}", "id", "a");
    if (!string_equal(text_of(result, "status"), "hot_reloaded")) fail_msg("it is %s", text_of(result, "status"));
    json_decref(result);
    return tally_current(world);
}

/* ---- changes beside the test ---- */

struct tally_change {
    pthread_t thread;
    struct sbx *client;
    const char *op;
    char *params;
    char *code;
};

static void *run_change(void *data) {
    struct tally_change *change = data;
    struct sbx_error error;
    if (sbx_op(change->client, change->op, change->params, NULL, &error) == 0) {
        change->code = strdup("");
    } else {
        change->code = strdup(error.code);
        sbx_error_clear(&error);
    }
    return NULL;
}

struct tally_change *tally_begin(struct world *world, const char *op, const char *params_json) {
    struct tally_change *change = calloc(1, sizeof *change);
    assert_non_null(change);
    *change = (struct tally_change){.client = world_client(world), .op = op, .params = strdup(params_json)};
    assert_int_equal(pthread_create(&change->thread, NULL, run_change, change), 0);
    return change;
}

char *tally_end(struct tally_change *change) {
    pthread_join(change->thread, NULL);
    char *code = change->code;
    free(change->params);
    free(change);
    return code;
}

struct awaited {
    struct world *world;
    const char *text;
    size_t times;
};

static bool was_printed(void *data) {
    const struct awaited *awaited = data;
    json_t *list = world_op(awaited->world, "logs", "{s:s}", "id", "a"), *record;
    size_t i, count = 0;
    json_array_foreach(list, i, record) {
        const char *text = text_of(record, "text");
        for (const char *at = text ? strstr(text, awaited->text) : NULL; at; at = strstr(at + 1, awaited->text))
            count++;
    }
    json_decref(list);
    return count >= awaited->times;
}

void tally_wait_output(struct world *world, const char *text, size_t times) {
    struct awaited awaited = {world, text, times};
    if (!wait_until(was_printed, &awaited, WORLD_DEADLINE_MS)) fail_msg("'%s' was not printed", text);
}

void tally_kill_daemon(struct world *world) {
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
}
