/* Tests the registry's rows across restarts: sandboxes, events, histories and usage. */
#include "store_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>

static const struct store_sandbox full_row = {
    .id = "counter",
    .status = "running",
    .source = "/srv/counter",
    .profile = "medium",
    .owner_uid = 4000000000u,
    .created_at_ms = 1700000000123,
    .updated_at_ms = 1700000000456,
    .restart_count = 7,
    .node = "n-1",
    .secret = "s3cret",
    .build = "abc",
    .config = "{\"limits\":{}}",
    .last_error = "{\"code\":\"timeout\"}",
};

struct seen {
    unsigned count;
    char ids[256];
    void (*check)(const struct store_sandbox *row);
    long long first_seq, last_seq;
};

static void see_sandbox(void *data, const struct store_sandbox *row) {
    struct seen *seen = data;
    seen->count++;
    size_t used = strlen(seen->ids);
    snprintf(seen->ids + used, sizeof seen->ids - used, "%s ", row->id);
    if (seen->check) seen->check(row);
}

static struct seen load(struct fixture *fixture, void (*check)(const struct store_sandbox *row)) {
    struct seen seen = {.check = check};
    struct error error = {0};
    assert_int_equal(store_load_sandboxes(fixture->store, see_sandbox, &seen, &error), 0);
    return seen;
}

static void check_full_row(const struct store_sandbox *row) {
    assert_string_equal(row->status, full_row.status);
    assert_string_equal(row->source, full_row.source);
    assert_string_equal(row->profile, full_row.profile);
    assert_int_equal(row->owner_uid, full_row.owner_uid);
    assert_int_equal(row->created_at_ms, full_row.created_at_ms);
    assert_int_equal(row->updated_at_ms, full_row.updated_at_ms);
    assert_int_equal(row->restart_count, full_row.restart_count);
    assert_string_equal(row->node, full_row.node);
    assert_string_equal(row->secret, full_row.secret);
    assert_string_equal(row->build, full_row.build);
    assert_string_equal(row->config, full_row.config);
    assert_string_equal(row->last_error, full_row.last_error);
}

static void a_row_survives_a_restart_whole(void **state) {
    struct fixture *fixture = *state;
    store_put_sandbox(fixture->store, &full_row, fixture_on_done, fixture);
    assert_int_equal(fixture->answers, 0);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->failures, 0);
    fixture_close(fixture);
    fixture_open(fixture);
    assert_int_equal(load(fixture, check_full_row).count, 1);
}

static void check_nulls(const struct store_sandbox *row) {
    assert_null(row->source);
    assert_null(row->node);
    assert_null(row->last_error);
}

static void absent_texts_stay_absent(void **state) {
    struct fixture *fixture = *state;
    struct store_sandbox row = {.id = "bare", .status = "stopped"};
    store_put_sandbox(fixture->store, &row, fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(load(fixture, check_nulls).count, 1);
}

static void rows_are_copied_replaced_and_deleted_in_order(void **state) {
    struct fixture *fixture = *state;
    char id[] = "b";
    struct store_sandbox row = {.id = id, .status = "running"};
    store_put_sandbox(fixture->store, &row, NULL, NULL);
    id[0] = 'a';
    store_put_sandbox(fixture->store, &row, NULL, NULL);
    store_put_sandbox(fixture->store, &row, NULL, NULL);
    id[0] = 'c';
    store_put_sandbox(fixture->store, &row, NULL, NULL);
    store_delete_sandbox(fixture->store, "a", NULL, NULL);
    store_delete_sandbox(fixture->store, "never", fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    assert_int_equal(fixture->failures, 0);
    assert_string_equal(load(fixture, NULL).ids, "b c ");
}

static void closing_writes_what_is_queued(void **state) {
    struct fixture *fixture = *state;
    char id[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "s%03d", i);
        struct store_sandbox row = {.id = id, .status = "running"};
        store_put_sandbox(fixture->store, &row, i % 2 ? fixture_on_done : NULL, fixture);
    }
    fixture_close(fixture);
    assert_int_equal(fixture->answers, 500);
    assert_int_equal(fixture->failures, 0);
    fixture_open(fixture);
    assert_int_equal(load(fixture, NULL).count, 1000);
}

static void see_event(void *data, json_t *event) {
    struct seen *seen = data;
    long long seq = json_integer_value(json_object_get(event, "seq"));
    if (seen->count++ == 0) seen->first_seq = seq;
    assert_true(seq > seen->last_seq);
    seen->last_seq = seq;
}

static void add_events(struct fixture *fixture, int from, int to) {
    for (int seq = from; seq <= to; seq++) {
        json_t *event = json_pack("{s:i, s:s}", "seq", seq, "kind", "sandbox.created");
        store_add_event(fixture->store, event);
        json_decref(event);
    }
}

static void events_come_back_oldest_first_and_bounded(void **state) {
    struct fixture *fixture = *state;
    struct error error = {0};
    add_events(fixture, 1, 11000);
    store_delete_sandbox(fixture->store, "flush", fixture_on_done, fixture);
    fixture_run_until(fixture, &fixture->answers, 1);
    struct seen few = {0}, all = {0};
    assert_int_equal(store_load_events(fixture->store, 3, see_event, &few, &error), 0);
    assert_int_equal(few.count, 3);
    assert_int_equal(few.first_seq, 10998);
    assert_int_equal(store_load_events(fixture->store, SIZE_MAX, see_event, &all, &error), 0);
    assert_int_equal(all.count, 10000);
    assert_int_equal(all.first_seq, 1001);
    assert_int_equal(all.last_seq, 11000);
    assert_int_equal(store_lost_writes(fixture->store, NULL), 0);
}

static void see_history(void *data, const struct store_history *row) {
    struct seen *seen = data;
    size_t used = strlen(seen->ids);
    snprintf(seen->ids + used, sizeof seen->ids - used, "%s/%s=%s ", row->sandbox, row->module, row->text);
    seen->count++;
}

static void put_sandbox(struct fixture *fixture, const char *id) {
    store_put_sandbox(fixture->store, &(struct store_sandbox){.id = id, .status = "running"}, NULL, NULL);
}

static void put_history(struct fixture *fixture, const struct store_history *row) {
    struct store_histories *histories = store_histories_new(row->sandbox);
    assert_true(store_histories_add(histories, row->module, row->text));
    store_put_histories(fixture->store, histories);
}

/* What is written behind a sandbox's removal would be the next one's of that id. */
static void histories_go_with_their_sandbox(void **state) {
    struct fixture *fixture = *state;
    struct error error = {0};
    put_sandbox(fixture, "a");
    put_sandbox(fixture, "b");
    static const struct store_history rows[] = {{"a", "m", "1"}, {"a", "n", "1"}, {"b", "m", "1"}, {"a", "m", "2"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) put_history(fixture, &rows[i]);
    store_delete_sandbox(fixture->store, "b", fixture_on_done, fixture);
    put_history(fixture, &(struct store_history){"b", "late", "1"});
    fixture_run_until(fixture, &fixture->answers, 1);
    fixture_close(fixture);
    fixture_open(fixture);
    struct seen seen = {0};
    assert_int_equal(store_load_histories(fixture->store, see_history, &seen, &error), 0);
    assert_string_equal(seen.ids, "a/m=2 a/n=1 ");
}

static void see_usage(void *data, const struct store_usage *row) {
    struct seen *seen = data;
    size_t used = strlen(seen->ids);
    snprintf(seen->ids + used, sizeof seen->ids - used, "%s@%lld=%s ", row->sandbox, (long long)row->at_ms, row->text);
    seen->count++;
}

static void a_day_of_usage_is_kept_and_goes_with_its_sandbox(void **state) {
    struct fixture *fixture = *state;
    struct error error = {0};
    static const struct store_usage rows[] = {
        {"a", 1000, "old"}, {"a", 1001, "1"}, {"b", 1000, "1"}, {"c", 1000, "1"}, {"a", 86401000, "2"}};
    put_sandbox(fixture, "a");
    put_sandbox(fixture, "b");
    put_sandbox(fixture, "c");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) store_add_usage(fixture->store, &rows[i]);
    store_delete_sandbox(fixture->store, "b", fixture_on_done, fixture);
    store_add_usage(fixture->store, &(struct store_usage){"b", 2000, "late"});
    fixture_run_until(fixture, &fixture->answers, 1);
    fixture_close(fixture);
    fixture_open(fixture);
    struct seen seen = {0};
    assert_int_equal(store_load_usage(fixture->store, see_usage, &seen, &error), 0);
    assert_string_equal(seen.ids, "a@1001=1 a@86401000=2 c@1000=1 ");
}

static void only_the_owner_may_read_the_registry(void **state) {
    struct fixture *fixture = *state;
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        CLEANUP_FREE char *path = string_print("%s%s", fixture->database, suffixes[i]);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_survives_a_restart_whole, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_day_of_usage_is_kept_and_goes_with_its_sandbox, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(absent_texts_stay_absent, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(rows_are_copied_replaced_and_deleted_in_order, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_writes_what_is_queued, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(events_come_back_oldest_first_and_bounded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(histories_go_with_their_sandbox, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(only_the_owner_may_read_the_registry, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
