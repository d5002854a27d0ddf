/* What has to be compiled again: the dependencies of files, and the digests of all that a file depends on. Pure. */
#include "compile/plan.h"

#include <stdlib.h>
#include <string.h>

#include "compile/cache/hash.h"
#include "compile/compile_internal.h"

/* A file whose compilation gives other bytes each time could make another stale for ever, and that one it again. */
enum { COMPILATIONS_MAX = 4 };

/* ---- who is where ---- */

static bool place_modules(struct plan *plan) {
    size_t count = 0;
    for (size_t i = 0; i < plan->manifest->count; i++) count += plan->manifest->records[i]->module_count;
    plan->places = calloc(count + 1, sizeof *plan->places);
    struct place *place = plan->places;
    for (size_t i = 0; place && i < plan->manifest->count; i++) {
        struct record *record = plan->manifest->records[i];
        for (size_t k = 0; k < record->module_count; k++, place++) {
            *place = (struct place){record, &record->modules[k]};
            const struct place *other = map_get(&plan->modules, record->modules[k].name);
            /* It went to another file, and the turn of the one that had it has not come. */
            if (other && other->record->compilations > record->compilations) continue;
            if (!map_set(&plan->modules, record->modules[k].name, place)) return false;
        }
    }
    return plan->places != NULL;
}

static void add_edges(const struct plan *plan, struct record *record, const struct name_list *names) {
    for (size_t i = 0; i < names->count; i++) {
        const struct place *place = map_get(&plan->modules, names->items[i]);
        if (place && place->record != record) record->edges[record->edge_count++] = place->record;
    }
}

static bool link_record(const struct plan *plan, struct record *record) {
    size_t most = record->compile.count + record->exports.count + record->runtime.count;
    free(record->edges);
    record->edge_count = 0;
    record->edges = calloc(most + 1, sizeof *record->edges);
    if (!record->edges) return false;
    add_edges(plan, record, &record->compile);
    add_edges(plan, record, &record->exports);
    add_edges(plan, record, &record->runtime);
    return true;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool count_headers(struct plan *plan) {
    for (size_t i = 0; i < plan->tree->count; i++) {
        const char *name = base_name(plan->tree->files[i].path);
        if (!string_ends(name, ".hrl")) continue;
        uintptr_t count = (uintptr_t)map_get(&plan->headers, name) + 1;
        if (!map_set(&plan->headers, name, (void *)count)) return false;
    }
    return true;
}

void plan_free(struct plan *plan) {
    map_free(&plan->modules);
    map_free(&plan->headers);
    free(take_ptr(plan->places));
}

bool plan_link(struct plan *plan) {
    plan_free(plan);
    bool good = place_modules(plan) && count_headers(plan);
    for (size_t i = 0; good && i < plan->manifest->count; i++) good = link_record(plan, plan->manifest->records[i]);
    return good;
}

/* ---- what ran ---- */

/* Walk everything that code of these modules can reach, without the record itself, whose mark tells that it was
   visited. The stack holds each record once at most. */
static size_t reach(struct plan *plan, const struct record *record, struct record **stack) {
    size_t count = 0;
    unsigned mark = ++plan->mark;
    for (size_t i = 0; i < record->compile.count; i++) {
        const struct place *place = map_get(&plan->modules, record->compile.items[i]);
        if (!place || strcmp(place->record->path, record->path) == 0 || place->record->mark == mark) continue;
        place->record->mark = mark;
        stack[count++] = place->record;
    }
    for (size_t at = 0; at < count; at++) {
        for (size_t i = 0; i < stack[at]->edge_count; i++) {
            struct record *next = stack[at]->edges[i];
            if (next->mark == mark || strcmp(next->path, record->path) == 0) continue;
            next->mark = mark;
            stack[count++] = next;
        }
    }
    return count;
}

static int by_place(const void *a, const void *b) {
    const struct record *left = *(struct record *const *)a, *right = *(struct record *const *)b;
    int order = strcmp(left->app, right->app);
    return order != 0 ? order : strcmp(left->path, right->path);
}

static void hash_modules(struct hash *hash, const struct record *record) {
    for (size_t i = 0; i < record->module_count; i++) {
        hash_text(hash, record->modules[i].name);
        hash_text(hash, record->modules[i].checksum);
    }
}

static void hash_reached(struct plan *plan, struct hash *hash, const struct record *record) {
    if (record->compile.count == 0) return;
    CLEANUP_FREE struct record **reached = calloc(plan->manifest->count + 1, sizeof *reached);
    if (!reached) {
        hash->good = false;
        return;
    }
    size_t count = reach(plan, record, reached);
    if (count > 1) qsort(reached, count, sizeof *reached, by_place);
    for (size_t i = 0; i < count; i++) hash_modules(hash, reached[i]);
}

/* ---- all that a file is compiled from ---- */

/* Another header of the same name may be found before the one that was read. */
static void hash_files(const struct plan *plan, struct hash *hash, const struct record *record) {
    static const uint8_t absent[DIGEST_BYTES];
    for (size_t i = 0; i < record->files.count; i++) {
        const struct tree_file *file = tree_find(plan->tree, record->files.items[i]);
        uintptr_t namesakes = (uintptr_t)map_get(&plan->headers, base_name(record->files.items[i]));
        hash_bytes(hash, &namesakes, sizeof namesakes);
        hash_text(hash, record->files.items[i]);
        hash_bytes(hash, file ? file->digest : absent, DIGEST_BYTES);
    }
}

static void hash_interfaces(const struct plan *plan, struct hash *hash, const struct record *record) {
    for (size_t i = 0; i < record->exports.count; i++) {
        const struct place *place = map_get(&plan->modules, record->exports.items[i]);
        hash_text(hash, record->exports.items[i]);
        hash_text(hash, place ? place->module->interface : "");
    }
}

/* A module that appears or goes matters to files that wanted to run its code. */
static void hash_presence(const struct plan *plan, struct hash *hash, const struct record *record) {
    for (size_t i = 0; i < record->compile.count; i++)
        hash_text(hash, map_get(&plan->modules, record->compile.items[i]) ? "there" : "absent");
}

void plan_inputs(struct plan *plan, const struct record *record, uint8_t ret[DIGEST_BYTES]) {
    struct hash hash;
    hash_begin(&hash);
    hash_bytes(&hash, record->digest, DIGEST_BYTES);
    hash_bytes(&hash, record->options, DIGEST_BYTES);
    if (record->reads_config) hash_bytes(&hash, plan->config, DIGEST_BYTES);
    hash_files(plan, &hash, record);
    hash_interfaces(plan, &hash, record);
    hash_presence(plan, &hash, record);
    hash_reached(plan, &hash, record);
    if (!hash_end(&hash, ret)) memset(ret, 0, DIGEST_BYTES); /* no memory: as if all of it had changed */
}

static bool is_stale(struct plan *plan, const struct record *record) {
    uint8_t inputs[DIGEST_BYTES];
    if (!record->is_compiled) return true;
    if (record->compilations >= COMPILATIONS_MAX) return false;
    plan_inputs(plan, record, inputs);
    return memcmp(inputs, record->inputs, sizeof inputs) != 0;
}

/* ---- rounds ---- */

/* Whether code that would run in its compilation is itself about to be compiled. */
static bool waits(struct plan *plan, const struct record *record, struct record **stack, const struct map *stale) {
    size_t count = reach(plan, record, stack);
    for (size_t i = 0; i < count; i++)
        if (map_get(stale, stack[i]->path) == stack[i]) return true;
    return false;
}

size_t plan_ready(struct plan *plan, struct record **stale, size_t count) {
    CLEANUP(map_free) struct map by_path = MAP_INIT;
    CLEANUP_FREE struct record **stack = calloc(plan->manifest->count + 1, sizeof *stack);
    CLEANUP_FREE struct record **ready = calloc(count + 1, sizeof *ready);
    size_t ready_count = 0;
    for (size_t i = 0; stack && ready && i < count; i++)
        if (!map_set(&by_path, stale[i]->path, stale[i])) return count;
    for (size_t i = 0; stack && ready && i < count; i++)
        if (!waits(plan, stale[i], stack, &by_path)) ready[ready_count++] = stale[i];
    if (ready_count == 0) return count; /* they wait for one another: all at once */
    memcpy(stale, ready, ready_count * sizeof *ready);
    return ready_count;
}

size_t plan_stale(struct plan *plan, const char *app, struct record **ret) {
    size_t count = 0;
    for (size_t i = 0; i < plan->manifest->count; i++) {
        struct record *record = plan->manifest->records[i];
        if (strcmp(record->app, app) == 0 && is_stale(plan, record)) ret[count++] = record;
    }
    return count;
}
