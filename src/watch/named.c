/* The files that events have named since the last reading, and the folders by which events name them. */
#include <stdio.h>
#include <string.h>

#include "watch/watch_internal.h"

/* ---- folders ---- */

bool watch_folders_add(struct watch_folders *folders, int wd, const char *path) {
    if (folders->count == folders->capacity) {
        size_t capacity = folders->capacity ? folders->capacity * 2 : 32;
        struct watch_folder *grown = realloc(folders->items, capacity * sizeof *grown);
        if (!grown) return false;
        folders->items = grown;
        folders->capacity = capacity;
    }
    struct watch_folder *folder = &folders->items[folders->count];
    *folder = (struct watch_folder){wd, strdup(path)};
    folders->count += folder->path != NULL;
    return folder->path != NULL;
}

static int by_wd(const void *a, const void *b) {
    const struct watch_folder *first = a, *second = b;
    return (first->wd > second->wd) - (first->wd < second->wd);
}

void watch_folders_sort(struct watch_folders *folders) {
    if (folders->count > 0) qsort(folders->items, folders->count, sizeof *folders->items, by_wd);
}

/* A folder that is mounted in two places has one watch descriptor for both, so its path is unknown. */
const char *watch_folders_find(const struct watch_folders *folders, int wd) {
    if (folders->count == 0) return NULL;
    const struct watch_folder *end = folders->items + folders->count;
    const struct watch_folder *found =
        bsearch(&(struct watch_folder){.wd = wd}, folders->items, folders->count, sizeof *folders->items, by_wd);
    if (!found || (found > folders->items && found[-1].wd == wd) || (found + 1 < end && found[1].wd == wd)) return NULL;
    return found->path;
}

void watch_folders_free(struct watch_folders *folders) {
    for (size_t i = 0; i < folders->count; i++) free(folders->items[i].path);
    free(folders->items);
    *folders = (struct watch_folders){0};
}

/* ---- names ---- */

static bool has_name(const struct watch_named *named, const char *path) {
    for (size_t i = named->count; i > 0; i--) /* one save causes several events for the same file */
        if (strcmp(named->paths[i - 1], path) == 0) return true;
    return false;
}

static void add_path(struct watch_named *named, char *path) {
    bool is_known = path && has_name(named, path), is_new = path && !is_known && named->count < WATCH_NAMED_MAX;
    if (is_new)
        named->paths[named->count++] = path;
    else
        free(path);
    if (!is_known && !is_new) named->is_everything = true;
}

void watch_named_add(struct watch_named *named, const char *folder, const char *name) {
    if (named->is_everything) return;
    add_path(named, string_print("%s%s%s", folder, folder[0] ? "/" : "", name));
}

void watch_named_join(struct watch_named *named, struct watch_named *more) {
    named->is_everything |= more->is_everything;
    for (size_t i = 0; i < more->count; i++) add_path(named, take_ptr(more->paths[i]));
    *more = (struct watch_named){0};
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void watch_named_sort(struct watch_named *named) {
    if (named->count > 0) qsort(named->paths, named->count, sizeof *named->paths, by_path);
}

void watch_named_free(struct watch_named *named) {
    for (size_t i = 0; i < named->count; i++) free(named->paths[i]);
    *named = (struct watch_named){0};
}
