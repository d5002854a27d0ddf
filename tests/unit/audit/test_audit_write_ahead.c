/* Tests of the write-ahead buffer: each added record is in the files in the end, exactly once, whenever the daemon is
   killed. */
#include "scratch.h"

#include "audit_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "audit/audit_internal.h"

static const struct audit_limits limits = {.file_max_bytes = 1 << 20, .files_kept = 4};

struct trail {
    struct audit_log log;
    struct audit_write_ahead ahead;
};

static struct trail open_trail(const struct scratch *scratch) {
    struct trail trail;
    struct error error;
    if (audit_log_open(scratch->path, &limits, &trail.log, &error) < 0) fail_msg("%s", error.detail);
    assert_true(audit_write_ahead_carry_over(&trail.log));
    audit_write_ahead_open(&trail.log, &trail.ahead);
    assert_non_null(trail.ahead.page);
    return trail;
}

static void close_trail(struct trail *trail) {
    audit_log_seal(&trail->log);
    audit_write_ahead_close(&trail->ahead);
    audit_log_close(&trail->log);
}

static void write_one(struct trail *trail, const char *members) {
    assert_int_equal(audit_log_add(&trail->log, members, false, NULL, NULL), 0);
}

/* The notes of all records, in their order, and that the trail is whole. */
static void expect_notes(const struct scratch *scratch, const char *expected) {
    atomic_bool call_off = false;
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    json_t *verdict;
    char notes[256] = "";
    const struct audit_filter all = {.limit = 100, .uid = -1};
    assert_int_equal(audit_verify(scratch->path, NULL, &call_off, &verdict, NULL), 0);
    assert_true(json_is_true(json_object_get(verdict, "valid")));
    read_all(scratch->path, &all, &lines);
    char *rest = (char *)buf_string(&lines), *line;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *record = json_loads(line, 0, NULL);
        strncat(notes, json_string_value(json_object_get(record, "note")), sizeof notes - strlen(notes) - 1);
        json_decref(record);
    }
    assert_string_equal(notes, expected);
    json_decref(verdict);
}

static void test_what_was_left_goes_to_the_files_once(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a\""));
    write_one(&trail, "\"note\":\"a\""); /* and killed before it was wiped */
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"b\""));
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"c\""));
    close_trail(&trail);
    expect_notes(scratch, "a");
    for (int i = 0; i < 2; i++) {
        trail = open_trail(scratch);
        close_trail(&trail);
        expect_notes(scratch, "abc");
    }
}

static void test_what_was_wiped_is_forgotten(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    write_one(&trail, "\"note\":\"a\"");
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"b\""));
    audit_write_ahead_clear(&trail.ahead, trail.log.chain.seq);
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a\"")); /* one that is alike, but comes later */
    close_trail(&trail);
    trail = open_trail(scratch);
    close_trail(&trail);
    expect_notes(scratch, "aa");
}

static void test_what_is_in_the_file_before_is_not_written_again(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 1, .files_kept = 4};
    struct trail trail = open_trail(scratch);
    trail.log.limits = small; /* each record begins a file */
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a\""));
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"b\""));
    write_one(&trail, "\"note\":\"a\"");
    write_one(&trail, "\"note\":\"b\"");
    close_trail(&trail);
    trail = open_trail(scratch);
    close_trail(&trail);
    expect_notes(scratch, "ab");
}

/* The buffer was not emptied for long, or its page is an old one after a machine crash. */
static void test_what_was_written_long_ago_is_not_written_again(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    char filler[1024];
    snprintf(filler, sizeof filler, "\"note\":\"\",\"filler\":\"%0*d\"", 900, 0);
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a\""));
    write_one(&trail, "\"note\":\"a\"");
    for (int i = 0; i < 2500; i++) write_one(&trail, filler);
    uint64_t last = trail.log.chain.seq;
    close_trail(&trail);
    trail = open_trail(scratch);
    assert_int_equal(trail.log.chain.seq, last);
    close_trail(&trail);
}

static void test_has_an_end(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    char long_one[1024];
    size_t count = 0;
    memset(long_one, 'x', sizeof long_one);
    long_one[sizeof long_one - 1] = '\0';
    while (audit_write_ahead_add(&trail.ahead, long_one)) count++;
    assert_int_equal(count, AUDIT_WRITE_AHEAD_BYTES / sizeof long_one - 1);
    audit_write_ahead_clear(&trail.ahead, 0);
    assert_true(audit_write_ahead_add(&trail.ahead, long_one));
    close_trail(&trail);
}

static void overwrite(const struct scratch *scratch, off_t at, const void *bytes, size_t size) {
    CLEANUP_FD int fd = openat(scratch->fd, "audit/" AUDIT_WRITE_AHEAD, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
}

static void test_what_is_no_record_is_left_out(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    const uint64_t too_much = UINT64_MAX;
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a"));
    assert_true(audit_write_ahead_add(&trail.ahead, ""));
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"b\""));
    close_trail(&trail);
    trail = open_trail(scratch);
    close_trail(&trail);
    expect_notes(scratch, "b");
    overwrite(scratch, sizeof too_much, &too_much, sizeof too_much); /* how much of it is used */
    trail = open_trail(scratch);
    close_trail(&trail);
    expect_notes(scratch, "b");
}

/* A file that came back from a copy: short, or with holes, which a full disk could not fill. */
static void test_is_made_anew(void **state) {
    struct scratch *scratch = *state;
    struct stat status;
    scratch_folder(scratch, "audit");
    scratch_file(scratch, "audit/" AUDIT_WRITE_AHEAD, "short");
    for (int i = 0; i < 2; i++) {
        struct trail trail = open_trail(scratch);
        assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"a\""));
        audit_write_ahead_clear(&trail.ahead, 0);
        close_trail(&trail);
        assert_int_equal(fstatat(scratch->fd, "audit/" AUDIT_WRITE_AHEAD, &status, 0), 0);
        assert_true(status.st_blocks * 512 >= AUDIT_WRITE_AHEAD_BYTES);
        CLEANUP_FD int fd = openat(scratch->fd, "audit/" AUDIT_WRITE_AHEAD, O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, 0) + ftruncate(fd, AUDIT_WRITE_AHEAD_BYTES), 0);
    }
}

static void test_what_cannot_be_carried_over_stays(void **state) {
    struct scratch *scratch = *state;
    struct trail trail = open_trail(scratch);
    write_one(&trail, "\"note\":\"a\"");
    assert_true(audit_write_ahead_add(&trail.ahead, "\"note\":\"b\""));
    close_trail(&trail);
    struct audit_log log;
    assert_int_equal(audit_log_open(scratch->path, &limits, &log, NULL), 0);
    int writable = log.fd;
    log.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_false(audit_write_ahead_carry_over(&log));
    fd_close(writable);
    audit_log_close(&log);
    trail = open_trail(scratch);
    close_trail(&trail);
    expect_notes(scratch, "ab");
}

/* ---- the writer, killed while only the buffer has the record ---- */

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
    uv_loop_t loop = {0};
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
    uv_loop_t loop = {0};
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

/* ---- a disk that fails ---- */

struct outcome {
    unsigned begun, refused;
};

static void count_outcome(void *data, const struct error *error) {
    struct outcome *outcome = data;
    if (error)
        outcome->refused++;
    else
        outcome->begun++;
}

/* No file may grow: the place that was allocated is of no use. */
static void forbid_growth(void) {
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &none) < 0) _exit(1);
}

static void allow_growth(void) {
    const struct rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &any) < 0) _exit(1);
}

/* One operation that began before the loss was known, and no more until something could be written again. */
static int fail_and_recover(const struct scratch *scratch) {
    uv_loop_t loop = {0};
    struct audit *audit;
    struct outcome outcome = {0};
    unsigned records = 0;
    uv_loop_init(&loop);
    if (audit_open(&loop, scratch->path, &limits, on_record, &records, &audit, NULL) < 0) return 1;
    add(audit, "a", count_outcome, &outcome);
    while (records < 1) uv_run(&loop, UV_RUN_ONCE);
    forbid_growth();
    add(audit, "b", count_outcome, &outcome);
    if (outcome.begun != 2) return 2;
    uv_run(&loop, UV_RUN_ONCE); /* nothing is written */
    for (int i = 0; i < 5; i++) add(audit, "c", count_outcome, &outcome);
    while (outcome.begun + outcome.refused < 7) uv_run(&loop, UV_RUN_ONCE);
    if (outcome.begun != 2 || records != 1) return 3;
    allow_growth();
    add(audit, "d", count_outcome, &outcome);
    while (outcome.begun + outcome.refused < 8) uv_run(&loop, UV_RUN_ONCE);
    audit_close(audit, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return outcome.begun == 3 && uv_loop_close(&loop) == 0 ? 0 : 4;
}

static void test_nothing_begins_while_nothing_can_be_written(void **state) {
    struct scratch *scratch = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(fail_and_recover(scratch));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
#define WITH_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH_SCRATCH(test_what_was_left_goes_to_the_files_once),
        WITH_SCRATCH(test_what_was_wiped_is_forgotten),
        WITH_SCRATCH(test_what_is_in_the_file_before_is_not_written_again),
        WITH_SCRATCH(test_what_was_written_long_ago_is_not_written_again),
        WITH_SCRATCH(test_has_an_end),
        WITH_SCRATCH(test_what_is_no_record_is_left_out),
        WITH_SCRATCH(test_is_made_anew),
        WITH_SCRATCH(test_what_cannot_be_carried_over_stays),
        WITH_SCRATCH(test_a_killed_daemon_loses_nothing),
        WITH_SCRATCH(test_nothing_begins_while_nothing_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
