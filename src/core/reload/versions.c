/* What was loaded of a sandbox's modules: told, counted, and handed out. A project may have thousands of modules, so
   all of it is looked up on the pool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/jobs/oneshot.h"
#include "core/reload/reload.h"
#include "core/sandbox/sandbox.h"

/* ---- what there is ---- */

/* What a thread needs to know of a sandbox. */
struct past {
    char id[SANDBOX_ID_BYTES];
    struct shared_history *history;
    char build_path[PATH_MAX]; /* "": it has no build */
    int64_t began_at_ms;
    uid_t owner;
};

static void past_take(const struct sandbox *sandbox, struct past *ret) {
    struct error ignored;
    memcpy(ret->id, sandbox->id, sizeof ret->id);
    ret->history = history_hold(sandbox->code.history);
    if (store_build_path(sandbox->engine->store, sandbox->code.build.digest, ret->build_path, PATH_MAX, &ignored) < 0)
        ret->build_path[0] = '\0';
    ret->began_at_ms = sandbox->times.started_at_ms ? sandbox->times.started_at_ms : sandbox->times.created_at_ms;
    ret->owner = sandbox->owner;
}

/* What runs and was never changed since the sandbox began: its first version. */
static struct version first_version(const struct past *past, const json_t *source, const json_t *module) {
    const char *checksum = json_string_value(json_object_get(module, "checksum"));
    const char *digest = json_string_value(json_object_get(source, "digest"));
    struct version version = {.number = 1,
                              .dependencies = json_object_get(source, "runtime"),
                              .loaded_at_ms = past->began_at_ms,
                              .loaded_by = past->owner,
                              .loads = 1,
                              .is_current = true};
    snprintf(version.checksum, sizeof version.checksum, "%s", checksum ? checksum : "");
    snprintf(version.source, sizeof version.source, "%s", digest ? digest : "");
    return version;
}

/* Which versions a list is of. */
struct choice {
    const char *only; /* of one module, as the VM has it; NULL: of all */
    size_t max;       /* more are not made; 0: any number */
};

static bool is_full(const json_t *list, const struct choice *choice) {
    return choice->max > 0 && json_array_size(list) >= choice->max;
}

static void add_first_versions(json_t *list, const struct past *past, const json_t *facts,
                               const struct choice *choice) {
    json_t *sources = json_object_get(facts, "sources"), *source, *module;
    size_t i, k;
    json_array_foreach(sources, i, source) {
        json_array_foreach(json_object_get(source, "modules"), k, module) {
            const char *name = json_string_value(json_object_get(module, "module"));
            if (!name || (choice->only && strcmp(choice->only, name) != 0)) continue;
            if (map_get(&history_of(past->history)->modules, name)) continue;
            if (is_full(list, choice)) return;
            struct version version = first_version(past, source, module);
            json_array_append_new(list, version_describe(&version, name));
        }
    }
}

static void add_changed(json_t *list, const struct past *past, const struct choice *choice) {
    const struct history *history = history_of(past->history);
    size_t at = 0;
    const char *name;
    while (!is_full(list, choice) && map_next(&history->modules, &at, &name, NULL)) {
        if (choice->only && strcmp(name, choice->only) != 0) continue;
        json_t *versions = history_to_json(history, name);
        json_array_extend(list, versions);
        json_decref(versions);
    }
}

static int list_versions(const struct past *past, const struct choice *choice, json_t **ret, struct error *reterr) {
    json_t *facts = NULL;
    if (past->build_path[0] && build_read_facts(past->build_path, &facts, reterr) < 0) return -(int)reterr->code;
    json_t *list = json_array();
    add_changed(list, past, choice);
    add_first_versions(list, past, facts, choice);
    json_decref(facts);
    *ret = list;
    return 0;
}

static int refuse_unknown(const struct past *past, const char *module, struct error *reterr) {
    return error_set(reterr, E_NOT_FOUND, "the sandbox '%s' has no module %s", past->id, module);
}

/* ---- told ---- */

struct question {
    uv_work_t work;
    struct engine *engine;
    struct request *request;
    struct past past;
    json_t *list;
    struct error error;
};

static int answer_question(struct question *question, struct error *reterr) {
    const json_t *params = question->request->params;
    const char *written = json_string_value(json_object_get(params, "module"));
    bool is_summary = json_is_true(json_object_get(params, "summary"));
    CLEANUP(buf_free) struct buf module = BUF_INIT;
    if (written) term_module_atom(written, &module);
    struct choice choice = {written ? buf_string(&module) : NULL, is_summary ? 0 : question->request->items_max};
    json_t *list = NULL;
    int result = list_versions(&question->past, &choice, &list, reterr);
    if (result == 0 && written && json_array_size(list) == 0) result = refuse_unknown(&question->past, written, reterr);
    if (result == 0) question->list = is_summary ? versions_summarize(list) : json_incref(list);
    json_decref(list);
    return result;
}

static void run_question(uv_work_t *work) {
    struct question *question = work->data;
    answer_question(question, &question->error);
    history_let_go(question->past.history);
}

static void on_answered(uv_work_t *work, int status) {
    struct question *question = work->data;
    struct engine *engine = question->engine;
    (void)status;
    loop_note(engine->loop, "request", "versions");
    if (question->error.code != E_NONE)
        answer_error(engine, question->request, &question->error, NULL);
    else
        answer_ok(engine, question->request, question->list);
    free(question);
    engine->listings--;
    engine_wake(engine);
}

void engine_versions(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct question *question = new_or_abort(struct question);
    *question = (struct question){.engine = engine, .request = request};
    past_take(sandbox, &question->past);
    question->work.data = question;
    engine->listings++;
    host_work(&engine->host, request->caller.uid, &question->work, run_question, on_answered);
}

/* ---- its bytes ---- */

struct export {
    struct oneshot oneshot;
    struct past past;
    struct buf module; /* as the VM has it */
    json_t *version;
};

static int load_from_build(const struct export *export, const char *name, uint8_t **ret, size_t *ret_size,
                           struct error *reterr) {
    CLEANUP(module_set_free) struct module_set modules = {0};
    char path[PATH_MAX];
    json_t *facts = NULL;
    int result = build_read_facts(export->past.build_path, &facts, reterr);
    if (result == 0) result = module_set_read(export->past.build_path, facts, &modules, reterr);
    const struct code_module *module = result == 0 ? module_set_find(&modules, name) : NULL;
    if (result == 0 && !module) result = error_set(reterr, E_NOT_FOUND, "the module is not in the build");
    if (result == 0) result = string_format(path, sizeof path, reterr, "%s/%s", export->past.build_path, module->file);
    json_decref(facts);
    return result < 0 ? result : file_load(path, MODULE_EXPORT_MAX_BYTES, ret, ret_size, reterr);
}

/* The wanted one of a list, or the one that runs; a new reference. */
static json_t *choose(const json_t *list, json_int_t number) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *version = json_array_get(list, i);
        bool is_it = number ? json_integer_value(json_object_get(version, "version")) == number
                            : json_is_true(json_object_get(version, "current"));
        if (is_it) return json_incref(version);
    }
    return NULL;
}

static int find_version(struct export *export, json_int_t number, struct error *reterr) {
    const char *name = buf_string(&export->module);
    struct choice choice = {.only = name};
    json_t *list = NULL;
    int result = list_versions(&export->past, &choice, &list, reterr);
    if (result < 0) return result;
    export->version = choose(list, number);
    if (json_array_size(list) == 0)
        result = refuse_unknown(&export->past, term_module_name(name), reterr);
    else if (!export->version && number)
        result = error_set(reterr, E_NOT_FOUND, "there is no version %lld of %s; `sandbox versions` lists those kept",
                           (long long)number, term_module_name(name));
    else if (!export->version)
        result = error_set(reterr, E_NOT_FOUND, "%s does not run any more; say which version", term_module_name(name));
    json_decref(list);
    return result;
}

static int load_bytes(struct export *export, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    const char *name = buf_string(&export->module);
    uint32_t number = (uint32_t)json_integer_value(json_object_get(export->version, "version"));
    const struct version *kept = history_find(history_of(export->past.history), name, number);
    struct beam_store beams = {.home = export->oneshot.engine->config.home, .owner = export->past.owner};
    if (kept && kept->beam[0]) return code_beam_load(&beams, kept->beam, ret, ret_size, reterr);
    return load_from_build(export, name, ret, ret_size, reterr); /* it never changed */
}

static int load(struct oneshot *oneshot, struct error *reterr) {
    struct export *export = (struct export *)oneshot;
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    size_t size;
    int result = find_version(export, json_integer_value(json_object_get(oneshot->request->params, "version")), reterr);
    if (result == 0) result = load_bytes(export, &data, &size, reterr);
    history_let_go(take_ptr(export->past.history));
    if (result < 0) return result;
    if (size > MODULE_EXPORT_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the module is larger than %d MiB", MODULE_EXPORT_MAX_BYTES >> 20);
    base64_encode(data, size, &text);
    json_object_set_new(export->version, "size_bytes", json_integer((json_int_t)size));
    json_object_set_new(export->version, "beam", json_string(buf_string(&text)));
    return 0;
}

static void on_loaded(struct oneshot *oneshot, const struct error *error) {
    struct export *export = (struct export *)oneshot;
    json_t *version = take_ptr(export->version);
    loop_note(oneshot->engine->loop, "request", "export");
    buf_free(&export->module);
    if (!error) {
        oneshot_answer(oneshot, version);
        return;
    }
    json_decref(version);
    oneshot_fail(oneshot, oneshot->why.code != E_NONE ? &oneshot->why : error, NULL);
}

void engine_export(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct export *export = (struct export *)oneshot_begin(engine, request, sizeof *export);
    if (!export) return;
    past_take(sandbox, &export->past);
    term_module_atom(json_string_value(json_object_get(request->params, "module")), &export->module);
    oneshot_work(&export->oneshot, load, on_loaded);
}
