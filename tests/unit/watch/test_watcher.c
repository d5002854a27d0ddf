/* Real folders, real inotify: how editors save, what happens to folders, and what can't be watched. */
#include <sys/inotify.h>
#include <sys/resource.h>

#include "../scratch.h"
#include "watch/watch_internal.h"

enum { DEADLINE_MS = 10000, QUEUE_EVENTS = 16384 };

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

static void on_report(void *data, const struct watch_report *report) {
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

static void on_deadline(uv_timer_t *timer) {
    ((struct scene *)timer->data)->is_late = true;
}

static void wait_report(struct scene *scene) {
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

static void expect_changes(struct scene *scene, const char *changes) {
    wait_report(scene);
    assert_string_equal(scene->changes, changes);
}

static struct watch *begin(struct scene *scene, const struct watch_patterns *patterns) {
    int fd = open(scene->scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct watch *watch = watch_begin(scene->watcher, fd, patterns, on_report, scene);
    fd_close(fd);
    return watch;
}

static int setup(void **state) {
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

static int setup_watching(void **state) {
    setup(state);
    struct scene *scene = *state;
    scene->watch = begin(scene, &(struct watch_patterns){0});
    wait_report(scene);
    assert_true(scene->is_first);
    assert_string_equal(scene->polling, "");
    assert_int_equal(watch_file_count(scene->watch), 2);
    return 0;
}

static void on_watcher_closed(void *data) {
    ((struct scene *)data)->is_closed = true;
}

static int teardown(void **state) {
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

static void save(struct scene *scene, const char *path, const char *content) {
    scratch_file(&scene->scratch, path, content);
}

static void move(struct scene *scene, const char *from, const char *to) {
    assert_int_equal(renameat(scene->scratch.fd, from, scene->scratch.fd, to), 0);
}

static void delete (struct scene *scene, const char *path) {
    assert_int_equal(unlinkat(scene->scratch.fd, path, 0), 0);
}

/* ---- how editors save ---- */

static void written_in_place(void **state) {
    struct scene *scene = *state;
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
    save(scene, "lib/a.ex", "a3"); /* of the same length, at once */
    expect_changes(scene, "~lib/a.ex ");
}

static void written_aside_and_renamed(void **state) {
    struct scene *scene = *state;
    save(scene, "lib/a.ex.12345", "a2");
    move(scene, "lib/a.ex.12345", "lib/a.ex");
    expect_changes(scene, "~lib/a.ex ");
}

/* Vim with a backup: the old file moves away, its name is tried out, the new one is written, the backup goes. */
static void moved_away_and_written_anew(void **state) {
    struct scene *scene = *state;
    save(scene, "lib/4913", "");
    delete (scene, "lib/4913");
    move(scene, "lib/a.ex", "lib/a.ex~");
    save(scene, "lib/a.ex", "a2");
    delete (scene, "lib/a.ex~");
    expect_changes(scene, "~lib/a.ex ");
}

static void written_in_many_steps(void **state) {
    struct scene *scene = *state;
    CLEANUP_FD int fd = openat(scene->scratch.fd, "lib/a.ex", O_WRONLY | O_TRUNC | O_CLOEXEC);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(write(fd, "step", 4), 4);
        if (i % 10 == 0) uv_run(&scene->loop, UV_RUN_NOWAIT);
    }
    fd = fd_close(fd);
    expect_changes(scene, "~lib/a.ex ");
}

static void saved_several_times_in_a_row(void **state) {
    struct scene *scene = *state;
    save(scene, "lib/a.ex", "a2");
    save(scene, "lib/b.ex", "b2");
    save(scene, "lib/a.ex", "a3");
    expect_changes(scene, "~lib/a.ex ~lib/b.ex ");
}

static void a_writer_that_never_closes_is_seen(void **state) {
    struct scene *scene = *state;
    CLEANUP_FD int fd = openat(scene->scratch.fd, "lib/a.ex", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "A", 1), 1);
    expect_changes(scene, "~lib/a.ex ");
}

static void touching_changes_nothing(void **state) {
    struct scene *scene = *state;
    assert_int_equal(utimensat(scene->scratch.fd, "lib/a.ex", NULL, 0), 0);
    save(scene, "lib/b.ex", "b"); /* written, and the same */
    for (unsigned looked = 0; looked < 20; looked++) uv_run(&scene->loop, UV_RUN_NOWAIT);
    save(scene, "lib/c.ex", "c");
    expect_changes(scene, "+lib/c.ex ");
}

static void editors_own_files_are_nobodys_business(void **state) {
    struct scene *scene = *state;
    save(scene, "lib/.a.ex.swp", "swap");
    save(scene, "lib/#a.ex#", "auto-save");
    scratch_link(&scene->scratch, "me@host.1", "lib/.#a.ex");
    scratch_folder(&scene->scratch, "_build");
    save(scene, "_build/out", "built");
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
    save(scene, "_build/out", "built again");
    save(scene, "lib/a.ex", "a3");
    expect_changes(scene, "~lib/a.ex ");
}

/* A file that changes through another name of it says nothing here, so that it shows what was looked at. */
static void only_what_is_named_is_looked_at(void **state) {
    struct scene *scene = *state;
    void *elsewhere;
    assert_int_equal(scratch_setup(&elsewhere), 0);
    struct scratch *outside = elsewhere;
    assert_int_equal(linkat(scene->scratch.fd, "lib/a.ex", outside->fd, "a", 0), 0);
    scratch_file(outside, "a", "unheard");
    save(scene, "lib/b.ex", "b2");
    expect_changes(scene, "~lib/b.ex ");
    save(scene, "lib/c.ex", "c");
    expect_changes(scene, "+lib/c.ex ");
    delete (scene, "lib/c.ex");
    expect_changes(scene, "-lib/c.ex ");
    assert_int_equal(watch_file_count(scene->watch), 2);
    scratch_folder(&scene->scratch, "lib/new"); /* which is looked for everywhere */
    expect_changes(scene, "~lib/a.ex ");
    scratch_teardown(&elsewhere);
}

static void a_file_may_become_a_link_or_a_folder(void **state) {
    struct scene *scene = *state;
    delete (scene, "lib/a.ex");
    scratch_link(&scene->scratch, "b.ex", "lib/a.ex");
    expect_changes(scene, "~lib/a.ex ");
    delete (scene, "lib/a.ex");
    scratch_folder(&scene->scratch, "lib/a.ex");
    save(scene, "lib/a.ex/inside", "1");
    expect_changes(scene, "-lib/a.ex +lib/a.ex/inside ");
    save(scene, "lib/a.ex/inside", "2");
    expect_changes(scene, "~lib/a.ex/inside ");
}

static void what_a_pattern_ignores_is_not_told(void **state) {
    struct scene *scene = *state;
    watch_end(scene->watch);
    scratch_folder(&scene->scratch, "deps");
    scratch_folder(&scene->scratch, "deps/mine");
    scene->watch = begin(scene, &(struct watch_patterns){.ignore = (const char *const[]){"*.md", "lib/b.ex", NULL},
                                                         .include = (const char *const[]){"deps", NULL}});
    wait_report(scene);
    save(scene, "README.md", "text");
    save(scene, "lib/b.ex", "b2");
    save(scene, "deps/mine/d.ex", "d");
    expect_changes(scene, "+deps/mine/d.ex ");
}

/* ---- folders ---- */

static void new_folders_are_watched(void **state) {
    struct scene *scene = *state;
    scratch_folder(&scene->scratch, "lib/x");
    scratch_folder(&scene->scratch, "lib/x/y");
    save(scene, "lib/x/y/c.ex", "c");
    expect_changes(scene, "+lib/x/y/c.ex ");
    save(scene, "lib/x/y/c.ex", "c2");
    expect_changes(scene, "~lib/x/y/c.ex ");
}

static void renamed_folders_are_followed(void **state) {
    struct scene *scene = *state;
    move(scene, "lib", "src");
    expect_changes(scene, "-lib/a.ex -lib/b.ex +src/a.ex +src/b.ex ");
    save(scene, "src/a.ex", "a2");
    expect_changes(scene, "~src/a.ex ");
}

static void folders_may_leave_and_come(void **state) {
    struct scene *scene = *state;
    void *elsewhere;
    char outside[128];
    assert_int_equal(scratch_setup(&elsewhere), 0);
    snprintf(outside, sizeof outside, "%s/lib", ((struct scratch *)elsewhere)->path);
    assert_int_equal(renameat(scene->scratch.fd, "lib", AT_FDCWD, outside), 0);
    expect_changes(scene, "-lib/a.ex -lib/b.ex ");
    scratch_file(elsewhere, "lib/a.ex", "not ours any more");
    assert_int_equal(renameat(AT_FDCWD, outside, scene->scratch.fd, "lib"), 0);
    expect_changes(scene, "+lib/a.ex +lib/b.ex ");
    save(scene, "lib/a.ex", "a4");
    expect_changes(scene, "~lib/a.ex ");
    scratch_teardown(&elsewhere);
}

static void deleted_folders_are_forgotten(void **state) {
    struct scene *scene = *state;
    delete (scene, "lib/a.ex");
    delete (scene, "lib/b.ex");
    assert_int_equal(unlinkat(scene->scratch.fd, "lib", AT_REMOVEDIR), 0);
    expect_changes(scene, "-lib/a.ex -lib/b.ex ");
    scratch_folder(&scene->scratch, "lib");
    save(scene, "lib/a.ex", "again");
    expect_changes(scene, "+lib/a.ex ");
}

static void links_are_what_they_say(void **state) {
    struct scene *scene = *state;
    scratch_link(&scene->scratch, "a.ex", "lib/link.ex");
    scratch_link(&scene->scratch, "/", "lib/root"); /* is not followed */
    expect_changes(scene, "+lib/link.ex +lib/root ");
    save(scene, "lib/a.ex", "through the link");
    expect_changes(scene, "~lib/a.ex ");
    scratch_link(&scene->scratch, "b.ex", "lib/link.new");
    move(scene, "lib/link.new", "lib/link.ex");
    expect_changes(scene, "~lib/link.ex ");
}

static void the_folders_own_end_is_told(void **state) {
    struct scene *scene = *state;
    void *elsewhere;
    char to[128];
    assert_int_equal(scratch_setup(&elsewhere), 0);
    snprintf(to, sizeof to, "%s/moved", ((struct scratch *)elsewhere)->path);
    assert_int_equal(rename(scene->scratch.path, to), 0);
    wait_report(scene);
    assert_true(scene->is_gone);
    watch_end(take_ptr(scene->watch));
    assert_int_equal(rename(to, scene->scratch.path), 0);
    scratch_teardown(&elsewhere);
}

static void a_deleted_folder_is_gone(void **state) {
    struct scene *scene = *state;
    watcher_poll_every(scene->watcher, 10);
    delete (scene, "lib/a.ex");
    delete (scene, "lib/b.ex");
    assert_int_equal(unlinkat(scene->scratch.fd, "lib", AT_REMOVEDIR), 0);
    expect_changes(scene, "-lib/a.ex -lib/b.ex ");
    assert_int_equal(rmdir(scene->scratch.path), 0);
    wait_report(scene);
    assert_true(scene->is_gone);
}

/* ---- what is told, and when ---- */

static void many_files_are_one_report(void **state) {
    struct scene *scene = *state;
    char path[32];
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "lib/m%d.ex", i);
        save(scene, path, path);
    }
    wait_report(scene);
    assert_int_equal(scene->reports, 1);
    assert_int_equal(scene->change_count, 300);
}

static void what_changes_while_held_is_told_later(void **state) {
    struct scene *scene = *state;
    watch_hold(scene->watch, true);
    save(scene, "lib/a.ex", "a2");
    for (int i = 0; i < 20; i++) uv_run(&scene->loop, UV_RUN_NOWAIT);
    save(scene, "lib/b.ex", "b2");
    watch_hold(scene->watch, false);
    expect_changes(scene, "~lib/a.ex ~lib/b.ex ");
}

/* Who read it meanwhile may have read something else. */
static void what_is_as_before_after_being_held_is_told_too(void **state) {
    struct scene *scene = *state;
    watch_hold(scene->watch, true);
    save(scene, "lib/a.ex", "for a moment");
    save(scene, "lib/a.ex", "a");
    for (int i = 0; i < 20; i++) uv_run(&scene->loop, UV_RUN_NOWAIT);
    watch_hold(scene->watch, false);
    expect_changes(scene, "");
    assert_true(scene->was_disturbed);
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
    assert_false(scene->was_disturbed);
}

static void one_folder_may_have_two_watches(void **state) {
    struct scene *scene = *state;
    struct watch *other = begin(scene, &(struct watch_patterns){.ignore = (const char *const[]){"b.ex", NULL}});
    wait_report(scene);
    assert_true(scene->is_first);
    assert_int_equal(watch_file_count(other), 1);
    watch_end(other); /* the first one's watch stays */
    save(scene, "lib/b.ex", "b2");
    expect_changes(scene, "~lib/b.ex ");
}

static void a_watch_may_end_in_its_report(void **state) {
    struct scene *scene = *state;
    scene->ends_itself = true;
    save(scene, "lib/a.ex", "a2");
    wait_report(scene);
    assert_null(scene->watch);
}

static void a_watch_may_end_while_it_looks(void **state) {
    struct scene *scene = *state;
    scene->watch = begin(scene, &(struct watch_patterns){0});
    watch_end(take_ptr(scene->watch));
    assert_int_equal(scene->reports, 0);
}

/* More events than the kernel keeps: what came after the last one it kept is found all the same. */
static void lost_events_are_made_up_for(void **state) {
    struct scene *scene = *state;
    for (int i = 0; i < QUEUE_EVENTS; i++)
        assert_int_equal(fchmodat(scene->scratch.fd, i % 2 ? "lib/a.ex" : "lib/b.ex", 0600, 0), 0);
    save(scene, "lib/late.ex", "late");
    expect_changes(scene, "+lib/late.ex ");
    save(scene, "lib/late.ex", "later");
    expect_changes(scene, "~lib/late.ex ");
}

/* ---- what can't be watched ---- */

static void without_inotify_it_polls_and_says_so(void **state) {
    struct scene *scene = *state;
    struct rlimit before, none;
    int next = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    fd_close(next);
    setrlimit(RLIMIT_NOFILE, &none);
    struct watcher *ordinary = scene->watcher;
    scene->watcher = watcher_open(&scene->loop);
    setrlimit(RLIMIT_NOFILE, &before);
    watcher_close(ordinary, on_watcher_closed, scene);
    watcher_poll_every(scene->watcher, 10);
    scene->watch = begin(scene, &(struct watch_patterns){0});
    wait_report(scene);
    assert_true(scene->is_first);
    assert_non_null(strstr(scene->polling, "max_user_instances"));
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
}

static void too_many_files_are_refused_until_there_are_fewer(void **state) {
    struct scene *scene = *state;
    watcher_poll_every(scene->watcher, 10);
    watcher_bound_files(scene->watcher, 5);
    scratch_folder(&scene->scratch, "full");
    save(scene, "full/5", "x");
    assert_int_equal(mkfifoat(scene->scratch.fd, "full/6", 0600), 0); /* is never opened, and counts all the same */
    scene->watch = begin(scene, &(struct watch_patterns){0});
    wait_report(scene);
    assert_int_equal(scene->error.code, E_LIMIT);
    assert_non_null(strstr(scene->error.detail, "more than 5 files"));
    assert_false(scene->is_first);
    delete (scene, "full/6");
    do wait_report(scene);
    while (!scene->is_first);
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
}

static void a_file_too_many_is_refused_too(void **state) {
    struct scene *scene = *state;
    watcher_poll_every(scene->watcher, 10);
    watcher_bound_files(scene->watcher, 4); /* of which there are three, with the folder they lie in */
    save(scene, "lib/c.ex", "c");
    expect_changes(scene, "+lib/c.ex ");
    save(scene, "lib/d.ex", "d");
    do wait_report(scene);
    while (scene->error.code == E_NONE);
    assert_int_equal(scene->error.code, E_LIMIT);
    delete (scene, "lib/d.ex");
    save(scene, "lib/a.ex", "a2");
    do wait_report(scene);
    while (scene->error.code != E_NONE);
    assert_non_null(strstr(scene->changes, "~lib/a.ex "));
}

/* Nothing tells of the end of a folder that somebody holds open. */
static void a_folder_that_was_emptied_is_gone(void **state) {
    struct scene *scene = *state;
    watcher_poll_every(scene->watcher, 10);
    save(scene, "only", "1");
    scene->watch = begin(scene, &(struct watch_patterns){.ignore = (const char *const[]){"lib", NULL}});
    wait_report(scene);
    assert_int_equal(watch_file_count(scene->watch), 1);
    delete (scene, "only");
    expect_changes(scene, "-only ");
    delete (scene, "lib/a.ex");
    delete (scene, "lib/b.ex");
    assert_int_equal(unlinkat(scene->scratch.fd, "lib", AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(scene->scratch.path), 0);
    wait_report(scene);
    assert_true(scene->is_gone);
}

#define WATCHING(test) cmocka_unit_test_setup_teardown(test, setup_watching, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WATCHING(written_in_place),
        WATCHING(written_aside_and_renamed),
        WATCHING(moved_away_and_written_anew),
        WATCHING(written_in_many_steps),
        WATCHING(saved_several_times_in_a_row),
        WATCHING(a_writer_that_never_closes_is_seen),
        WATCHING(touching_changes_nothing),
        WATCHING(editors_own_files_are_nobodys_business),
        WATCHING(only_what_is_named_is_looked_at),
        WATCHING(a_file_may_become_a_link_or_a_folder),
        WATCHING(what_a_pattern_ignores_is_not_told),
        WATCHING(new_folders_are_watched),
        WATCHING(renamed_folders_are_followed),
        WATCHING(folders_may_leave_and_come),
        WATCHING(deleted_folders_are_forgotten),
        WATCHING(links_are_what_they_say),
        WATCHING(the_folders_own_end_is_told),
        WATCHING(a_deleted_folder_is_gone),
        WATCHING(many_files_are_one_report),
        WATCHING(what_changes_while_held_is_told_later),
        WATCHING(what_is_as_before_after_being_held_is_told_too),
        WATCHING(one_folder_may_have_two_watches),
        WATCHING(a_watch_may_end_in_its_report),
        cmocka_unit_test_setup_teardown(a_watch_may_end_while_it_looks, setup, teardown),
        WATCHING(lost_events_are_made_up_for),
        cmocka_unit_test_setup_teardown(without_inotify_it_polls_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_files_are_refused_until_there_are_fewer, setup, teardown),
        WATCHING(a_file_too_many_is_refused_too),
        cmocka_unit_test_setup_teardown(a_folder_that_was_emptied_is_gone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
