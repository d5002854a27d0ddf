/* Tests whose a subordinate uid is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/schedule/principals.h"

static struct principals principals;

static bool find(const char *name, uid_t *ret) {
    if (strcmp(name, "ann") == 0) *ret = 1000;
    if (strcmp(name, "root") == 0) *ret = 0;
    return strcmp(name, "ann") == 0 || strcmp(name, "root") == 0;
}

static void read_text(const char *text, principals_find_fn find_user) {
    char copy[512];
    principals_free(&principals);
    snprintf(copy, sizeof copy, "%s", text);
    assert_true(principals_parse(copy, find_user, &principals));
}

static void is_of(uid_t uid, uid_t principal) {
    assert_int_equal(principals_of(&principals, uid), principal);
}

static int end(void **state) {
    (void)state;
    principals_free(&principals);
    return 0;
}

static void a_range_is_its_users(void **state) {
    (void)state;
    read_text("ann:100000:65536\n1001:200000:10\nann:300000:2", find);
    is_of(99999, 99999);
    is_of(100000, 1000);
    is_of(165535, 1000);
    is_of(165536, 165536);
    is_of(200009, 1001);
    is_of(200010, 200010);
    is_of(300001, 1000);
    is_of(1000, 1000);
}

/* Else they would be bound by nothing. */
static void what_is_roots_or_unknown_is_one_principal_of_its_own(void **state) {
    (void)state;
    read_text("root:100000:1000\ngone:200000:1000\ngone:300000:1000\n", find);
    is_of(100999, 100000);
    is_of(200999, 200000);
    is_of(300999, 200000);
}

static void without_names_the_first_range_stands_for_its_user(void **state) {
    (void)state;
    read_text("ann:300000:1000\nann:100000:1000\nbob:200000:1000\n", NULL);
    is_of(300999, 100000);
    is_of(100999, 100000);
    is_of(200999, 200000);
    is_of(1000, 1000);
}

static void ranges_that_overlap_are_cut_apart(void **state) {
    (void)state;
    read_text("ann:100000:100\n1001:100050:100\n1002:100010:10\n", find);
    is_of(100099, 1000);
    is_of(100015, 1000);
    is_of(100100, 1001);
    is_of(100149, 1001);
    is_of(100150, 100150);
}

static void what_is_no_line_says_nothing(void **state) {
    (void)state;
    read_text("ann:0:65536\nann:1000:1\nann:100000\nann\n:100000:10\nann:x:10\nann:100000:-1\nann:4294967295:2\n"
              "ann:4294967000:4294967295\n# ann:100000:10\n\n",
              find);
    assert_int_equal(principals.count, 0);
    is_of(100005, 100005);
    assert_int_equal(principals_of(NULL, 7), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_its_users),
        cmocka_unit_test(what_is_roots_or_unknown_is_one_principal_of_its_own),
        cmocka_unit_test(without_names_the_first_range_stands_for_its_user),
        cmocka_unit_test(ranges_that_overlap_are_cut_apart),
        cmocka_unit_test(what_is_no_line_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
