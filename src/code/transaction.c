/* The agent's reload call: its arguments, and its answer as JSON for callers. */
#include <string.h>

#include "code/code_internal.h"

enum {
    LISTED_MAX = 10000,
    HOLDERS_LISTED_MAX = 256,
    REST_BYTES = 4096, /* for the short members */
};

/* ---- arguments ---- */

static void put_version(struct term_map *map, const char *key, const struct version *version) {
    if (version->number > 0)
        term_map_number(map, key, version->number);
    else
        term_map_atom(map, key, "nil");
}

static void put_change(struct buf *args, const struct change *change) {
    struct term_map map = term_map_begin(args);
    term_map_text(&map, "module", change->module);
    term_map_atom(&map, "action", change->is_deletion ? "delete" : "load");
    term_map_bytes(&map, "beam", change->beam, change->beam_size);
    term_map_bytes(&map, "old_beam", change->old_beam, change->old_beam_size);
    put_version(&map, "version", &change->version);
    put_version(&map, "old_version", &change->old_version);
    term_map_end(&map);
}

static void put_changes(struct buf *args, const struct change_set *set) {
    term_put_list(args, set->count);
    for (size_t i = 0; i < set->count; i++) put_change(args, &set->items[i]);
    if (set->count > 0) term_put_nil(args);
}

static void put_order(struct buf *args, const json_t *order) {
    size_t groups = json_array_size(order);
    term_put_list(args, groups);
    for (size_t i = 0; i < groups; i++) {
        const json_t *group = json_array_get(order, i);
        term_put_list(args, json_array_size(group));
        for (size_t k = 0; k < json_array_size(group); k++)
            term_put_string(args, json_string_value(json_array_get(group, k)));
        if (json_array_size(group) > 0) term_put_nil(args);
    }
    if (groups > 0) term_put_nil(args);
}

static void put_migration(struct buf *args, const json_t *migration) {
    const char *function = json_string_value(json_object_get(migration, "function"));
    struct term_map map = term_map_begin(args);
    term_map_atom(&map, "kind", function ? "function" : "expression");
    if (function) {
        term_map_text(&map, "module", json_string_value(json_object_get(migration, "module")));
        term_map_text(&map, "function", function);
    } else {
        term_map_atom(&map, "language", json_string_value(json_object_get(migration, "language")));
        term_map_text(&map, "code", json_string_value(json_object_get(migration, "code")));
    }
    term_map_end(&map);
}

static void put_migrations(struct buf *args, const json_t *listed) {
    const char *module;
    json_t *migration;
    json_t *migrations = (json_t *)(uintptr_t)listed; /* jansson only iterates over mutable values */
    term_put_map(args, json_object_size(migrations));
    json_object_foreach(migrations, module, migration) {
        term_put_string(args, module);
        put_migration(args, migration);
    }
}

struct term_map transaction_begin(struct buf *args, const struct change_set *set, const json_t *migrations) {
    struct term_map map = term_map_begin(args);
    put_changes(term_map_key(&map, "modules"), set);
    put_order(term_map_key(&map, "order"), set->order);
    put_migrations(term_map_key(&map, "migrations"), migrations);
    buf_reserve(args, REST_BYTES); /* otherwise the loop would copy everything to make room for the rest */
    return map;
}

void transaction_end(struct term_map *map, const struct reload_options *options) {
    term_map_text(map, "id", options->id);
    term_map_text(map, "follows", options->follows);
    term_map_atom(map, "direction", options->is_rollback ? "down" : "up");
    term_map_atom(map, "on_busy", options->on_busy);
    term_map_number(map, "busy_timeout_ms", options->busy_timeout_ms);
    term_map_number(map, "suspend_timeout_ms", options->suspend_timeout_ms);
    term_map_number(map, "migrate_timeout_ms", options->migrate_timeout_ms);
    term_map_number(map, "probation_ms", options->probation_ms);
    term_map_bool(map, "restart_changed", options->restart_changed);
    term_map_bool(map, "run_start", options->run_start);
    term_map_bool(map, "dry_run", options->dry_run);
    term_map_end(map);
}

/* ---- the answer ---- */

static const struct answer_member process_members[] = {
    {"pid", answer_text}, {"module", answer_module}, {"migrated", answer_flag}, {NULL, NULL}};
static const struct answer_member shape_members[] = {
    {"pid", answer_text}, {"module", answer_module}, {"missing", answer_texts}, {"added", answer_texts}, {NULL, NULL}};
static const struct answer_member child_members[] = {
    {"supervisor", answer_text}, {"id", answer_text}, {"change", answer_text}, {NULL, NULL}};
static const struct answer_member holder_members[] = {
    {"pid", answer_text}, {"how", answer_text}, {"where", answer_text}, {NULL, NULL}};

static json_t *version_number(const struct version *version) {
    return version->number > 0 ? json_integer(version->number) : json_null();
}

json_t *transaction_changes(const struct change_set *set) {
    json_t *array = json_array();
    for (size_t i = 0; i < set->count; i++) {
        const struct change *change = &set->items[i];
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "module", term_module_name(change->module),
                                               "from_version", version_number(&change->old_version), "to_version",
                                               version_number(&change->version)));
    }
    return array;
}

json_t *transaction_report(const struct term *result) {
    const struct term *status = term_map_get(result, "status");
    bool is_dry = status && term_is_atom(status, "dry_run"), is_none = status && term_is_atom(status, "no_change");
    return json_pack(
        "{s:s, s:[], s:o, s:o, s:o, s:o, s:o, s:o}", "status",
        is_dry    ? "dry_run"
        : is_none ? "no_change"
                  : "hot_reloaded",
        "modules", "processes", answer_objects(term_map_get(result, "processes"), process_members, LISTED_MAX),
        "shapes", answer_objects(term_map_get(result, "shapes"), shape_members, LISTED_MAX), "children",
        answer_objects(term_map_get(result, "children"), child_members, LISTED_MAX), "pause_us",
        answer_number(term_map_get(result, "pause_us")), "duration_us",
        answer_number(term_map_get(result, "duration_us")), "warnings", answer_texts(term_map_get(result, "warnings")));
}

json_t *transaction_failure(const struct term *reason) {
    return json_pack("{s:s, s:[], s:[], s:o, s:o, s:o, s:o, s:n, s:n, s:[]}", "status", "rolled_back", "modules",
                     "processes", "step", answer_text(term_map_get(reason, "step")), "module",
                     answer_module(term_map_get(reason, "module")), "process",
                     answer_text(term_map_get(reason, "process")), "holders",
                     answer_objects(term_map_get(reason, "holders"), holder_members, HOLDERS_LISTED_MAX), "pause_us",
                     "duration_us", "warnings");
}

json_t *transaction_no_change(void) {
    return json_pack("{s:s, s:[], s:[], s:i, s:i, s:[]}", "status", "no_change", "modules", "processes", "pause_us", 0,
                     "duration_us", 0, "warnings");
}
