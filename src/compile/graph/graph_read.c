/* What the graph is made of: a build's facts, or BEAM files where a build has none. */
#include "compile/graph/graph_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "beam/beam.h"

enum {
    BEAM_MAX_BYTES = 64 << 20,
    ANSWER_TEXT_MAX_BYTES = 48 << 20, /* what a client takes has a bound too */
};

void graph_source_free(struct graph_source *source) {
    for (size_t i = 0; i < source->owned_count; i++) free(source->owned[i]);
    free(source->owned);
    free(source->modules);
    *source = (struct graph_source){0};
}

/* Room for one more of an array's items; NULL without memory, and the array is as it was. */
static void *grow(void *items, size_t count, size_t *capacity, size_t item_size) {
    if (count < *capacity) return items;
    size_t more = *capacity ? *capacity * 2 : 64;
    void *grown = reallocarray(items, more, item_size);
    if (grown) *capacity = more;
    return grown;
}

/* Takes the memory over, also when it fails. */
static void *own(struct graph_source *source, void *memory) {
    void **owned =
        memory ? grow(source->owned, source->owned_count, &source->owned_capacity, sizeof *source->owned) : NULL;
    if (!owned) {
        free(memory);
        return NULL;
    }
    source->owned = owned;
    return source->owned[source->owned_count++] = memory;
}

static struct graph_module *add_module(struct graph_source *source) {
    struct graph_module *modules = grow(source->modules, source->count, &source->capacity, sizeof *source->modules);
    if (!modules) return NULL;
    source->modules = modules;
    modules[source->count] = (struct graph_module){0};
    return &modules[source->count++];
}

/* ---- from a build's description ---- */

static const char *const *names_of(struct graph_source *source, json_t *array) {
    size_t i, count = 0;
    json_t *entry;
    const char **names = own(source, calloc(json_array_size(array) + 1, sizeof *names));
    json_array_foreach(array, i, entry) {
        if (names && json_is_string(entry)) names[count++] = term_module_name(json_string_value(entry));
    }
    return names;
}

/* The needs that a JSON object of the same names lists. */
static bool take_needs(struct graph_source *source, struct graph_module *module, json_t *object) {
    for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) {
        module->needs[kind] = names_of(source, json_object_get(object, graph_kind_name((enum graph_kind)kind)));
        if (!module->needs[kind]) return false;
    }
    return true;
}

/* One module of the description: its own object, and the one that tells where it is from and what it needs. */
static bool take_module(struct graph_source *source, json_t *entry, json_t *about) {
    const char *name = json_string_value(json_object_get(entry, "module"));
    struct graph_module module = {
        .module = name ? term_module_name(name) : NULL,
        .app = json_string_value(json_object_get(about, "app")),
        .file = json_string_value(json_object_get(about, "file")),
    };
    if (!name) return true;
    struct graph_module *added = take_needs(source, &module, about) ? add_module(source) : NULL;
    if (added) *added = module;
    return added;
}

static bool take_file(struct graph_source *source, json_t *file) {
    json_t *modules = json_object_get(file, "modules"), *entry;
    size_t i, first = source->count;
    bool result = true;
    json_array_foreach(modules, i, entry) result = result && take_module(source, entry, file);
    for (size_t at = first; source->count - first > 1 && at < source->count; at++)
        source->modules[at].needs[GRAPH_RUNTIME] = NULL;
    return result;
}

bool graph_source_from_facts(struct graph_source *source, json_t *facts) {
    json_t *graph = json_object_get(facts, "graph"), *sources = json_object_get(facts, "sources"), *entry;
    bool result = json_is_array(graph) || json_is_array(sources);
    size_t i;
    json_array_foreach(graph, i, entry) result = result && take_module(source, entry, entry);
    if (json_is_array(graph)) return result;
    json_array_foreach(sources, i, entry) result = result && take_file(source, entry);
    return result;
}

/* ---- from BEAM files ---- */

/* A module's name as its language writes it. A NUL in it would end it early; such a name is shown with its escape. */
static const char *own_name(struct graph_source *source, struct beam_text text) {
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    if (memchr(text.data, '\0', text.size))
        escape_text(&name, text.data, text.size);
    else
        buf_append(&name, text.data, text.size);
    const char *owned = own(source, buf_take_string(&name));
    return owned ? term_module_name(owned) : NULL;
}

static const char *const *own_names(struct graph_source *source, const struct beam_names *names) {
    const char **list = own(source, calloc(names->count + 1, sizeof *list));
    for (size_t i = 0; list && i < names->count; i++) {
        list[i] = own_name(source, names->items[i]);
        if (!list[i]) return NULL;
    }
    return list;
}

/* The project lies at /src in a compiler node. */
static char *source_of(const struct beam *beam) {
    static const char root[] = "/src/";
    char *path = beam_source(beam);
    if (path && string_starts(path, root)) memmove(path, path + strlen(root), strlen(path + strlen(root)) + 1);
    return path;
}

typedef int names_fn(const struct beam *beam, struct beam_names *ret, struct error *reterr);

static int add_needs(struct graph_source *source, struct graph_module *module, const struct beam *beam,
                     enum graph_kind kind, names_fn *find, struct error *reterr) {
    CLEANUP(beam_names_free) struct beam_names names = {0};
    int result = find(beam, &names, reterr);
    if (result < 0) return result;
    module->needs[kind] = own_names(source, &names);
    return module->needs[kind] ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a module's dependencies");
}

int graph_source_add_beam(struct graph_source *source, const char *app, const uint8_t *data, size_t size,
                          struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = NULL;
    struct graph_module module = {0};
    int result = beam_read(data, size, &beam_default_options, &beam, reterr);
    if (result < 0) return result;
    char *file = source_of(beam);
    module.module = own_name(source, beam_module(beam));
    module.app = own(source, strdup(app));
    module.file = file ? own(source, file) : NULL;
    result = add_needs(source, &module, beam, GRAPH_COMPILE, beam_compile_dependencies, reterr);
    if (result == 0) result = add_needs(source, &module, beam, GRAPH_RUNTIME, beam_runtime_dependencies, reterr);
    if (result < 0) return result;
    struct graph_module *added = module.module && module.app ? add_module(source) : NULL;
    if (!added) return error_set(reterr, E_NO_MEMORY, "no memory for a module");
    *added = module;
    return 0;
}

static int read_beam(int folder, const char *name, struct buf *content, struct error *reterr) {
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "reading %s", name);
    if (status.st_size > BEAM_MAX_BYTES || !buf_reserve(content, (size_t)status.st_size))
        return error_set(reterr, E_TOO_LARGE, "%s is larger than %d MiB", name, BEAM_MAX_BYTES >> 20);
    while (content->size < (size_t)status.st_size) {
        ssize_t got = read(fd, content->data + content->size, (size_t)status.st_size - content->size);
        if (got <= 0) return error_errno(reterr, got < 0 ? errno : EIO, "reading %s", name);
        content->size += (size_t)got;
    }
    return 0;
}

static int add_file(struct graph_source *source, const char *app, int folder, const char *name, struct error *reterr) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    int result = read_beam(folder, name, &content, reterr);
    if (result == 0) result = graph_source_add_beam(source, app, content.data, content.size, reterr);
    return result < 0 ? error_prefix(reterr, "%s/ebin/%s", app, name) : 0;
}

static int add_app(struct graph_source *source, const char *build, const char *app, struct error *reterr) {
    char path[PATH_MAX];
    int result = string_format(path, sizeof path, reterr, "%s/%s/ebin", build, app);
    DIR *directory = result < 0 ? NULL : opendir(path);
    struct dirent *entry;
    if (!directory) return result < 0 ? result : errno == ENOENT ? 0 : error_errno(reterr, errno, "reading %s", path);
    while (result == 0 && (entry = readdir(directory)))
        if (string_ends(entry->d_name, ".beam"))
            result = add_file(source, app, dirfd(directory), entry->d_name, reterr);
    closedir(directory);
    return result;
}

static int add_apps(struct graph_source *source, const char *path, const json_t *facts, struct error *reterr) {
    size_t i;
    json_t *app;
    int result = 0;
    json_array_foreach(json_object_get(facts, "apps"), i, app) {
        const char *name = json_string_value(json_object_get(app, "name"));
        if (result == 0 && name) result = add_app(source, path, name, reterr);
    }
    return result;
}

/* Ask the BEAM files of modules whose calls the description does not tell. */
static int complete(struct graph_source *source, const char *build, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < source->count; i++) {
        struct graph_module *module = &source->modules[i];
        char path[PATH_MAX];
        CLEANUP(buf_free) struct buf atom = BUF_INIT, content = BUF_INIT;
        CLEANUP_BEAM struct beam *beam = NULL;
        if (module->needs[GRAPH_RUNTIME] || !module->app) continue;
        term_module_atom(module->module, &atom);
        result = string_format(path, sizeof path, reterr, "%s/%s/ebin/%s.beam", build, module->app, buf_string(&atom));
        if (result == 0 && access(path, F_OK) < 0) continue; /* made otherwise than the description says */
        if (result == 0) result = read_beam(AT_FDCWD, path, &content, reterr);
        if (result == 0) result = beam_read(content.data, content.size, &beam_default_options, &beam, reterr);
        if (result == 0) result = add_needs(source, module, beam, GRAPH_RUNTIME, beam_runtime_dependencies, reterr);
    }
    return result;
}

/* ---- rendered ---- */

static int add_text(json_t *object, const struct graph *graph, enum graph_format format,
                    const struct graph_style *style, struct error *reterr) {
    CLEANUP(buf_free) struct buf text = {.max = ANSWER_TEXT_MAX_BYTES};
    if (format == GRAPH_TEXT) graph_to_text(graph, style, &text);
    if (format == GRAPH_DOT) graph_to_dot(graph, style, &text);
    if (text.failed)
        return error_set(reterr, E_TOO_LARGE, "the graph is longer than %d MiB", ANSWER_TEXT_MAX_BYTES >> 20);
    json_object_set_new(object, "text", json_string(buf_string(&text)));
    return 0;
}

static int render(const struct graph_source *source, enum graph_format format, const struct graph_style *style,
                  json_t **ret, struct error *reterr) {
    CLEANUP_GRAPH struct graph *graph = NULL;
    int result = graph_make(source->modules, source->count, &graph, reterr);
    if (result < 0) return result;
    json_t *object = graph_to_json(graph, style);
    if (!object) return error_set(reterr, E_NO_MEMORY, "no memory for a graph");
    if (format != GRAPH_JSON) result = add_text(object, graph, format, style, reterr);
    if (result < 0)
        json_decref(object);
    else
        *ret = object;
    return result;
}

static int read_source(const char *path, json_t *facts, struct graph_source *source, struct error *reterr) {
    if (graph_source_from_facts(source, facts)) return complete(source, path, reterr);
    graph_source_free(source);
    return add_apps(source, path, facts, reterr);
}

int graph_of_build(const struct store *store, const char *digest, enum graph_format format,
                   const struct graph_style *style, json_t **ret, struct error *reterr) {
    CLEANUP(graph_source_free) struct graph_source source = {0};
    char path[PATH_MAX];
    json_t *facts = NULL;
    int result = store_build_path(store, digest, path, sizeof path, reterr);
    if (result == 0) result = build_read_facts(path, &facts, reterr);
    if (result == 0) result = read_source(path, facts, &source, reterr);
    if (result == 0) result = render(&source, format, style, ret, reterr);
    json_decref(facts);
    return result;
}
