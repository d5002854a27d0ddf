/* The program that a run has in the foreground, and the standard input that its caller sends to it. */
#include "core/run/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/queue.h"

enum {
    PROGRAM_MAX_MS = INT64_C(366) * 86400 * 1000, /* the run's own bounds end it */
    SUFFIX_BYTES = 4,                             /* ".erl" */
};

/* What a script runs beside: a project is compiled and started for every sandbox. */
static const char empty_project[] = "defmodule SandboxScript do\nend\n";

/* ---- which program ---- */

static bool is_mix(const json_t *params) {
    return json_object_get(params, "task");
}

static bool is_erlang_file(const char *source) {
    return source && string_ends(source, ".erl");
}

bool program_is_wanted(const json_t *params) {
    const char *source = json_string_value(json_object_get(params, "source"));
    return is_mix(params) || json_object_get(params, "code") ||
           (is_erlang_file(source) && !json_object_get(params, "eval"));
}

int program_check(const json_t *params, struct error *reterr) {
    if (is_mix(params)) return 0;
    bool has_code = json_object_get(params, "code"), has_source = json_object_get(params, "source");
    const char *file = json_string_value(json_object_get(params, "file"));
    if (!has_code && !has_source) return error_set(reterr, E_INVALID, "source is missing: a project, or code");
    if (has_code && has_source) return error_set(reterr, E_INVALID, "a source or code, not both");
    if (has_code && !file) return error_set(reterr, E_INVALID, "file is missing: the name that the code goes by");
    if (file && (!has_code || strchr(file, '/') || file[0] == '.' || !string_ends(file, ".exs")))
        return error_set(reterr, E_INVALID, "file: the name of a script, such as hello.exs");
    if (has_code && json_is_true(json_object_get(params, "watch")))
        return error_set(reterr, E_INVALID, "a script can't be watched");
    if (has_code && json_object_get(params, "eval"))
        return error_set(reterr, E_INVALID, "a script takes no eval: it is evaluated itself");
    return 0;
}

/* The module of an escript. */
static const char *escript(const struct sandbox *sandbox) {
    return json_string_value(json_object_get(sandbox->code.build.facts, "program"));
}

int program_find(const struct sandbox *sandbox, const json_t *params, bool *ret_is_there, struct error *reterr) {
    bool is_there = program_is_wanted(params) || (escript(sandbox) && !json_object_get(params, "eval"));
    if (!is_there && json_array_size(json_object_get(params, "args")) > 0)
        return error_set(reterr, E_INVALID, "only a script, an escript or an Erlang file with main/1 takes arguments");
    *ret_is_there = is_there;
    return 0;
}

void program_replace_source(json_t *params) {
    if (is_mix(params)) json_object_set_new(params, "mix", json_true());
    json_object_del(params, "task");
    json_object_del(params, "args");
    if (!json_object_get(params, "code")) return;
    json_object_set_new(params, "source", json_string("/script"));
    json_object_set_new(params, "code", json_string(empty_project));
    json_object_set_new(params, "file", json_string("script.ex"));
}

/* ---- running it ---- */

static void put_words(struct buf *args, json_t *words) {
    size_t i;
    json_t *word;
    term_put_list(args, json_array_size(words));
    json_array_foreach(words, i, word) term_put_string(args, json_string_value(word));
    if (json_array_size(words) > 0) term_put_nil(args);
}

static void put_script(struct term_map *map, const json_t *params) {
    term_map_atom(map, "kind", "script");
    term_map_text(map, "code", json_string_value(json_object_get(params, "code")));
    term_map_text(map, "file", json_string_value(json_object_get(params, "file")));
}

static void put_module(struct term_map *map, const struct sandbox *sandbox, const json_t *params) {
    term_map_atom(map, "kind", "module");
    if (escript(sandbox)) {
        term_map_text(map, "module", escript(sandbox));
        return;
    }
    const char *source = json_string_value(json_object_get(params, "source"));
    const char *name = strrchr(source, '/') + 1;
    term_map_bytes(map, "module", name, strlen(name) - SUFFIX_BYTES);
}

/* Where the project's files are, and Mix's environment, as its build says. */
static void put_mix(struct term_map *map, const struct sandbox *sandbox) {
    json_t *facts = sandbox->code.build.facts, *mix = json_object_get(facts, "mix");
    const char *name = json_string_value(json_object_get(json_array_get(json_object_get(facts, "apps"), 0), "name"));
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, NODE_APP_PLACE "/mix", name);
    term_map_atom(map, "kind", "mix");
    term_map_text(map, "dir", dir);
    term_map_text(map, "place", json_string_value(json_object_get(mix, "place")));
    term_map_text(map, "mix_env", json_string_value(json_object_get(mix, "env")));
}

void program_start(struct sandbox *sandbox, const json_t *params, node_reply_fn told, void *data) {
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    if (is_mix(params))
        put_mix(&map, sandbox);
    else if (json_object_get(params, "code"))
        put_script(&map, params);
    else
        put_module(&map, sandbox, params);
    put_words(term_map_key(&map, "args"), json_object_get(params, is_mix(params) ? "task" : "args"));
    term_map_end(&map);
    node_call(sandbox->node, "program", &args, PROGRAM_MAX_MS, told, data);
}

/* ---- input ---- */

struct input_job {
    struct job job;
    uint64_t call_id;
    struct buf data;
};

static void finish(struct input_job *input) {
    buf_free(&input->data);
    job_finish(&input->job);
    free(input);
}

static void on_abort(struct job *job, const struct error *why) {
    struct input_job *input = (struct input_job *)job;
    struct sandbox *sandbox = job->sandbox;
    if (input->call_id && sandbox->node) node_cancel(sandbox->node, input->call_id);
    answer_error(sandbox->engine, job->request, why, NULL);
    finish(input);
}

static void on_cancel(struct request *request) {
    struct error error;
    error_set(&error, E_TIMEOUT, "the caller has gone");
    on_abort(request->state, &error);
}

static void on_taken(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct input_job *input = data;
    struct engine *engine = input->job.sandbox->engine;
    const struct term *taken = result ? term_map_get(result, "is_taken") : NULL;
    (void)reason;
    if (error)
        answer_error(engine, input->job.request, error, NULL);
    else
        answer_ok(engine, input->job.request, json_pack("{s:b}", "taken", taken && term_is_atom(taken, "true")));
    finish(input);
}

static void start(struct job *job) {
    struct input_job *input = (struct input_job *)job;
    struct error error;
    if (sandbox_check_runs(job->sandbox, &error) < 0) {
        on_abort(job, &error);
        return;
    }
    struct buf args = BUF_INIT;
    struct term_map map = term_map_begin(&args);
    term_map_bytes(&map, "data", input->data.data ? (const void *)input->data.data : "", input->data.size);
    term_map_bool(&map, "ended", json_is_true(json_object_get(job->request->params, "end")));
    term_map_end(&map);
    input->call_id = node_call(job->sandbox->node, "input", &args, PROGRAM_MAX_MS, on_taken, input);
}

void engine_input(struct engine *engine, struct request *request) {
    struct error error;
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    const char *text = json_string_value(json_object_get(json_object_get(request->params, "data"), "stdin"));
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    bool is_bad = sandbox && text && !base64_decode(text, strlen(text), &data);
    if (is_bad) error_set(&error, E_INVALID, "data: it is not base64");
    if (!sandbox || is_bad) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct input_job *input = new_or_abort(struct input_job);
    input->job = (struct job){.sandbox = sandbox, .request = request, .start = start, .abort = on_abort};
    input->data = data;
    data = (struct buf)BUF_INIT;
    request->state = input;
    request->cancel = on_cancel;
    job_submit(&input->job);
}
