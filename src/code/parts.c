/* Combines modules from several places into one set: builds, parts of builds, single BEAM files. */
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "code/code_internal.h"

static int no_memory(struct error *reterr) {
    return error_set(reterr, E_NO_MEMORY, "no memory for the modules of a reload");
}

/* ---- joining ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct code_module *)a)->name, ((const struct code_module *)b)->name);
}

int module_set_join(struct module_set *set, struct module_set *more, struct error *reterr) {
    for (size_t i = 0; i < more->count; i++) {
        const struct code_module *known = module_set_find(set, more->items[i].name);
        if (known)
            return error_set(reterr, E_INVALID, "the module %s is in %s and in %s", term_module_name(known->name),
                             known->named_by, more->items[i].named_by);
    }
    if (more->count == 0) return 0;
    struct code_module *grown = reallocarray(set->items, set->count + more->count, sizeof *grown);
    if (!grown) return no_memory(reterr);
    memcpy(grown + set->count, more->items, more->count * sizeof *grown);
    set->items = grown;
    set->count += more->count;
    qsort(set->items, set->count, sizeof *set->items, compare_names);
    free(more->items);
    *more = (struct module_set){0};
    return 0;
}

/* ---- a BEAM file ---- */

static json_t *called_modules(const struct beam *beam) {
    size_t count;
    const struct beam_import *imports = beam_imports(beam, &count);
    json_t *names = json_array();
    CLEANUP(map_free) struct map seen = MAP_INIT;
    for (size_t i = 0; i < count; i++) {
        CLEANUP_FREE char *name = strndup(imports[i].module.data, imports[i].module.size);
        if (!name || map_get(&seen, name) || !map_set(&seen, name, names)) continue;
        json_array_append_new(names, json_string(name));
    }
    return names;
}

static int describe(struct code_module *module, unsigned otp, struct error *reterr) {
    struct beam_options options = beam_default_options;
    CLEANUP_BEAM struct beam *beam = NULL;
    options.otp = otp;
    int result = beam_read(module->beam, module->beam_size, &options, &beam, reterr);
    if (result == 0) result = beam_checksum(beam, module->checksum, reterr);
    if (result < 0) return result;
    struct beam_text name = beam_module(beam);
    module->name = strndup(name.data, name.size);
    module->dependencies = called_modules(beam);
    if (!module->name || !module->dependencies) return no_memory(reterr);
    return compile_check_name(module->name, E_INVALID, reterr);
}

int module_set_add_beam(struct module_set *set, const char *path, unsigned otp, uint8_t *data, size_t size,
                        struct error *reterr) {
    CLEANUP(module_set_free) struct module_set one = {.items = calloc(1, sizeof *one.items)};
    if (!one.items) {
        free(data);
        return no_memory(reterr);
    }
    one.count = 1;
    one.items[0] = (struct code_module){.named_by = path, .beam = data, .beam_size = size};
    int result = describe(&one.items[0], otp, reterr);
    return result < 0 ? result : module_set_join(set, &one, reterr);
}

/* ---- choosing ---- */

static bool is_at_or_below(const char *file, const char *path) {
    size_t length = strlen(path);
    return strncmp(file, path, length) == 0 && (file[length] == '\0' || file[length] == '/');
}

size_t module_set_mark(const struct module_set *set, const char *path, bool *marks) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const char *file = set->items[i].written_in;
        if (!file || !is_at_or_below(file, path)) continue;
        marks[i] = true;
        count++;
    }
    return count;
}

void module_set_keep(struct module_set *set, const bool *marks) {
    struct module_set gone = {.items = zeroed_or_abort(set->count + 1, sizeof *gone.items)};
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (marks[i])
            set->items[kept++] = set->items[i];
        else
            gone.items[gone.count++] = set->items[i];
    set->count = kept;
    module_set_free(&gone);
}
