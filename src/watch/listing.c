/* Listings of a folder's files, sorted by path: comparing two, and updating some of their files. Pure functions. */
#include <string.h>

#include "watch/watch_internal.h"

/* A file that was changed so shortly before it was read may have changed again with the same timestamp. */
static const int64_t settled_ns = 50000000;

struct watch_file *watch_listing_add(struct watch_listing *listing, const char *path) {
    if (listing->count >= WATCH_FILES_MAX) return NULL;
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? listing->capacity * 2 : 64;
        struct watch_file *grown = realloc(listing->files, capacity * sizeof *grown);
        if (!grown) return NULL;
        listing->files = grown;
        listing->capacity = capacity;
    }
    struct watch_file *file = &listing->files[listing->count];
    *file = (struct watch_file){.path = strdup(path)};
    if (!file->path) return NULL;
    listing->count++;
    return file;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct watch_file *)a)->path, ((const struct watch_file *)b)->path);
}

void watch_listing_sort(struct watch_listing *listing) {
    if (listing->count > 0) qsort(listing->files, listing->count, sizeof *listing->files, by_path);
}

static int compare_path(const void *key, const void *file) {
    return strcmp(key, ((const struct watch_file *)file)->path);
}

const struct watch_file *watch_listing_find(const struct watch_listing *listing, const char *path) {
    if (listing->count == 0) return NULL;
    return bsearch(path, listing->files, listing->count, sizeof *listing->files, compare_path);
}

void watch_listing_free(struct watch_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) free(listing->files[i].path);
    free(listing->files);
    *listing = (struct watch_listing){0};
}

bool watch_file_is_same(const struct watch_listing *before, const struct watch_file *known,
                        const struct watch_file *now) {
    return known->kind == now->kind && known->inode == now->inode && known->size == now->size &&
           known->changed_ns == now->changed_ns && known->modified_ns == now->modified_ns &&
           now->changed_ns <= before->read_at_ns - settled_ns;
}

static bool has_other_content(const struct watch_file *a, const struct watch_file *b) {
    return a->kind != b->kind || memcmp(a->digest, b->digest, sizeof a->digest) != 0;
}

/* Compares the next entries of two sorted lists: negative if the first comes next, positive for the second, zero for
   both. At least one list has not ended. */
static int next_in_order(const struct watch_listing *before, size_t i, const struct watch_listing *after, size_t k) {
    if (i == before->count) return 1;
    if (k == after->count) return -1;
    return strcmp(before->files[i].path, after->files[k].path);
}

/* Both lists are sorted, so one pass over the two is enough, as in a merge. */
bool watch_listing_compare(const struct watch_listing *before, const struct watch_listing *after,
                           struct watch_change **ret, size_t *ret_count) {
    struct watch_change *changes = calloc(before->count + after->count + 1, sizeof *changes);
    size_t count = 0;
    if (!changes) return false;
    for (size_t i = 0, k = 0; i < before->count || k < after->count;) {
        int order = next_in_order(before, i, after, k);
        if (order < 0)
            changes[count++] = (struct watch_change){before->files[i].path, WATCH_REMOVED};
        else if (order > 0)
            changes[count++] = (struct watch_change){after->files[k].path, WATCH_ADDED};
        else if (has_other_content(&before->files[i], &after->files[k]))
            changes[count++] = (struct watch_change){after->files[k].path, WATCH_MODIFIED};
        i += order <= 0;
        k += order >= 0;
    }
    *ret = changes;
    *ret_count = count;
    return true;
}

/* ---- named files only ---- */

static void add_change(struct watch_change *changes, size_t *count, const char *path, enum watch_change_kind kind) {
    changes[(*count)++] = (struct watch_change){path, kind};
}

bool watch_listing_compare_named(const struct watch_listing *before, const struct watch_listing *found,
                                 const struct watch_named *named, struct watch_change **ret, size_t *ret_count) {
    struct watch_change *changes = calloc(named->count + 1, sizeof *changes);
    size_t count = 0;
    if (!changes) return false;
    for (size_t i = 0; i < named->count; i++) {
        const char *path = named->paths[i];
        const struct watch_file *known = watch_listing_find(before, path), *now = watch_listing_find(found, path);
        if (known && !now)
            add_change(changes, &count, path, WATCH_REMOVED);
        else if (!known && now)
            add_change(changes, &count, path, WATCH_ADDED);
        else if (known && has_other_content(known, now))
            add_change(changes, &count, path, WATCH_MODIFIED);
    }
    *ret = changes;
    *ret_count = count;
    return true;
}

static void remove_file(struct watch_listing *listing, const char *path) {
    struct watch_file *file = (struct watch_file *)watch_listing_find(listing, path);
    if (!file) return;
    free(file->path);
    memmove(file, file + 1, (size_t)(listing->files + --listing->count - file) * sizeof *file);
}

/* The index of the first path after this one. */
static size_t place_of(const struct watch_listing *listing, const char *path) {
    size_t low = 0, high = listing->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(listing->files[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert_file(struct watch_listing *listing, const struct watch_file *file) {
    size_t at = place_of(listing, file->path);
    struct watch_file *last = watch_listing_add(listing, file->path);
    if (!last) return false;
    char *path = last->path;
    struct watch_file *place = listing->files + at;
    memmove(place + 1, place, (size_t)(last - place) * sizeof *place);
    *place = *file;
    place->path = path;
    return true;
}

/* The listing keeps its old read time. A file that was read later is at worst read again. */
bool watch_listing_patch(struct watch_listing *listing, const struct watch_listing *found,
                         const struct watch_named *named, size_t files_max) {
    size_t known = 0;
    for (size_t i = 0; i < named->count; i++) known += watch_listing_find(listing, named->paths[i]) != NULL;
    if (listing->count - known + found->count > files_max) return false;
    for (size_t i = 0; i < named->count; i++) remove_file(listing, named->paths[i]);
    for (size_t i = 0; i < found->count; i++)
        if (!insert_file(listing, &found->files[i])) return false;
    return true;
}
