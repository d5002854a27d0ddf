#include "scratch.h"

#include "compile/compile_internal.h"

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

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_the_newest_builds_are_listed_and_the_rest_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
