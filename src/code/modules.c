/* The modules of a build, as a VM loads them: a consolidated protocol comes before the module it was made from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "code/code_internal.h"

enum { MODULES_MAX = 40000 };

static void free_module(struct code_module *module) {
    free(module->name);
    free(module->app);
    free(module->file);
    free(module->beam);
    json_decref(module->dependencies);
}

void module_set_free(struct module_set *set) {
    for (size_t i = 0; i < set->count; i++) free_module(&set->items[i]);
    free(set->items);
    *set = (struct module_set){0};
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct code_module *)a)->name, ((const struct code_module *)b)->name);
}

static void sort(struct module_set *set) {
    if (set->count > 1) qsort(set->items, set->count, sizeof *set->items, by_name);
}

const struct code_module *module_set_find(const struct module_set *set, const char *name) {
    struct code_module key = {.name = (char *)(uintptr_t)name};
    return set->count == 0 ? NULL : bsearch(&key, set->items, set->count, sizeof *set->items, by_name);
}

/* ---- reading ---- */

struct reading {
    const char *path;
    struct module_set set;
    size_t capacity;
    struct map by_name; /* index + 1 */
};

static struct code_module *add(struct reading *reading, const char *name, const char *app) {
    struct module_set *set = &reading->set;
    if (set->count == reading->capacity) {
        size_t capacity = reading->capacity ? reading->capacity * 2 : 64;
        struct code_module *grown = set->count >= MODULES_MAX ? NULL : realloc(set->items, capacity * sizeof *grown);
        if (!grown) return NULL;
        set->items = grown;
        reading->capacity = capacity;
    }
    struct code_module *module = &set->items[set->count++];
    *module = (struct code_module){
        .name = strdup(name), .app = strdup(app), .root = reading->path, .dependencies = json_array()};
    module->file = string_print("%s/ebin/%s.beam", app, name);
    bool good =
        module->name && module->app && module->file && map_set(&reading->by_name, name, (void *)(uintptr_t)set->count);
    return good ? module : NULL;
}

static struct code_module *find(const struct reading *reading, const char *name) {
    size_t place = (size_t)(uintptr_t)map_get(&reading->by_name, name);
    return place ? &reading->set.items[place - 1] : NULL;
}

static void copy_text(char ret[CODE_DIGEST_BYTES], const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(ret, CODE_DIGEST_BYTES, "%s", text ? text : "");
}

static bool add_source(struct reading *reading, const json_t *source) {
    const char *app = json_string_value(json_object_get(source, "app"));
    const json_t *modules = json_object_get(source, "modules"), *item;
    for (size_t i = 0; app && i < json_array_size(modules); i++) {
        item = json_array_get(modules, i);
        const char *name = json_string_value(json_object_get(item, "module"));
        if (!name || find(reading, name)) continue; /* of two applications the first counts, as in the VM */
        struct code_module *module = add(reading, name, app);
        if (!module) return false;
        copy_text(module->checksum, item, "checksum");
        copy_text(module->source, source, "digest");
        module->written_in = json_string_value(json_object_get(source, "file"));
    }
    return app != NULL;
}

static void add_dependencies(const struct reading *reading, const json_t *source) {
    static const char *const kinds[] = {"compile", "exports", "runtime"};
    const json_t *modules = json_object_get(source, "modules");
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(modules, i), "module"));
        struct code_module *module = name ? find(reading, name) : NULL;
        for (size_t kind = 0; module && kind < ARRAY_SIZE(kinds); kind++) {
            const json_t *names = json_object_get(source, kinds[kind]);
            for (size_t k = 0; k < json_array_size(names); k++) {
                const char *needed = json_string_value(json_array_get(names, k));
                if (needed && strcmp(needed, name) != 0 && find(reading, needed))
                    json_array_append_new(module->dependencies, json_string(needed));
            }
        }
    }
}

/* Replaces a module by its consolidated form, as the VM does. Elixir's own protocols are consolidated too. */
static int add_consolidated(struct reading *reading, const char *app, const char *name, struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP_BEAM struct beam *beam = NULL;
    size_t size;
    struct code_module *module = find(reading, name);
    if (!module) module = add(reading, name, app);
    if (!module) return error_set(reterr, E_NO_MEMORY, "no memory for a build's modules");
    free(module->file);
    module->file = string_print("%s/consolidated/%s.beam", app, name);
    int result = string_format(path, sizeof path, reterr, "%s/%s", reading->path, module->file ? module->file : "");
    if (result == 0) result = file_load(path, CODE_FILE_MAX_BYTES, &data, &size, reterr);
    if (result == 0) result = beam_read(data, size, &beam_default_options, &beam, reterr);
    return result < 0 ? result : beam_checksum(beam, module->checksum, reterr);
}

static const char *first_app(const json_t *facts) {
    return json_string_value(json_object_get(json_array_get(json_object_get(facts, "apps"), 0), "name"));
}

static int refuse_description(const struct reading *reading, struct error *reterr) {
    return error_set(reterr, E_SYSTEM, "the build at %s has no usable description", reading->path);
}

static int read_modules(struct reading *reading, const json_t *facts, struct error *reterr) {
    const json_t *sources = json_object_get(facts, "sources"), *protocols = json_object_get(facts, "consolidated");
    const char *app = first_app(facts);
    int result = 0;
    for (size_t i = 0; i < json_array_size(sources); i++)
        if (!add_source(reading, json_array_get(sources, i))) return refuse_description(reading, reterr);
    for (size_t i = 0; i < json_array_size(sources); i++) add_dependencies(reading, json_array_get(sources, i));
    for (size_t i = 0; i < json_array_size(protocols) && result == 0; i++) {
        const char *name = json_string_value(json_array_get(protocols, i));
        result = app && name ? add_consolidated(reading, app, name, reterr) : refuse_description(reading, reterr);
    }
    return result;
}

int module_set_read(const char *path, const json_t *facts, struct module_set *ret, struct error *reterr) {
    struct reading reading = {.path = path};
    int result = read_modules(&reading, facts, reterr);
    map_free(&reading.by_name);
    if (result < 0) {
        module_set_free(&reading.set);
        return result;
    }
    sort(&reading.set);
    *ret = reading.set;
    return 0;
}
