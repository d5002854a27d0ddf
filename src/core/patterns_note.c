/* Notes what failed and what works again, and tells of patterns as events. */
#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

static struct patterns *patterns_of(struct engine *engine, struct sandbox *sandbox) {
    return sandbox ? &sandbox->security.patterns : &engine->patterns;
}

static void tell(struct engine *engine, struct sandbox *sandbox, json_t *data, const char *state) {
    json_object_set_new(data, "state", json_string(state));
    engine_event(engine, EVENT_PATTERN, sandbox ? sandbox->id : NULL, data);
}

static void note_failure(struct engine *engine, struct sandbox *sandbox, const char *op, const struct error *error) {
    struct patterns *patterns = patterns_of(engine, sandbox);
    uint64_t now_ms = clock_monotonic_ms();
    if (!patterns_failed(patterns, op, error->code, now_ms)) return;
    json_t *data = pattern_to_json(patterns, error->code, now_ms);
    json_object_set_new(data, "detail", json_string(error->detail));
    tell(engine, sandbox, data, "open");
}

static void note_success(struct engine *engine, struct sandbox *sandbox, const char *op) {
    enum error_code over;
    while ((over = patterns_worked(patterns_of(engine, sandbox), op)) != E_NONE)
        tell(engine, sandbox, json_pack("{s:s, s:s}", "code", error_kind(over)->slug, "op", op), "over");
}

void patterns_note(struct engine *engine, struct sandbox *sandbox, const char *op, const struct error *error) {
    if (error) {
        note_failure(engine, sandbox, op, error);
        return;
    }
    note_success(engine, NULL, op); /* what works for one sandbox works */
    if (sandbox) note_success(engine, sandbox, op);
}

/* ---- for readers ---- */

static void add_all(json_t *list, const struct patterns *patterns, const char *sandbox_id) {
    json_t *more = patterns_to_json(patterns, clock_monotonic_ms()), *pattern;
    size_t i;
    json_array_foreach(more, i, pattern) {
        json_object_set_new(pattern, "sandbox_id", sandbox_id ? json_string(sandbox_id) : json_null());
    }
    json_array_extend(list, more);
    json_decref(more);
}

json_t *patterns_visible(struct engine *engine, const struct caller *caller) {
    json_t *list = json_array();
    size_t at = 0;
    void *value;
    add_all(list, &engine->patterns, NULL);
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox_visible(sandbox, caller)) add_all(list, &sandbox->security.patterns, sandbox->id);
    }
    return list;
}
