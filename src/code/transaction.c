/* The agent's reload call: its arguments, and its answer as JSON for callers. */
#include <string.h>

#include "code/code_internal.h"

enum {
    LISTED_MAX = 10000,
    HOLDERS_LISTED_MAX = 256,
    REST_BYTES = 4096, /* for the short members */
};

/* ---- arguments ---- */

static void put_text(struct buf *args, const char *key, const char *text) {
    term_put_atom(args, key);
    if (text)
        term_put_string(args, text);
    else
        term_put_atom(args, "nil");
}

static void put_bytes(struct buf *args, const char *key, const uint8_t *data, size_t size) {
    term_put_atom(args, key);
    if (data)
        term_put_binary(args, data, size);
    else
        term_put_atom(args, "nil");
}

static void put_number(struct buf *args, const char *key, uint64_t number, bool known) {
    term_put_atom(args, key);
    if (known)
        term_put_uint64(args, number);
    else
        term_put_atom(args, "nil");
}

static void put_flag(struct buf *args, const char *key, bool flag) {
    term_put_atom(args, key);
    term_put_bool(args, flag);
}

static void put_word(struct buf *args, const char *key, const char *atom) {
    term_put_atom(args, key);
    term_put_atom(args, atom);
}

static void put_change(struct buf *args, const struct change *change) {
    term_put_map(args, 6);
    put_text(args, "module", change->module);
    put_word(args, "action", change->is_deletion ? "delete" : "load");
    put_bytes(args, "beam", change->beam, change->beam_size);
    put_bytes(args, "old_beam", change->old_beam, change->old_beam_size);
    put_number(args, "version", change->version.number, change->version.number > 0);
    put_number(args, "old_version", change->old_version.number, change->old_version.number > 0);
}

static void put_changes(struct buf *args, const struct change_set *set) {
    term_put_atom(args, "modules");
    term_put_list(args, set->count);
    for (size_t i = 0; i < set->count; i++) put_change(args, &set->items[i]);
    if (set->count > 0) term_put_nil(args);
}

static void put_order(struct buf *args, const json_t *order) {
    size_t groups = json_array_size(order);
    term_put_atom(args, "order");
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
    term_put_map(args, 3);
    put_word(args, "kind", function ? "function" : "expression");
    if (function) {
        put_text(args, "module", json_string_value(json_object_get(migration, "module")));
        put_text(args, "function", function);
    } else {
        put_word(args, "language", json_string_value(json_object_get(migration, "language")));
        put_text(args, "code", json_string_value(json_object_get(migration, "code")));
    }
}

static void put_migrations(struct buf *args, const json_t *listed) {
    const char *module;
    json_t *migration;
    json_t *migrations = (json_t *)(uintptr_t)listed; /* jansson only iterates over mutable values */
    term_put_atom(args, "migrations");
    term_put_map(args, json_object_size(migrations));
    json_object_foreach(migrations, module, migration) {
        term_put_string(args, module);
        put_migration(args, migration);
    }
}

void transaction_put_first(struct buf *args, const struct change_set *set, const json_t *migrations) {
    term_put_map(args, 14);
    put_changes(args, set);
    put_order(args, set->order);
    put_migrations(args, migrations);
    buf_reserve(args, REST_BYTES); /* otherwise the loop would copy everything to make room for the rest */
}

void transaction_put_rest(struct buf *args, const struct reload_options *options) {
    put_text(args, "id", options->id);
    put_text(args, "follows", options->follows);
    put_word(args, "direction", options->is_rollback ? "down" : "up");
    put_word(args, "on_busy", options->on_busy);
    put_number(args, "busy_timeout_ms", options->busy_timeout_ms, true);
    put_number(args, "suspend_timeout_ms", options->suspend_timeout_ms, true);
    put_number(args, "migrate_timeout_ms", options->migrate_timeout_ms, true);
    put_number(args, "probation_ms", options->probation_ms, true);
    put_flag(args, "restart_changed", options->restart_changed);
    put_flag(args, "run_start", options->run_start);
    put_flag(args, "dry_run", options->dry_run);
}

void transaction_put(struct buf *args, const struct change_set *set, const struct reload_options *options) {
    transaction_put_first(args, set, options->migrations);
    transaction_put_rest(args, options);
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
    bool is_dry = status && term_is_atom(status, "dry_run");
    return json_pack(
        "{s:s, s:[], s:o, s:o, s:o, s:o, s:o, s:o}", "status", is_dry ? "dry_run" : "hot_reloaded", "modules",
        "processes", answer_objects(term_map_get(result, "processes"), process_members, LISTED_MAX), "shapes",
        answer_objects(term_map_get(result, "shapes"), shape_members, LISTED_MAX), "children",
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
