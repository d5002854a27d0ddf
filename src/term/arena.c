/* An arena: memory of a decoded term, allocated in chunks and freed at once. */
#include <stdalign.h>
#include <stdlib.h>

#include "term/term_internal.h"

enum { FIRST_CHUNK_BYTES = 1024, LARGEST_CHUNK_BYTES = 1 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t capacity;
    alignas(max_align_t) uint8_t data[];
};

/* Chunks double up to a bound, so that a small term costs little and a large one few allocations. */
static size_t next_capacity(const struct arena *arena, size_t size) {
    size_t capacity = arena->chunks ? arena->chunks->capacity * 2 : FIRST_CHUNK_BYTES;
    if (capacity > LARGEST_CHUNK_BYTES) capacity = LARGEST_CHUNK_BYTES;
    return capacity < size ? size : capacity;
}

void *arena_allocate(struct arena *arena, size_t size) {
    const size_t alignment = alignof(max_align_t);
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + alignment - 1) / alignment * alignment;
    if (!arena->chunks || size > arena->chunks->capacity - arena->used) {
        size_t capacity = next_capacity(arena, size);
        struct arena_chunk *chunk = malloc(sizeof *chunk + capacity);
        if (!chunk) return NULL;
        chunk->next = arena->chunks;
        chunk->capacity = capacity;
        arena->chunks = chunk;
        arena->used = 0;
    }
    void *memory = arena->chunks->data + arena->used;
    arena->used += size;
    return memory;
}

void arena_free(struct arena *arena) {
    while (arena->chunks) {
        struct arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->used = 0;
}
