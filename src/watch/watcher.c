/* All watched folders of a daemon on one inotify descriptor. An event only triggers a reading; the reading finds the
   changes. So lost or unexpected events never lead to a wrong result. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "loop/loop.h"
#include "watch/watch_internal.h"

enum {
    POLL_EVERY_MS = 2000,
    POLL_SHARE = 100,       /* polling takes at most one part in this many of the time */
    READ_BYTES = 16 * 1024, /* of events at once: 500 to 1,000 */
    READS_AT_ONCE = 2,      /* then other handles of the loop have their turn */
    SLICE_US = 1000,        /* of the loop, for events; then the watcher rests */
    REST_MS = 4,
    FREED_HERE_MAX = 1000, /* files of a listing that the loop's thread frees */
};

struct watch {
    struct watcher *watcher;
    struct watch *next;
    int folder_fd;
    struct watch_patterns patterns;
    watch_report_fn *report;
    void *data;
    struct watch_debounce debounce;
    struct watch_debounce covered; /* the events that the present reading covers */
    struct watch_named named;      /* files named since it began */
    struct watch_listing listing;
    struct watch_folders folders;
    bool is_held, is_reading, is_ended;
    bool was_disturbed; /* events came while it was held */
    bool has_read;      /* a whole reading has succeeded */
    bool was_moved;
    char polling[sizeof((struct watch_reading *)0)->polling];
    uint64_t poll_due_ms; /* UINT64_MAX: it is not polled */

    struct turn turn; /* in the queue of its owner's readings, which the pool runs one at a time */
    uv_work_t work;
    struct watch_reading reading;
    uint64_t first_us; /* of events that have not been read yet */
    uint64_t noticed_us, reading_us;
};

struct watcher {
    uv_loop_t *loop;
    int inotify_fd;
    uv_poll_t poll;
    uv_timer_t timer;
    struct watch *watches;
    struct turns turns;
    struct map subjects; /* by wd */
    uint64_t poll_every_ms;
    size_t files_max, folders_max; /* of each watch */
    bool is_swept;                 /* no watch descriptor is without a user */
    bool rests;                    /* strangers make events as fast as they like */
    uint64_t rested_ms;            /* when that ends */
    unsigned readings;             /* running; the descriptors they watch have no user yet */
    unsigned open_parts;           /* handles and running readings */
    void (*closed)(void *data);
    void *closed_data;
    size_t events_at, events_size; /* those that were read and not looked at yet */
    char events[READ_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
};

/* ---- events ---- */

static enum watch_sign sign_of(uint32_t mask) {
    if (mask & (IN_DELETE | IN_MOVED_FROM)) return WATCH_SIGN_GONE;
    if (mask & IN_MODIFY) return WATCH_SIGN_OPEN;
    /* A new file is about to be written. A new folder or link counts as complete. */
    return mask & IN_CREATE && !(mask & IN_ISDIR) ? WATCH_SIGN_OPEN : WATCH_SIGN_DONE;
}

static void note_sign(struct watch *watch, enum watch_sign sign) {
    if (watch->debounce.count == 0) watch->first_us = clock_monotonic_us();
    watch->was_disturbed |= watch->is_held;
    watch_debounce_note(&watch->debounce, uv_now(watch->watcher->loop), sign);
}

/* An event without a file's name concerns the whole folder. */
static void note(struct watch *watch, const struct inotify_event *event) {
    if (event->len > 0 && watch_ignores_name(&watch->patterns, event->name)) return;
    const char *folder = watch_folders_find(&watch->folders, event->wd);
    if (event->mask & IN_MOVE_SELF && folder && !folder[0]) watch->was_moved = true;
    if (folder && event->len > 0 && !(event->mask & IN_ISDIR))
        watch_named_add(&watch->named, folder, event->name);
    else
        watch->named.is_everything = true;
    note_sign(watch, sign_of(event->mask));
}

/* Lost events, or events of a folder that a reading has just begun to watch: all folders concerned are read again. */
static void note_unknown(struct watcher *watcher, bool is_overflow) {
    for (struct watch *watch = watcher->watches; watch; watch = watch->next) {
        if (!is_overflow && !watch->is_reading) continue;
        watch->named.is_everything = true;
        note_sign(watch, WATCH_SIGN_DONE);
    }
}

static void take_event(struct watcher *watcher, const struct inotify_event *event) {
    struct watch_subject *subject = watch_subject_find(&watcher->subjects, event->wd);
    bool is_end = event->mask & IN_IGNORED; /* the kernel has removed the watch, by our request or with its folder */
    if (event->mask & IN_Q_OVERFLOW || (!subject && !is_end)) note_unknown(watcher, event->mask & IN_Q_OVERFLOW);
    for (size_t i = 0; subject && i < subject->user_count; i++) note(subject->users[i], event);
    if (subject && is_end) watch_subject_forget(&watcher->subjects, event->wd);
}

/* The next one that was read; NULL: there is none. */
static const struct inotify_event *next_event(struct watcher *watcher) {
    if (watcher->events_at >= watcher->events_size) return NULL;
    const struct inotify_event *event = (const struct inotify_event *)(watcher->events + watcher->events_at);
    watcher->events_at += sizeof *event + event->len;
    return event;
}

static bool read_more(struct watcher *watcher) {
    ssize_t size = read(watcher->inotify_fd, watcher->events, sizeof watcher->events);
    watcher->events_at = 0;
    watcher->events_size = size > 0 ? (size_t)size : 0;
    return size > 0;
}

static void rest(struct watcher *watcher) {
    watcher->rests = true;
    watcher->rested_ms = uv_now(watcher->loop) + REST_MS;
    uv_poll_stop(&watcher->poll);
}

/* An event may concern many watches, each with patterns of its own. */
static void read_events(struct watcher *watcher) {
    const struct inotify_event *event;
    if (watcher->inotify_fd < 0 || watcher->closed || watcher->rests) return;
    uint64_t until_us = clock_monotonic_us() + SLICE_US;
    for (int reads = 0;;) {
        while ((event = next_event(watcher))) {
            take_event(watcher, event);
            if (clock_monotonic_us() < until_us) continue;
            rest(watcher);
            return;
        }
        if (reads++ == READS_AT_ONCE || !read_more(watcher)) return;
    }
}

/* ---- when to read ---- */

static uint64_t due_ms(const struct watch *watch) {
    if (watch->is_held || watch->is_reading || watch->is_ended) return UINT64_MAX;
    uint64_t settled_ms = watch_debounce_due_ms(&watch->debounce);
    return settled_ms < watch->poll_due_ms ? settled_ms : watch->poll_due_ms;
}

static void on_timer(uv_timer_t *timer);

static void schedule(struct watcher *watcher) {
    uint64_t now_ms = uv_now(watcher->loop), next_ms = UINT64_MAX;
    if (watcher->closed) return;
    if (watcher->rests) next_ms = watcher->rested_ms;
    if (!watcher->is_swept && watcher->readings == 0) next_ms = now_ms + 1;
    for (const struct watch *watch = watcher->watches; watch; watch = watch->next) {
        uint64_t due = due_ms(watch);
        if (due < next_ms) next_ms = due;
    }
    if (next_ms == UINT64_MAX)
        uv_timer_stop(&watcher->timer);
    else
        uv_timer_start(&watcher->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

/* ---- reading ---- */

static void part_closed(struct watcher *watcher) {
    if (--watcher->open_parts > 0) return;
    watch_subjects_free(&watcher->subjects);
    fd_close(watcher->inotify_fd);
    watcher->closed(watcher->closed_data);
    free(watcher);
}

static void sweep(struct watcher *watcher) {
    if (watcher->readings == 0) watcher->is_swept = watch_subjects_sweep(&watcher->subjects, watcher->inotify_fd);
}

static void exchange_folders(struct watch *watch, struct watch_folders *folders) {
    struct watcher *watcher = watch->watcher;
    watch_subjects_exchange(&watcher->subjects, watch, &watch->folders, folders);
    watch_folders_free(&watch->folders);
    watch->folders = *folders;
    *folders = (struct watch_folders){0};
    watcher->is_swept = false;
    sweep(watcher);
}

static void free_watch(struct watch *watch) {
    exchange_folders(watch, &(struct watch_folders){0});
    watch_listing_free(&watch->listing);
    watch_named_free(&watch->named);
    watch_patterns_free(&watch->patterns);
    fd_close(watch->folder_fd);
    free(watch);
}

static void read_on_pool(uv_work_t *work) {
    struct watch *watch = work->data;
    uint64_t began_us = clock_monotonic_us();
    watch_reading_run(&watch->reading);
    watch_reading_compare(&watch->reading);
    if (watch->reading.is_whole) watch->reading_us = clock_monotonic_us() - began_us;
}

/* Applies what only a whole reading finds. Files named meanwhile were named by the old folders. */
static void take_surroundings(struct watch *watch) {
    if (!watch->reading.is_whole) return;
    exchange_folders(watch, &watch->reading.folders);
    memcpy(watch->polling, watch->reading.polling, sizeof watch->polling);
    if (watch->named.count > 0) watch->named.is_everything = true;
}

/* Empty and too large folders are polled too: no event reports their end, or a removal in a folder that was not
   read. */
static void plan_poll(struct watch *watch) {
    uint64_t pause_ms = watch->reading_us / 1000 * POLL_SHARE, every_ms = watch->watcher->poll_every_ms;
    if (!watch->polling[0] && watch->reading.error.code == E_NONE && watch->listing.count > 0)
        watch->poll_due_ms = UINT64_MAX;
    else if (watch->reading.is_whole || watch->poll_due_ms == UINT64_MAX)
        watch->poll_due_ms = uv_now(watch->watcher->loop) + (pause_ms > every_ms ? pause_ms : every_ms);
}

/* The next reading compares with this result. */
static void keep_listing(struct watch *watch) {
    struct watch_reading *found = &watch->reading;
    if (found->is_whole) {
        struct watch_listing old = watch->listing;
        watch->listing = found->listing;
        found->listing = old;
        watch->has_read = true;
    } else if (!watch_listing_patch(&watch->listing, &found->listing, &found->named,
                                    watch->watcher->files_max - watch->folders.count)) {
        watch->named.is_everything = true;
        note_sign(watch, WATCH_SIGN_DONE);
    }
}

/* Reports the result and keeps it for the next reading. The receiver may end the watch, which is freed afterwards. */
static void tell(struct watch *watch, bool polling_changed) {
    struct watch_reading *found = &watch->reading;
    size_t count = found->change_count;
    bool failed = found->error.code != E_NONE, was_disturbed = watch->was_disturbed && !watch->is_held;
    struct watch_report report = {
        .is_first = !watch->has_read && !failed && !found->is_gone,
        .is_gone = found->is_gone || watch->was_moved,
        .error = failed ? &found->error : NULL,
        .was_disturbed = was_disturbed,
        .polling = watch->polling[0] ? watch->polling : NULL,
        .changes = found->changes,
        .change_count = count,
        .noticed_us = watch->noticed_us,
    };
    bool is_news = report.is_first || report.is_gone || failed || was_disturbed || count > 0 || polling_changed;
    if (was_disturbed) watch->was_disturbed = false;
    if (is_news) watch->report(watch->data, &report);
    if (failed)
        watch->named.is_everything = true; /* at the next reading */
    else if (!found->is_gone)
        keep_listing(watch);
}

/* A file was saved during the reading, so the result may be incomplete. It is read again with the rest. */
static bool is_too_early(struct watch *watch) {
    read_events(watch->watcher);
    bool is_final =
        !watch->has_read || watch->reading.is_gone || watch->reading.error.code != E_NONE || watch->was_moved;
    if (is_final || !watch_debounce_rejoin(&watch->debounce, &watch->covered, uv_now(watch->watcher->loop)))
        return false;
    watch->first_us = watch->noticed_us;
    watch_named_join(&watch->named, &watch->reading.named);
    return true;
}

struct leftover { /* of a reading of many files */
    uv_work_t work;
    struct watcher *watcher;
    struct watch_reading reading;
};

static void free_leftover(uv_work_t *work) {
    watch_reading_free(&((struct leftover *)work->data)->reading);
}

static void on_leftover_freed(uv_work_t *work, int status) {
    struct leftover *leftover = work->data;
    struct watcher *watcher = leftover->watcher;
    (void)status;
    free(leftover);
    part_closed(watcher);
}

/* Freeing 20,000 names takes milliseconds, so the pool does it. */
static void free_reading(struct watch *watch) {
    bool is_short = watch->reading.listing.count <= FREED_HERE_MAX;
    struct leftover *leftover = is_short ? NULL : malloc(sizeof *leftover);
    if (!leftover) {
        watch_reading_free(&watch->reading);
        return;
    }
    *leftover = (struct leftover){.work.data = leftover, .watcher = watch->watcher, .reading = watch->reading};
    watch->reading = (struct watch_reading){0};
    watch->watcher->open_parts++;
    loop_queue_work(watch->watcher->loop, &leftover->work, free_leftover, on_leftover_freed);
}

static void on_read(uv_work_t *work, int status) {
    struct watch *watch = work->data;
    struct watcher *watcher = watch->watcher;
    (void)status;
    loop_note(watcher->loop, "watch", "a reading");
    watcher->readings--;
    turns_give_back(&watcher->turns, &watch->turn);
    bool was_polling = watch->polling[0];
    take_surroundings(watch);
    bool polling_changed = watch->has_read && was_polling != (watch->polling[0] != '\0');
    if (!watch->is_ended && !is_too_early(watch)) tell(watch, polling_changed);
    plan_poll(watch);
    free_reading(watch);
    watch->is_reading = false;
    if (watch->is_ended) free_watch(watch);
    schedule(watcher);
    part_closed(watcher);
}

static void begin_reading(struct turn *turn) {
    struct watch *watch = (struct watch *)((char *)turn - offsetof(struct watch, turn));
    loop_queue_work(watch->watcher->loop, &watch->work, read_on_pool, on_read);
}

static void start_reading(struct watch *watch) {
    watch->noticed_us = watch->debounce.count ? watch->first_us : clock_monotonic_us();
    watch->covered = watch->debounce;
    watch->debounce = (struct watch_debounce){0};
    if (!watch->has_read || watch->poll_due_ms <= uv_now(watch->watcher->loop)) watch->named.is_everything = true;
    watch->reading = (struct watch_reading){.folder_fd = watch->folder_fd,
                                            .inotify_fd = watch->watcher->inotify_fd,
                                            .patterns = &watch->patterns,
                                            .before = &watch->listing,
                                            .is_first = !watch->has_read,
                                            .files_max = watch->watcher->files_max,
                                            .folders_max = watch->watcher->folders_max,
                                            .named = watch->named};
    watch->named = (struct watch_named){0};
    watch_named_sort(&watch->reading.named);
    watch->is_reading = true;
    watch->watcher->readings++;
    watch->watcher->open_parts++;
    turns_take(&watch->watcher->turns, &watch->turn);
}

static void on_events(uv_poll_t *poll, int status, int events);

static void end_rest(struct watcher *watcher) {
    watcher->rests = false;
    uv_poll_start(&watcher->poll, UV_READABLE, on_events);
    read_events(watcher);
}

static void on_timer(uv_timer_t *timer) {
    struct watcher *watcher = timer->data;
    uint64_t now_ms = uv_now(watcher->loop);
    loop_note(timer->loop, "watch", "its timer");
    if (!watcher->is_swept) sweep(watcher);
    if (watcher->rests && now_ms >= watcher->rested_ms) end_rest(watcher);
    for (struct watch *watch = watcher->watches; watch; watch = watch->next)
        if (due_ms(watch) <= now_ms) start_reading(watch);
    schedule(watcher);
}

static void on_events(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    loop_note(poll->loop, "watch", "events");
    read_events(poll->data);
    schedule(poll->data);
}

/* ---- beginning and ending ---- */

struct watcher *watcher_open(uv_loop_t *loop) {
    struct watcher *watcher = new_or_abort(struct watcher);
    watcher->loop = loop;
    watcher->poll_every_ms = POLL_EVERY_MS;
    watcher->files_max = WATCH_FILES_MAX;
    watcher->folders_max = WATCH_FOLDERS_MAX;
    watcher->is_swept = true;
    watcher->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    uv_timer_init(loop, &watcher->timer);
    watcher->timer.data = watcher;
    watcher->open_parts = 1;
    if (watcher->inotify_fd < 0) return watcher;
    uv_poll_init(loop, &watcher->poll, watcher->inotify_fd);
    watcher->poll.data = watcher;
    watcher->open_parts++;
    uv_poll_start(&watcher->poll, UV_READABLE, on_events);
    return watcher;
}

void watcher_poll_every(struct watcher *watcher, uint64_t every_ms) {
    watcher->poll_every_ms = every_ms;
}

void watcher_bound_files(struct watcher *watcher, size_t files_max) {
    watcher->files_max = files_max;
}

void watcher_bound_folders(struct watcher *watcher, size_t folders_max) {
    watcher->folders_max = folders_max;
}

static void on_closed(uv_handle_t *handle) {
    part_closed(handle->data);
}

void watcher_close(struct watcher *watcher, void (*closed)(void *data), void *data) {
    watcher->closed = closed;
    watcher->closed_data = data;
    uv_close((uv_handle_t *)&watcher->timer, on_closed);
    if (watcher->inotify_fd >= 0) uv_close((uv_handle_t *)&watcher->poll, on_closed);
}

struct watch *watch_begin(struct watcher *watcher, uid_t owner, int folder_fd, const struct watch_patterns *patterns,
                          watch_report_fn *report, void *data) {
    struct watch *watch = new_or_abort(struct watch);
    if (watch_patterns_copy(patterns, &watch->patterns) < 0) abort();
    watch->watcher = watcher;
    watch->turn = (struct turn){.owner = owner, .begin = begin_reading};
    watch->folder_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);
    watch->report = report;
    watch->data = data;
    watch->poll_due_ms = UINT64_MAX;
    watch->work.data = watch;
    watch->next = watcher->watches;
    watcher->watches = watch;
    start_reading(watch);
    return watch;
}

void watch_hold(struct watch *watch, bool is_held) {
    watch->is_held = is_held;
    schedule(watch->watcher);
}

size_t watch_file_count(const struct watch *watch) {
    return watch->listing.count;
}

void watch_end(struct watch *watch) {
    if (!watch) return;
    struct watcher *watcher = watch->watcher;
    struct watch **at = &watcher->watches;
    while (*at != watch) at = &(*at)->next;
    *at = watch->next;
    watch->is_ended = true;
    if (watch->is_reading) return;
    free_watch(watch);
    schedule(watcher);
}
