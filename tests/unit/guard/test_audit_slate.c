/* The slate: what was added to the trail is in its files in the end, once, whenever the daemon was killed. */
#include "scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "guard/audit_internal.h"

static const struct audit_limits limits = {.file_max_bytes = 1 << 20, .files_kept = 4};

struct trail {
    struct audit_log log;
    struct audit_slate slate;
};

static struct trail open_trail(const struct scratch *scratch) {
    struct trail trail;
    struct error error;
    if (audit_log_open(scratch->path, &limits, &trail.log, &error) < 0) fail_msg("%s", error.detail);
    audit_slate_open(trail.log.folder, &trail.slate);
    assert_non_null(trail.slate.page);
    return trail;
}

static void close_trail(struct trail *trail) {
    audit_log_seal(&trail->log);
    audit_slate_close(&trail->slate);
    audit_log_close(&trail->log);
}

/* The notes of all records, in their order, and that the trail is whole. */
static void expect_notes(const struct scratch *scratch, const char *expected) {
    atomic_bool call_off = false;
    json_t *verdict, *records, *record;
    size_t i;
    char notes[256] = "";
    const struct audit_filter all = {.limit = 100, .uid = -1};
    assert_int_equal(audit_verify(scratch->path, &call_off, &verdict, NULL), 0);
    assert_true(json_is_true(json_object_get(verdict, "valid")));
    assert_int_equal(audit_read(scratch->path, &all, &call_off, &records, NULL), 0);
    json_array_foreach(records, i, record)
        strncat(notes, json_string_value(json_object_get(record, "note")), sizeof notes - strlen(notes) - 1);
    assert_string_equal(notes, expected);
    json_decref(verdict);
    json_decref(records);
}

static void test_what_was_left_goes_to_the_files_once(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    assert_int_equal(audit_log_add(&trail.log, "\"note\":\"a\"", false, NULL, NULL), 0);
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"a\"")); /* written, and killed before it was wiped */
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"b\""));
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"c\""));
    close_trail(&trail);
    expect_notes(scratch, "a");
    for (int i = 0; i < 2; i++) {
        trail = open_trail(scratch);
        audit_slate_carry_over(&trail.slate, &trail.log);
        assert_int_equal(audit_slate_used(&trail.slate), 0);
        close_trail(&trail);
        expect_notes(scratch, "abc");
    }
}

static void test_what_is_in_the_file_before_is_not_written_again(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 1, .files_kept = 4};
    struct trail trail = open_trail(scratch);
    trail.log.limits = small; /* each record begins a file */
    assert_int_equal(audit_log_add(&trail.log, "\"note\":\"a\"", false, NULL, NULL), 0);
    assert_int_equal(audit_log_add(&trail.log, "\"note\":\"b\"", false, NULL, NULL), 0);
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"a\""));
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"b\""));
    audit_slate_carry_over(&trail.slate, &trail.log);
    close_trail(&trail);
    expect_notes(scratch, "ab");
}

static void test_has_an_end(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    char long_one[1024];
    size_t count = 0;
    memset(long_one, 'x', sizeof long_one);
    long_one[sizeof long_one - 1] = '\0';
    while (audit_slate_add(&trail.slate, long_one)) count++;
    assert_int_equal(count, AUDIT_SLATE_BYTES / sizeof long_one - 1);
    assert_true(audit_slate_used(&trail.slate) <= AUDIT_SLATE_BYTES);
    audit_slate_wipe(&trail.slate);
    assert_true(audit_slate_add(&trail.slate, long_one));
    close_trail(&trail);
}

static void overwrite(const struct scratch *scratch, off_t at, const void *bytes, size_t size) {
    CLEANUP_FD int fd = openat(scratch->fd, "audit/" AUDIT_SLATE, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
}

static void test_of_another_boot_is_forgotten(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"a\""));
    close_trail(&trail);
    overwrite(scratch, 0, "another boot", 12);
    trail = open_trail(scratch);
    assert_int_equal(audit_slate_used(&trail.slate), 0);
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"b\""));
    close_trail(&trail);
    trail = open_trail(scratch);
    assert_true(audit_slate_used(&trail.slate) > 0);
    close_trail(&trail);
}

static void test_what_is_no_record_is_left_out(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    const uint64_t too_much = UINT64_MAX;
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"a"));
    assert_true(audit_slate_add(&trail.slate, ""));
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"b\""));
    audit_slate_carry_over(&trail.slate, &trail.log);
    close_trail(&trail);
    expect_notes(scratch, "b");
    overwrite(scratch, 40, &too_much, sizeof too_much);
    trail = open_trail(scratch);
    audit_slate_carry_over(&trail.slate, &trail.log);
    close_trail(&trail);
    expect_notes(scratch, "b");
}

static void test_of_another_size_is_made_anew(void **state) {
    struct scratch *scratch = *state;
    scratch_folder(scratch, "audit");
    scratch_file(scratch, "audit/" AUDIT_SLATE, "short");
    struct trail trail = open_trail(scratch);
    assert_int_equal(audit_slate_used(&trail.slate), 0);
    assert_true(audit_slate_add(&trail.slate, "\"note\":\"a\""));
    close_trail(&trail);
}

/* ---- the whole: killed while nothing but the slate has it ---- */

static void on_record(void *data, const char *line) {
    (void)line;
    (*(unsigned *)data)++;
}

static void count_done(void *data, const struct error *error) {
    if (!error) (*(unsigned *)data)++;
}

static void add(struct audit *audit, const char *note, audit_done_fn *done, void *data) {
    CLEANUP(buf_free) struct buf members = BUF_INIT;
    buf_printf(&members, "\"note\":\"%s\"", note);
    audit_add(audit, &members, false, done, data);
}

static void add_and_die(const struct scratch *scratch) {
    uv_loop_t loop;
    struct audit *audit;
    unsigned records = 0, done = 0;
    uv_loop_init(&loop);
    if (audit_open(&loop, scratch->path, &limits, on_record, &records, &audit, NULL) < 0) _exit(1);
    add(audit, "a", count_done, &done);
    while (records == 0) uv_run(&loop, UV_RUN_ONCE); /* the file is there */
    add(audit, "b", count_done, &done);
    add(audit, "c", NULL, NULL);
    if (done != 2 || records != 1) _exit(2); /* told that it is safe, and not in a file */
    raise(SIGKILL);
}

static void test_a_killed_daemon_loses_nothing(void **state) {
    struct scratch *scratch = *state;
    struct audit *audit;
    uv_loop_t loop;
    unsigned records = 0;
    int status;
    pid_t pid = fork();
    if (pid == 0) add_and_die(scratch);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    expect_notes(scratch, "a");
    uv_loop_init(&loop);
    assert_int_equal(audit_open(&loop, scratch->path, &limits, on_record, &records, &audit, NULL), 0);
    add(audit, "d", NULL, NULL);
    audit_close(audit, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    expect_notes(scratch, "abcd");
}

int main(void) {
#define WITH_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH_SCRATCH(test_what_was_left_goes_to_the_files_once),
        WITH_SCRATCH(test_what_is_in_the_file_before_is_not_written_again),
        WITH_SCRATCH(test_has_an_end),
        WITH_SCRATCH(test_of_another_boot_is_forgotten),
        WITH_SCRATCH(test_what_is_no_record_is_left_out),
        WITH_SCRATCH(test_of_another_size_is_made_anew),
        WITH_SCRATCH(test_a_killed_daemon_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
