/* Between the files that read folders. */
#ifndef WATCH_WATCH_INTERNAL_H
#define WATCH_WATCH_INTERNAL_H

#include "watch/watch.h"

enum {
    WATCH_DIGEST_BYTES = 32,
    WATCH_NAMED_MAX = 64, /* of files that are looked at by themselves; with more of them, everything is */
};

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

/* ---- named.c: what events have named since the last look, and the folders by which they name it ---- */

struct watch_folder {
    int wd;
    char *path; /* "" for the folder itself */
};

struct watch_folders {
    struct watch_folder *items; /* by descriptor, once sorted */
    size_t count, capacity;
};

bool watch_folders_add(struct watch_folders *folders, int wd, const char *path); /* false without memory */
void watch_folders_sort(struct watch_folders *folders);
const char *watch_folders_find(const struct watch_folders *folders, int wd); /* NULL: it can't be told */
void watch_folders_free(struct watch_folders *folders);

struct watch_named {
    bool is_everything; /* something has no name, or there are too many */
    char *paths[WATCH_NAMED_MAX];
    size_t count;
};

void watch_named_add(struct watch_named *named, const char *folder, const char *name);
void watch_named_join(struct watch_named *named, struct watch_named *more); /* leaves more empty */
void watch_named_sort(struct watch_named *named);
void watch_named_free(struct watch_named *named);

/* As watch_listing_compare, of what was read of these paths alone; paths are the names'. */
bool watch_listing_compare_named(const struct watch_listing *before, const struct watch_listing *found,
                                 const struct watch_named *named, struct watch_change **ret, size_t *ret_count);
/* Put what was found in the place of what was known of these paths. False when there is no room for it: only a look at
   everything tells what there is then. */
bool watch_listing_patch(struct watch_listing *listing, const struct watch_listing *found,
                         const struct watch_named *named, size_t files_max);

/* ---- subjects.c: who watches what ---- */

struct watch_subject {
    int wd;
    struct watch **users;
    size_t user_count;
};

struct watch_subject *watch_subject_find(const struct map *subjects, int wd);
void watch_subject_forget(struct map *subjects, int wd);
void watch_subjects_exchange(struct map *subjects, struct watch *watch, const struct watch_folders *from,
                             const struct watch_folders *to);
/* Stop watching what nobody uses. Not while a look is under way, which may just have been given the same descriptor. */
void watch_subjects_sweep(struct map *subjects, int inotify_fd);
void watch_subjects_free(struct map *subjects);

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
    bool is_first; /* before is nothing that was ever found */
    size_t files_max;
    struct watch_named named; /* look at these alone, unless one is a folder or can't be reached */
    /* out */
    bool is_whole;                /* it was looked at everything */
    struct watch_listing listing; /* else of what was named */
    struct watch_folders folders; /* that are watched now, after a whole look */
    bool is_gone;
    char polling[160]; /* why watching is not enough; "" */
    struct error error;
    struct watch_change *changes; /* whose paths are in before, listing and named */
    size_t change_count;
};

/* Watch each folder before reading it, so that nothing is missed between the two. Blocking. */
void watch_look_run(struct watch_look *look);
/* What differs from before, where the look found anything. */
void watch_look_compare(struct watch_look *look);
void watch_look_free(struct watch_look *look);

#endif
