/* The loop or the thread writes: records in their order, callbacks on the loop, everything written before it closes. */
#include "scratch.h"

#include "audit/audit.h"

struct stage {
    struct scratch *scratch;
    uv_loop_t loop;
    struct audit *audit;
    unsigned records, done;
    int64_t last_seq;
    bool closed;
};

static void on_record(void *data, const char *line) {
    struct stage *stage = data;
    json_t *record = json_loads(line, 0, NULL);
    int64_t seq = json_integer_value(json_object_get(record, "seq"));
    json_decref(record);
    assert_int_equal(seq, stage->last_seq + 1);
    stage->last_seq = seq;
    stage->records++;
}

static void on_done(void *data, const struct error *error) {
    struct stage *stage = data;
    assert_null(error);
    stage->done++;
}

static void on_closed(void *data) {
    ((struct stage *)data)->closed = true;
}

static void test_records_are_written_and_told(void **state) {
    struct stage stage = {.scratch = *state};
    struct error error;
    atomic_bool call_off = false;
    json_t *verdict;
    uv_loop_init(&stage.loop);
    if (audit_open(&stage.loop, stage.scratch->path, &audit_default_limits, on_record, &stage, &stage.audit, &error) <
        0)
        fail_msg("%s", error.detail);
    for (int i = 0; i < 1000; i++) {
        struct buf members = BUF_INIT;
        buf_printf(&members, "\"op\":\"create\",\"uid\":%d", i);
        audit_add(stage.audit, &members, i % 2, i % 3 ? on_done : NULL, &stage);
        buf_free(&members);
    }
    assert_int_equal(stage.done, 0); /* a file that is yet to be made is the thread's */
    audit_close(stage.audit, on_closed, &stage);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_true(stage.closed);
    assert_int_equal(stage.records, 1000);
    assert_int_equal(stage.done, 666);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
    assert_int_equal(audit_verify(stage.scratch->path, NULL, &call_off, &verdict, &error), 0);
    assert_true(json_is_true(json_object_get(verdict, "valid")));
    assert_int_equal(json_integer_value(json_object_get(verdict, "records")), 1000);
    json_decref(verdict);
}

enum { IN_TURN = 60, BURST = 40 };

static void add_one(struct stage *stage, audit_done_fn *done) {
    struct buf members = BUF_INIT;
    buf_append_string(&members, "\"op\":\"eval\"");
    audit_add(stage->audit, &members, false, done, stage);
    buf_free(&members);
}

/* One at a time is the loop's to write, a burst the thread's, and what comes while that has some is behind it. */
static void on_turn(void *data, const struct error *error) {
    struct stage *stage = data;
    atomic_bool call_off = false;
    json_t *verdict;
    assert_null(error);
    stage->done++;
    assert_int_equal(audit_verify(stage->scratch->path, NULL, &call_off, &verdict, NULL), 0);
    assert_true(json_integer_value(json_object_get(verdict, "records")) >= stage->records); /* told of what is there */
    assert_true(json_is_true(json_object_get(verdict, "valid")));
    json_decref(verdict);
    if (stage->done == IN_TURN) {
        audit_close(stage->audit, on_closed, stage);
        return;
    }
    for (int i = 0; i < BURST && stage->done % 10 == 0; i++) add_one(stage, NULL);
    add_one(stage, on_turn);
}

/* What was there when the trail was opened. */
static void expect_damage(struct scratch *scratch, bool has_run, const char *expected) {
    struct stage stage = {.scratch = scratch};
    char text[256];
    uv_loop_init(&stage.loop);
    assert_int_equal(
        audit_open(&stage.loop, scratch->path, &audit_default_limits, on_record, &stage, &stage.audit, NULL), 0);
    const char *damage = audit_damage(stage.audit, has_run, text, sizeof text);
    stage.last_seq = (int64_t)audit_last(stage.audit)->seq;
    if (!expected) assert_null(damage);
    if (expected && (!damage || !strstr(damage, expected))) fail_msg("%s: not \"%s\"", damage, expected);
    for (int i = 0; i < 3; i++) add_one(&stage, NULL);
    audit_close(stage.audit, on_closed, &stage);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
}

static void test_damage_is_seen_at_the_start(void **state) {
    struct scratch *scratch = *state;
    expect_damage(scratch, false, NULL);
    expect_damage(scratch, true, NULL);
    assert_int_equal(unlinkat(scratch->fd, "audit/head", 0), 0);
    expect_damage(scratch, true, "the files ended with 6");
    assert_int_equal(unlinkat(scratch->fd, "audit/00000000000000000001.jsonl", 0), 0);
    expect_damage(scratch, true, "record 9 was written last, and the files ended with 0");
    assert_int_equal(unlinkat(scratch->fd, "audit/head", 0), 0);
    assert_int_equal(unlinkat(scratch->fd, "audit/00000000000000000010.jsonl", 0), 0);
    expect_damage(scratch, true, "its audit trail was gone");
}

static void test_loop_and_thread_take_turns(void **state) {
    struct stage stage = {.scratch = *state};
    uv_loop_init(&stage.loop);
    assert_int_equal(
        audit_open(&stage.loop, stage.scratch->path, &audit_default_limits, on_record, &stage, &stage.audit, NULL), 0);
    add_one(&stage, on_turn);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_true(stage.closed);
    assert_int_equal(stage.records, IN_TURN + BURST * (IN_TURN / 10 - 1));
    assert_int_equal(uv_loop_close(&stage.loop), 0);
}

static void on_later(uv_timer_t *timer) {
    struct stage *stage = timer->data;
    add_one(stage, NULL);
    add_one(stage, on_done);
    assert_int_equal(stage->done, 1);    /* it is safe */
    assert_int_equal(stage->records, 1); /* and in a file later */
    audit_close(stage->audit, on_closed, stage);
    uv_close((uv_handle_t *)timer, NULL);
}

static void test_who_waits_waits_for_no_turn(void **state) {
    struct stage stage = {.scratch = *state};
    uv_timer_t timer;
    uv_loop_init(&stage.loop);
    assert_int_equal(
        audit_open(&stage.loop, stage.scratch->path, &audit_default_limits, on_record, &stage, &stage.audit, NULL), 0);
    add_one(&stage, NULL);
    while (stage.records == 0) uv_run(&stage.loop, UV_RUN_ONCE);
    uv_timer_init(&stage.loop, &timer);
    timer.data = &stage;
    uv_timer_start(&timer, on_later, 0, 0);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_true(stage.closed);
    assert_int_equal(stage.records, 3);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
}

static void on_flushed(void *data, const struct error *error) {
    struct stage *stage = data;
    assert_null(error);
    assert_int_equal(stage->records, 1); /* the one before, and no other */
    audit_close(stage->audit, on_closed, stage);
}

static void test_a_flush_comes_after_what_was_before(void **state) {
    struct stage stage = {.scratch = *state};
    uv_loop_init(&stage.loop);
    assert_int_equal(
        audit_open(&stage.loop, stage.scratch->path, &audit_default_limits, on_record, &stage, &stage.audit, NULL), 0);
    add_one(&stage, NULL);
    audit_flush(stage.audit, on_flushed, &stage);
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_true(stage.closed);
    assert_int_equal(stage.records, 1);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
}

static void test_what_cannot_be_opened_is_told(void **state) {
    struct stage stage = {.scratch = *state};
    struct error error;
    scratch_file(stage.scratch, "audit", "a file where a folder belongs");
    uv_loop_init(&stage.loop);
    assert_true(audit_open(&stage.loop, stage.scratch->path, &audit_default_limits, on_record, &stage, &stage.audit,
                           &error) < 0);
    assert_null(stage.audit);
    assert_non_null(strstr(error.detail, "audit"));
    uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records_are_written_and_told, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_loop_and_thread_take_turns, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_damage_is_seen_at_the_start, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_waits_for_no_turn, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_flush_comes_after_what_was_before, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_opened_is_told, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
