/* What can't be watched, or not by inotify alone. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "scene.h"

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

/* The kernel's watches are shared by all users, and the loop takes time for each. */
static void of_many_folders_some_are_polled(void **state) {
    struct scene *scene = *state;
    watcher_poll_every(scene->watcher, 10);
    watcher_bound_folders(scene->watcher, 2); /* the project's and one more */
    scratch_folder(&scene->scratch, "more");
    save(scene, "more/c.ex", "c");
    scene->watch = begin(scene, &(struct watch_patterns){0});
    wait_report(scene);
    assert_true(scene->is_first);
    assert_string_equal(scene->polling, "it has more than 2 folders");
    save(scene, "lib/a.ex", "a2");
    expect_changes(scene, "~lib/a.ex ");
    save(scene, "more/c.ex", "c2");
    expect_changes(scene, "~more/c.ex ");
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

/* Nothing tells of the end of a folder that a process holds open. */
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

/* What changes in the folders below an overlay is not told of in it. */
static void a_silent_file_system_is_polled_and_named(void **state) {
    struct scene *scene = *state;
    char options[512], merged[128];
    const char *path = scene->scratch.path;
    if (getuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) skip();
    static const char *const folders[] = {"lower", "upper", "work", "merged"};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(&scene->scratch, folders[i]);
    save(scene, "lower/a.ex", "a");
    snprintf(options, sizeof options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", path, path, path);
    snprintf(merged, sizeof merged, "%s/merged", path);
    assert_int_equal(mount("overlay", merged, "overlay", 0, options), 0);
    watcher_poll_every(scene->watcher, 10);
    CLEANUP_FD int fd = open(merged, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scene->watch = watch_begin(scene->watcher, getuid(), fd, &(struct watch_patterns){0}, on_report, scene);
    wait_report(scene);
    assert_non_null(strstr(scene->polling, "overlay"));
    save(scene, "lower/a.ex", "unheard");
    expect_changes(scene, "~a.ex ");
    watch_end(take_ptr(scene->watch));
    fd = fd_close(fd);
    assert_int_equal(umount2(merged, MNT_DETACH), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_inotify_it_polls_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(of_many_folders_some_are_polled, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_files_are_refused_until_there_are_fewer, setup, teardown),
        WATCHING(a_file_too_many_is_refused_too),
        cmocka_unit_test_setup_teardown(a_folder_that_was_emptied_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_file_system_is_polled_and_named, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
