/* The version history of a sandbox's modules, and its JSON form in the registry and for callers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

struct module_history {
    struct version *versions; /* oldest first */
    size_t count;
    uint32_t next;
};

static void free_one(struct module_history *one) {
    for (size_t i = 0; i < one->count; i++) json_decref(one->versions[i].dependencies);
    free(one->versions);
    free(one);
}

void history_free(struct history *history) {
    size_t at = 0;
    void *one;
    while (map_next(&history->modules, &at, NULL, &one)) free_one(one);
    map_free(&history->modules);
}

static struct module_history *find_module(const struct history *history, const char *module) {
    return map_get(&history->modules, module);
}

static struct module_history *need_module(struct history *history, const char *module) {
    struct module_history *one = find_module(history, module);
    if (one) return one;
    one = calloc(1, sizeof *one);
    if (!one) return NULL;
    one->next = 1;
    if (map_set(&history->modules, module, one)) return one;
    free(one);
    return NULL;
}

/* ---- searching ---- */

const struct version *history_find(const struct history *history, const char *module, uint32_t number) {
    const struct module_history *one = find_module(history, module);
    for (size_t i = 0; one && i < one->count; i++)
        if (one->versions[i].number == number) return &one->versions[i];
    return NULL;
}

const struct version *history_find_checksum(const struct history *history, const char *module, const char *checksum) {
    const struct module_history *one = find_module(history, module);
    for (size_t i = one ? one->count : 0; i > 0; i--)
        if (strcmp(one->versions[i - 1].checksum, checksum) == 0) return &one->versions[i - 1];
    return NULL;
}

const struct version *history_previous(const struct history *history, const char *module) {
    const struct module_history *one = find_module(history, module);
    const struct version *before = NULL;
    for (size_t i = 0; one && i < one->count; i++) {
        if (one->versions[i].is_current) return before;
        before = &one->versions[i];
    }
    return before; /* deleted: the last version that existed */
}

uint32_t history_next(const struct history *history, const char *module) {
    const struct module_history *one = find_module(history, module);
    return one ? one->next : 1;
}

bool history_name_beams(const struct history *history, struct map *ret) {
    size_t at = 0;
    void *value;
    while (map_next(&history->modules, &at, NULL, &value)) {
        struct module_history *one = value;
        for (size_t i = 0; i < one->count; i++)
            if (one->versions[i].beam[0] && !map_set(ret, one->versions[i].beam, one)) return false;
    }
    return true;
}

/* ---- changing ---- */

static void forget_oldest(struct module_history *one) {
    size_t oldest = one->versions[0].is_current ? 1 : 0;
    json_decref(one->versions[oldest].dependencies);
    memmove(&one->versions[oldest], &one->versions[oldest + 1], (one->count - oldest - 1) * sizeof *one->versions);
    one->count--;
}

static bool append(struct module_history *one, const struct version *version) {
    struct version *grown = realloc(one->versions, (one->count + 1) * sizeof *grown);
    if (!grown) return false;
    one->versions = grown;
    one->versions[one->count++] = *version;
    if (one->next <= version->number) one->next = version->number + 1;
    while (one->count > VERSIONS_KEPT) forget_oldest(one);
    return true;
}

void history_set_current(struct history *history, const char *module, uint32_t number) {
    struct module_history *one = find_module(history, module);
    for (size_t i = 0; one && i < one->count; i++) {
        struct version *version = &one->versions[i];
        if (version->number == number && !version->is_current) version->loads++;
        version->is_current = version->number == number;
    }
}

bool history_add(struct history *history, const char *module, const struct version *version) {
    struct module_history *one = need_module(history, module);
    struct version added = *version;
    if (one) added.number = one->next;
    if (!one || !append(one, &added)) {
        json_decref(added.dependencies);
        return false;
    }
    history_set_current(history, module, added.number);
    return true;
}

static bool copy_one(const struct module_history *one, struct module_history *ret) {
    for (size_t i = 0; i < one->count; i++) {
        struct version version = one->versions[i];
        json_incref(version.dependencies); /* they never change, and their references are counted atomically */
        if (!append(ret, &version)) {
            json_decref(version.dependencies);
            return false;
        }
    }
    ret->next = one->next;
    return true;
}

bool history_copy(const struct history *history, struct history *ret) {
    size_t at = 0;
    const char *module;
    void *one;
    while (map_next(&history->modules, &at, &module, &one)) {
        struct module_history *copy = need_module(ret, module);
        if (!copy || !copy_one(one, copy)) return false;
    }
    return true;
}

/* ---- shared histories ---- */

struct shared_history *history_share(struct history *history) {
    struct shared_history *shared = new_or_abort(struct shared_history);
    atomic_init(&shared->users, 1);
    shared->history = *history;
    *history = (struct history){0};
    return shared;
}

struct shared_history *history_hold(struct shared_history *shared) {
    if (shared) atomic_fetch_add(&shared->users, 1);
    return shared;
}

void history_let_go(struct shared_history *shared) {
    if (!shared || atomic_fetch_sub(&shared->users, 1) > 1) return;
    history_free(&shared->history);
    free(shared);
}

const struct history *history_of(const struct shared_history *shared) {
    static const struct history none;
    return shared ? &shared->history : &none;
}

/* ---- as JSON ---- */

static json_t *version_to_json(const struct version *version) {
    return json_pack("{s:i, s:s, s:s, s:s, s:O?, s:I, s:I, s:I, s:I, s:b}", "version", (int)version->number, "checksum",
                     version->checksum, "beam", version->beam, "source", version->source, "dependencies",
                     version->dependencies, "size_bytes", (json_int_t)version->size_bytes, "loaded_at_ms",
                     (json_int_t)version->loaded_at_ms, "loaded_by", (json_int_t)version->loaded_by, "loads",
                     (json_int_t)version->loads, "current", (int)version->is_current);
}

static bool version_from_json(json_t *json, struct version *ret) {
    const char *checksum, *beam, *source;
    int number, current;
    json_int_t loaded_at, loaded_by, size = 0, loads = 1;
    json_t *dependencies;
    if (json_unpack(json, "{s:i, s:s, s:s, s:s, s:o, s:I, s:I, s:b, s?I, s?I}", "version", &number, "checksum",
                    &checksum, "beam", &beam, "source", &source, "dependencies", &dependencies, "loaded_at_ms",
                    &loaded_at, "loaded_by", &loaded_by, "current", &current, "size_bytes", &size, "loads",
                    &loads) < 0 ||
        number < 1)
        return false;
    *ret = (struct version){.number = (uint32_t)number,
                            .dependencies = json_incref(dependencies),
                            .size_bytes = (uint64_t)size,
                            .loads = (uint32_t)loads,
                            .loaded_at_ms = loaded_at,
                            .loaded_by = (uint32_t)loaded_by,
                            .is_current = current};
    snprintf(ret->checksum, sizeof ret->checksum, "%s", checksum);
    snprintf(ret->beam, sizeof ret->beam, "%s", beam);
    snprintf(ret->source, sizeof ret->source, "%s", source);
    return true;
}

char *history_text(const struct history *history, const char *module) {
    const struct module_history *one = find_module(history, module);
    json_t *versions = json_array();
    for (size_t i = 0; one && i < one->count; i++) json_array_append_new(versions, version_to_json(&one->versions[i]));
    json_t *json = json_pack("{s:i, s:o}", "next", one ? (int)one->next : 1, "versions", versions);
    struct buf text = BUF_INIT;
    term_json_write(json, &text);
    json_decref(json);
    return buf_take_string(&text);
}

bool history_restore(struct history *history, const char *module, const char *text) {
    json_t *json = json_loads(text, 0, NULL), *item;
    size_t i;
    struct module_history *one = json ? need_module(history, module) : NULL;
    bool good = one != NULL;
    json_array_foreach(json_object_get(json, "versions"), i, item) {
        struct version version;
        good = good && version_from_json(item, &version);
        if (good && !append(one, &version)) good = false;
    }
    uint32_t next = (uint32_t)json_integer_value(json_object_get(json, "next"));
    if (good && next > one->next) one->next = next;
    json_decref(json);
    return good;
}

static json_t *text_or_null(const char *text) {
    return text[0] ? json_string(text) : json_null();
}

json_t *version_describe(const struct version *version, const char *module) {
    char time[RFC3339_BYTES];
    clock_rfc3339(version->loaded_at_ms, time);
    json_t *size = version->size_bytes ? json_integer((json_int_t)version->size_bytes) : json_null();
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:s, s:I, s:I, s:O?, s:b}", "module", term_module_name(module),
                     "version", (int)version->number, "checksum", version->checksum, "source",
                     text_or_null(version->source), "size_bytes", size, "loaded_at", time, "loaded_by",
                     (json_int_t)version->loaded_by, "loads", (json_int_t)version->loads, "dependencies",
                     version->dependencies, "current", (int)version->is_current);
}

json_t *history_to_json(const struct history *history, const char *module) {
    const struct module_history *one = find_module(history, module);
    json_t *list = json_array();
    for (size_t i = one ? one->count : 0; i > 0; i--)
        json_array_append_new(list, version_describe(&one->versions[i - 1], module));
    return list;
}

/* ---- summaries ---- */

static void count_in(json_t *summary, const json_t *version) {
    json_int_t versions = json_integer_value(json_object_get(summary, "versions")) + 1;
    json_int_t loads =
        json_integer_value(json_object_get(summary, "loads")) + json_integer_value(json_object_get(version, "loads"));
    json_int_t bytes = json_integer_value(json_object_get(summary, "size_bytes")) +
                       json_integer_value(json_object_get(version, "size_bytes"));
    json_object_set_new(summary, "versions", json_integer(versions));
    json_object_set_new(summary, "loads", json_integer(loads));
    if (bytes > 0) json_object_set_new(summary, "size_bytes", json_integer(bytes)); /* else unknown, like the size */
    json_object_set(summary, "first_loaded_at", json_object_get(version, "loaded_at")); /* the oldest is last in the
                                                                                           list */
    if (json_is_true(json_object_get(version, "current")))
        json_object_set(summary, "current_version", json_object_get(version, "version"));
}

json_t *versions_summarize(const json_t *list) {
    json_t *summaries = json_array(), *summary = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *version = json_array_get(list, i);
        if (!summary || !json_equal(json_object_get(summary, "module"), json_object_get(version, "module"))) {
            summary = json_pack("{s:O, s:n, s:i, s:i, s:n, s:n, s:O}", "module", json_object_get(version, "module"),
                                "current_version", "versions", 0, "loads", 0, "size_bytes", "first_loaded_at",
                                "last_loaded_at", json_object_get(version, "loaded_at"));
            json_array_append_new(summaries, summary);
        }
        count_in(summary, version);
    }
    return summaries;
}
