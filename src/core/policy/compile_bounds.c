/* Reads and checks how long a compilation may take, and how much memory it may use. */
#include "core/core_internal.h"

#define TIMEOUT "compile_timeout_ms"
#define MEMORY "compile_memory_bytes"

static bool take(json_t *object, const char *name, uint64_t *value) {
    json_t *given = json_object_get(object, name);
    if (json_integer_value(given) > 0) *value = (uint64_t)json_integer_value(given);
    return json_integer_value(given) > 0;
}

bool compile_bounds_take(json_t *object, struct compile_bounds *bounds) {
    bool has_timeout = take(object, TIMEOUT, &bounds->timeout_ms);
    return take(object, MEMORY, &bounds->memory_bytes) || has_timeout;
}

static void put(json_t *object, const char *name, uint64_t value) {
    if (value > 0) json_object_set_new(object, name, json_integer((json_int_t)value));
}

void compile_bounds_put(const struct compile_bounds *bounds, json_t *object) {
    put(object, TIMEOUT, bounds->timeout_ms);
    put(object, MEMORY, bounds->memory_bytes);
}

int compile_bounds_check(const struct engine *engine, const struct compile_bounds *bounds, struct error *reterr) {
    const struct engine_config *config = &engine->config;
    char most[QUANTITY_BYTES];
    if (bounds->timeout_ms > config->compile_deadline_max_ms) {
        duration_to_text(config->compile_deadline_max_ms, most);
        return error_set(reterr, E_LIMIT,
                         TIMEOUT ": compiling may take %s at most (compile-deadline-max in sandbox.conf)", most);
    }
    if (bounds->memory_bytes > config->compile_memory_max_bytes) {
        size_to_text(config->compile_memory_max_bytes, most);
        return error_set(reterr, E_LIMIT, MEMORY ": compiling may use %s at most (compile-memory-max in sandbox.conf)",
                         most);
    }
    return 0;
}

static uint64_t least(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

void compile_bounds_apply(const struct engine *engine, const struct compile_bounds *bounds,
                          struct compile_request *request) {
    const struct engine_config *config = &engine->config;
    request->deadline_ms =
        bounds->timeout_ms ? least(bounds->timeout_ms, config->compile_deadline_max_ms) : config->compile_deadline_ms;
    request->memory_bytes = least(bounds->memory_bytes, config->compile_memory_max_bytes);
}
