/* Between the files that read folders. */
#ifndef WATCH_WATCH_INTERNAL_H
#define WATCH_WATCH_INTERNAL_H

#include "watch/watch.h"

enum { WATCH_DIGEST_BYTES = 32 };

/* ---- patterns.c ---- */

int watch_patterns_copy(const struct watch_patterns *patterns, struct watch_patterns *ret);
void watch_patterns_free(struct watch_patterns *patterns);

/* ---- listing.c: the files of a folder as they were at one moment ---- */

struct watch_file {
    char *path;
    uint8_t digest[WATCH_DIGEST_BYTES]; /* of the content, or of a link's target */
    uint32_t kind;                      /* as in a mode */
    uint64_t inode, size;
    int64_t changed_ns, modified_ns;
};

struct watch_listing {
    struct watch_file *files; /* by path, once sorted */
    size_t count, capacity;
    int64_t read_at_ns; /* when reading began */
};

struct watch_file *watch_listing_add(struct watch_listing *listing, const char *path); /* NULL: no room */
void watch_listing_sort(struct watch_listing *listing);
const struct watch_file *watch_listing_find(const struct watch_listing *listing, const char *path);
void watch_listing_free(struct watch_listing *listing);
/* What the digest of a file can be taken over from: the same file, not written since it was read. */
bool watch_file_is_same(const struct watch_listing *before, const struct watch_file *known,
                        const struct watch_file *now);
/* Files that came, went or have other content; paths are the listings'. False without memory. */
bool watch_listing_compare(const struct watch_listing *before, const struct watch_listing *after,
                           struct watch_change **ret, size_t *ret_count);

/* ---- watcher.c ---- */

/* For tests, which have no seconds and no thousands of files. */
void watcher_poll_every(struct watcher *watcher, uint64_t every_ms);
void watcher_bound_files(struct watcher *watcher, size_t files_max);

/* ---- look.c: reading a folder, off the loop's thread ---- */

struct watch_look {
    /* in */
    int folder_fd, inotify_fd;
    const struct watch_patterns *patterns;
    const struct watch_listing *before;
    size_t files_max;
    /* out */
    struct watch_listing listing;
    int *wds; /* of every folder that is watched now, the folder itself first */
    size_t wd_count;
    bool is_gone;
    char polling[160]; /* why watching is not enough; "" */
    struct error error;
};

/* Watch each folder before reading it, so that nothing is missed between the two. Blocking. */
void watch_look_run(struct watch_look *look);
void watch_look_free(struct watch_look *look);

#endif
