/* Tests the comparison of two listings of a folder. */
#include "../scratch.h"
#include "listing_of.h"

static void what_came_went_and_changed(void **state) {
    struct watch_listing before = listing_of((const char *const[]){"d", "a", "b", NULL}, "123");
    struct watch_listing after = listing_of((const char *const[]){"a", "b", "c", NULL}, "2x4");
    struct watch_change *changes;
    size_t count;
    (void)state;
    assert_true(watch_listing_compare(&before, &after, &changes, &count));
    assert_int_equal(count, 3);
    assert_string_equal(changes[0].path, "b");
    assert_int_equal(changes[0].kind, WATCH_MODIFIED);
    assert_string_equal(changes[1].path, "c");
    assert_int_equal(changes[1].kind, WATCH_ADDED);
    assert_string_equal(changes[2].path, "d");
    assert_int_equal(changes[2].kind, WATCH_REMOVED);
    free(changes);
    assert_true(watch_listing_compare(&after, &after, &changes, &count));
    assert_int_equal(count, 0);
    free(changes);
    watch_listing_free(&before);
    watch_listing_free(&after);
}

static void a_kind_is_content_too(void **state) {
    struct watch_listing before = listing_of((const char *const[]){"a", NULL}, "1");
    struct watch_listing after = listing_of((const char *const[]){"a", NULL}, "1");
    struct watch_change *changes;
    size_t count;
    (void)state;
    after.files[0].kind = S_IFLNK;
    assert_true(watch_listing_compare(&before, &after, &changes, &count));
    assert_int_equal(count, 1);
    free(changes);
    watch_listing_free(&before);
    watch_listing_free(&after);
}

/* A file that was written just before it was read may have been written again within the clock's grain. */
static void only_what_had_settled_is_taken_over(void **state) {
    struct watch_listing before = {.read_at_ns = 1000000000};
    struct watch_file known = {.kind = S_IFREG, .inode = 1, .size = 2, .changed_ns = 900000000, .modified_ns = 5};
    struct watch_file now = known;
    (void)state;
    assert_true(watch_file_is_same(&before, &known, &now));
    now.modified_ns = 6;
    assert_false(watch_file_is_same(&before, &known, &now));
    now = known;
    now.inode = 2;
    assert_false(watch_file_is_same(&before, &known, &now));
    known.changed_ns = now.changed_ns = 960000000;
    now.inode = 1;
    assert_false(watch_file_is_same(&before, &known, &now));
}

static void it_holds_no_more_than_its_bound(void **state) {
    struct watch_listing listing = {0};
    (void)state;
    for (size_t i = 0; i < WATCH_FILES_MAX; i++) assert_non_null(watch_listing_add(&listing, "x"));
    assert_null(watch_listing_add(&listing, "x"));
    assert_int_equal(listing.count, WATCH_FILES_MAX);
    watch_listing_free(&listing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_went_and_changed),
        cmocka_unit_test(a_kind_is_content_too),
        cmocka_unit_test(only_what_had_settled_is_taken_over),
        cmocka_unit_test(it_holds_no_more_than_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
