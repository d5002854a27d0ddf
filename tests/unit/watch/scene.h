/* A folder of the test's own with a watch on it, and what the watch has reported. Real files, real inotify. */
#ifndef TEST_WATCH_SCENE_H
#define TEST_WATCH_SCENE_H

#include "../scratch.h"
#include "watch/watch_internal.h"

enum { DEADLINE_MS = 10000 };

struct scene {
    struct scratch scratch;
    uv_loop_t loop;
    uv_timer_t deadline;
    struct watcher *watcher;
    struct watch *watch;
    /* what was reported since it was last asked for */
    unsigned reports;
    bool is_first, is_gone, was_disturbed, is_late, is_closed;
    struct error error;
    char polling[160];
    char changes[4096]; /* "+added ~modified -removed " */
    size_t change_count;
    bool ends_itself;
};

static inline void on_report(void *data, const struct watch_report *report) {
    static const char signs[] = {[WATCH_ADDED] = '+', [WATCH_MODIFIED] = '~', [WATCH_REMOVED] = '-'};
    struct scene *scene = data;
    scene->reports++;
    scene->is_first |= report->is_first;
    scene->is_gone |= report->is_gone;
    scene->was_disturbed |= report->was_disturbed;
    if (report->error) scene->error = *report->error;
    snprintf(scene->polling, sizeof scene->polling, "%s", report->polling ? report->polling : "");
    scene->change_count += report->change_count;
    for (size_t i = 0; i < report->change_count; i++) {
        size_t used = strlen(scene->changes);
        snprintf(scene->changes + used, sizeof scene->changes - used, "%c%s ", signs[report->changes[i].kind],
                 report->changes[i].path);
    }
    if (scene->ends_itself) {
        watch_end(scene->watch);
        scene->watch = NULL;
    }
}

static inline void on_deadline(uv_timer_t *timer) {
    ((struct scene *)timer->data)->is_late = true;
}

static inline void wait_report(struct scene *scene) {
    scene->reports = 0;
    scene->is_first = scene->is_gone = scene->was_disturbed = false;
    scene->change_count = 0;
    scene->error = (struct error){0};
    scene->changes[0] = '\0';
    uv_update_time(&scene->loop);
    uv_timer_start(&scene->deadline, on_deadline, DEADLINE_MS, 0);
    while (scene->reports == 0 && !scene->is_late) uv_run(&scene->loop, UV_RUN_ONCE);
    assert_false(scene->is_late);
    uv_timer_stop(&scene->deadline);
}

static inline void expect_changes(struct scene *scene, const char *changes) {
    wait_report(scene);
    assert_string_equal(scene->changes, changes);
}

static inline struct watch *begin(struct scene *scene, const struct watch_patterns *patterns) {
    int fd = open(scene->scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct watch *watch = watch_begin(scene->watcher, getuid(), fd, patterns, on_report, scene);
    fd_close(fd);
    return watch;
}

static inline int setup(void **state) {
    void *scratch;
    assert_int_equal(scratch_setup(&scratch), 0);
    struct scene *scene = calloc(1, sizeof *scene);
    scene->scratch = *(struct scratch *)scratch;
    free(scratch);
    uv_loop_init(&scene->loop);
    uv_timer_init(&scene->loop, &scene->deadline);
    scene->deadline.data = scene;
    scene->watcher = watcher_open(&scene->loop);
    scratch_folder(&scene->scratch, "lib");
    scratch_file(&scene->scratch, "lib/a.ex", "a");
    scratch_file(&scene->scratch, "lib/b.ex", "b");
    *state = scene;
    return 0;
}

static inline int setup_watching(void **state) {
    setup(state);
    struct scene *scene = *state;
    scene->watch = begin(scene, &(struct watch_patterns){0});
    wait_report(scene);
    assert_true(scene->is_first);
    assert_string_equal(scene->polling, "");
    assert_int_equal(watch_file_count(scene->watch), 2);
    return 0;
}

static inline void on_watcher_closed(void *data) {
    ((struct scene *)data)->is_closed = true;
}

static inline int teardown(void **state) {
    struct scene *scene = *state;
    watch_end(scene->watch);
    watcher_close(scene->watcher, on_watcher_closed, scene);
    uv_close((uv_handle_t *)&scene->deadline, NULL);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_true(scene->is_closed);
    assert_int_equal(uv_loop_close(&scene->loop), 0);
    struct scratch *scratch = malloc(sizeof *scratch);
    *scratch = scene->scratch;
    free(scene);
    void *owned = scratch;
    return scratch_teardown(&owned);
}

static inline void save(struct scene *scene, const char *path, const char *content) {
    scratch_file(&scene->scratch, path, content);
}

static inline void move(struct scene *scene, const char *from, const char *to) {
    assert_int_equal(renameat(scene->scratch.fd, from, scene->scratch.fd, to), 0);
}

static inline void delete (struct scene *scene, const char *path) {
    assert_int_equal(unlinkat(scene->scratch.fd, path, 0), 0);
}

#define WATCHING(test) cmocka_unit_test_setup_teardown(test, setup_watching, teardown)

#endif
