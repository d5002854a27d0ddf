/* A listing made by hand: paths, and a letter for the content of each. */
#ifndef TEST_LISTING_OF_H
#define TEST_LISTING_OF_H

#include <sys/stat.h>

#include "watch/watch_internal.h"

static inline struct watch_listing listing_of(const char *const *paths, const char *contents) {
    struct watch_listing listing = {0};
    for (size_t i = 0; paths[i]; i++) {
        struct watch_file *file = watch_listing_add(&listing, paths[i]);
        assert_non_null(file);
        file->kind = S_IFREG;
        file->digest[0] = (uint8_t)contents[i];
    }
    watch_listing_sort(&listing);
    return listing;
}

#endif
