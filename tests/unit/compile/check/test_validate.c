/* Tests the validation of BEAM files in a folder and in a stream, without a VM. */
#include "scratch.h"

#include "compile/check/validate.h"

static void copy_fixture(const struct scratch *scratch, const char *name, const char *path, size_t limit) {
    static uint8_t data[1 << 20];
    char from[512];
    snprintf(from, sizeof from, FIXTURES "/%s", name);
    CLEANUP_FD int source = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t got = source < 0 ? -1 : read(source, data, sizeof data);
    assert_true(got > 0);
    CLEANUP_FD int target = openat(scratch->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    size_t size = limit && limit < (size_t)got ? limit : (size_t)got;
    assert_int_equal(write(target, data, size), size);
}

static int run(const struct scratch *scratch, unsigned otp, bool called_off, json_t **ret, struct error *reterr) {
    atomic_bool call_off = called_off;
    struct validate_request request = {
        .source = {.fd = scratch->fd, .scratch = scratch->path, .path = "/given", .call_off = &call_off}, .otp = otp};
    return validate_run(&request, ret, reterr);
}

static const char *text_at(json_t *files, size_t index, const char *name) {
    const char *text = json_string_value(json_object_get(json_array_get(files, index), name));
    return text ? text : "";
}

static void test_a_folder(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *answer;
    scratch_folder(scratch, "ebin");
    copy_fixture(scratch, "fx_kinds.beam", "ebin/fx_kinds.beam", 0);
    copy_fixture(scratch, "fx_literals.beam", "a.beam", 0);
    scratch_file(scratch, "ebin/notes.txt", "no beam");
    assert_int_equal(run(scratch, 0, false, &answer, &error), 0);
    json_t *files = json_object_get(answer, "files");
    assert_true(json_is_true(json_object_get(answer, "valid")));
    assert_int_equal(json_array_size(files), 2);
    assert_string_equal(text_at(files, 0, "file"), "/given/a.beam");
    assert_string_equal(text_at(files, 0, "module"), "fx_literals");
    assert_string_equal(text_at(files, 1, "file"), "/given/ebin/fx_kinds.beam");
    assert_int_equal(strlen(text_at(files, 1, "checksum")), 64);
    assert_int_equal(strlen(text_at(files, 1, "interface")), 64);
    json_t *kinds = json_array_get(files, 1);
    assert_true(json_array_size(json_object_get(kinds, "exports")) > 0);
    assert_true(json_is_null(json_object_get(kinds, "error")));
    assert_true(json_is_array(json_object_get(json_object_get(kinds, "dependencies"), "runtime")));
    json_decref(answer);
}

static void test_what_is_damaged_is_told_with_the_rest(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *answer;
    copy_fixture(scratch, "fx_kinds.beam", "a.beam", 100);
    copy_fixture(scratch, "fx_kinds.beam", "b.beam", 0);
    scratch_file(scratch, "c.beam", "");
    scratch_link(scratch, "b.beam", "d.beam");
    assert_int_equal(run(scratch, 0, false, &answer, &error), 0);
    json_t *files = json_object_get(answer, "files");
    assert_true(json_is_false(json_object_get(answer, "valid")));
    assert_int_equal(json_array_size(files), 4);
    for (size_t i = 0; i < 4; i++) {
        json_t *file = json_array_get(files, i);
        assert_int_equal(json_is_true(json_object_get(file, "valid")), i == 1);
        assert_int_equal(json_is_object(json_object_get(file, "error")), i != 1);
    }
    assert_string_equal(text_at(files, 0, "module"), "");
    assert_true(json_is_null(json_object_get(json_array_get(files, 0), "min_otp")));
    json_decref(answer);
}

/* Made by OTP 28, some of them are nothing that OTP 20 can load. */
static void test_the_generation_counts(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *answer;
    copy_fixture(scratch, "fx_kinds.beam", "a.beam", 0);
    assert_int_equal(run(scratch, 20, false, &answer, &error), 0);
    assert_true(json_is_false(json_object_get(answer, "valid")));
    json_decref(answer);
}

static void test_nothing_to_validate(void **state) {
    struct error error;
    json_t *answer = NULL;
    scratch_file(*state, "a.ex", "");
    assert_true(run(*state, 0, false, &answer, &error) < 0);
    assert_int_equal(error.code, E_INVALID);
    assert_string_equal(error.detail, "/given holds no BEAM files");
    assert_null(answer);
}

static void test_called_off(void **state) {
    struct error error;
    json_t *answer = NULL;
    copy_fixture(*state, "fx_kinds.beam", "a.beam", 0);
    assert_true(run(*state, 0, true, &answer, &error) < 0);
    assert_int_equal(error.code, E_SHUTDOWN);
}

/* A stream is unpacked where it is told to, and nothing of it stays there. */
static void test_a_stream(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *answer;
    atomic_bool call_off = false;
    scratch_folder(scratch, "tmp");
    CLEANUP_FREE char *tmp = string_print("%s/tmp", scratch->path);
    scratch_file(scratch, "stream", "F 644 7 x.beam\nFOR1abcE\n");
    CLEANUP_FD int fd = openat(scratch->fd, "stream", O_RDONLY | O_CLOEXEC);
    struct validate_request request = {.source = {.fd = fd,
                                                  .is_stream = true,
                                                  .is_file = true,
                                                  .scratch = tmp,
                                                  .path = "/given/x.beam",
                                                  .call_off = &call_off}};
    assert_int_equal(validate_run(&request, &answer, &error), 0);
    json_t *files = json_object_get(answer, "files");
    assert_string_equal(text_at(files, 0, "file"), "/given/x.beam");
    assert_true(json_is_false(json_object_get(answer, "valid")));
    json_decref(answer);
    assert_int_equal(rmdir(tmp), 0);
}

static void test_names_are_bounded(void **state) {
    static uint8_t data[1 << 20];
    struct error error;
    json_t *answer = NULL;
    atomic_llong left = 10;
    (void)state;
    CLEANUP_FD int fd = open(FIXTURES "/fx_kinds.beam", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, data, sizeof data);
    assert_true(size > 0);
    assert_true(validate_bytes("a.beam", data, (size_t)size, 0, &left, &answer, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_null(answer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_damaged_is_told_with_the_rest, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_the_generation_counts, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_validate, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_called_off, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_stream, scratch_setup, scratch_teardown),
        cmocka_unit_test(test_names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
