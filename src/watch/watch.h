/* watch: notices that files of a folder changed, and reports it once they have settled. It knows nothing of
   compilation. Patterns, debounce, states and comparisons are pure; watcher.c and read_folder.c use the kernel. */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/base.h"

enum {
    WATCH_FILES_MAX = 20000,  /* of one folder, including folders */
    WATCH_FOLDERS_MAX = 2000, /* that events tell of; with more, the folder is polled too */
    WATCH_DEPTH_MAX = 64,
    WATCH_PATTERNS_MAX = 32, /* of each kind that a caller gives */
    WATCH_PATTERN_MAX_BYTES = 255,
};

/* ---- patterns.c: which files matter ---- */

/* A pattern without a slash matches a name at any depth; one with a slash matches a path below the folder. `*` stands
   for any characters of one name, `?` for one. Ignored folders are not read, unless a pattern includes something. */
struct watch_patterns {
    const char *const *include; /* NULL-terminated, may be NULL: exceptions from ignored files */
    const char *const *ignore;  /* in addition to the built-in list */
};

bool watch_pattern_matches(const char *pattern, const char *text);
/* The path is relative to the folder. The built-in list applies too: build products, dependencies, version control,
   editors' files. */
bool watch_ignores(const struct watch_patterns *patterns, const char *path);
/* Whether a name is ignored at any depth, so that editors' own files cause no reading. In doubt, and where it would
   take long to find out, it is not: the reading applies the patterns too. */
bool watch_ignores_name(const struct watch_patterns *patterns, const char *name);

/* ---- debounce.c: when changes have settled ---- */

enum watch_sign {
    WATCH_SIGN_DONE, /* a save is complete: closed, or renamed into place */
    WATCH_SIGN_OPEN, /* a file is being written */
    WATCH_SIGN_GONE, /* removed or renamed away, which may be half of a save */
};

struct watch_debounce {
    uint64_t first_ms, last_ms; /* of events that have not been read yet */
    unsigned count;             /* of events; 0: none */
    unsigned complete;          /* events that are not of an open file */
    enum watch_sign last;
};

void watch_debounce_note(struct watch_debounce *debounce, uint64_t now_ms, enum watch_sign sign);
/* The time of the next reading: soon after one save, later while many files change, bounded while a file never stops
   changing. UINT64_MAX: nothing happened. */
uint64_t watch_debounce_due_ms(const struct watch_debounce *debounce);
/* Joins the events of a reading with newer ones, as if all had come at once. False: they have waited long enough, and
   stay as they are. */
bool watch_debounce_rejoin(struct watch_debounce *debounce, const struct watch_debounce *covered, uint64_t now_ms);

/* ---- state.c: the state of a watched project ---- */

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
    bool has_folder; /* it is open and small enough */
    bool is_working;
    bool has_failed;
    bool is_polling;
};

enum watch_state watch_state_of(const struct watch_facts *facts);
const char *watch_state_name(enum watch_state state);

/* ---- watcher.c: one inotify descriptor for all folders ---- */

enum watch_change_kind { WATCH_ADDED, WATCH_MODIFIED, WATCH_REMOVED };

struct watch_change {
    const char *path; /* relative to the folder */
    enum watch_change_kind kind;
};

/* The result of a reading. Its content is valid during the call only. */
struct watch_report {
    bool is_first;                      /* nothing to compare with: changes are seen from now on */
    bool is_gone;                       /* the folder was removed or renamed, so this watch ends */
    bool was_disturbed;                 /* events came while it was held, even if nothing differs now */
    const struct error *error;          /* it can't be watched now; the next change triggers another reading */
    const char *polling;                /* why it is polled; NULL: it is not */
    const struct watch_change *changes; /* files only, sorted by path */
    size_t change_count;
    uint64_t noticed_us; /* when the first event came, by the monotonic clock */
};

struct watcher;
struct watch;

/* Gets the first reading, changes, and errors. It may end its watch. */
typedef void watch_report_fn(void *data, const struct watch_report *report);

/* Folders are polled if there is no inotify. */
struct watcher *watcher_open(uv_loop_t *loop);
/* All watches must have ended before. closed is called when nothing is left. */
void watcher_close(struct watcher *watcher, void (*closed)(void *data), void *data);

/* Watches the folder through folder_fd, which must be readable and stays the caller's. Patterns are copied. Looks at
   folders of one owner run one after the other. */
struct watch *watch_begin(struct watcher *watcher, uid_t owner, int folder_fd, const struct watch_patterns *patterns,
                          watch_report_fn *report, void *data);
/* While a watch is held, changes are noticed but not read. */
void watch_hold(struct watch *watch, bool is_held);
size_t watch_file_count(const struct watch *watch);
void watch_end(struct watch *watch); /* accepts NULL; nothing is reported any more */

#endif
