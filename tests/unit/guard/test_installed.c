/* Every module of OTP and Elixir can be scanned, and what they are known to do is found. */
#include "guard_test.h"
#include "installed.h"

#include <fcntl.h>
#include <ftw.h>

enum { LEAST_FILES = 200, FILE_MAX_BYTES = 16 << 20 };

/* nftw has no context to keep them in. */
static unsigned file_count, failed_count;
static uint64_t finding_count;

static void check_file(const char *path) {
    CLEANUP_FREE uint8_t *data = NULL;
    CLEANUP_BEAM struct beam *beam = NULL;
    CLEANUP(scan_free) struct scan_report report = {0};
    struct error error = {0};
    size_t size;
    begin(&report, "");
    bool is_scanned = file_load(path, FILE_MAX_BYTES, &data, &size, &error) == 0 &&
                      beam_read(data, size, &beam_default_options, &beam, &error) == 0 &&
                      scan_beam(&report, beam, &error) == 0;
    if (!is_scanned) fprintf(stderr, "%s: %s\n", path, error.detail);
    file_count++;
    failed_count += !is_scanned;
    finding_count += report.finding_count;
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)where;
    if (kind == FTW_F && string_ends(path, ".beam") && is_of_otp_or_elixir(path)) check_file(path);
    return 0;
}

static void test_all_are_scanned(void **state) {
    (void)state;
    assert_int_equal(nftw(OTP_ROOT "/lib", visit, 16, FTW_PHYS), 0);
    assert_int_equal(nftw(ELIXIR_ROOT, visit, 16, FTW_PHYS), 0);
    assert_true(file_count > LEAST_FILES);
    assert_int_equal(failed_count, 0);
    assert_true(finding_count > file_count); /* nothing is allowed here */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_scanned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
