/* What one source file was compiled to and needs: read from a compiler node's answer, checked, as JSON and back. */
#include "compile/cache/manifest.h"
#include "compile/project/places.h"

#include <stdlib.h>
#include <string.h>

#include "compile/compile_internal.h"

enum {
    NAMES_MAX = 20000, /* in one list */
    MODULES_MAX = 2000,
    NAME_BYTES = 256,
    NAME_COST_BYTES = 256, /* here, in the facts about the build, and as their text */
    MODULE_COST_BYTES = 2048,
};

/* ---- names ---- */

bool is_app_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@");
    return length > 0 && length < 100 && name[length] == '\0';
}

/* Any text without slashes or control characters, with room for a suffix. */
bool is_module_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length >= NAME_BYTES - 8 || !utf8_valid((const uint8_t *)name, length)) return false;
    for (const char *at = name; *at; at++)
        if (*at == '/' || (uint8_t)*at < ' ' || *at == 0x7f) return false;
    return true;
}

int compile_check_name(const char *module, enum error_code code, struct error *reterr) {
    static const char reserved[] = "sbx_";
    if (!string_starts(module, reserved)) return 0;
    return error_set(reterr, code,
                     "the module %s can't be named so: names that begin with %s are reserved for the agent "
                     "inside each node",
                     module, reserved);
}

bool is_relative_path(const char *path) {
    size_t length = strlen(path);
    if (length == 0 || length >= PATH_MAX || path[0] == '/' || !utf8_valid((const uint8_t *)path, length)) return false;
    while (*path) {
        size_t part = strcspn(path, "/");
        if (part == 0 || (part == 2 && memcmp(path, "..", 2) == 0)) return false;
        path += part + (path[part] == '/');
    }
    return true;
}

bool name_list_add(struct name_list *list, const char *name) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        char **grown = realloc(list->items, capacity * sizeof *grown);
        if (!grown) return false;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count] = strdup(name);
    return list->items[list->count] && ++list->count;
}

void name_list_free(struct name_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (struct name_list){0};
}

static json_t *name_list_to_json(const struct name_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++) json_array_append_new(array, json_string(list->items[i]));
    return array;
}

static bool name_list_from_json(const json_t *array, size_t max, struct name_list *ret) {
    size_t i;
    json_t *item;
    bool good = json_is_array(array) && json_array_size(array) <= max;
    for (i = 0; good && i < json_array_size(array); i++) {
        item = json_array_get(array, i);
        good = json_is_string(item) && name_list_add(ret, json_string_value(item));
    }
    return good;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In an order of their own: what is made from them must not depend on the order a node told them in. */
static void sort(struct name_list *list) {
    if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, by_name);
}

bool name_list_from_term(const struct term *list, size_t max, struct name_list *ret) {
    if (!list || list->type == TERM_NIL) return list != NULL;
    if (list->type != TERM_LIST || list->items.count > max) return false;
    for (size_t i = 0; i < list->items.count; i++) {
        CLEANUP_FREE char *text = NULL;
        if (!term_to_string(term_at(list, i), &text) || !utf8_valid((const uint8_t *)text, strlen(text)) ||
            !name_list_add(ret, text))
            return false;
    }
    sort(ret);
    return true;
}

/* ---- records ---- */

struct record *record_new(const char *path, const char *app) {
    struct record *record = calloc(1, sizeof *record);
    if (!record) return NULL;
    record->path = strdup(path);
    record->app = strdup(app);
    return record->path && record->app ? record : record_free(record);
}

void record_forget_output(struct record *record) {
    for (size_t i = 0; i < record->module_count; i++) {
        free(record->modules[i].name);
        free(record->modules[i].beam);
    }
    free(record->modules);
    record->modules = NULL;
    record->module_count = 0;
    name_list_free(&record->compile);
    name_list_free(&record->exports);
    name_list_free(&record->runtime);
    name_list_free(&record->files);
    free(take_ptr(record->edges));
    record->edge_count = 0;
    json_decref(take_ptr(record->warnings));
    record->warnings_left_out = 0;
    record->is_compiled = record->reads_config = false;
}

struct record *record_free(struct record *record) {
    if (!record) return NULL;
    record_forget_output(record);
    free(record->path);
    free(record->app);
    free(record);
    return NULL;
}

/* ---- room for its output ---- */

static void add_names(const struct name_list *list, struct answer_budget *sum) {
    sum->names += list->count;
    for (size_t i = 0; i < list->count; i++) sum->bytes += strlen(list->items[i]) + NAME_COST_BYTES;
}

static struct answer_budget output_size(const struct record *record) {
    struct answer_budget sum = {0};
    add_names(&record->compile, &sum);
    add_names(&record->exports, &sum);
    add_names(&record->runtime, &sum);
    add_names(&record->files, &sum);
    for (size_t i = 0; i < record->module_count; i++) sum.bytes += record->modules[i].beam_size + MODULE_COST_BYTES;
    return sum;
}

void record_give_budget(struct record *record, struct answer_budget *budget) {
    budget_give(budget, &record->held);
}

int record_hold(struct record *record, struct answer_budget *budget, struct error *reterr) {
    struct answer_budget wanted = output_size(record);
    struct diagnostics_budget left = budget->warnings;
    int result = budget_take(budget, &wanted, reterr);
    if (result < 0) return result;
    record->warnings_left_out += diagnostics_cut(record->warnings, &budget->warnings);
    wanted.warnings =
        (struct diagnostics_budget){left.count - budget->warnings.count, left.bytes - budget->warnings.bytes};
    record->held = wanted;
    return 0;
}

/* ---- from a compiler node ---- */

static int bad_answer(struct error *reterr, const char *what) {
    return error_set(reterr, E_PROTOCOL, "the compiler node answered with %s", what);
}

static int take_module(struct compiled_module *module, const struct term *term, struct error *reterr) {
    const struct term *beam = term_map_get(term, "beam");
    if (!text_at(term, "module", &module->name) || !is_module_name(module->name) || !beam || beam->type != TERM_BINARY)
        return bad_answer(reterr, "a module that has no usable name or code");
    if (compile_check_name(module->name, E_COMPILE, reterr) < 0) return -E_COMPILE;
    module->beam = malloc(beam->binary.size + 1);
    if (!module->beam) return error_set(reterr, E_NO_MEMORY, "no memory for the module %s", module->name);
    memcpy(module->beam, beam->binary.data, beam->binary.size);
    module->beam_size = beam->binary.size;
    return 0;
}

static int take_modules(struct record *record, const struct term *modules, struct error *reterr) {
    size_t count = modules && modules->type == TERM_LIST ? modules->items.count : 0;
    if (count > MODULES_MAX) return bad_answer(reterr, "a file of too many modules");
    record->modules = calloc(count ? count : 1, sizeof *record->modules);
    if (!record->modules) return error_set(reterr, E_NO_MEMORY, "no memory for the modules of %s", record->path);
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        record->module_count++;
        result = take_module(&record->modules[i], term_at(modules, i), reterr);
    }
    return result;
}

int record_take_answer(struct record *record, const struct term *file, struct answer_budget *budget,
                       struct error *reterr) {
    const struct term *config = term_map_get(file, "config");
    record_give_budget(record, budget);
    record_forget_output(record);
    int result = take_modules(record, term_map_get(file, "modules"), reterr);
    if (result < 0) return result;
    if (!name_list_from_term(term_map_get(file, "compile"), NAMES_MAX, &record->compile) ||
        !name_list_from_term(term_map_get(file, "exports"), NAMES_MAX, &record->exports) ||
        !name_list_from_term(term_map_get(file, "runtime"), NAMES_MAX, &record->runtime) ||
        !name_list_from_term(term_map_get(file, "includes"), NAMES_MAX, &record->files) ||
        !name_list_from_term(term_map_get(file, "resources"), NAMES_MAX, &record->files))
        return bad_answer(reterr, "dependencies that are no names");
    for (size_t i = 0; i < record->files.count; i++)
        if (!is_seen_path(record->files.items[i])) return bad_answer(reterr, "a file outside the project");
    sort(&record->files);
    record->reads_config = config && term_is_atom(config, "true");
    record->warnings =
        diagnostics_to_json(term_map_get(file, "warnings"), &budget->warnings, &record->warnings_left_out);
    result = record_hold(record, budget, reterr);
    record->is_compiled = result == 0;
    return result;
}

static int is_of_protocol(const struct beam *beam, bool *ret, struct error *reterr) {
    CLEANUP_TERM struct term_doc *attributes = NULL;
    int result = beam_attributes(beam, &attributes, reterr);
    if (result < 0) return result;
    const struct term *pairs = attributes ? term_root(attributes) : NULL;
    *ret = beam_find_value(pairs, "__protocol__") || beam_find_value(pairs, "__impl__");
    return 0;
}

/* What a module calls, in case the compiler node did not say. */
static bool add_imports(struct record *record, const struct beam *beam) {
    struct beam_names names = {0};
    struct error ignored;
    bool good = beam_runtime_dependencies(beam, &names, &ignored) == 0;
    size_t told = record->runtime.count; /* in order; what is added is in none until the end */
    for (size_t i = 0; good && i < names.count; i++) {
        CLEANUP_FREE char *name = strndup(names.items[i].data, names.items[i].size);
        bool known =
            !name || (told > 0 && bsearch(&name, record->runtime.items, told, sizeof *record->runtime.items, by_name));
        good = name && (known || name_list_add(&record->runtime, name));
    }
    sort(&record->runtime);
    beam_names_free(&names);
    return good;
}

/* As the node's sbx_guess looks for them. */
static bool is_start_behaviour(const struct beam_text *name) {
    static const char *const names[] = {"application",       "Elixir.Application",       "supervisor",
                                        "Elixir.Supervisor", "Elixir.DynamicSupervisor", "Elixir.PartitionSupervisor"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (name->size == strlen(names[i]) && memcmp(name->data, names[i], name->size) == 0) return true;
    return false;
}

static int find_parts(const struct beam *beam, unsigned *ret, struct error *reterr) {
    CLEANUP(beam_names_free) struct beam_names behaviours = {0};
    bool is_protocol = false;
    int result = is_of_protocol(beam, &is_protocol, reterr);
    unsigned parts = is_protocol ? PART_OF_PROTOCOL : 0;
    if (result == 0) result = beam_behaviours(beam, &behaviours, reterr);
    for (size_t i = 0; result == 0 && i < behaviours.count; i++)
        if (is_start_behaviour(&behaviours.items[i])) parts |= PART_OF_START;
    if (result == 0) *ret = parts;
    return result;
}

static int check_beam(struct record *record, struct compiled_module *module, unsigned otp, struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = NULL;
    struct beam_options options = beam_default_options;
    options.otp = otp;
    int result = beam_read(module->beam, module->beam_size, &options, &beam, reterr);
    if (result == 0) {
        struct beam_text name = beam_module(beam);
        if (name.size != strlen(module->name) || memcmp(name.data, module->name, name.size) != 0)
            result = error_set(reterr, E_FORMAT, "it holds the module %.*s", (int)name.size, name.data);
    }
    if (result == 0) result = beam_checksum(beam, module->checksum, reterr);
    if (result == 0) result = beam_interface_hash(beam, module->interface, reterr);
    if (result < 0) return error_prefix(reterr, "the compiled module %s", module->name);
    result = find_parts(beam, &module->parts, reterr);
    if (result < 0) return result;
    return add_imports(record, beam) ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for %s", module->name);
}

int record_check_beams(struct record *record, unsigned otp, struct answer_budget *budget, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; i < record->module_count && result == 0; i++)
        result = check_beam(record, &record->modules[i], otp, reterr);
    record_give_budget(record, budget);
    return result < 0 ? result : record_hold(record, budget, reterr); /* with what the beams call */
}

/* ---- as JSON ---- */

static json_t *digest_to_json(const uint8_t digest[DIGEST_BYTES]) {
    char text[2 * DIGEST_BYTES + 1];
    hex_encode(digest, DIGEST_BYTES, text);
    return json_string(text);
}

static bool hex_digit(char digit, uint8_t *ret) {
    if (digit >= '0' && digit <= '9') return *ret = (uint8_t)(digit - '0'), true;
    if (digit >= 'a' && digit <= 'f') return *ret = (uint8_t)(digit - 'a' + 10), true;
    return false;
}

static bool digest_from_json(const json_t *json, uint8_t ret[DIGEST_BYTES]) {
    const char *text = json_string_value(json);
    if (!text || strlen(text) != (size_t)2 * DIGEST_BYTES) return false;
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        uint8_t high, low;
        if (!hex_digit(text[2 * i], &high) || !hex_digit(text[2 * i + 1], &low)) return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static json_t *modules_to_json(const struct record *record) {
    json_t *array = json_array();
    for (size_t i = 0; i < record->module_count; i++) {
        const struct compiled_module *module = &record->modules[i];
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:s, s:i}", "module", module->name, "checksum", module->checksum,
                                        "interface", module->interface, "parts", (int)module->parts));
    }
    return array;
}

json_t *record_to_json(const struct record *record) {
    json_t *json = json_object();
    json_object_set_new(json, "file", json_string(record->path));
    json_object_set_new(json, "app", json_string(record->app));
    json_object_set_new(json, "digest", digest_to_json(record->digest));
    json_object_set_new(json, "options", digest_to_json(record->options));
    json_object_set_new(json, "inputs", digest_to_json(record->inputs));
    json_object_set_new(json, "modules", modules_to_json(record));
    json_object_set_new(json, "compile", name_list_to_json(&record->compile));
    json_object_set_new(json, "exports", name_list_to_json(&record->exports));
    json_object_set_new(json, "runtime", name_list_to_json(&record->runtime));
    json_object_set_new(json, "files", name_list_to_json(&record->files));
    json_object_set_new(json, "reads_config", json_boolean(record->reads_config));
    json_object_set(json, "warnings", record->warnings);
    if (record->warnings_left_out > 0)
        json_object_set_new(json, "warnings_left_out", json_integer((json_int_t)record->warnings_left_out));
    return json;
}

static bool module_from_json(const json_t *json, struct compiled_module *module) {
    const char *name = json_string_value(json_object_get(json, "module"));
    const char *checksum = json_string_value(json_object_get(json, "checksum"));
    const char *interface = json_string_value(json_object_get(json, "interface"));
    if (!name || !checksum || !interface || !is_module_name(name)) return false;
    snprintf(module->checksum, sizeof module->checksum, "%s", checksum);
    snprintf(module->interface, sizeof module->interface, "%s", interface);
    json_t *parts = json_object_get(json, "parts");
    module->parts = json_is_integer(parts) ? (unsigned)json_integer_value(parts) : PARTS_ALL;
    return (module->name = strdup(name)) != NULL;
}

static bool modules_from_json(const json_t *array, struct record *record) {
    size_t count = json_array_size(array);
    record->modules = calloc(count ? count : 1, sizeof *record->modules);
    for (size_t i = 0; record->modules && i < count; i++)
        if (!module_from_json(json_array_get(array, i), &record->modules[record->module_count++])) return false;
    return record->modules != NULL;
}

struct record *record_from_json(const json_t *json) {
    const char *path = json_string_value(json_object_get(json, "file"));
    const char *app = json_string_value(json_object_get(json, "app"));
    struct record *record = path && app ? record_new(path, app) : NULL;
    if (!record) return NULL;
    bool good = digest_from_json(json_object_get(json, "digest"), record->digest) &&
                digest_from_json(json_object_get(json, "options"), record->options) &&
                digest_from_json(json_object_get(json, "inputs"), record->inputs) &&
                modules_from_json(json_object_get(json, "modules"), record) &&
                name_list_from_json(json_object_get(json, "compile"), NAMES_MAX, &record->compile) &&
                name_list_from_json(json_object_get(json, "exports"), NAMES_MAX, &record->exports) &&
                name_list_from_json(json_object_get(json, "runtime"), NAMES_MAX, &record->runtime) &&
                name_list_from_json(json_object_get(json, "files"), (size_t)2 * NAMES_MAX, &record->files);
    record->reads_config = json_is_true(json_object_get(json, "reads_config"));
    record->warnings = json_copy(json_object_get(json, "warnings")); /* the list is its own, what it holds is shared */
    json_int_t left_out = json_integer_value(json_object_get(json, "warnings_left_out"));
    record->warnings_left_out = left_out > 0 ? (size_t)left_out : 0;
    record->is_compiled = true;
    return good && is_app_name(app) ? record : record_free(record);
}

/* ---- the manifest ---- */

bool manifest_add(struct manifest *manifest, struct record *record) {
    if (record && manifest->count == manifest->capacity) {
        size_t capacity = manifest->capacity ? manifest->capacity * 2 : 64;
        struct record **grown = realloc(manifest->records, capacity * sizeof *grown);
        if (!grown) {
            record_free(record);
            return false;
        }
        manifest->records = grown;
        manifest->capacity = capacity;
    }
    if (record) manifest->records[manifest->count++] = record;
    return record != NULL;
}

void manifest_free(struct manifest *manifest) {
    for (size_t i = 0; i < manifest->count; i++) record_free(manifest->records[i]);
    free(manifest->records);
    *manifest = (struct manifest){0};
}

json_t *manifest_to_json(const struct manifest *manifest) {
    json_t *array = json_array();
    for (size_t i = 0; i < manifest->count; i++) json_array_append_new(array, record_to_json(manifest->records[i]));
    return array;
}

bool manifest_from_json(const json_t *array, struct manifest *ret) {
    struct manifest manifest = {0};
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (manifest_add(&manifest, record_from_json(json_array_get(array, i)))) continue;
        manifest_free(&manifest);
        return false;
    }
    *ret = manifest;
    return json_is_array(array);
}
