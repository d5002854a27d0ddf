/* Tests builds in the store: content addresses, shared files, sweeps, and builds that a power cut tore. */
#include "store_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct store_file counter[] = {
    {.path = "counter/ebin/counter.beam", .data = "FOR1", .size = 4},
    {.path = "counter/ebin/counter.app", .data = "{application}.", .size = 14},
    {.path = "counter/priv/empty", .data = "", .size = 0},
};

static const char *put(struct fixture *fixture, const struct store_file *files, size_t count) {
    unsigned answers = fixture->answers;
    store_put_build(fixture->store, NULL, files, count, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, answers + 1);
    return fixture->digest;
}

static bool build_exists(struct fixture *fixture, const char *digest) {
    char path[256];
    return store_build_path(fixture->store, digest, path, sizeof path, NULL) == 0;
}

static void assert_file(const char *root, const char *name, mode_t mode, const char *content) {
    CLEANUP_FREE char *path = string_print("%s/%s", root, name);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, mode);
    if (!content) return;
    char bytes[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, sizeof bytes - 1), (ssize_t)strlen(content));
    close(fd);
    assert_string_equal(bytes, content);
}

static void a_build_is_written_whole_and_readable_by_nodes(void **state) {
    struct fixture *fixture = *state;
    mode_t mask = umask(0077);
    const char *digest = put(fixture, counter, ARRAY_SIZE(counter));
    umask(mask);
    assert_int_equal(fixture->failures, 0);
    char path[256];
    struct error error = {0};
    assert_int_equal(store_build_path(fixture->store, digest, path, sizeof path, &error), 0);
    assert_file(path, "counter/ebin/counter.beam", 0644, "FOR1");
    assert_file(path, "counter/priv/empty", 0644, "");
    assert_file(path, "counter/ebin", 0755, NULL);
    assert_file(path, "", 0755, NULL);
    CLEANUP_FREE char *unfinished = string_print("%s/put-0", store_scratch(fixture->store));
    assert_int_equal(access(unfinished, F_OK), -1);
}

static void the_name_comes_from_content_and_not_from_order(void **state) {
    struct fixture *fixture = *state;
    char first[STORE_DIGEST_BYTES];
    strcpy(first, put(fixture, counter, 2));
    assert_int_equal(strlen(first), 64);
    struct store_file turned[] = {counter[1], counter[0]};
    assert_string_equal(put(fixture, turned, 2), first);
    struct store_file shifted[] = {{.path = "ab", .data = "c", .size = 1}},
                      other[] = {{.path = "a", .data = "bc", .size = 2}};
    strcpy(first, put(fixture, shifted, 1));
    assert_string_not_equal(put(fixture, other, 1), first);
    assert_int_equal(fixture->failures, 0);
}

static ino_t inode_of(struct fixture *fixture, const char *digest, const char *file) {
    char path[256];
    struct stat status;
    assert_int_equal(store_build_path(fixture->store, digest, path, sizeof path, NULL), 0);
    CLEANUP_FREE char *whole = string_print("%s/%s", path, file);
    assert_int_equal(stat(whole, &status), 0);
    return status.st_ino;
}

/* Of the same size, or of the same beginning, is not the same. */
static void what_a_build_shares_with_another_is_there_once(void **state) {
    struct fixture *fixture = *state;
    static const struct store_file next[] = {
        {.path = "counter/ebin/counter.beam", .data = "FOR2", .size = 4},
        {.path = "counter/ebin/counter.app", .data = "{application}.", .size = 14},
        {.path = "counter/priv/empty", .data = "no more", .size = 7},
    };
    char base[STORE_DIGEST_BYTES], digest[STORE_DIGEST_BYTES];
    strcpy(base, put(fixture, counter, 3));
    unsigned answers = fixture->answers;
    store_put_build(fixture->store, base, next, 3, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, answers + 1);
    strcpy(digest, fixture->digest);
    assert_string_equal(put(fixture, next, 3), digest); /* it is called the same, however it was written */
    const bool shared[] = {false, true, false};
    for (size_t i = 0; i < ARRAY_SIZE(next); i++)
        assert_int_equal(inode_of(fixture, base, next[i].path) == inode_of(fixture, digest, next[i].path), shared[i]);
    answers = fixture->answers;
    store_put_build(fixture->store, "gone", counter, 2, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, answers + 1);
    assert_int_equal(fixture->failures, 0);
}

/* One that is not there, or holds something else, is none. */
static void a_file_may_share_its_twins_bytes(void **state) {
    struct fixture *fixture = *state;
    struct stat status;
    CLEANUP_FREE char *twin = string_print("%s/twin", fixture->home), *none = string_print("%s/none", fixture->home);
    CLEANUP_FD int fd = open(twin, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "same", 4), 4);
    assert_int_equal(fstat(fd, &status), 0);
    struct store_file files[] = {{.path = "a", .data = "same", .size = 4, .twin = twin},
                                 {.path = "b", .data = "else", .size = 4, .twin = twin},
                                 {.path = "c", .data = "same", .size = 4, .twin = none}};
    const char *digest = put(fixture, files, 3);
    assert_int_equal(fixture->failures, 0);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        assert_int_equal(inode_of(fixture, digest, files[i].path) == status.st_ino, i == 0);
}

/* A thread of the pool takes the steps itself; here the test's own thread does. A sweep that begins meanwhile waits,
   and keeps what was put. */
static void a_put_in_steps_is_one_too(void **state) {
    struct fixture *fixture = *state;
    char digest[STORE_DIGEST_BYTES], twice[STORE_DIGEST_BYTES];
    struct store_file bad = {.path = "..", .data = "", .size = 0};
    struct store_put *first = store_put_begin(fixture->store), *other = store_put_begin(fixture->store);
    assert_non_null(first);
    store_sweep_builds(fixture->store, (const char *const[]){NULL}, 0, fixture_on_done, fixture);
    assert_null(store_put_begin(fixture->store));
    assert_int_equal(store_put_write(first, "", counter, 3, digest, NULL), 0);
    assert_int_equal(store_put_write(other, "", &bad, 1, twice, NULL), -E_INVALID);
    store_put_end(first);
    store_put_end(other);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_true(build_exists(fixture, digest));
}

static void many_puts_of_the_same_content_agree(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 8; i++) store_put_build(fixture->store, NULL, counter, 3, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, 8);
    assert_int_equal(fixture->failures, 0);
    assert_true(build_exists(fixture, fixture->digest));
    assert_int_equal(rmdir(store_scratch(fixture->store)), 0);
}

static void paths_that_leave_the_build_are_refused(void **state) {
    struct fixture *fixture = *state;
    static const char *const bad[] = {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a/.", ".."};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct store_file files[] = {{.path = "good", .data = "", .size = 0}, {.path = bad[i], .data = "x", .size = 1}};
        put(fixture, files, 2);
        assert_int_equal(fixture->failures, i + 1);
        assert_int_equal(fixture->last_error.code, E_INVALID);
    }
    char deep[2 * 40 + 1];
    for (size_t i = 0; i < 40; i++) memcpy(deep + 2 * i, "d/", 3);
    deep[sizeof deep - 2] = '\0';
    struct store_file file = {.path = deep, .data = "", .size = 0};
    put(fixture, &file, 1);
    assert_int_equal(fixture->last_error.code, E_INVALID);
    put(fixture, &file, 0);
    assert_int_equal(fixture->failures, ARRAY_SIZE(bad) + 2);
}

static void a_path_used_twice_is_refused_and_leaves_nothing(void **state) {
    struct fixture *fixture = *state;
    struct store_file twice[] = {{.path = "a", .data = "1", .size = 1}, {.path = "a", .data = "2", .size = 1}},
                      both[] = {{.path = "a", .data = "1", .size = 1}, {.path = "a/b", .data = "2", .size = 1}};
    put(fixture, twice, 2);
    assert_int_equal(fixture->last_error.code, E_INVALID);
    put(fixture, both, 2);
    assert_int_equal(fixture->failures, 2);
    assert_int_equal(rmdir(store_scratch(fixture->store)), 0);
}

static void a_sweep_keeps_what_is_named(void **state) {
    struct fixture *fixture = *state;
    char kept[STORE_DIGEST_BYTES], gone[STORE_DIGEST_BYTES];
    strcpy(kept, put(fixture, counter, 1));
    strcpy(gone, put(fixture, counter, 2));
    unsigned answered = fixture->answers;
    store_sweep_builds(fixture->store, (const char *const[]){kept, NULL}, 3600, fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, answered + 1);
    assert_true(build_exists(fixture, gone)); /* it is too young */
    const char *scratch = store_scratch(fixture->store);
    CLEANUP_FREE char *left = string_print("%s/put-77", scratch);
    CLEANUP_FREE char *left_file = string_print("%s/half", left);
    assert_int_equal(mkdir(left, 0700), 0);
    close(open(left_file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CLEANUP_FREE char *copy = string_print("%s/project-1", scratch);
    assert_int_equal(mkdir(copy, 0700), 0);
    const char *keep[] = {kept, NULL};
    store_sweep_builds(fixture->store, keep, 0, fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, answered + 2);
    assert_int_equal(fixture->failures, 0);
    assert_int_equal(access(copy, F_OK), 0); /* a compilation writes it */
    assert_true(build_exists(fixture, kept));
    assert_false(build_exists(fixture, gone));
    assert_int_equal(access(left, F_OK), -1);
}

/* Of any daemon that had the home before, whatever the clock said when it ended. */
static void a_sweep_removes_all_of_a_killed_daemon(void **state) {
    struct fixture *fixture = *state;
    CLEANUP_FREE char *theirs = string_print("%s/store/tmp/daemon-killed", fixture->home);
    CLEANUP_FREE char *copy = string_print("%s/project-1", theirs);
    CLEANUP_FREE char *loose = string_print("%s/store/tmp/beams-1", fixture->home);
    assert_int_equal(mkdir(theirs, 0700), 0);
    assert_int_equal(mkdir(copy, 0700), 0);
    assert_int_equal(mkdir(loose, 0700), 0);
    store_sweep_builds(fixture->store, (const char *const[]){NULL}, 0, fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->failures, 0);
    assert_int_equal(access(theirs, F_OK), -1);
    assert_int_equal(access(loose, F_OK), -1);
    assert_int_equal(access(store_scratch(fixture->store), F_OK), 0);
}

static void note_gone(void *data, const struct map *digests) {
    struct fixture *fixture = data;
    fixture->failures = (unsigned)digests->count; /* how many are gone */
    fixture->answers++;
}

static void a_removal_takes_what_is_named(void **state) {
    struct fixture *fixture = *state;
    struct map named = MAP_INIT;
    char other[STORE_DIGEST_BYTES], doomed[STORE_DIGEST_BYTES];
    snprintf(other, sizeof other, "%s", put(fixture, counter, 2));
    snprintf(doomed, sizeof doomed, "%s", put(fixture, counter, 3));
    assert_true(store_build_stays(fixture->store, doomed));
    map_set(&named, doomed, fixture);
    store_remove_builds(fixture->store, &named, note_gone, fixture);
    assert_false(store_build_stays(fixture->store, doomed)); /* from now on */
    assert_true(store_build_stays(fixture->store, other));
    fixture_run_until(fixture, &fixture->answers, 3);
    assert_int_equal(fixture->failures, 1);
    fixture->failures = 0;
    assert_false(build_exists(fixture, doomed));
    assert_true(build_exists(fixture, other));
}

/* It waits for the put, which finds the build that is there. */
static void a_removal_spares_what_is_put_again(void **state) {
    struct fixture *fixture = *state;
    struct map named = MAP_INIT;
    char digest[STORE_DIGEST_BYTES];
    snprintf(digest, sizeof digest, "%s", put(fixture, counter, 3));
    map_set(&named, digest, fixture);
    store_put_build(fixture->store, NULL, counter, 3, fixture_on_build, fixture);
    store_remove_builds(fixture->store, &named, note_gone, fixture);
    fixture_run_until(fixture, &fixture->answers, 3);
    assert_int_equal(fixture->failures, 0);
    assert_true(build_exists(fixture, digest));
}

/* The put's digest can't be among those the sweep was given. */
static void a_sweep_spares_a_build_under_way(void **state) {
    struct fixture *fixture = *state;
    const char *keep[] = {NULL};
    store_put_build(fixture->store, NULL, counter, 3, fixture_on_build, fixture);
    store_sweep_builds(fixture->store, keep, 0, fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 2);
    assert_true(build_exists(fixture, fixture->digest));
    store_sweep_builds(fixture->store, keep, 0, fixture_on_done, fixture);
    store_put_build(fixture->store, NULL, counter, 3, fixture_on_build, fixture);
    fixture_run_until(fixture, &fixture->answers, 4);
    assert_int_equal(fixture->failures, 0);
    assert_true(build_exists(fixture, fixture->digest));
}

static void closing_waits_for_builds(void **state) {
    struct fixture *fixture = *state;
    const char *keep[] = {NULL};
    store_put_build(fixture->store, NULL, counter, 3, fixture_on_build, fixture);
    store_sweep_builds(fixture->store, keep, 0, fixture_on_done, fixture);
    store_put_build(fixture->store, NULL, counter, 2, fixture_on_build, fixture);
    fixture_close(fixture);
    assert_int_equal(fixture->answers, 3);
    assert_int_equal(fixture->failures, 0);
}

/* As if the machine had lost its power while the build was written. */
static void pretend_reboot(struct fixture *fixture) {
    CLEANUP_FREE char *note = string_print("%s/store/boot_id", fixture->home);
    int fd = open(note, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "another", 7), 7);
    close(fd);
}

static void builds_that_the_power_tore_are_gone_after_a_reboot(void **state) {
    struct fixture *fixture = *state;
    char whole[STORE_DIGEST_BYTES], torn[STORE_DIGEST_BYTES];
    strcpy(whole, put(fixture, counter, 3));
    strcpy(torn, put(fixture, counter, 2));
    fixture_close(fixture);
    CLEANUP_FREE char *path = string_print("%s/store/builds/%s/%s", fixture->home, torn, counter[0].path);
    assert_int_equal(truncate(path, 0), 0);
    fixture_open(fixture);
    assert_true(build_exists(fixture, torn));
    fixture_close(fixture);
    pretend_reboot(fixture);
    fixture_open(fixture);
    assert_true(build_exists(fixture, whole));
    assert_false(build_exists(fixture, torn));
    assert_string_equal(put(fixture, counter, 2), torn);
    assert_true(build_exists(fixture, torn));
}

static void builds_that_lack_a_file_or_have_more_are_torn(void **state) {
    struct fixture *fixture = *state;
    char less[STORE_DIGEST_BYTES], more[STORE_DIGEST_BYTES];
    strcpy(less, put(fixture, counter, 3));
    strcpy(more, put(fixture, counter, 2));
    fixture_close(fixture);
    CLEANUP_FREE char *missing = string_print("%s/store/builds/%s/%s", fixture->home, less, counter[1].path);
    CLEANUP_FREE char *extra = string_print("%s/store/builds/%s/extra", fixture->home, more);
    assert_int_equal(unlink(missing), 0);
    assert_int_equal(symlink("/etc/passwd", extra), 0);
    pretend_reboot(fixture);
    fixture_open(fixture);
    assert_false(build_exists(fixture, less));
    assert_false(build_exists(fixture, more));
}

static void unknown_builds_have_no_path(void **state) {
    struct fixture *fixture = *state;
    char path[256] = "untouched", digest[STORE_DIGEST_BYTES];
    struct error error = {0};
    memset(digest, 'a', 64);
    digest[64] = '\0';
    assert_true(store_build_path(fixture->store, digest, path, sizeof path, &error) < 0);
    assert_int_equal(error.code, E_NOT_FOUND);
    assert_true(store_build_path(fixture->store, "../../etc", path, sizeof path, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_string_equal(path, "untouched");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_build_is_written_whole_and_readable_by_nodes, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(the_name_comes_from_content_and_not_from_order, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_put_in_steps_is_one_too, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_file_may_share_its_twins_bytes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_a_build_shares_with_another_is_there_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(many_puts_of_the_same_content_agree, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(paths_that_leave_the_build_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_path_used_twice_is_refused_and_leaves_nothing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_sweep_keeps_what_is_named, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_sweep_removes_all_of_a_killed_daemon, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_removal_takes_what_is_named, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_removal_spares_what_is_put_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_sweep_spares_a_build_under_way, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_waits_for_builds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(builds_that_the_power_tore_are_gone_after_a_reboot, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(builds_that_lack_a_file_or_have_more_are_torn, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(unknown_builds_have_no_path, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
