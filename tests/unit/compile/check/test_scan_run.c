/* Tests a scan of a build and its sources, on a folder with findings in both. */
#include "scratch.h"

#include "compile/check/scan_run.h"

#define SOURCE "defmodule Shop do\n  @listing File.ls(\"/\")\nend\n"

/* build/shop/ebin/guilty_cmd.beam and project/lib/shop.ex, with files around them that a scan leaves alone. */
static void prepare(const struct scratch *scratch) {
    static const char *const folders[] = {"build",   "build/shop",  "build/shop/ebin", "build/shop/consolidated",
                                          "project", "project/lib", "project/test",    "project/deps"};
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    assert_int_equal(file_load(LABELLED "/guilty_cmd.beam", 1 << 20, &data, &size, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) scratch_folder(scratch, folders[i]);
    CLEANUP_FD int fd = openat(scratch->fd, "build/shop/ebin/guilty_cmd.beam", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(file_write_all(fd, data, size), 0);
    scratch_file(scratch, "build/shop/consolidated/Elixir.Enumerable.beam", "not looked at");
    scratch_file(scratch, "project/lib/shop.ex", SOURCE);
    scratch_file(scratch, "project/test/shop_test.exs", SOURCE);
    scratch_file(scratch, "project/deps/other.ex", SOURCE);
    scratch_link(scratch, "/etc/passwd", "project/lib/link.ex");
}

static int run(const struct scratch *scratch, bool called_off, json_t **ret, struct error *reterr) {
    atomic_bool call_off = called_off;
    char build[PATH_MAX];
    CLEANUP_FD int project = openat(scratch->fd, "project", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(build, sizeof build, "%s/build", scratch->path);
    struct scan_request request = {
        .build = build, .source = {.fd = project, .scratch = scratch->path, .path = "/given", .call_off = &call_off}};
    assert_int_equal(guard_operations_parse("basic_otp", &request.allowed, NULL), 0);
    return scan_run(&request, ret, reterr);
}

static const char *text_at(json_t *findings, size_t index, const char *name) {
    const char *text = json_string_value(json_object_get(json_array_get(findings, index), name));
    return text ? text : "";
}

static void test_modules_then_sources(void **state) {
    struct scratch *scratch = *state;
    struct error error = {0};
    json_t *report;
    prepare(scratch);
    if (run(scratch, false, &report, &error) < 0) fail_msg("%s", error.detail);
    json_t *findings = json_object_get(report, "findings");
    assert_int_equal(json_array_size(findings), 2);
    assert_string_equal(text_at(findings, 0, "module"), "guilty_cmd");
    assert_string_equal(text_at(findings, 1, "file"), "lib/shop.ex");
    assert_string_equal(text_at(findings, 1, "kind"), "source");
    assert_int_equal(json_integer_value(json_object_get(report, "modules")), 1);
    json_decref(report);
}

static void test_called_off(void **state) {
    struct error error;
    json_t *report = NULL;
    prepare(*state);
    assert_true(run(*state, true, &report, &error) < 0);
    assert_int_equal(error.code, E_SHUTDOWN);
    assert_null(report);
}

static void test_a_damaged_module_is_named(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *report = NULL;
    prepare(scratch);
    scratch_file(scratch, "build/shop/ebin/bad.beam", "FOR1");
    assert_true(run(scratch, false, &report, &error) < 0);
    assert_int_equal(error.code, E_FORMAT);
    assert_non_null(strstr(error.detail, "shop/ebin/bad.beam"));
}

static void test_a_single_file(void **state) {
    struct scratch *scratch = *state;
    atomic_bool call_off = false;
    json_t *report;
    prepare(scratch);
    CLEANUP_FD int ebin = openat(scratch->fd, "build/shop/ebin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct scan_request request = {
        .source = {.fd = ebin, .path = "/given/guilty_cmd.beam", .is_file = true, .call_off = &call_off}};
    assert_int_equal(scan_run(&request, &report, NULL), 0);
    assert_int_equal(json_integer_value(json_object_get(report, "finding_count")), 1);
    json_decref(report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_modules_then_sources, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_called_off, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_module_is_named, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_single_file, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
