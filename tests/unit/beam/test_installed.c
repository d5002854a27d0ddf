/* Every file of the installations named, which are OTP's and Elixir's own, is valid, for their own generation too, and
   its code is read quickly, on every processor. */
#include "beam/beam_test.h"
#include "beam/code/survey.h"

#include <ftw.h>

enum { LEAST_FILES = 500 };

/* nftw has no context to keep them in. */
static unsigned file_count, refused_count, slow_count;

static bool is_quick(struct beam *beam) {
    return read_code_quickly(beam, &plain_surveyor, NULL) == 0 && read_code_again(beam, NULL) == 0 &&
           read_code_quickly(beam, surveyor_best(), NULL) == 0;
}

static void check_file(const char *path, int fd, size_t size) {
    CLEANUP_FREE uint8_t *data = malloc(size ? size : 1);
    CLEANUP_BEAM struct beam *beam = NULL;
    struct error error = {0};
    char digest[BEAM_DIGEST_BYTES];
    struct beam_options options = beam_default_options;
    options.otp = INSTALLED_OTP;
    bool is_read = data && read(fd, data, size) == (ssize_t)size;
    bool is_valid = is_read && beam_read(data, size, &options, &beam, &error) == 0 &&
                    beam_checksum(beam, digest, &error) == 0 && beam_interface_hash(beam, digest, &error) == 0;
    if (!is_valid) fprintf(stderr, "%s: %s\n", path, error.detail);
    if (is_valid && !is_quick(beam)) {
        fprintf(stderr, "%s: its code is left to the slow way\n", path);
        slow_count++;
    }
    file_count++;
    refused_count += !is_valid;
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    if (kind != FTW_F || !string_ends(path, ".beam")) return 0;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    check_file(path, fd, (size_t)status->st_size);
    return 0;
}

static void test_all_are_valid(void **state) {
    (void)state;
    assert_int_equal(nftw(OTP_ROOT "/lib", visit, 16, FTW_PHYS), 0);
    assert_int_equal(nftw(ELIXIR_ROOT, visit, 16, FTW_PHYS), 0);
    assert_true(file_count > LEAST_FILES);
    assert_int_equal(refused_count, 0);
    assert_int_equal(slow_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_valid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
