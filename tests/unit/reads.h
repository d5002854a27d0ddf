/* How much of a node's answer the loop's thread reads and frees. For programs whose linker wraps the functions that
   answers are read by (reads_wrapped). */
#ifndef TEST_READS_H
#define TEST_READS_H

#include <pthread.h>
#include <stdatomic.h>

#include "term/term.h"

enum {
    READS_MANY = 5000,  /* of a large answer's terms: more than the loop decodes itself */
    READS_FEW = 100,    /* of the loop's, for the frame and for what a test takes from it */
    READS_LARGE = 4096, /* terms of a document that the loop may not free */
};

static pthread_t reads_loop_thread;
static atomic_size_t reads_by_loop, reads_by_others, frees_by_loop;

static inline void reads_begin(void) {
    reads_loop_thread = pthread_self();
    reads_by_loop = reads_by_others = frees_by_loop = 0;
}

/* The last answer was read and freed by other threads than the loop's. */
static inline void assert_read_off_loop(void) {
    assert_in_range(reads_by_loop, 0, READS_FEW);
    assert_true(reads_by_others > READS_FEW);
    assert_int_equal(frees_by_loop, 0);
}

static inline void reads_count(void) {
    atomic_size_t *count = pthread_equal(pthread_self(), reads_loop_thread) ? &reads_by_loop : &reads_by_others;
    atomic_fetch_add(count, 1);
}

const struct term *__real_term_at(const struct term *items, size_t index);
const struct term *__wrap_term_at(const struct term *items, size_t index);
const struct term *__wrap_term_at(const struct term *items, size_t index) {
    reads_count();
    return __real_term_at(items, index);
}

const struct term *__real_term_map_get(const struct term *map, const char *key);
const struct term *__wrap_term_map_get(const struct term *map, const char *key);
const struct term *__wrap_term_map_get(const struct term *map, const char *key) {
    reads_count();
    return __real_term_map_get(map, key);
}

struct term_doc *__real_term_free(struct term_doc *doc);
struct term_doc *__wrap_term_free(struct term_doc *doc);
struct term_doc *__wrap_term_free(struct term_doc *doc) {
    if (doc && term_count(doc) > READS_LARGE && pthread_equal(pthread_self(), reads_loop_thread)) frees_by_loop++;
    return __real_term_free(doc);
}

#endif
