/* Tests the patterns of included and ignored files. */
#include "../scratch.h"
#include "watch/watch_internal.h"

static void glob_matches(void **state) {
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"*", "a/b", false},
        {"a*c", "abbc", true},
        {"a*c", "ac", true},
        {"a*c", "acb", false},
        {"*b*", "abc", true},
        {"*.ex", "x.ex", true},
        {"*.ex", "x.exs", false},
        {"?.ex", "x.ex", true},
        {"?.ex", ".ex", false},
        {"a/?", "a//", false},
        {"lib/*.ex", "lib/a.ex", true},
        {"lib/*.ex", "lib/b/a.ex", false},
        {"*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa", false},
        {"**", "ab", true},
        {"a*", "a", true},
        {"abc", "ab", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(watch_pattern_matches(cases[i].pattern, cases[i].text), cases[i].matches);
}

static void editors_files_are_ignored(void **state) {
    static const char *const ignored[] = {
        "_build",        "deps",     ".git",           "apps/a/_build", "lib/a.ex~",        "lib/.a.ex.swp",
        "lib/.a.ex.swo", "lib/4913", "#a.ex#",         ".#a.ex",        "a.ex___jb_tmp___", "a.bak",
        ".a.ex.un~",     "a.ex.tmp", "erl_crash.dump", ".DS_Store"};
    static const char *const seen[] = {
        "lib/a.ex",    "src/a.erl", "mix.exs",           "priv/x",        ".formatter.exs",
        "lib/deps.ex", "4913.ex",   "config/config.exs", "include/a.hrl", "a"};
    struct watch_patterns none = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++) assert_true(watch_ignores(&none, ignored[i]));
    for (size_t i = 0; i < ARRAY_SIZE(seen); i++) assert_false(watch_ignores(&none, seen[i]));
}

static void callers_patterns_come_first(void **state) {
    struct watch_patterns patterns = {(const char *const[]){"deps", "keep/*.tmp", NULL},
                                      (const char *const[]){"*.log", "priv/big", NULL}};
    (void)state;
    assert_false(watch_ignores(&patterns, "deps"));
    assert_true(watch_ignores(&patterns, "_build"));
    assert_false(watch_ignores(&patterns, "keep/a.tmp"));
    assert_true(watch_ignores(&patterns, "lose/a.tmp"));
    assert_true(watch_ignores(&patterns, "a/b.log"));
    assert_true(watch_ignores(&patterns, "priv/big"));
    assert_false(watch_ignores(&patterns, "lib/priv/big"));
}

static void a_name_alone_is_ignored_only_for_sure(void **state) {
    struct watch_patterns none = {0}, some = {(const char *const[]){"keep/*.tmp", NULL}, NULL};
    (void)state;
    assert_true(watch_ignores_name(&none, ".a.swp"));
    assert_false(watch_ignores_name(&none, "a.ex"));
    assert_false(watch_ignores_name(&some, "a.tmp"));
}

/* In doubt it is not ignored; the reading, which may take its time, finds out. */
static void a_name_that_takes_long_is_not_ignored_yet(void **state) {
    char pattern[128] = "*", name[256];
    struct watch_patterns patterns = {NULL, (const char *const[]){pattern, "x*", NULL}};
    (void)state;
    memset(pattern + 1, 'a', 100);
    strcpy(pattern + 101, "b");
    memset(name, 'a', 250);
    strcpy(name + 250, "b");
    assert_true(watch_ignores(&patterns, name));
    assert_false(watch_ignores_name(&patterns, name));
    assert_true(watch_ignores_name(&patterns, name + 140));
    assert_true(watch_ignores_name(&patterns, "x.ex"));
}

static void copies_are_bounded(void **state) {
    char *many[WATCH_PATTERNS_MAX + 8];
    char longer[WATCH_PATTERN_MAX_BYTES + 8];
    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(many); i++) many[i] = longer;
    many[ARRAY_SIZE(many) - 1] = NULL;
    struct watch_patterns copy;
    assert_int_equal(watch_patterns_copy(&(struct watch_patterns){NULL, (const char *const *)many}, &copy), 0);
    assert_null(copy.include[0]);
    assert_int_equal(strlen(copy.ignore[WATCH_PATTERNS_MAX - 1]), WATCH_PATTERN_MAX_BYTES);
    assert_null(copy.ignore[WATCH_PATTERNS_MAX]);
    watch_patterns_free(&copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glob_matches),
        cmocka_unit_test(editors_files_are_ignored),
        cmocka_unit_test(callers_patterns_come_first),
        cmocka_unit_test(a_name_alone_is_ignored_only_for_sure),
        cmocka_unit_test(a_name_that_takes_long_is_not_ignored_yet),
        cmocka_unit_test(copies_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
