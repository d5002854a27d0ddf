/* Which watches use each inotify watch descriptor. The kernel has one per inode, however many watches share it. */
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "watch/watch_internal.h"

enum { REMOVED_AT_ONCE = 500 }; /* a millisecond of the loop */

static const char *key_of(int wd, char ret[16]) {
    snprintf(ret, 16, "%d", wd);
    return ret;
}

struct watch_subject *watch_subject_find(const struct map *subjects, int wd) {
    char key[16];
    return map_get(subjects, key_of(wd, key));
}

static void use(struct map *subjects, int wd, struct watch *watch) {
    char key[16];
    struct watch_subject *subject = map_get(subjects, key_of(wd, key));
    if (!subject) {
        subject = new_or_abort(struct watch_subject);
        if (!map_set(subjects, key, subject)) abort();
        subject->wd = wd;
    }
    struct watch **grown = realloc(subject->users, (subject->user_count + 1) * sizeof *grown);
    if (!grown) abort();
    subject->users = grown;
    subject->users[subject->user_count++] = watch;
}

/* The kernel may have removed it already, together with its folder. */
static void leave(struct map *subjects, int wd, const struct watch *watch) {
    struct watch_subject *subject = watch_subject_find(subjects, wd);
    for (size_t i = 0; subject && i < subject->user_count; i++) {
        if (subject->users[i] != watch) continue;
        subject->users[i] = subject->users[--subject->user_count];
        return;
    }
}

static void free_subject(struct watch_subject *subject) {
    if (subject) free(subject->users);
    free(subject);
}

void watch_subject_forget(struct map *subjects, int wd) {
    char key[16];
    free_subject(map_remove(subjects, key_of(wd, key)));
}

/* Adds the new descriptors first, so that one that stays always has a user. */
void watch_subjects_exchange(struct map *subjects, struct watch *watch, const struct watch_folders *from,
                             const struct watch_folders *to) {
    for (size_t i = 0; i < to->count; i++) use(subjects, to->items[i].wd, watch);
    for (size_t i = 0; i < from->count; i++) leave(subjects, from->items[i].wd, watch);
}

bool watch_subjects_sweep(struct map *subjects, int inotify_fd) {
    size_t at = 0, removed = 0;
    const char *key;
    void *value;
    while (map_next(subjects, &at, &key, &value)) {
        struct watch_subject *subject = value;
        if (subject->user_count > 0) continue;
        if (++removed > REMOVED_AT_ONCE) return false;
        inotify_rm_watch(inotify_fd, subject->wd);
        map_remove(subjects, key);
        free_subject(subject);
    }
    return true;
}

void watch_subjects_free(struct map *subjects) {
    size_t at = 0;
    void *subject;
    while (map_next(subjects, &at, NULL, &subject)) free_subject(subject);
    map_free(subjects);
}
