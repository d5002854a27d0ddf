/* Tests the cache of builds: its entries, torn entries, and the share of each owner. */
#include "scratch.h"

#include "compile/compile_internal.h"

static void keep(const char *home, const char *key, const char *digest, uid_t owner) {
    struct cached_build build = {.owner = owner, .bytes = 1000};
    memcpy(build.digest, digest, sizeof build.digest);
    cache_keep(home, key, &build);
}

static void test_the_newest_builds_are_listed_and_the_rest_forgotten(void **state) {
    struct scratch *scratch = *state;
    char keys[3][STORE_DIGEST_BYTES], digests[3][STORE_DIGEST_BYTES], path[PATH_MAX];
    struct cached_build found[2];
    scratch_folder(scratch, "store");
    for (int i = 0; i < 3; i++) {
        memset(keys[i], 'a' + i, sizeof keys[i]);
        memset(digests[i], '0' + i, sizeof digests[i]);
        keys[i][sizeof keys[i] - 1] = digests[i][sizeof digests[i] - 1] = '\0';
        keep(scratch->path, keys[i], digests[i], 7);
        snprintf(path, sizeof path, "%s/store/cache/%s", scratch->path, keys[i]);
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    scratch_file(scratch, "store/cache/half-written.new", "x");
    assert_int_equal(cache_builds(scratch->path, found, 2), 2);
    assert_string_equal(found[0].digest, digests[2]);
    assert_int_equal(found[0].owner, 7);
    assert_int_equal(found[0].bytes, 1000);
    assert_string_equal(found[1].digest, digests[1]);
    snprintf(path, sizeof path, "%s/store/cache/%s", scratch->path, keys[0]);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(cache_builds("/nonexistent", found, 2), 0);
}

static void fill(char ret[STORE_DIGEST_BYTES], char with) {
    memset(ret, with, STORE_DIGEST_BYTES - 1);
    ret[STORE_DIGEST_BYTES - 1] = '\0';
}

/* Whatever lies where it is written: an entry, one that the power cut short, half of one that was never named. */
static void test_an_entry_says_what_was_kept_last(void **state) {
    struct scratch *scratch = *state;
    char key[STORE_DIGEST_BYTES], digest[STORE_DIGEST_BYTES], path[PATH_MAX];
    struct cached_build found[1];
    fill(key, 'a');
    scratch_folder(scratch, "store");
    scratch_folder(scratch, "store/cache");
    snprintf(path, sizeof path, "store/cache/%s.new", key);
    scratch_file(scratch, path, "half");
    for (char with = '0'; with < '3'; with++) {
        fill(digest, with);
        keep(scratch->path, key, digest, 7);
        assert_int_equal(cache_builds(scratch->path, found, 1), 1);
        assert_string_equal(found[0].digest, digest);
    }
    assert_int_equal(faccessat(scratch->fd, path, F_OK, 0), -1);
    snprintf(path, sizeof path, "store/cache/%s", key);
    scratch_file(scratch, path, "short");
    keep(scratch->path, key, digest, 7);
    assert_int_equal(cache_builds(scratch->path, found, 1), 1);
    assert_string_equal(found[0].digest, digest);
    keep("/nonexistent", key, digest, 7); /* no error is reported */
}

/* Its build was swept. A compilation of the same sources may write the entry at this moment: the entry stays. */
static void test_an_entry_without_its_build_is_left_alone(void **state) {
    struct scratch *scratch = *state;
    char key[STORE_DIGEST_BYTES], digest[STORE_DIGEST_BYTES], named[STORE_DIGEST_BYTES];
    struct cached_build found[1];
    uv_loop_t loop = {0};
    struct store *store;
    struct error error;
    fill(key, 'a');
    fill(digest, '0');
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(store_open(&loop, scratch->path, &store, &error), 0);
    keep(scratch->path, key, digest, 7);
    assert_false(cache_find(scratch->path, store, key, named));
    assert_int_equal(cache_builds(scratch->path, found, 1), 1);
    store_close(store, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* One who compiles without end drives out none but its own. */
static void test_owners_share_the_cache(void **state) {
    (void)state;
    static const uid_t owners[] = {1, 1, 1, 1, 2, 1, 3, 2};
    static const bool expected[] = {true, true, false, false, true, false, true, true};
    struct cached_build builds[ARRAY_SIZE(owners)] = {0};
    bool chosen[ARRAY_SIZE(owners)] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) builds[i].owner = owners[i];
    cache_choose(builds, ARRAY_SIZE(owners), 5, chosen);
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) assert_int_equal(chosen[i], expected[i]);
    bool all[ARRAY_SIZE(owners)] = {0};
    cache_choose(builds, ARRAY_SIZE(owners), 100, all);
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) assert_true(all[i]);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_the_newest_builds_are_listed_and_the_rest_forgotten),
        IN_SCRATCH(test_an_entry_says_what_was_kept_last),
        IN_SCRATCH(test_an_entry_without_its_build_is_left_alone),
        cmocka_unit_test(test_owners_share_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
