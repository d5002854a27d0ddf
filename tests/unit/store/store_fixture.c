/* Opens a store in a home of the test's own, and runs its loop until answers have come. */
#include "store_fixture.h"
#include "folder.h"

#include <ftw.h>
#include <sqlite3.h>
#include <stdlib.h>

enum { DEADLINE_MS = 20000 };

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

void fixture_remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int fixture_try_open(struct fixture *fixture, struct error *reterr) {
    return store_open(&fixture->loop, fixture->home, &fixture->store, reterr);
}

void fixture_open(struct fixture *fixture) {
    struct error error = {0};
    if (fixture_try_open(fixture, &error) < 0) fail_msg("%s", error.detail);
    fixture->closed = false;
}

static void on_closed(void *data) {
    ((struct fixture *)data)->closed = true;
}

void fixture_close(struct fixture *fixture) {
    store_close(fixture->store, on_closed, fixture);
    fixture->store = NULL;
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_true(fixture->closed);
}

int fixture_setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(test_folder_make(fixture->home));
    fixture->database = string_print("%s/registry.db", fixture->home);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    fixture_open(fixture);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state) {
    struct fixture *fixture = *state;
    if (fixture->store) fixture_close(fixture);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    fixture_remove_tree(fixture->home);
    free(fixture->database);
    free(fixture);
    return 0;
}

static void on_deadline(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

void fixture_run_until(struct fixture *fixture, const unsigned *counter, unsigned value) {
    bool late = false;
    uv_timer_t deadline = {.data = &late};
    uv_timer_init(&fixture->loop, &deadline);
    uv_timer_start(&deadline, on_deadline, DEADLINE_MS, 0);
    while (*counter < value && !late) uv_run(&fixture->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&deadline, NULL);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_false(late);
}

void fixture_execute_sql(struct fixture *fixture, const char *text) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(fixture->database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

void fixture_on_done(void *data, const struct error *error) {
    struct fixture *fixture = data;
    fixture->answers++;
    if (!error) return;
    fixture->failures++;
    fixture->last_error = *error;
}

void fixture_on_build(void *data, const char *digest, const struct error *error) {
    struct fixture *fixture = data;
    fixture_on_done(data, error);
    if (digest) strcpy(fixture->digest, digest);
}
