/* Shared by the files of the watch module. */
#ifndef WATCH_WATCH_INTERNAL_H
#define WATCH_WATCH_INTERNAL_H

#include "watch/watch.h"

enum {
    WATCH_DIGEST_BYTES = 32,
    WATCH_NAMED_MAX = 64, /* files that are read alone; with more, the whole folder is read */
};

/* ---- patterns.c ---- */

int watch_patterns_copy(const struct watch_patterns *patterns, struct watch_patterns *ret);
void watch_patterns_free(struct watch_patterns *patterns);

/* ---- listing.c: the files of a folder at one time ---- */

struct watch_file {
    char *path;
    uint8_t digest[WATCH_DIGEST_BYTES]; /* of the content, or of a link's target */
    uint32_t kind;                      /* as in a mode */
    uint64_t inode, size;
    int64_t changed_ns, modified_ns;
};

struct watch_listing {
    struct watch_file *files; /* sorted by path when complete */
    size_t count, capacity;
    int64_t read_at_ns; /* when reading began */
};

struct watch_file *watch_listing_add(struct watch_listing *listing, const char *path); /* NULL: too many files */
void watch_listing_sort(struct watch_listing *listing);
const struct watch_file *watch_listing_find(const struct watch_listing *listing, const char *path);
void watch_listing_free(struct watch_listing *listing);
/* Whether the known digest is still valid: the same file, not written since it was read. */
bool watch_file_is_same(const struct watch_listing *before, const struct watch_file *known,
                        const struct watch_file *now);
/* Returns added, removed and changed files; paths belong to the listings. False without memory. */
bool watch_listing_compare(const struct watch_listing *before, const struct watch_listing *after,
                           struct watch_change **ret, size_t *ret_count);

/* ---- named.c: files named by events since the last reading, and the folders by which events name them ---- */

struct watch_folder {
    int wd;
    char *path; /* "" for the folder itself */
};

struct watch_folders {
    struct watch_folder *items; /* sorted by descriptor when complete */
    size_t count, capacity;
};

bool watch_folders_add(struct watch_folders *folders, int wd, const char *path); /* false without memory */
void watch_folders_sort(struct watch_folders *folders);
const char *watch_folders_find(const struct watch_folders *folders, int wd); /* NULL: unknown */
void watch_folders_free(struct watch_folders *folders);

struct watch_named {
    bool is_everything; /* an event without a name, or too many names */
    char *paths[WATCH_NAMED_MAX];
    size_t count;
};

void watch_named_add(struct watch_named *named, const char *folder, const char *name);
void watch_named_join(struct watch_named *named, struct watch_named *more); /* empties `more` */
void watch_named_sort(struct watch_named *named);
void watch_named_free(struct watch_named *named);

/* ---- listing.c: the same for named files ---- */

/* Like watch_listing_compare for these paths only; paths belong to the names. */
bool watch_listing_compare_named(const struct watch_listing *before, const struct watch_listing *found,
                                 const struct watch_named *named, struct watch_change **ret, size_t *ret_count);
/* Replaces the entries of these paths. False if there is no room: then the whole folder must be read. */
bool watch_listing_patch(struct watch_listing *listing, const struct watch_listing *found,
                         const struct watch_named *named, size_t files_max);

/* ---- subjects.c: users of watch descriptors ---- */

struct watch_subject {
    int wd;
    struct watch **users;
    size_t user_count;
};

struct watch_subject *watch_subject_find(const struct map *subjects, int wd);
void watch_subject_forget(struct map *subjects, int wd);
void watch_subjects_exchange(struct map *subjects, struct watch *watch, const struct watch_folders *from,
                             const struct watch_folders *to);
/* Removes unused watches, some hundreds at once; false: there are more. Not while a reading runs, which may just have
   got the same descriptor. */
bool watch_subjects_sweep(struct map *subjects, int inotify_fd);
void watch_subjects_free(struct map *subjects);

/* ---- watcher.c ---- */

/* For tests, which can't wait for seconds or make thousands of files. */
void watcher_poll_every(struct watcher *watcher, uint64_t every_ms);
void watcher_bound_files(struct watcher *watcher, size_t files_max);
void watcher_bound_folders(struct watcher *watcher, size_t folders_max);

/* ---- read_folder.c: reading a folder on the thread pool ---- */

struct watch_reading {
    /* in */
    int folder_fd, inotify_fd;
    const struct watch_patterns *patterns;
    const struct watch_listing *before;
    bool is_first; /* there is no listing to compare with */
    size_t files_max, folders_max;
    struct watch_named named; /* read only these, unless one is a folder or can't be reached */
    /* out */
    bool is_whole;                /* the whole folder was read */
    struct watch_listing listing; /* else only of the named files */
    struct watch_folders folders; /* watched now, after a whole reading */
    bool is_gone;
    char polling[160]; /* why inotify is not enough; "" */
    struct error error;
    struct watch_change *changes; /* their paths belong to before, listing and named */
    size_t change_count;
};

/* Watches each folder before reading it, so that nothing is missed in between. Blocking. */
void watch_reading_run(struct watch_reading *reading);
/* Compares the result with `before`. */
void watch_reading_compare(struct watch_reading *reading);
void watch_reading_free(struct watch_reading *reading);

#endif
