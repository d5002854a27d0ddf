#include <string.h>

#include "code/code_internal.h"

enum { ITEMS_MAX = 10000, TEXT_MAX_BYTES = 4096 };

/* ---- asking ---- */

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

static void put_migrations(struct buf *args, const struct reload_options *options) {
    const char *module;
    json_t *code;
    json_t *migrations = (json_t *)(uintptr_t)options->migrations; /* jansson walks only what may change */
    term_put_atom(args, "migrations");
    term_put_map(args, json_object_size(migrations));
    json_object_foreach(migrations, module, code) {
        struct buf name = BUF_INIT;
        if (strcmp(module, "*") == 0)
            buf_append_string(&name, module);
        else
            term_module_atom(module, &name);
        term_put_string(args, buf_string(&name));
        buf_free(&name);
        term_put_map(args, 3);
        put_word(args, "kind", "expression");
        put_word(args, "language", options->language);
        put_text(args, "code", json_string_value(code));
    }
}

void transaction_put(struct buf *args, const struct change_set *set, const struct reload_options *options) {
    term_put_map(args, 13);
    put_text(args, "id", options->id);
    put_changes(args, set);
    put_order(args, set->order);
    put_migrations(args, options);
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

/* ---- understanding the answer ---- */

static json_t *text_json(const struct term *value) {
    CLEANUP_FREE char *text = NULL;
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    if (!value || term_is_atom(value, "nil")) return json_null();
    if (value->type == TERM_PID) {
        term_print(&escaped, value, TERM_ERLANG, 64);
        return json_string(buf_string(&escaped));
    }
    if (!term_to_string(value, &text)) return json_null();
    size_t length = utf8_cut(text, strlen(text), TEXT_MAX_BYTES);
    json_t *json = json_stringn(text, length);
    if (json) return json;
    escape_text(&escaped, text, length);
    return json_string(buf_string(&escaped));
}

static json_t *number_json(const struct term *value) {
    uint64_t number;
    return value && term_to_uint64(value, &number) && number < UINT64_C(1) << 53 ? json_integer((json_int_t)number)
                                                                                 : json_null();
}

static json_t *flag_json(const struct term *value) {
    return json_boolean(value && term_is_atom(value, "true"));
}

static json_t *module_json(const struct term *value) {
    json_t *text = text_json(value);
    if (!json_is_string(text)) return text;
    json_t *name = json_string(term_module_name(json_string_value(text)));
    json_decref(text);
    return name;
}

static json_t *texts_json(const struct term *list) {
    json_t *array = json_array();
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    for (size_t i = 0; i < count && i < ITEMS_MAX; i++) json_array_append_new(array, text_json(term_at(list, i)));
    return array;
}

/* A list of maps becomes a list of objects with these members. */
struct member {
    const char *name;
    json_t *(*read)(const struct term *value);
};

static json_t *objects_json(const struct term *list, const struct member *members) {
    json_t *array = json_array();
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    for (size_t i = 0; i < count && i < ITEMS_MAX; i++) {
        json_t *object = json_object();
        for (const struct member *member = members; member->name; member++)
            json_object_set_new(object, member->name, member->read(term_map_get(term_at(list, i), member->name)));
        json_array_append_new(array, object);
    }
    return array;
}

static const struct member process_members[] = {
    {"pid", text_json}, {"module", module_json}, {"migrated", flag_json}, {NULL, NULL}};
static const struct member shape_members[] = {
    {"pid", text_json}, {"module", module_json}, {"missing", texts_json}, {"added", texts_json}, {NULL, NULL}};
static const struct member child_members[] = {
    {"supervisor", text_json}, {"id", text_json}, {"change", text_json}, {NULL, NULL}};
static const struct member holder_members[] = {
    {"pid", text_json}, {"how", text_json}, {"where", text_json}, {NULL, NULL}};

static json_t *version_number(const struct version *version) {
    return version->number > 0 ? json_integer(version->number) : json_null();
}

static json_t *changes_json(const struct change_set *set) {
    json_t *array = json_array();
    for (size_t i = 0; i < set->count; i++) {
        const struct change *change = &set->items[i];
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "module", term_module_name(change->module),
                                               "from_version", version_number(&change->old_version), "to_version",
                                               version_number(&change->version)));
    }
    return array;
}

json_t *transaction_result(const struct term *result, const struct change_set *set) {
    const struct term *status = term_map_get(result, "status");
    bool is_dry = status && term_is_atom(status, "dry_run");
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "status", is_dry ? "dry_run" : "hot_reloaded", "modules",
        changes_json(set), "processes", objects_json(term_map_get(result, "processes"), process_members), "shapes",
        objects_json(term_map_get(result, "shapes"), shape_members), "children",
        objects_json(term_map_get(result, "children"), child_members), "pause_us",
        number_json(term_map_get(result, "pause_us")), "duration_us", number_json(term_map_get(result, "duration_us")),
        "warnings", texts_json(term_map_get(result, "warnings")));
}

json_t *transaction_failure(const struct term *reason) {
    return json_pack("{s:s, s:[], s:[], s:o, s:o, s:o, s:o, s:n, s:n, s:[]}", "status", "rolled_back", "modules",
                     "processes", "step", text_json(term_map_get(reason, "step")), "module",
                     module_json(term_map_get(reason, "module")), "process", text_json(term_map_get(reason, "process")),
                     "holders", objects_json(term_map_get(reason, "holders"), holder_members), "pause_us",
                     "duration_us", "warnings");
}

json_t *transaction_no_change(void) {
    return json_pack("{s:s, s:[], s:[], s:i, s:i, s:[]}", "status", "no_change", "modules", "processes", "pause_us", 0,
                     "duration_us", 0, "warnings");
}
