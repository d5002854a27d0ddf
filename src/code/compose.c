/* Writes the running code as a build, after a change that is not a whole project. So a sandbox's build is always what
   runs, and a restart needs nothing else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "code/code_internal.h"

enum { FILES_MAX = 60000, DEPTH_MAX = 32 };

void composed_free(struct composed *composed) {
    for (size_t i = 0; i < composed->count; i++) {
        free((void *)(uintptr_t)composed->files[i].path);
        free((void *)(uintptr_t)composed->files[i].data);
        free((void *)(uintptr_t)composed->files[i].twin);
    }
    free(composed->files);
    json_decref(composed->facts);
    json_decref(composed->brief);
    *composed = (struct composed){0};
}

/* Takes ownership of data, also on failure. */
static int add(struct composed *composed, const char *path, uint8_t *data, size_t size, struct error *reterr) {
    char *name = strdup(path);
    if (composed->count == composed->capacity) {
        size_t capacity = composed->capacity ? composed->capacity * 2 : 64;
        struct store_file *grown =
            composed->count >= FILES_MAX ? NULL : reallocarray(composed->files, capacity, sizeof *grown);
        if (grown) composed->files = grown, composed->capacity = capacity;
    }
    if (!name || !data || composed->count == composed->capacity) {
        free(name);
        free(data);
        return error_set(reterr, E_NO_MEMORY, "no memory for %s of a build", path);
    }
    composed->files[composed->count++] = (struct store_file){.path = name, .data = data, .size = size};
    return 0;
}

static uint8_t *copy(const uint8_t *data, size_t size) {
    uint8_t *bytes = malloc(size + 1);
    if (bytes) memcpy(bytes, data, size);
    return bytes;
}

/* ---- unchanged files ---- */

struct walk {
    struct composed *composed;
    const struct map *replaced; /* paths that the changes write or leave out */
    const char *root;
};

static int walk_folder(const struct walk *walk, const char *below, unsigned depth, struct error *reterr);

static int walk_entry(const struct walk *walk, const char *path, unsigned depth, struct error *reterr) {
    char whole[PATH_MAX];
    struct stat status;
    uint8_t *data;
    size_t size;
    int result = string_format(whole, sizeof whole, reterr, "%s/%s", walk->root, path);
    if (result < 0 || map_get(walk->replaced, path)) return result;
    if (lstat(whole, &status) < 0) return error_errno(reterr, errno, "reading %s", whole);
    if (S_ISDIR(status.st_mode)) return walk_folder(walk, path, depth + 1, reterr);
    result = file_load(whole, CODE_FILE_MAX_BYTES, &data, &size, reterr);
    return result < 0 ? result : add(walk->composed, path, data, size, reterr);
}

static int walk_folder(const struct walk *walk, const char *below, unsigned depth, struct error *reterr) {
    char path[PATH_MAX];
    int result = string_format(path, sizeof path, reterr, "%s/%s", walk->root, below);
    if (result < 0) return result;
    DIR *directory = depth > DEPTH_MAX ? NULL : opendir(path);
    if (!directory) return error_errno(reterr, errno, "reading %s", path);
    struct dirent *entry;
    while (result == 0 && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = string_format(path, sizeof path, reterr, "%s%s%s", below, below[0] ? "/" : "", entry->d_name);
        if (result == 0) result = walk_entry(walk, path, depth, reterr);
    }
    closedir(directory);
    return result;
}

/* ---- changed files ---- */

static const char *first_app(const json_t *facts) {
    return json_string_value(json_object_get(json_array_get(json_object_get(facts, "apps"), 0), "name"));
}

static void path_of(const struct module_set *modules, const char *app, const char *module, char ret[PATH_MAX]) {
    const struct code_module *known = module_set_find(modules, module);
    if (known)
        snprintf(ret, PATH_MAX, "%s", known->file);
    else
        snprintf(ret, PATH_MAX, "%s/ebin/%s.beam", app, module);
}

/* The entry of a module in the description; *ret_modules is its list. */
static json_t *find_entry(json_t *facts, const char *module, json_t **ret_modules, size_t *ret_index) {
    json_t *sources = json_object_get(facts, "sources"), *source, *entry;
    size_t i, k;
    json_array_foreach(sources, i, source) {
        json_t *modules = json_object_get(source, "modules");
        json_array_foreach(modules, k, entry) {
            if (!string_equal(json_string_value(json_object_get(entry, "module")), module)) continue;
            *ret_modules = modules;
            *ret_index = k;
            return entry;
        }
    }
    return NULL;
}

static void describe_new(json_t *facts, const char *app, const struct change *change) {
    json_array_append_new(json_object_get(facts, "sources"),
                          json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:s}], s:[], s:[], s:O}", "file", "", "app", app,
                                    "digest", change->version.source, "modules", "module", change->module, "checksum",
                                    change->version.checksum, "interface", "", "compile", "exports", "runtime",
                                    change->version.dependencies));
    json_array_append_new(json_object_get(facts, "modules"), json_string(term_module_name(change->module)));
}

static void forget_name(json_t *facts, const char *module) {
    json_t *names = json_object_get(facts, "modules");
    for (size_t i = json_array_size(names); i > 0; i--)
        if (string_equal(json_string_value(json_array_get(names, i - 1)), term_module_name(module)))
            json_array_remove(names, i - 1);
}

static void describe(json_t *facts, const char *app, const struct change *change) {
    json_t *modules = NULL;
    size_t index = 0;
    json_t *entry = find_entry(facts, change->module, &modules, &index);
    if (!entry && !change->is_deletion) {
        describe_new(facts, app, change);
    } else if (entry && change->is_deletion) {
        json_array_remove(modules, index);
        forget_name(facts, change->module);
    } else if (entry) {
        json_object_set_new(entry, "checksum", json_string(change->version.checksum));
    }
}

/* The bytes are kept as a version already, so the file can be linked. */
static int add_beam(struct composed *composed, const struct beam_store *beams, const char *path,
                    const struct change *change, struct error *reterr) {
    char kept[PATH_MAX];
    int result = add(composed, path, copy(change->beam, change->beam_size), change->beam_size, reterr);
    if (result == 0 && change->version.beam[0] && beam_path(beams, change->version.beam, kept, NULL) == 0)
        composed->files[composed->count - 1].twin = strdup(kept);
    return result;
}

static int put_changes(struct composed *composed, const struct beam_store *beams, const struct module_set *modules,
                       const struct change_set *set, struct map *replaced, struct error *reterr) {
    static char mark; /* any address that is not NULL */
    const char *app = first_app(composed->facts);
    char path[PATH_MAX];
    int result = 0;
    for (size_t i = 0; i < set->count && result == 0; i++) {
        const struct change *change = &set->items[i];
        path_of(modules, app, change->module, path);
        if (!map_set(replaced, path, &mark)) return error_set(reterr, E_NO_MEMORY, "no memory for a build");
        if (!change->is_deletion) result = add_beam(composed, beams, path, change, reterr);
        describe(composed->facts, app, change);
    }
    bool is_marked = map_set(replaced, BUILD_FACTS_FILE, &mark) && map_set(replaced, BUILD_BRIEF_FILE, &mark);
    return is_marked ? result : error_set(reterr, E_NO_MEMORY, "no memory for a build");
}

static int add_description(struct composed *composed, const char *name, const json_t *facts, struct error *reterr) {
    char *text = NULL;
    int result = build_facts_text(facts, &text, reterr);
    return result < 0 ? result : add(composed, name, (uint8_t *)text, strlen(text), reterr);
}

int compose(const struct beam_store *beams, const char *path, const json_t *facts, const struct change_set *set,
            struct composed *ret, struct error *reterr) {
    CLEANUP(map_free) struct map replaced = MAP_INIT;
    CLEANUP(module_set_free) struct module_set modules = {0};
    struct composed composed = {.facts = json_deep_copy(facts)};
    struct walk walk = {&composed, &replaced, path};
    int result = composed.facts ? module_set_read(path, facts, &modules, reterr)
                                : error_set(reterr, E_NO_MEMORY, "no memory for a build's description");
    if (result == 0) result = put_changes(&composed, beams, &modules, set, &replaced, reterr);
    if (result == 0) result = walk_folder(&walk, "", 0, reterr);
    if (result == 0) {
        json_int_t bytes = 0;
        for (size_t i = 0; i < composed.count; i++) bytes += (json_int_t)composed.files[i].size;
        json_object_set_new(composed.facts, "bytes", json_integer(bytes));
        composed.brief = build_brief(composed.facts);
        result = add_description(&composed, BUILD_FACTS_FILE, composed.facts, reterr);
        if (result == 0) result = add_description(&composed, BUILD_BRIEF_FILE, composed.brief, reterr);
    }
    if (result < 0)
        composed_free(&composed);
    else
        *ret = composed;
    return result;
}
