/* watch: notices that the files of a folder changed, and says so once they have settled. Knows nothing of compilation.
   Patterns, debounce, states and the comparison of two readings are pure; watcher.c and look.c ask the kernel. */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

enum {
    WATCH_FILES_MAX = 20000, /* of one folder, folders included */
    WATCH_DEPTH_MAX = 64,
    WATCH_PATTERNS_MAX = 32, /* of each kind that a caller gives */
    WATCH_PATTERN_MAX_BYTES = 255,
};

/* ---- patterns.c: which files matter ---- */

/* A pattern without a slash is a name's, at any depth; with one it is a path's, from the folder. `*` stands for any
   characters of one name, `?` for one. What is ignored is not looked into, unless something includes it. */
struct watch_patterns {
    const char *const *include; /* NULL-terminated, may be NULL: exceptions from what is ignored */
    const char *const *ignore;  /* besides what everyone ignores */
};

bool watch_pattern_matches(const char *pattern, const char *text);
/* The path is from the folder. Also the built-in list: what is built, fetched or history, and editors' own files. */
bool watch_ignores(const struct watch_patterns *patterns, const char *path);
/* Whether a name is ignored wherever it lies: enough to sleep on through an editor's own business. */
bool watch_ignores_name(const struct watch_patterns *patterns, const char *name);

/* ---- debounce.c: when what changed has settled ---- */

enum watch_sign {
    WATCH_SIGN_DONE, /* a save is complete: closed, or renamed into place */
    WATCH_SIGN_OPEN, /* somebody writes: the end is to come */
    WATCH_SIGN_GONE, /* removed or renamed away, which may be half of a save */
};

struct watch_debounce {
    uint64_t first_ms, last_ms; /* of what has not been looked at yet */
    unsigned count;             /* of signs; 0: nothing happened */
    unsigned complete;          /* of those that are not of an open file */
    enum watch_sign last;
};

void watch_debounce_note(struct watch_debounce *debounce, uint64_t now_ms, enum watch_sign sign);
/* When to look: quickly after one save, patiently while many files change, within bounds while one never stops.
   UINT64_MAX: nothing happened. */
uint64_t watch_debounce_due_ms(const struct watch_debounce *debounce);
/* What was looked at while more came goes on waiting with that, as if it had all come at once. False: it has waited
   long enough, and stays as it is. */
bool watch_debounce_rejoin(struct watch_debounce *debounce, const struct watch_debounce *looked_at, uint64_t now_ms);

/* ---- state.c: how a watched project is doing ---- */

#define WATCH_STATE_LIST(X)                                                                                            \
    X(OFF, "off", "changes are not looked for")                                                                        \
    X(PAUSED, "paused", "the source can't be watched now; it goes on by itself once it can")                           \
    X(COMPILING, "compiling", "a change is being compiled and loaded")                                                 \
    X(FAILED, "failed", "the last change could not be compiled or loaded; what ran before runs")                       \
    X(POLLING, "polling", "looking every few seconds, where the system tells nothing")                                 \
    X(WATCHING, "watching", "waiting for a change")

enum watch_state {
#define X(name, slug, meaning) WATCH_##name,
    WATCH_STATE_LIST(X)
#undef X
};

struct watch_facts {
    bool is_on;
    bool has_folder; /* it is open, and small enough */
    bool is_working;
    bool has_failed;
    bool is_polling;
};

enum watch_state watch_state_of(const struct watch_facts *facts);
const char *watch_state_name(enum watch_state state);

/* ---- watcher.c: one inotify descriptor for all folders ---- */

enum watch_change_kind { WATCH_ADDED, WATCH_MODIFIED, WATCH_REMOVED };

struct watch_change {
    const char *path; /* from the folder */
    enum watch_change_kind kind;
};

/* What a look found. Everything in it is for the call only. */
struct watch_report {
    bool is_first;                      /* nothing to compare with: from now on changes are seen */
    bool is_gone;                       /* the folder was removed or renamed: this watch will see no more */
    bool was_disturbed;                 /* something happened while it was held, even if it all is as before by now */
    const struct error *error;          /* it can't be watched as it is; the next change is looked at again */
    const char *polling;                /* why it is polled; NULL: it is not */
    const struct watch_change *changes; /* files only, by path */
    size_t change_count;
    uint64_t noticed_us; /* when the first sign of it came, by the monotonic clock */
};

struct watcher;
struct watch;

/* Told of the first look, of changes, and of what keeps from seeing them. It may end its watch. */
typedef void watch_report_fn(void *data, const struct watch_report *report);

/* Without inotify, folders are polled. */
struct watcher *watcher_open(uv_loop_t *loop);
/* Every watch has been ended before; closed is called once nothing is left. */
void watcher_close(struct watcher *watcher, void (*closed)(void *data), void *data);

/* Watch the folder, which must be readable through folder_fd (it stays the caller's); patterns are copied. Looks at
   folders of one owner wait for each other. */
struct watch *watch_begin(struct watcher *watcher, uid_t owner, int folder_fd, const struct watch_patterns *patterns,
                          watch_report_fn *report, void *data);
/* While it is held, changes are noticed but not looked at. */
void watch_hold(struct watch *watch, bool is_held);
size_t watch_file_count(const struct watch *watch);
void watch_end(struct watch *watch); /* accepts NULL; nothing is reported any more */

#endif
