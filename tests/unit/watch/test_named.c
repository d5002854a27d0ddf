/* Tests the files that events have named, and a listing that is updated in these places. */
#include "../scratch.h"
#include "listing_of.h"

static void a_file_is_named_once(void **state) {
    struct watch_named named = {0};
    (void)state;
    watch_named_add(&named, "lib", "b.ex");
    watch_named_add(&named, "", "mix.exs");
    watch_named_add(&named, "lib", "b.ex");
    watch_named_add(&named, "lib", "a.ex");
    watch_named_sort(&named);
    assert_int_equal(named.count, 3);
    assert_string_equal(named.paths[0], "lib/a.ex");
    assert_string_equal(named.paths[1], "lib/b.ex");
    assert_string_equal(named.paths[2], "mix.exs");
    assert_false(named.is_everything);
    watch_named_free(&named);
    assert_int_equal(named.count, 0);
}

static void fill(struct watch_named *named, const char *folder, size_t count) {
    char name[16];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%zu", i);
        watch_named_add(named, folder, name);
    }
}

static void too_many_names_are_everything(void **state) {
    struct watch_named named = {0};
    (void)state;
    fill(&named, "lib", WATCH_NAMED_MAX);
    watch_named_add(&named, "lib", "0"); /* is among them */
    assert_false(named.is_everything);
    watch_named_add(&named, "lib", "one more");
    assert_true(named.is_everything);
    watch_named_free(&named);
}

static void names_are_joined(void **state) {
    struct watch_named named = {0}, more = {0};
    (void)state;
    fill(&named, "lib", 3);
    fill(&more, "lib", 5);
    watch_named_join(&named, &more);
    assert_int_equal(named.count, 5);
    assert_int_equal(more.count, 0);
    assert_false(named.is_everything);
    fill(&more, "test", WATCH_NAMED_MAX);
    watch_named_join(&named, &more);
    assert_true(named.is_everything);
    watch_named_free(&named);
    watch_named_join(&named, &(struct watch_named){.is_everything = true});
    assert_true(named.is_everything);
    watch_named_free(&named);
}

static void folders_are_found_by_descriptor(void **state) {
    struct watch_folders folders = {0};
    (void)state;
    assert_null(watch_folders_find(&folders, 1));
    assert_true(watch_folders_add(&folders, 7, ""));
    assert_true(watch_folders_add(&folders, 3, "lib"));
    assert_true(watch_folders_add(&folders, 5, "lib/here"));
    assert_true(watch_folders_add(&folders, 5, "lib/and_there")); /* mounted twice */
    watch_folders_sort(&folders);
    assert_string_equal(watch_folders_find(&folders, 7), "");
    assert_string_equal(watch_folders_find(&folders, 3), "lib");
    assert_null(watch_folders_find(&folders, 5));
    assert_null(watch_folders_find(&folders, 4));
    watch_folders_free(&folders);
}

/* ---- a listing brought up to date in some places ---- */

static void assert_listing(const struct watch_listing *listing, const char *const *paths, const char *contents) {
    assert_int_equal(listing->count, strlen(contents));
    for (size_t i = 0; i < listing->count; i++) {
        assert_string_equal(listing->files[i].path, paths[i]);
        assert_int_equal(listing->files[i].digest[0], contents[i]);
    }
}

static struct watch_named names_of(const char *const *paths) {
    struct watch_named named = {0};
    for (size_t i = 0; paths[i]; i++) watch_named_add(&named, "", paths[i]);
    return named;
}

static void some_of_a_listing_is_exchanged(void **state) {
    struct watch_listing listing = listing_of((const char *const[]){"b", "d", "f", "g", NULL}, "1234");
    struct watch_listing found = listing_of((const char *const[]){"a", "d", "e", "g", "h", NULL}, "5x647");
    struct watch_named named = names_of((const char *const[]){"a", "b", "d", "e", "g", "h", "i", NULL});
    static const char expected[] = "+a-b~d+e+h";
    static const char signs[] = {[WATCH_ADDED] = '+', [WATCH_MODIFIED] = '~', [WATCH_REMOVED] = '-'};
    struct watch_change *changes;
    size_t count;
    (void)state;
    assert_true(watch_listing_compare_named(&listing, &found, &named, &changes, &count));
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(signs[changes[i].kind], expected[2 * i]);
        assert_int_equal(changes[i].path[0], expected[2 * i + 1]);
    }
    free(changes);
    assert_false(watch_listing_patch(&listing, &found, &named, 5)); /* six there would be */
    assert_listing(&listing, (const char *const[]){"b", "d", "f", "g"}, "1234");
    assert_true(watch_listing_patch(&listing, &found, &named, 6));
    assert_listing(&listing, (const char *const[]){"a", "d", "e", "f", "g", "h"}, "5x6347");
    watch_named_free(&named);
    watch_listing_free(&listing);
    watch_listing_free(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_named_once),
        cmocka_unit_test(too_many_names_are_everything),
        cmocka_unit_test(names_are_joined),
        cmocka_unit_test(folders_are_found_by_descriptor),
        cmocka_unit_test(some_of_a_listing_is_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
