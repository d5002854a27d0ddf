/* The bytes of versions: kept once for each owner, named by their content, counted and swept. */
#include "scratch.h"

#include "code/code.h"

static struct beam_store beams_of(struct scratch *scratch, uint32_t owner) {
    return (struct beam_store){.home = scratch->path, .owner = owner};
}

static void test_bytes_are_found_by_their_digest(void **state) {
    struct scratch *scratch = *state;
    char first[CODE_DIGEST_BYTES], again[CODE_DIGEST_BYTES], other[CODE_DIGEST_BYTES];
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    struct beam_store beams = beams_of(scratch, 1000);
    scratch_folder(scratch, "store");
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abc", 3, first, NULL), 0);
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abc", 3, again, NULL), 0);
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abd", 3, other, NULL), 0);
    assert_int_equal(beams.written_bytes, 6); /* the same bytes are written once */
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    assert_int_equal(code_beam_load(&beams, first, &data, &size, NULL), 0);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "abc", 3);
}

static void test_what_is_damaged_or_gone_is_told(void **state) {
    struct scratch *scratch = *state;
    char digest[CODE_DIGEST_BYTES], path[PATH_MAX];
    uint8_t *data = NULL;
    size_t size;
    struct error error;
    struct beam_store beams = beams_of(scratch, 1000);
    scratch_folder(scratch, "store");
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abc", 3, digest, NULL), 0);
    snprintf(path, sizeof path, "store/beams/1000/%s", digest);
    scratch_file(scratch, path, "abX");
    assert_int_equal(code_beam_load(&beams, digest, &data, &size, &error), -E_SYSTEM);
    assert_non_null(strstr(error.detail, "damaged"));
    assert_int_equal(unlinkat(scratch->fd, path, 0), 0);
    assert_true(code_beam_load(&beams, digest, &data, &size, &error) < 0);
    assert_null(data);
    beams.home = "/nonexistent";
    assert_true(code_beam_keep(&beams, (const uint8_t *)"abc", 3, digest, &error) < 0);
}

static bool is_there(const struct beam_store *beams, const char *digest) {
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    return code_beam_load(beams, digest, &data, &size, NULL) == 0;
}

static void test_bytes_without_a_version_are_swept(void **state) {
    struct scratch *scratch = *state;
    char kept[CODE_DIGEST_BYTES], swept[CODE_DIGEST_BYTES];
    CLEANUP(map_free) struct map used = MAP_INIT;
    struct beam_store beams = beams_of(scratch, 1000), other = beams_of(scratch, 1001);
    uint64_t removed, left;
    scratch_folder(scratch, "store");
    code_beams_sweep(&beams, &used, 0, &removed, &left); /* there is nothing yet */
    assert_int_equal(removed + left, 0);
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"kept", 4, kept, NULL), 0);
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"swept", 5, swept, NULL), 0);
    assert_int_equal(code_beam_keep(&other, (const uint8_t *)"swept", 5, swept, NULL), 0);
    assert_true(map_set(&used, kept, &used));
    code_beams_sweep(&beams, &used, 3600, &removed, &left); /* a version may name them yet */
    assert_int_equal(removed, 0);
    assert_int_equal(left, 9);
    code_beams_sweep(&beams, &used, 0, &removed, &left);
    assert_int_equal(removed, 5);
    assert_int_equal(left, 4);
    assert_false(is_there(&beams, swept));
    assert_true(is_there(&beams, kept));
    assert_true(is_there(&other, swept)); /* another owner has bytes of its own */
}

static void test_a_dry_run_writes_nothing(void **state) {
    struct scratch *scratch = *state;
    char named[CODE_DIGEST_BYTES], kept[CODE_DIGEST_BYTES];
    struct beam_store dry = beams_of(scratch, 1000), beams = beams_of(scratch, 1000);
    dry.is_dry = true;
    scratch_folder(scratch, "store");
    assert_int_equal(code_beam_keep(&dry, (const uint8_t *)"abc", 3, named, NULL), 0);
    assert_int_equal(faccessat(scratch->fd, "store/beams", F_OK, 0), -1);
    assert_int_equal(dry.written_bytes, 0);
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abc", 3, kept, NULL), 0);
    assert_string_equal(named, kept);
}

static void test_bytes_of_an_older_service_are_found_and_swept(void **state) {
    struct scratch *scratch = *state;
    char digest[CODE_DIGEST_BYTES], path[PATH_MAX];
    CLEANUP(map_free) struct map used = MAP_INIT;
    struct beam_store beams = beams_of(scratch, 1000);
    size_t count;
    scratch_folder(scratch, "store");
    scratch_folder(scratch, "store/beams");
    beams.is_dry = true;
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"abc", 3, digest, NULL), 0);
    snprintf(path, sizeof path, "store/beams/%s", digest);
    scratch_file(scratch, path, "abc");
    assert_true(is_there(&beams, digest));
    CLEANUP_FREE uint32_t *none = code_beams_owners(scratch->path, &count);
    assert_int_equal(count, 0);
    scratch_folder(scratch, "store/beams/1000");
    CLEANUP_FREE uint32_t *owners = code_beams_owners(scratch->path, &count);
    assert_int_equal(count, 1);
    assert_int_equal(owners[0], 1000);
    assert_true(map_set(&used, digest, &used));
    code_beams_sweep_old(scratch->path, &used);
    assert_true(is_there(&beams, digest));
    map_remove(&used, digest);
    code_beams_sweep_old(scratch->path, &used);
    assert_false(is_there(&beams, digest));
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_bytes_are_found_by_their_digest),
        IN_SCRATCH(test_what_is_damaged_or_gone_is_told),
        IN_SCRATCH(test_bytes_without_a_version_are_swept),
        IN_SCRATCH(test_a_dry_run_writes_nothing),
        IN_SCRATCH(test_bytes_of_an_older_service_are_found_and_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
