/* A hash map from text to pointers, with open addressing. It grows as entries come. */
#include "base/data/map.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 16 };

struct map_slot {
    char *key; /* NULL: never used, or removed when value is the tombstone */
    void *value;
};

static char tombstone;

/* FNV-1a; keys are ids that their users choose, so the load bound matters more than resistance to collisions. */
static size_t hash_key(const char *key) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char *at = key; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3ULL;
    return (size_t)(hash ^ hash >> 32);
}

void map_free(struct map *map) {
    for (size_t i = 0; i < map->capacity; i++) free(map->slots[i].key);
    free(map->slots);
    *map = (struct map)MAP_INIT;
}

static struct map_slot *find(const struct map *map, const char *key) {
    if (map->capacity == 0) return NULL;
    for (size_t i = hash_key(key);; i++) {
        struct map_slot *slot = &map->slots[i & (map->capacity - 1)];
        if (slot->key && strcmp(slot->key, key) == 0) return slot;
        if (!slot->key && slot->value != &tombstone) return NULL;
    }
}

void *map_get(const struct map *map, const char *key) {
    struct map_slot *slot = find(map, key);
    return slot ? slot->value : NULL;
}

static void insert(struct map *map, char *key, void *value) {
    for (size_t i = hash_key(key);; i++) {
        struct map_slot *slot = &map->slots[i & (map->capacity - 1)];
        if (slot->key) continue;
        if (slot->value != &tombstone) map->used++;
        *slot = (struct map_slot){key, value};
        map->count++;
        return;
    }
}

/* Keep at least a third of the slots never used, so that every search ends. */
static bool make_room(struct map *map) {
    if ((map->used + 1) * 3 <= map->capacity * 2) return true;
    struct map grown = {.capacity = FIRST_CAPACITY};
    while (grown.capacity < (map->count + 1) * 3) grown.capacity *= 2;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key) insert(&grown, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = grown;
    return true;
}

bool map_set(struct map *map, const char *key, void *value) {
    if (!value) return false;
    struct map_slot *slot = find(map, key);
    if (slot) {
        slot->value = value;
        return true;
    }
    char *copy = strdup(key);
    if (!copy || !make_room(map)) {
        free(copy);
        return false;
    }
    insert(map, copy, value);
    return true;
}

void *map_remove(struct map *map, const char *key) {
    struct map_slot *slot = find(map, key);
    if (!slot) return NULL;
    void *value = slot->value;
    free(slot->key);
    *slot = (struct map_slot){NULL, &tombstone};
    map->count--;
    return value;
}

bool map_next(const struct map *map, size_t *at, const char **ret_key, void **ret_value) {
    for (; *at < map->capacity; (*at)++) {
        struct map_slot *slot = &map->slots[*at];
        if (!slot->key) continue;
        if (ret_key) *ret_key = slot->key;
        if (ret_value) *ret_value = slot->value;
        (*at)++;
        return true;
    }
    return false;
}
