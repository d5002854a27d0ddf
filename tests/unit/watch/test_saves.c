/* How editors save, and which of it matters. */
#include "scene.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
