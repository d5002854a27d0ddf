/* What happens to folders; what is told, and when. */
#include <time.h>

#include "scene.h"

enum { QUEUE_EVENTS = 16384 };

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

/* A reader meanwhile may have read something else. */
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

static uint64_t own_cpu_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* Events are strangers' to make, and each concerns all watches of its folder. */
static void a_storm_takes_slices_of_the_loop(void **state) {
    enum { WATCHES = 100, EVENTS = 4000, MOST_US = 20000 };
    struct scene *scene = *state;
    struct watch *others[WATCHES];
    for (int i = 0; i < WATCHES; i++) others[i] = begin(scene, &(struct watch_patterns){0});
    for (unsigned first = 0; first < WATCHES; first += scene->reports) wait_report(scene);
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(fchmodat(scene->scratch.fd, i % 2 ? "lib/a.ex" : "lib/b.ex", 0600, 0), 0);
    uint64_t began_us = own_cpu_us();
    uv_run(&scene->loop, UV_RUN_NOWAIT);
    assert_in_range(own_cpu_us() - began_us, 0, MOST_US);
    for (int i = 0; i < WATCHES; i++) watch_end(others[i]);
    save(scene, "lib/late.ex", "late");
    expect_changes(scene, "+lib/late.ex ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
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
        WATCHING(a_storm_takes_slices_of_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
