/* Tests how a build's files and a project's priv folders are collected, without following links. */
#include "scratch.h"

#include "compile/compile_internal.h"

static const struct store_file *find(const struct file_list *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->files[i].path, path) == 0) return &list->files[i];
    return NULL;
}

static void collect(const struct scratch *scratch, const char *dir, struct file_list *list) {
    struct error error = {0};
    if (collect_below(scratch->fd, dir, "priv", "app", list, &error) < 0) fail_msg("%s", error.detail);
}

static void test_priv_is_collected_below_the_applications_name(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    scratch_folder(*state, "priv");
    scratch_folder(*state, "priv/static");
    scratch_file(*state, "priv/a.txt", "a");
    scratch_file(*state, "priv/static/empty", "");
    collect(*state, "", &list);
    assert_int_equal(list.count, 2);
    const struct store_file *file = find(&list, "app/priv/a.txt");
    assert_non_null(file);
    assert_int_equal(file->size, 1);
    assert_memory_equal(file->data, "a", 1);
    assert_non_null(find(&list, "app/priv/static/empty"));
}

static void test_in_a_folder_below(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    scratch_folder(*state, "apps");
    scratch_folder(*state, "apps/one");
    scratch_folder(*state, "apps/one/priv");
    scratch_file(*state, "apps/one/priv/x", "x");
    collect(*state, "apps/one", &list);
    assert_non_null(find(&list, "app/priv/x"));
    collect(*state, "./apps/one", &list);
    assert_int_equal(list.count, 2);
}

static void test_none(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    collect(*state, "", &list);
    scratch_file(*state, "priv", "not a folder");
    collect(*state, "", &list);
    assert_int_equal(list.count, 0);
}

static void test_links_stay_out(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    scratch_folder(*state, "priv");
    scratch_file(*state, "secret", "secret");
    scratch_folder(*state, "folder");
    scratch_file(*state, "folder/secret", "secret");
    scratch_link(*state, "../secret", "priv/file");
    scratch_link(*state, "../folder", "priv/folder");
    assert_int_equal(mkfifoat(((struct scratch *)*state)->fd, "priv/pipe", 0600), 0);
    collect(*state, "", &list);
    assert_int_equal(list.count, 0);
}

/* The folder's name comes from the compiler node, and what lies there from the project's owner. */
static void test_no_link_on_the_way_is_followed(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    scratch_folder(*state, "project");
    scratch_folder(*state, "other");
    scratch_folder(*state, "other/priv");
    scratch_file(*state, "other/priv/secret", "secret");
    scratch_link(*state, "../other", "project/way");
    scratch_link(*state, "other/priv", "priv");
    CLEANUP_FD int project = open_below(((struct scratch *)*state)->fd, "project");
    static const char *const ways[] = {"way", "..", "../other", "./../other", "/", "", "way/", "way/."};
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        struct error error;
        assert_int_equal(collect_below(project, ways[i], "priv", "app", &list, &error), 0);
        assert_int_equal(list.count, 0);
    }
    collect(*state, "", &list); /* priv itself is a link */
    assert_int_equal(list.count, 0);
}

static void test_too_large(void **state) {
    CLEANUP(file_list_free) struct file_list list = {0};
    struct scratch *scratch = *state;
    struct error error;
    scratch_folder(scratch, "priv");
    scratch_file(scratch, "priv/big", "");
    CLEANUP_FD int fd = openat(scratch->fd, "priv/big", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, PROJECT_FILE_MAX_BYTES + 1), 0);
    assert_true(collect_below(scratch->fd, "", "priv", "app", &list, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
}

static void test_remove_tree_removes_links_not_their_targets(void **state) {
    struct scratch *scratch = *state;
    char path[128];
    scratch_folder(scratch, "kept");
    scratch_file(scratch, "kept/file", "kept");
    scratch_folder(scratch, "gone");
    scratch_folder(scratch, "gone/deeper");
    scratch_file(scratch, "gone/deeper/file", "");
    scratch_link(scratch, "../kept", "gone/link");
    snprintf(path, sizeof path, "%s/gone", scratch->path);
    remove_tree(path);
    assert_false(scratch_has(scratch, "gone"));
    scratch_holds(scratch, "kept/file", "kept");
    remove_tree(path); /* not there: nothing happens */
}

static void test_open_below(void **state) {
    struct scratch *scratch = *state;
    scratch_folder(scratch, "a");
    scratch_folder(scratch, "a/b");
    scratch_link(scratch, "a", "link");
    CLEANUP_FD int here = open_below(scratch->fd, "");
    CLEANUP_FD int there = open_below(scratch->fd, "a/b");
    assert_true(here >= 0);
    assert_true(there >= 0);
    static const char *const refused[] = {"link", "link/b", "a/../a", "..", "/tmp", "a//b", "missing"};
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) assert_int_equal(open_below(scratch->fd, refused[i]), -1);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_priv_is_collected_below_the_applications_name),
        IN_SCRATCH(test_in_a_folder_below),
        IN_SCRATCH(test_none),
        IN_SCRATCH(test_links_stay_out),
        IN_SCRATCH(test_no_link_on_the_way_is_followed),
        IN_SCRATCH(test_too_large),
        IN_SCRATCH(test_remove_tree_removes_links_not_their_targets),
        IN_SCRATCH(test_open_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
