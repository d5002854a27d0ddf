/* Every file of OTP's and Elixir's own applications is valid, for its own release too, and nearly all code is read
   quickly, on every processor. Other packages that are installed beside them are left alone. Arguments: the folders of
   another installation, and its release. */
#include "beam/beam_test.h"
#include "beam/code/survey.h"
#include "installed.h"

#include <ftw.h>

enum { LEAST_FILES = 200, SLOW_MAX_PERCENT = 10 };

/* nftw has no context to keep them in. */
static unsigned file_count, refused_count, slow_count;
static const char *roots[] = {OTP_ROOT "/lib", ELIXIR_ROOT};
static unsigned otp = INSTALLED_OTP;

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
    options.otp = otp;
    bool is_read = data && read(fd, data, size) == (ssize_t)size;
    bool is_valid = is_read && beam_read(data, size, &options, &beam, &error) == 0 &&
                    beam_checksum(beam, digest, &error) == 0 && beam_interface_hash(beam, digest, &error) == 0;
    if (!is_valid) fprintf(stderr, "%s: %s\n", path, error.detail);
    slow_count += is_valid && !is_quick(beam);
    file_count++;
    refused_count += !is_valid;
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    if (kind != FTW_F || !string_ends(path, ".beam") || !is_of_otp_or_elixir(path)) return 0;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    check_file(path, fd, (size_t)status->st_size);
    return 0;
}

static void test_all_are_valid(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(nftw(roots[i], visit, 16, FTW_PHYS), 0);
    printf("%u files of OTP %u, %u refused, %u left to the slow way\n", file_count, otp, refused_count, slow_count);
    assert_true(file_count > LEAST_FILES);
    assert_int_equal(refused_count, 0);
    assert_true(100 * slow_count <= SLOW_MAX_PERCENT * file_count);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_valid)};
    if (argc == 4) {
        roots[0] = argv[1];
        roots[1] = argv[2];
        otp = (unsigned)strtoul(argv[3], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
