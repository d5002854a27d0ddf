/* What was loaded of a sandbox's modules: told, counted, and handed out. */
#include <string.h>

#include "core/errand.h"
#include "core/reload.h"

/* ---- what there is ---- */

/* What runs and was never changed since the sandbox began: its first version. */
static struct version first_version(const struct sandbox *sandbox, const json_t *source, const json_t *module) {
    const char *checksum = json_string_value(json_object_get(module, "checksum"));
    const char *digest = json_string_value(json_object_get(source, "digest"));
    struct version version = {.number = 1,
                              .dependencies = json_object_get(source, "runtime"),
                              .loaded_at_ms = sandbox->started_at_ms ? sandbox->started_at_ms : sandbox->created_at_ms,
                              .loaded_by = sandbox->owner,
                              .loads = 1,
                              .is_current = true};
    snprintf(version.checksum, sizeof version.checksum, "%s", checksum ? checksum : "");
    snprintf(version.source, sizeof version.source, "%s", digest ? digest : "");
    return version;
}

static void add_first_versions(json_t *list, const struct sandbox *sandbox, const char *only) {
    json_t *sources = json_object_get(sandbox->build.facts, "sources"), *source, *module;
    size_t i, k;
    json_array_foreach(sources, i, source) {
        json_array_foreach(json_object_get(source, "modules"), k, module) {
            const char *name = json_string_value(json_object_get(module, "module"));
            if (!name || (only && strcmp(only, name) != 0) || map_get(&sandbox->history.modules, name)) continue;
            struct version version = first_version(sandbox, source, module);
            json_array_append_new(list, version_describe(&version, name));
        }
    }
}

/* Of one module, as the VM has it, or of all. */
static json_t *list_versions(const struct sandbox *sandbox, const char *only) {
    json_t *list = json_array();
    size_t at = 0;
    const char *name;
    while (map_next(&sandbox->history.modules, &at, &name, NULL)) {
        if (only && strcmp(name, only) != 0) continue;
        json_t *versions = history_to_json(&sandbox->history, name);
        json_array_extend(list, versions);
        json_decref(versions);
    }
    add_first_versions(list, sandbox, only);
    return list;
}

static void fail_unknown(struct engine *engine, struct request *request, const struct sandbox *sandbox) {
    answer_fail(engine, request, E_NOT_FOUND, "the sandbox '%s' has no module %s", sandbox->id,
                json_string_value(json_object_get(request->params, "module")));
}

void engine_versions(struct engine *engine, struct request *request) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    const char *written = json_string_value(json_object_get(request->params, "module"));
    CLEANUP(buf_free) struct buf module = BUF_INIT;
    if (written) term_module_atom(written, &module);
    json_t *list = list_versions(sandbox, written ? buf_string(&module) : NULL);
    if (written && json_array_size(list) == 0)
        fail_unknown(engine, request, sandbox);
    else if (json_is_true(json_object_get(request->params, "summary")))
        answer_ok(engine, request, versions_summarize(list));
    else
        answer_ok(engine, request, json_incref(list));
    json_decref(list);
}

/* ---- its bytes ---- */

struct export {
    struct errand errand;
    json_t *version;
    struct buf module;            /* as the VM has it */
    char beam[CODE_DIGEST_BYTES]; /* of the version; "": it never changed, and is in the build */
    char build_path[PATH_MAX];
    json_t *facts;
};

static int load_from_build(const struct export *export, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    CLEANUP(module_set_free) struct module_set modules = {0};
    char path[PATH_MAX];
    int result = module_set_read(export->build_path, export->facts, &modules, reterr);
    const struct code_module *module =
        result == 0 ? module_set_find(&modules, buf_string((struct buf *)(uintptr_t) & export->module)) : NULL;
    if (result == 0 && !module) result = error_set(reterr, E_NOT_FOUND, "the module is not in the build");
    if (result == 0) result = string_format(path, sizeof path, reterr, "%s/%s", export->build_path, module->file);
    return result < 0 ? result : file_load(path, MODULE_EXPORT_MAX_BYTES, ret, ret_size, reterr);
}

static int load(struct errand *errand, struct error *reterr) {
    struct export *export = (struct export *)errand;
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    size_t size;
    int result = export->beam[0] ? code_beam_load(errand->engine->config.home, export->beam, &data, &size, reterr)
                                 : load_from_build(export, &data, &size, reterr);
    if (result < 0) return result;
    if (size > MODULE_EXPORT_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the module is larger than %d MiB", MODULE_EXPORT_MAX_BYTES >> 20);
    base64_encode(data, size, &text);
    json_object_set_new(export->version, "size_bytes", json_integer((json_int_t)size));
    json_object_set_new(export->version, "beam", json_string(buf_string(&text)));
    return 0;
}

static void on_loaded(struct errand *errand, const struct error *error) {
    struct export *export = (struct export *)errand;
    json_t *version = take_ptr(export->version);
    buf_free(&export->module);
    json_decref(export->facts);
    if (!error) {
        errand_answer(errand, version);
        return;
    }
    json_decref(version);
    errand_fail(errand, errand->why.code != E_NONE ? &errand->why : error, NULL);
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

static void begin_export(struct engine *engine, struct request *request, const struct sandbox *sandbox,
                         struct buf *module, json_t *version) {
    struct error error;
    struct export *export = (struct export *)errand_begin(engine, request, sizeof *export);
    if (!export) {
        json_decref(version);
        return;
    }
    const struct version *kept = history_find(&sandbox->history, buf_string(module),
                                              (uint32_t)json_integer_value(json_object_get(version, "version")));
    snprintf(export->beam, sizeof export->beam, "%s", kept ? kept->beam : "");
    export->version = version;
    export->module = *module;
    *module = (struct buf){0};
    export->facts = json_incref(sandbox->build.facts);
    if (store_build_path(engine->store, sandbox->build.digest, export->build_path, PATH_MAX, &error) < 0)
        on_loaded(&export->errand, &error);
    else
        errand_work(&export->errand, load, on_loaded);
}

void engine_export(struct engine *engine, struct request *request) {
    struct error error;
    CLEANUP(buf_free) struct buf module = BUF_INIT;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    json_int_t number = json_integer_value(json_object_get(request->params, "version"));
    term_module_atom(json_string_value(json_object_get(request->params, "module")), &module);
    json_t *list = list_versions(sandbox, buf_string(&module));
    json_t *version = choose(list, number);
    if (version)
        begin_export(engine, request, sandbox, &module, version);
    else if (json_array_size(list) == 0)
        fail_unknown(engine, request, sandbox);
    else if (number)
        answer_fail(engine, request, E_NOT_FOUND, "there is no version %lld of %s; `sandbox versions` lists those kept",
                    (long long)number, term_module_name(buf_string(&module)));
    else
        answer_fail(engine, request, E_NOT_FOUND, "%s does not run any more; say which version",
                    term_module_name(buf_string(&module)));
    json_decref(list);
}
