#include "scratch.h"

#include "compile/compile_internal.h"

static const struct cache_subject ours = {.is_ours = true, .toolchain = "tools", .kind = "mix", .name = "app"};

static void key_of(const struct scratch *scratch, const char *folder, struct cache_subject subject,
                   char ret[STORE_DIGEST_BYTES]) {
    CLEANUP_FD int fd = openat(scratch->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    subject.folder = fd;
    assert_true(cache_key(&subject, ret));
    assert_int_equal(strlen(ret), STORE_DIGEST_BYTES - 1);
}

static void assert_same(const struct scratch *scratch, const char *a, const char *b, bool same) {
    char first[STORE_DIGEST_BYTES], second[STORE_DIGEST_BYTES];
    key_of(scratch, a, ours, first);
    key_of(scratch, b, ours, second);
    assert_int_equal(strcmp(first, second) == 0, same);
}

static void two_projects(const struct scratch *scratch) {
    static const char *const paths[] = {"a", "b", "a/lib", "b/lib"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) scratch_folder(scratch, paths[i]);
    scratch_file(scratch, "a/mix.exs", "project");
    scratch_file(scratch, "b/lib/x.ex", "module");
    scratch_file(scratch, "a/lib/x.ex", "module");
    scratch_file(scratch, "b/mix.exs", "project");
}

static void test_same_content_same_key(void **state) {
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

static void test_what_compiles_it_counts(void **state) {
    char keys[4][STORE_DIGEST_BYTES];
    two_projects(*state);
    struct cache_subject subjects[] = {ours, ours, ours, ours};
    subjects[1].toolchain = "other";
    subjects[2].kind = "folder";
    subjects[3].name = "other";
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) key_of(*state, "a", subjects[i], keys[i]);
    for (size_t i = 1; i < ARRAY_SIZE(keys); i++) assert_string_not_equal(keys[0], keys[i]);
}

/* A folder that its owner can change while it is compiled stands for nobody else's. */
static void test_a_folder_of_others_counts_by_its_place(void **state) {
    char first[STORE_DIGEST_BYTES], again[STORE_DIGEST_BYTES], second[STORE_DIGEST_BYTES], copied[STORE_DIGEST_BYTES];
    struct cache_subject theirs = ours;
    theirs.is_ours = false;
    two_projects(*state);
    key_of(*state, "a", theirs, first);
    key_of(*state, "a", theirs, again);
    key_of(*state, "b", theirs, second);
    key_of(*state, "a", ours, copied);
    assert_string_equal(first, again);
    assert_string_not_equal(first, second);
    assert_string_not_equal(first, copied);
    theirs.owner = 1234; /* the folder's number given to somebody else */
    key_of(*state, "a", theirs, again);
    assert_string_not_equal(first, again);
}

static void test_the_newest_builds_are_listed_and_the_rest_forgotten(void **state) {
    struct scratch *scratch = *state;
    char keys[3][STORE_DIGEST_BYTES], digests[3][STORE_DIGEST_BYTES], found[2][STORE_DIGEST_BYTES], path[PATH_MAX];
    scratch_folder(scratch, "store");
    for (int i = 0; i < 3; i++) {
        memset(keys[i], 'a' + i, sizeof keys[i]);
        memset(digests[i], '0' + i, sizeof digests[i]);
        keys[i][sizeof keys[i] - 1] = digests[i][sizeof digests[i] - 1] = '\0';
        cache_keep(scratch->path, keys[i], digests[i]);
        snprintf(path, sizeof path, "%s/store/cache/%s", scratch->path, keys[i]);
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    scratch_file(scratch, "store/cache/half-written.new", "x");
    assert_int_equal(cache_builds(scratch->path, found, 2), 2);
    assert_string_equal(found[0], digests[2]);
    assert_string_equal(found[1], digests[1]);
    snprintf(path, sizeof path, "%s/store/cache/%s", scratch->path, keys[0]);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(cache_builds("/nonexistent", found, 2), 0);
}

static void test_builds_and_history_are_ignored_at_the_top_only(void **state) {
    two_projects(*state);
    scratch_folder(*state, "b/_build");
    scratch_file(*state, "b/_build/x", "x");
    scratch_folder(*state, "b/.git");
    assert_same(*state, "a", "b", true);
    scratch_folder(*state, "b/lib/node_modules");
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
    struct cache_subject subject = ours;
    char key[STORE_DIGEST_BYTES];
    subject.folder = scratch->fd;
    assert_false(cache_key(&subject, key));
}

static void test_unreadable(void **state) {
    (void)state;
    struct cache_subject subject = ours;
    char key[STORE_DIGEST_BYTES];
    subject.folder = -1;
    assert_false(cache_key(&subject, key));
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_same_content_same_key),
        IN_SCRATCH(test_content_counts),
        IN_SCRATCH(test_names_count),
        IN_SCRATCH(test_places_count),
        IN_SCRATCH(test_empty_entries_count),
        IN_SCRATCH(test_links_are_their_targets_text),
        IN_SCRATCH(test_content_is_not_taken_for_entries),
        IN_SCRATCH(test_what_compiles_it_counts),
        IN_SCRATCH(test_a_folder_of_others_counts_by_its_place),
        IN_SCRATCH(test_the_newest_builds_are_listed_and_the_rest_forgotten),
        IN_SCRATCH(test_builds_and_history_are_ignored_at_the_top_only),
        IN_SCRATCH(test_too_deep),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
