/* What was loaded of a sandbox's modules. */
#include "core/reload.h"

#include <string.h>

/* What runs and was never changed since the sandbox began: its first version. */
static void add_first_versions(json_t *list, const struct sandbox *sandbox, const char *only) {
    json_t *sources = json_object_get(sandbox->build.facts, "sources"), *source, *module;
    char time[RFC3339_BYTES];
    size_t i, k;
    clock_rfc3339(sandbox->started_at_ms ? sandbox->started_at_ms : sandbox->created_at_ms, time);
    json_array_foreach(sources, i, source) {
        json_array_foreach(json_object_get(source, "modules"), k, module) {
            const char *name = json_string_value(json_object_get(module, "module"));
            if (!name || (only && strcmp(only, name) != 0) || map_get(&sandbox->history.modules, name)) continue;
            json_array_append_new(list,
                                  json_pack("{s:s, s:i, s:O, s:s, s:O?, s:b}", "module", term_module_name(name),
                                            "version", 1, "checksum", json_object_get(module, "checksum"), "loaded_at",
                                            time, "dependencies", json_object_get(source, "runtime"), "current", 1));
        }
    }
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
    json_t *list = json_array();
    size_t at = 0;
    const char *name;
    while (map_next(&sandbox->history.modules, &at, &name, NULL)) {
        if (written && strcmp(name, buf_string(&module)) != 0) continue;
        json_t *versions = history_to_json(&sandbox->history, name);
        json_array_extend(list, versions);
        json_decref(versions);
    }
    add_first_versions(list, sandbox, written ? buf_string(&module) : NULL);
    if (json_array_size(list) > 0 || !written) {
        answer_ok(engine, request, list);
        return;
    }
    json_decref(list);
    answer_fail(engine, request, E_NOT_FOUND, "the sandbox '%s' has no module %s", sandbox->id, written);
}
