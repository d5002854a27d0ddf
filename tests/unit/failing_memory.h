/* Allocations that fail, for a test that is linked with --wrap for each of the three. */
#ifndef TEST_FAILING_MEMORY_H
#define TEST_FAILING_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

/* How many allocations still succeed; negative: all. The wrapped functions have no context to keep it in. */
static int allocations_left = -1;

static bool allocation_fails(void) {
    if (allocations_left < 0) return false;
    if (allocations_left == 0) return true;
    allocations_left--;
    return false;
}

void *__wrap_malloc(size_t size) {
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size) {
    return allocation_fails() ? NULL : __real_realloc(pointer, size);
}

#endif
