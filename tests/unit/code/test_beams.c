#include "scratch.h"

#include "code/code.h"

static void test_bytes_are_found_by_their_digest(void **state) {
    struct scratch *scratch = *state;
    char first[CODE_DIGEST_BYTES], again[CODE_DIGEST_BYTES], other[CODE_DIGEST_BYTES];
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    scratch_folder(scratch, "store");
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"abc", 3, first, NULL), 0);
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"abc", 3, again, NULL), 0);
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"abd", 3, other, NULL), 0);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    assert_int_equal(code_beam_load(scratch->path, first, &data, &size, NULL), 0);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "abc", 3);
}

static void test_what_is_damaged_or_gone_is_told(void **state) {
    struct scratch *scratch = *state;
    char digest[CODE_DIGEST_BYTES], path[PATH_MAX];
    uint8_t *data = NULL;
    size_t size;
    struct error error;
    scratch_folder(scratch, "store");
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"abc", 3, digest, NULL), 0);
    snprintf(path, sizeof path, "store/beams/%s", digest);
    scratch_file(scratch, path, "abX");
    assert_int_equal(code_beam_load(scratch->path, digest, &data, &size, &error), -E_SYSTEM);
    assert_non_null(strstr(error.detail, "damaged"));
    assert_int_equal(unlinkat(scratch->fd, path, 0), 0);
    assert_true(code_beam_load(scratch->path, digest, &data, &size, &error) < 0);
    assert_null(data);
    assert_true(code_beam_keep("/nonexistent", (const uint8_t *)"abc", 3, digest, &error) < 0);
}

static void test_what_nobody_names_is_swept(void **state) {
    struct scratch *scratch = *state;
    char kept[CODE_DIGEST_BYTES], swept[CODE_DIGEST_BYTES];
    CLEANUP(map_free) struct map used = MAP_INIT;
    uint8_t *data = NULL;
    size_t size;
    scratch_folder(scratch, "store");
    code_beams_sweep(scratch->path, &used, 0); /* there is nothing yet */
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"kept", 4, kept, NULL), 0);
    assert_int_equal(code_beam_keep(scratch->path, (const uint8_t *)"swept", 5, swept, NULL), 0);
    assert_true(map_set(&used, kept, &used));
    code_beams_sweep(scratch->path, &used, 3600); /* whoever keeps it may want to name it yet */
    assert_int_equal(code_beam_load(scratch->path, swept, &data, &size, NULL), 0);
    free(data);
    code_beams_sweep(scratch->path, &used, 0);
    assert_true(code_beam_load(scratch->path, swept, &data, &size, NULL) < 0);
    assert_int_equal(code_beam_load(scratch->path, kept, &data, &size, NULL), 0);
    free(data);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_bytes_are_found_by_their_digest),
        IN_SCRATCH(test_what_is_damaged_or_gone_is_told),
        IN_SCRATCH(test_what_nobody_names_is_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
