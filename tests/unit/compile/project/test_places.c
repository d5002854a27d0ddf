/* Where a node sees a project and what was handed over with it. */
#include "compile/project/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect(const char *project, const char *with, const char *place, const char *with_place, const char *seen) {
    char chosen[PATH_MAX];
    struct with_place ret;
    struct error error;
    assert_int_equal(places_choose(project, &with, 1, chosen, &ret, &error), 0);
    assert_string_equal(chosen, place);
    assert_string_equal(ret.place, with_place);
    assert_string_equal(ret.seen, seen);
}

static void they_lie_as_on_the_host(void **state) {
    (void)state;
    expect("/home/a/shop", "/home/a/core", "/src/tree/shop", "/src/tree/core", "../core");
    expect("/home/a/apps/shop", "/home/a/libs/core", "/src/tree/apps/shop", "/src/tree/libs/core", "../../libs/core");
    expect("/home/a/shop", "/home/a/shop2", "/src/tree/shop", "/src/tree/shop2", "../shop2");
    expect("/shop", "/opt/core", "/src/tree/shop", "/src/tree/opt/core", "../opt/core");
}

static void several_share_one_tree(void **state) {
    (void)state;
    const char *withs[] = {"/a/b/core", "/a/libs/x/y"};
    char chosen[PATH_MAX];
    struct with_place ret[2];
    struct error error;
    assert_int_equal(places_choose("/a/b/shop", withs, 2, chosen, ret, &error), 0);
    assert_string_equal(chosen, "/src/tree/b/shop");
    assert_string_equal(ret[0].place, "/src/tree/b/core");
    assert_string_equal(ret[0].seen, "../core");
    assert_string_equal(ret[1].place, "/src/tree/libs/x/y");
    assert_string_equal(ret[1].seen, "../../libs/x/y");
}

static void alone_it_has_its_usual_place(void **state) {
    (void)state;
    char chosen[PATH_MAX];
    struct error error;
    assert_int_equal(places_choose("a text", NULL, 0, chosen, NULL, &error), 0);
    assert_string_equal(chosen, PROJECT_PLACE);
}

static void none_lies_in_another(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"/a/shop/libs", NULL}, {"/a", NULL}, {"/a/shop", NULL}, {"/b/c", "/b"}, {"/b", "/b"}};
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        char chosen[PATH_MAX];
        struct with_place ret[2];
        struct error error;
        assert_int_equal(places_choose("/a/shop", refused[i], refused[i][1] ? 2 : 1, chosen, ret, &error), -E_INVALID);
    }
}

static void paths_are_told_apart(void **state) {
    (void)state;
    assert_string_equal(place_rest("../core", "../core/lib/a.ex"), "lib/a.ex");
    assert_string_equal(place_rest("../core", "../core"), "");
    assert_null(place_rest("../core", "../core2/a.ex"));
    assert_null(place_rest("../core", "lib/a.ex"));
    assert_true(is_seen_path("lib/a.ex"));
    assert_true(is_seen_path("../../core/a.ex"));
    static const char *const bad[] = {"", "..", "../", "/etc/passwd", "../core/../../x", "lib/../x", "a//b"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_false(is_seen_path(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_lie_as_on_the_host),      cmocka_unit_test(several_share_one_tree),
        cmocka_unit_test(alone_it_has_its_usual_place), cmocka_unit_test(none_lies_in_another),
        cmocka_unit_test(paths_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
