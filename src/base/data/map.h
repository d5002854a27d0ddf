/* A hash map from strings to pointers. Keys are copied; values belong to the caller. */
#ifndef BASE_DATA_MAP_H
#define BASE_DATA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot;

struct map {
    struct map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    size_t used; /* live and removed slots */
};

#define MAP_INIT                                                                                                       \
    { 0 }

void map_free(struct map *map);
void *map_get(const struct map *map, const char *key);       /* NULL when absent */
bool map_set(struct map *map, const char *key, void *value); /* replaces; false without memory, or for a NULL value */
void *map_remove(struct map *map, const char *key);          /* the value it had, or NULL */

/* Walk all entries: `size_t at = 0; while (map_next(&map, &at, &key, &value))`. Removing the entry just given is fine.
 */
bool map_next(const struct map *map, size_t *at, const char **ret_key, void **ret_value);

#endif
