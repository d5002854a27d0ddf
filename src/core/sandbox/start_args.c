/* Arguments of the agent's `start`. The project's own configuration may have megabytes, so a thread reads it. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"

static void put_apps(struct buf *args, json_t *apps) {
    size_t i;
    json_t *app;
    term_put_list(args, json_array_size(apps));
    json_array_foreach(apps, i, app) {
        const char *name = json_string_value(json_object_get(app, "name"));
        char dir[PATH_MAX];
        struct term_map map = term_map_begin(args);
        snprintf(dir, sizeof dir, NODE_APP_PLACE, name);
        term_map_text(&map, "name", name);
        term_map_text(&map, "dir", dir);
        term_map_end(&map);
    }
    if (json_array_size(apps) > 0) term_put_nil(args);
}

/* A VM that was booted for the pool has its environment only from here. */
static void put_texts(struct buf *args, json_t *texts) {
    const char *name;
    json_t *value;
    term_put_list(args, json_object_size(texts));
    json_object_foreach(texts, name, value) {
        term_put_tuple(args, 2);
        term_put_string(args, name);
        term_put_string(args, json_string_value(value));
    }
    if (json_object_size(texts) > 0) term_put_nil(args);
}

void start_args_put_given(struct term_map *map, const struct sandbox_config *config) {
    put_texts(term_map_key(map, "env"), config->env);
    put_texts(term_map_key(map, "files"), config->files);
    json_t *hosts = ports_hosts(&config->ports);
    put_texts(term_map_key(map, "hosts"), hosts);
    json_decref(hosts);
    term_map_text(map, "mix_env", config->mix_env);
}

/* All members but the value of the last, which is put next. */
static void put_members(struct buf *args, struct sandbox *sandbox, bool is_elixir) {
    json_t *facts = sandbox->code.build.facts;
    const struct sandbox_config *config = &sandbox->config;
    const char *supervisor =
        config->supervisor ? config->supervisor : json_string_value(json_object_get(facts, "supervisor"));
    const char *app = config->app ? config->app : json_string_value(json_object_get(facts, "main"));
    CLEANUP(buf_free) struct buf module = BUF_INIT;
    bool is_mix = config->extra == COMPILE_WITH_PROJECT;
    if (config->app || is_mix) supervisor = NULL;
    if (supervisor) term_module_atom(supervisor, &module);
    struct term_map map = states_begin_args(sandbox->tree.states, args);
    put_apps(term_map_key(&map, "apps"), json_object_get(facts, "apps"));
    term_map_text(&map, "app", config->supervisor || is_mix ? NULL : app);
    term_map_text(&map, "supervisor", supervisor ? buf_string(&module) : NULL);
    term_map_bool(&map, "mix", is_mix);
    term_map_bool(&map, "elixir", is_elixir);
    start_args_put_given(&map, config);
    term_map_bool(&map, "serves", ports_has_published(&config->ports));
    if (!config->ephemeral)
        term_map_number(&map, "settle_ms", sandbox->tree.settle_ms); /* a run tells its end itself */
    term_map_number(&map, "processes", config->limits.processes);
    limits_put(term_map_key(&map, "limits"), &config->limits, &config->policies);
    term_map_key(&map, "config");
    term_map_end(&map);
}

/* ---- the configuration that the compiler found: a file of the build ---- */

struct config_read {
    uv_work_t work;
    struct sandbox_ref ref;
    char node[NODE_NAME_BYTES];
    char path[START_CONFIG_PATH_BYTES];
    struct buf args;
    void (*made)(struct sandbox *sandbox, struct buf *args);
};

void start_args_put_config(const char *path, struct buf *args) {
    CLEANUP_FREE uint8_t *content = NULL;
    size_t size = 0;
    struct error ignored;
    if (path[0]) file_load(path, BUILD_CONFIG_MAX_BYTES, &content, &size, &ignored);
    if (size > 0)
        term_put_binary(args, content, size);
    else
        term_put_atom(args, "nil");
}

static void read_config(uv_work_t *work) {
    struct config_read *reading = work->data;
    start_args_put_config(reading->path, &reading->args);
}

static void on_config_read(uv_work_t *work, int status) {
    struct config_read *reading = work->data;
    struct engine *engine = reading->ref.engine;
    struct sandbox *sandbox = sandbox_deref(&reading->ref);
    bool is_wanted =
        sandbox && sandbox->tree.started && sandbox->node && strcmp(node_name(sandbox->node), reading->node) == 0;
    (void)status;
    loop_note(engine->loop, "start", reading->ref.id);
    if (is_wanted) reading->made(sandbox, &reading->args);
    buf_free(&reading->args);
    free(reading);
    engine->asking--;
    engine_wake(engine);
}

bool start_args_find_config(const struct sandbox *sandbox, char ret[START_CONFIG_PATH_BYTES]) {
    char directory[PATH_MAX];
    struct error ignored;
    if (!json_is_true(json_object_get(sandbox->code.build.facts, "has_config")) ||
        store_build_path(sandbox->engine->store, sandbox->code.build.digest, directory, sizeof directory, &ignored) < 0)
        return false;
    snprintf(ret, START_CONFIG_PATH_BYTES, "%s/" BUILD_CONFIG_FILE, directory);
    return true;
}

static void begin_reading(struct sandbox *sandbox, struct config_read *reading) {
    struct engine *engine = sandbox->engine;
    reading->ref = sandbox_ref(sandbox);
    snprintf(reading->node, sizeof reading->node, "%s", node_name(sandbox->node));
    reading->work.data = reading;
    engine->asking++;
    host_work(&engine->host, sandbox->owner, &reading->work, read_config, on_config_read);
}

void start_args_make(struct sandbox *sandbox, bool is_elixir, void (*made)(struct sandbox *sandbox, struct buf *args)) {
    struct config_read *reading = new_or_abort(struct config_read);
    loop_note(sandbox->engine->loop, "start", sandbox->id);
    reading->made = made;
    put_members(&reading->args, sandbox, is_elixir);
    if (start_args_find_config(sandbox, reading->path)) {
        begin_reading(sandbox, reading);
        return;
    }
    term_put_atom(&reading->args, "nil");
    made(sandbox, &reading->args);
    buf_free(&reading->args);
    free(reading);
}
