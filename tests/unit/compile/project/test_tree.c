/* Tests a project's digest: what changes it, and which files are read again. */
#include "scratch.h"

#include <sys/stat.h>

#include "compile/compile_internal.h"
#include "compile/project/tree.h"

static void scan(const struct scratch *scratch, const char *folder, const struct tree *before, struct tree *ret) {
    CLEANUP_FD int fd = openat(scratch->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(tree_scan(&(struct tree_folder){fd, ""}, 1, before, ret));
}

static void assert_same(const struct scratch *scratch, const char *a, const char *b, bool same) {
    CLEANUP(tree_free) struct tree first, second;
    scan(scratch, a, NULL, &first);
    scan(scratch, b, NULL, &second);
    assert_int_equal(memcmp(first.digest, second.digest, sizeof first.digest) == 0, same);
}

static void two_projects(const struct scratch *scratch) {
    static const char *const paths[] = {"a", "b", "a/lib", "b/lib"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) scratch_folder(scratch, paths[i]);
    scratch_file(scratch, "a/mix.exs", "project");
    scratch_file(scratch, "b/lib/x.ex", "module");
    scratch_file(scratch, "a/lib/x.ex", "module");
    scratch_file(scratch, "b/mix.exs", "project");
}

static void test_same_content_same_digest(void **state) {
    two_projects(*state);
    assert_same(*state, "a", "b", true);
}

static void test_content_counts(void **state) {
    two_projects(*state);
    scratch_file(*state, "b/lib/x.ex", "modulE");
    assert_same(*state, "a", "b", false);
}

static void test_names_count(void **state) {
    struct scratch *scratch = *state;
    two_projects(scratch);
    assert_int_equal(renameat(scratch->fd, "b/lib/x.ex", scratch->fd, "b/lib/y.ex"), 0);
    assert_same(scratch, "a", "b", false);
}

static void test_places_count(void **state) {
    struct scratch *scratch = *state;
    two_projects(scratch);
    assert_int_equal(renameat(scratch->fd, "b/lib/x.ex", scratch->fd, "b/x.ex"), 0);
    assert_same(scratch, "a", "b", false);
}

static void test_empty_entries_count(void **state) {
    two_projects(*state);
    scratch_folder(*state, "b/priv");
    assert_same(*state, "a", "b", false);
    scratch_file(*state, "a/priv", "");
    assert_same(*state, "a", "b", false); /* a folder is not a file */
}

static void test_links_are_their_targets_text(void **state) {
    two_projects(*state);
    scratch_link(*state, "mix.exs", "a/link");
    scratch_link(*state, "lib", "b/link");
    assert_same(*state, "a", "b", false);
    scratch_folder(*state, "c");
    scratch_folder(*state, "d");
    scratch_link(*state, "target", "c/link");
    scratch_file(*state, "d/link", "target");
    assert_same(*state, "c", "d", false);
}

/* One file can't be written so that it reads like two. */
static void test_content_is_not_taken_for_entries(void **state) {
    struct scratch *scratch = *state;
    scratch_folder(scratch, "a");
    scratch_folder(scratch, "b");
    scratch_file(scratch, "a/1", "x");
    scratch_file(scratch, "a/2", "y");
    static const char both[] = "x\0end of file\0002\0y";
    CLEANUP_FD int fd = openat(scratch->fd, "b/1", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, both, sizeof both - 1), sizeof both - 1);
    assert_same(scratch, "a", "b", false);
}

static const uint8_t *digest_of(const struct tree *tree, const char *path) {
    const struct tree_file *file = tree_find(tree, path);
    assert_non_null(file);
    return file->digest;
}

static void test_files_are_found_by_path(void **state) {
    CLEANUP(tree_free) struct tree tree;
    uint8_t digest[DIGEST_BYTES];
    struct scratch *scratch = *state;
    two_projects(scratch);
    scan(scratch, "a", NULL, &tree);
    assert_int_equal(tree.count, 3);
    assert_null(tree_find(&tree, "lib/y.ex"));
    assert_null(tree_find(&tree, "x.ex"));
    assert_true(tree_digest_file(scratch->fd, "a/lib/x.ex", digest));
    assert_memory_equal(digest_of(&tree, "lib/x.ex"), digest, sizeof digest);
    assert_false(tree_digest_file(scratch->fd, "a/lib/y.ex", digest));
    assert_false(tree_digest_file(scratch->fd, "../x", digest));
    scratch_link(scratch, "lib", "a/way");
    assert_false(tree_digest_file(scratch->fd, "a/way/x.ex", digest));
}

static void set_times(const struct scratch *scratch, const char *path) {
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(scratch->fd, path, times, 0), 0);
}

/* The same size and modification time, but another change time. */
static void test_a_change_is_seen_even_with_an_old_time_on_it(void **state) {
    CLEANUP(tree_free) struct tree before, now;
    struct scratch *scratch = *state;
    two_projects(scratch);
    set_times(scratch, "a/lib/x.ex");
    scan(scratch, "a", NULL, &before);
    scratch_file(scratch, "a/lib/x.ex", "MODULE");
    set_times(scratch, "a/lib/x.ex");
    scan(scratch, "a", &before, &now);
    assert_memory_not_equal(digest_of(&before, "lib/x.ex"), digest_of(&now, "lib/x.ex"), DIGEST_BYTES);
    assert_memory_equal(digest_of(&before, "mix.exs"), digest_of(&now, "mix.exs"), DIGEST_BYTES);
}

/* What was settled long before the earlier reading is not read again: its digest is taken on trust. */
static void test_what_has_not_changed_is_not_read_again(void **state) {
    CLEANUP(tree_free) struct tree before, now, anew;
    struct scratch *scratch = *state;
    two_projects(scratch);
    scan(scratch, "a", NULL, &before);
    memset(before.files[0].digest, 7, DIGEST_BYTES);
    before.scanned_ns += INT64_C(1000000000);
    scan(scratch, "a", &before, &now);
    assert_memory_equal(digest_of(&now, before.files[0].path), before.files[0].digest,
                        S_ISREG(before.files[0].mode) ? DIGEST_BYTES : 0);
    for (size_t i = 0; i < before.count; i++) memset(before.files[i].digest, 7, DIGEST_BYTES);
    tree_free(&now);
    scan(scratch, "a", &before, &now);
    assert_memory_equal(digest_of(&now, "lib/x.ex"), digest_of(&before, "lib/x.ex"), DIGEST_BYTES);
    before.scanned_ns -= INT64_C(3600000000000); /* read before it was last changed: not to be trusted */
    scan(scratch, "a", &before, &anew);
    assert_memory_not_equal(digest_of(&anew, "lib/x.ex"), digest_of(&before, "lib/x.ex"), DIGEST_BYTES);
}

static void test_builds_and_history_are_ignored_at_the_top_only(void **state) {
    two_projects(*state);
    static const char *const folders[] = {"b/_build",
                                          "b/_build/dev",
                                          "b/_build/dev/plugins",
                                          "b/_build/dev/lib",
                                          "b/_build/dev/lib/x",
                                          "b/_build/dev/lib/x/ebin",
                                          "b/_build/dev/lib/x/priv",
                                          "b/.git",
                                          "b/erts-14.2"}; /* a release's */
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(*state, folders[i]);
    scratch_file(*state, "b/_build/dev/plugins/x", "x");
    scratch_file(*state, "b/_build/dev/lib/x/ebin/x.beam", "x");
    assert_same(*state, "a", "b", true);
    scratch_file(*state, "b/erts-14.2/x", "x");
    scratch_folder(*state, "b/lib/node_modules");
    assert_same(*state, "a", "b", false);
}

/* Dependencies that rebar3 fetched, and what was built natively, count. */
static void test_parts_of_builds_belong_to_the_project(void **state) {
    static const char *const folders[] = {"b/_build", "b/_build/dev", "b/_build/dev/lib", "b/_build/dev/lib/x",
                                          "b/_build/dev/lib/x/priv"};
    two_projects(*state);
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(*state, folders[i]);
    scratch_file(*state, "b/_build/dev/lib/x/priv/x.so", "x");
    assert_same(*state, "a", "b", false);
}

static void test_too_deep(void **state) {
    struct scratch *scratch = *state;
    char path[512] = "a";
    scratch_folder(scratch, path);
    for (int i = 0; i <= PROJECT_DEPTH_MAX; i++) {
        strcat(path, "/d");
        scratch_folder(scratch, path);
    }
    struct tree tree;
    assert_false(tree_scan(&(struct tree_folder){scratch->fd, ""}, 1, NULL, &tree));
}

static void test_unreadable(void **state) {
    (void)state;
    struct tree tree;
    assert_false(tree_scan(&(struct tree_folder){-1, ""}, 1, NULL, &tree));
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_same_content_same_digest),
        IN_SCRATCH(test_content_counts),
        IN_SCRATCH(test_names_count),
        IN_SCRATCH(test_places_count),
        IN_SCRATCH(test_empty_entries_count),
        IN_SCRATCH(test_links_are_their_targets_text),
        IN_SCRATCH(test_content_is_not_taken_for_entries),
        IN_SCRATCH(test_files_are_found_by_path),
        IN_SCRATCH(test_a_change_is_seen_even_with_an_old_time_on_it),
        IN_SCRATCH(test_what_has_not_changed_is_not_read_again),
        IN_SCRATCH(test_builds_and_history_are_ignored_at_the_top_only),
        IN_SCRATCH(test_parts_of_builds_belong_to_the_project),
        IN_SCRATCH(test_too_deep),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
