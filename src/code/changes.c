/* Computes a change from the running code to other code: modules to load and to remove, with the bytes and versions of
   both sides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_internal.h"
#include "compile/graph/graph.h"

static void version_free(struct version *version) {
    json_decref(version->dependencies);
    *version = (struct version){0};
}

void change_set_free(struct change_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        struct change *change = &set->items[i];
        free(change->module);
        free(change->beam);
        free(change->old_beam);
        version_free(&change->version);
        version_free(&change->old_version);
    }
    free(set->items);
    json_decref(set->order);
    *set = (struct change_set){0};
}

static struct change *add(struct change_set *set, const char *module) {
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 16;
        struct change *grown = realloc(set->items, capacity * sizeof *grown);
        if (!grown) return NULL;
        set->items = grown;
        set->capacity = capacity;
    }
    struct change *change = &set->items[set->count];
    *change = (struct change){.module = strdup(module)};
    if (!change->module) return NULL;
    set->count++;
    return change;
}

/* ---- one side of a change ---- */

static void describe(struct version *version, const struct code_module *module) {
    snprintf(version->checksum, sizeof version->checksum, "%s", module->checksum);
    snprintf(version->source, sizeof version->source, "%s", module->source);
    json_decref(version->dependencies);
    version->dependencies = json_incref(module->dependencies);
}

static int load_bytes(const struct code_module *module, uint8_t **ret_beam, size_t *ret_size, struct error *reterr) {
    char path[PATH_MAX];
    if (module->beam) {
        uint8_t *copy = malloc(module->beam_size + 1);
        if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for a reload");
        memcpy(copy, module->beam, module->beam_size);
        *ret_beam = copy;
        *ret_size = module->beam_size;
        return 0;
    }
    int result = string_format(path, sizeof path, reterr, "%s/%s", module->root, module->file);
    return result < 0 ? result : file_load(path, CODE_FILE_MAX_BYTES, ret_beam, ret_size, reterr);
}

/* More than goes to the node at once need not be read. */
static int count_bytes(struct change_set *set, size_t bytes, struct error *reterr) {
    set->bytes += bytes;
    if (set->bytes <= CHANGE_SET_MAX_BYTES) return 0;
    return error_set(reterr, E_TOO_LARGE, "what changes, old code and new, is larger than %d MiB; restart instead",
                     CHANGE_SET_MAX_BYTES >> 20);
}

/* Reads the bytes, keeps them, and finds or assigns their version number. */
static int take_side(struct change_set *set, const struct change_base *base, const struct code_module *module,
                     struct version *version, uint8_t **ret_beam, size_t *ret_size, struct error *reterr) {
    int result = load_bytes(module, ret_beam, ret_size, reterr);
    if (result == 0) result = count_bytes(set, *ret_size, reterr);
    if (result == 0) result = code_beam_keep(base->beams, *ret_beam, *ret_size, version->beam, reterr);
    if (result < 0) return result;
    describe(version, module);
    version->size_bytes = *ret_size;
    const struct version *known = history_find_checksum(base->history, module->name, module->checksum);
    version->number = known ? known->number : history_next(base->history, module->name);
    return 0;
}

static int add_change(struct change_set *set, const struct change_base *base, const struct code_module *old,
                      const struct code_module *new, struct error *reterr) {
    struct change *change = add(set, new ? new->name : old->name);
    if (!change) return error_set(reterr, E_NO_MEMORY, "no memory for a reload");
    change->is_deletion = !new;
    int result = 0;
    if (old)
        result = take_side(set, base, old, &change->old_version, &change->old_beam, &change->old_beam_size, reterr);
    if (result == 0 && new)
        result = take_side(set, base, new, &change->version, &change->beam, &change->beam_size, reterr);
    if (result < 0) return result;
    /* If both sides are new, the old one gets the lower number. */
    bool both_new = old && new && change->version.number == change->old_version.number;
    if (both_new) change->version.number++;
    return 0;
}

/* ---- load order ---- */

/* Only changed modules are loaded, but their dependencies may lead through unchanged ones. */
static int find_order(const struct module_set *modules, const struct change_set *set, json_t **ret,
                      struct error *reterr) {
    CLEANUP_FREE struct graph_module *nodes = calloc(modules->count + 1, sizeof *nodes);
    CLEANUP_GRAPH struct graph *graph = NULL;
    CLEANUP(map_free) struct map changed = MAP_INIT;
    if (!nodes) return error_set(reterr, E_NO_MEMORY, "no memory for the order of a reload");
    size_t total = 0;
    for (size_t i = 0; i < modules->count; i++) total += json_array_size(modules->items[i].dependencies) + 1;
    CLEANUP_FREE const char **names = calloc(total + 1, sizeof *names);
    if (!names) return error_set(reterr, E_NO_MEMORY, "no memory for the order of a reload");
    const char **at = names;
    for (size_t i = 0; i < modules->count; i++) {
        nodes[i].module = modules->items[i].name;
        nodes[i].needs[GRAPH_RUNTIME] = at;
        for (size_t k = 0; k < json_array_size(modules->items[i].dependencies); k++)
            *at++ = json_string_value(json_array_get(modules->items[i].dependencies, k));
        *at++ = NULL;
    }
    for (size_t i = 0; i < set->count; i++)
        if (!set->items[i].is_deletion && !map_set(&changed, set->items[i].module, &set->items[i]))
            return error_set(reterr, E_NO_MEMORY, "no memory for the order of a reload");
    int result = graph_make(nodes, modules->count, &graph, reterr);
    if (result < 0) return result;
    json_t *order = json_array();
    for (size_t i = 0; i < graph_group_count(graph); i++) {
        struct graph_edges group = graph_group(graph, i);
        json_t *members = json_array();
        for (size_t k = 0; k < group.count; k++) {
            const char *name = graph_module(graph, group.modules[k])->module;
            if (map_get(&changed, name)) json_array_append_new(members, json_string(name));
        }
        if (json_array_size(members) > 0)
            json_array_append_new(order, members);
        else
            json_decref(members);
    }
    *ret = order;
    return 0;
}

/* ---- from running code to wanted code ---- */

static int compare(const struct change_base *base, const struct module_set *old, const struct module_set *new,
                   bool is_all, struct change_set *set, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; i < new->count &&result == 0; i++) {
        const struct code_module *now = &new->items[i], *before = module_set_find(old, now->name);
        if (before && strcmp(before->checksum, now->checksum) == 0) continue;
        result = add_change(set, base, before, now, reterr);
    }
    for (size_t i = 0; is_all && i < old->count && result == 0; i++)
        if (!module_set_find(new, old->items[i].name)) result = add_change(set, base, &old->items[i], NULL, reterr);
    return result;
}

/* The calls of a single BEAM file become dependencies on modules that run or will run. */
static void choose_dependencies(struct change_set *set, const struct module_set *old, const struct module_set *new) {
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].is_deletion) continue;
        json_t *chosen = json_array(), *name;
        size_t k;
        json_array_foreach(set->items[i].version.dependencies, k, name) {
            const char *needed = json_string_value(name);
            bool is_known = module_set_find(old, needed) || module_set_find(new, needed);
            if (is_known && strcmp(needed, set->items[i].module) != 0) json_array_append(chosen, name);
        }
        json_decref(set->items[i].version.dependencies);
        set->items[i].version.dependencies = chosen;
    }
}

int changes_to_modules(const struct change_base *base, const struct module_set *wanted, bool is_all,
                       struct change_set *ret, struct error *reterr) {
    CLEANUP(module_set_free) struct module_set old = {0};
    struct change_set set = {0};
    int result = module_set_read(base->path, base->facts, &old, reterr);
    if (result == 0) result = compare(base, &old, wanted, is_all, &set, reterr);
    if (result == 0) choose_dependencies(&set, &old, wanted);
    if (result == 0) result = find_order(wanted, &set, &set.order, reterr);
    if (result < 0)
        change_set_free(&set);
    else
        *ret = set;
    return result;
}

int changes_to_build(const struct change_base *base, const char *path, const json_t *facts, struct change_set *ret,
                     struct error *reterr) {
    CLEANUP(module_set_free) struct module_set wanted = {0};
    int result = module_set_read(path, facts, &wanted, reterr);
    if (result < 0) return result;
    return changes_to_modules(base, &wanted, true, ret, reterr);
}

/* ---- an older version ---- */

static int take_old_bytes(const struct beam_store *beams, const struct version *version, struct change *change,
                          struct error *reterr) {
    change->version = *version;
    json_incref(change->version.dependencies);
    return code_beam_load(beams, version->beam, &change->beam, &change->beam_size, reterr);
}

static const struct version *find_version(const struct change_base *base, const char *module, uint32_t number,
                                          struct error *reterr) {
    const struct version *found =
        number ? history_find(base->history, module, number) : history_previous(base->history, module);
    if (!found && number)
        error_set(reterr, E_NOT_FOUND, "there is no version %u of %s; `sandbox versions` lists those kept", number,
                  term_module_name(module));
    else if (!found)
        error_set(reterr, E_NOT_FOUND, "there is no version of %s before the one that runs", term_module_name(module));
    return found;
}

/* running may be NULL: the module was deleted. */
static int go_back(struct change_set *set, const struct change_base *base, const char *module,
                   const struct version *wanted, const struct code_module *running, struct error *reterr) {
    struct change *change = add(set, module);
    if (!change) return error_set(reterr, E_NO_MEMORY, "no memory for a rollback");
    int result = take_old_bytes(base->beams, wanted, change, reterr);
    if (result < 0 || !running) return result;
    return take_side(set, base, running, &change->old_version, &change->old_beam, &change->old_beam_size, reterr);
}

int changes_to_version(const struct change_base *base, const char *module, uint32_t number, struct change_set *ret,
                       struct error *reterr) {
    CLEANUP(module_set_free) struct module_set modules = {0};
    struct change_set set = {0};
    const struct version *wanted = find_version(base, module, number, reterr);
    if (!wanted) return -E_NOT_FOUND;
    int result = module_set_read(base->path, base->facts, &modules, reterr);
    const struct code_module *running = result == 0 ? module_set_find(&modules, module) : NULL;
    bool runs_already = running && strcmp(running->checksum, wanted->checksum) == 0;
    if (result == 0 && !runs_already) result = go_back(&set, base, module, wanted, running, reterr);
    if (result == 0) set.order = json_pack("[[s]]", module);
    if (result < 0)
        change_set_free(&set);
    else
        *ret = set;
    return result;
}
