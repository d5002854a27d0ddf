/* Tests how the store opens registries that are damaged, too new, or not its own. */
#include "store_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Try to open the store again; the failure must be E_SYSTEM and say `why`. */
static void assert_refused(struct fixture *fixture, const char *why) {
    struct error error = {0};
    assert_true(fixture_try_open(fixture, &error) < 0);
    assert_null(fixture->store);
    assert_int_equal(error.code, E_SYSTEM);
    if (!strstr(error.detail, why)) fail_msg("'%s' is not in '%s'", why, error.detail);
}

static void overwrite(struct fixture *fixture, off_t from, size_t size) {
    int fd = open(fixture->database, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(pwrite(fd, "\xA5", 1, from + (off_t)i), 1);
    close(fd);
}

static void a_newer_schema_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    fixture_execute_sql(fixture, "PRAGMA user_version = 99");
    assert_refused(fixture, "newer version (schema 99");
}

static void another_programs_database_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    assert_int_equal(unlink(fixture->database), 0);
    fixture_execute_sql(fixture, "CREATE TABLE theirs (a)");
    assert_refused(fixture, "not a registry of ours");
}

static void a_file_that_is_no_database_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    overwrite(fixture, 0, 100);
    assert_refused(fixture, "damaged");
}

static void a_damaged_page_is_refused(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 2000; i++) {
        json_t *event = json_pack("{s:i, s:s}", "seq", i, "kind", "sandbox.created");
        store_add_event(fixture->store, event);
        json_decref(event);
    }
    fixture_close(fixture);
    overwrite(fixture, 4096, 3 * 4096);
    assert_refused(fixture, "damaged");
}

static void a_cut_file_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    assert_int_equal(truncate(fixture->database, 4096 + 100), 0);
    assert_refused(fixture, "damaged");
}

static void a_folder_instead_of_the_file_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    assert_int_equal(unlink(fixture->database), 0);
    assert_int_equal(mkdir(fixture->database, 0700), 0);
    assert_refused(fixture, "registry.db");
}

static void a_missing_home_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    fixture_remove_tree(fixture->home);
    assert_refused(fixture, "opening the home");
}

static void an_empty_file_becomes_a_registry(void **state) {
    struct fixture *fixture = *state;
    fixture_close(fixture);
    assert_int_equal(truncate(fixture->database, 0), 0);
    fixture_open(fixture);
    store_delete_sandbox(fixture->store, "none", fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->failures, 0);
}

static void a_row_without_status_fails_alone(void **state) {
    struct fixture *fixture = *state;
    struct store_sandbox good = {.id = "good", .status = "running"}, bad = {.id = "bad"};
    store_put_sandbox(fixture->store, &good, fixture_on_done, fixture);
    store_put_sandbox(fixture->store, &bad, fixture_on_done, fixture);
    store_put_sandbox(fixture->store, &good, fixture_on_done, fixture);
    store_put_sandbox(fixture->store, &bad, NULL, NULL);
    fixture_close(fixture);
    assert_int_equal(fixture->answers, 3);
    assert_int_equal(fixture->failures, 1);
    assert_int_equal(fixture->last_error.code, E_SYSTEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_newer_schema_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(another_programs_database_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_database_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_page_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_cut_file_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_folder_instead_of_the_file_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_missing_home_is_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_empty_file_becomes_a_registry, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_row_without_status_fails_alone, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
